package exec

import (
	"path/filepath"
	"strings"
)

// Folder is where .ci/adapters installs them, below the project.
const AdapterFolder = ".adapters"

// shipped is an adapter of a library, as it is published.
type shipped struct {
	Name    string // of the adapter, on pages and in tests
	Library string // its name and version, where it is published
	Set     string // what .ci/adapters installs it by
	command string // below Folder/Set
}

// Libraries are the adapters of libraries that can be installed where the tests run.
var Libraries = []shipped{
	{"node-redlock-4", "redlock 4.2.0 (npm)", "node", "node redlock4.js"},
	{"node-redlock-5", "redlock 5.0.0-beta.2 (npm), acquire", "node", "node redlock5.js"},
	{"node-redlock-5-using", "redlock 5.0.0-beta.2 (npm), using, which renews", "node", "node redlock5-using.js"},
	{"ioredis", "ioredis 5.9.2 (npm), SET NX PX by hand", "node", "node ioredis.js"},
	{"redlock-py", "redlock-py 1.0.8 (PyPI)", "python", ".venv/bin/python redlock_py.py"},
	{"pottery", "pottery 3.0.1 (PyPI)", "python", ".venv/bin/python pottery_redlock.py"},
	{"python-redis-lock", "python-redis-lock 4.0.1 (PyPI)", "python", ".venv/bin/python python_redis_lock.py"},
	{"aioredlock", "aioredlock 0.7.3 (PyPI), on Python 3.10 or earlier", "python-old", ".venv/bin/python aioredlock_lock.py"},
	{"redisson-lease", "redisson 3.45.1 (Maven), lock with a lease time", "java", "java -jar target/redisson.jar lease"},
	{"redisson-watchdog", "redisson 3.45.1 (Maven), lock with its watchdog", "java", "java -jar target/redisson.jar watchdog"},
	{"redisson-fair", "redisson 3.45.1 (Maven), fair lock", "java", "java -jar target/redisson.jar fair"},
	{"rslock", "rslock 0.10.0 (crates.io)", "rust", "target/release/rslock"},
}

// Command is the adapter's, where Folder is dir.
func (s shipped) Command(dir string) string {
	words := strings.Fields(s.command)
	for i, w := range words {
		if strings.ContainsAny(w, "./") {
			words[i] = filepath.ToSlash(filepath.Join(dir, s.Set, w))
		}
	}
	return strings.Join(words, " ")
}
