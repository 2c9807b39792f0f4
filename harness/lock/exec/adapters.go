package exec

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed adapters/node/*.js adapters/python/*.py adapters/ruby/*.rb adapters/php/*.php adapters/_go adapters/java/*.java adapters/java/starter.xml adapters/rust/src/*.rs adapters/rust/starter.toml
var all embed.FS

// starter is an adapter to start from.
type starter struct {
	Lang  string
	Build string // the command that builds it, in its folder; "": nothing is built
	Run   string // the command that it is, there
	files []file
}

// file is one of a Starter's, and where it stands here.
type file struct{ name, from string }

// Starters are by language.
var Starters = []starter{
	{"node", "", "node adapter.js", []file{{"adapter.js", "node/adapter.js"}, {"lockpick.js", "node/lockpick.js"}}},
	{"python", "", "python3 adapter.py", []file{{"adapter.py", "python/adapter.py"}, {"lockpick.py", "python/lockpick.py"}}},
	{"go", "go build", "./adapter", []file{{"adapter.go", "_go/adapter.go"}, {"lockpick/lockpick.go", "_go/lockpick/lockpick.go"}, {"go.mod", "_go/starter.mod"}}},
	{"java", "mvn -q package", "java -jar target/adapter.jar", []file{{"Adapter.java", "java/Adapter.java"}, {"Lockpick.java", "java/Lockpick.java"}, {"pom.xml", "java/starter.xml"}}},
	{"ruby", "", "ruby adapter.rb", []file{{"adapter.rb", "ruby/adapter.rb"}, {"lockpick.rb", "ruby/lockpick.rb"}}},
	{"php", "", "php adapter.php", []file{{"adapter.php", "php/adapter.php"}, {"lockpick.php", "php/lockpick.php"}}},
	{"rust", "cargo build --release", "target/release/adapter", []file{{"src/main.rs", "rust/src/main.rs"}, {"src/lockpick.rs", "rust/src/lockpick.rs"}, {"Cargo.toml", "rust/starter.toml"}}},
}

// Languages are those of Starters.
func Languages() (names []string) {
	for _, s := range Starters {
		names = append(names, s.Lang)
	}
	return names
}

// StarterIn finds the Starter of a language.
func StarterIn(lang string) (starter, bool) {
	i := slices.IndexFunc(Starters, func(s starter) bool { return s.Lang == lang })
	if i < 0 {
		return starter{}, false
	}
	return Starters[i], true
}

// Write puts its files into dir, and overwrites none.
func (s starter) Write(dir string) error {
	for _, f := range s.files {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("there is a %s already", filepath.Join(dir, f.name)), err)
		}
	}
	for _, f := range s.files {
		text, err := all.ReadFile("adapters/" + f.from)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		_, err = to.Write(text)
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Files are the names of what Write writes.
func (s starter) Files() (names []string) {
	for _, f := range s.files {
		names = append(names, f.name)
	}
	return names
}

// AdapterFolder is where .ci/adapters installs them, below the project.
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
	{"redisson-lease", "redisson 4.7.0 (Maven), lock with a lease time", "java", "java -jar target/redisson.jar lease"},
	{"redisson-watchdog", "redisson 4.7.0 (Maven), lock with its watchdog", "java", "java -jar target/redisson.jar watchdog"},
	{"redisson-fair", "redisson 4.7.0 (Maven), fair lock", "java", "java -jar target/redisson.jar fair"},
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
