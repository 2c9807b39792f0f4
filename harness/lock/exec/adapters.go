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
var adapterFiles embed.FS

// starter is a template for an adapter.
type starter struct {
	Lang  string
	Build string // command that builds the adapter in its folder, or ""
	Run   string // command that runs the adapter in its folder
	files []file
}

// file is a starter's file, with its path below adapters.
type file struct{ name, source string }

// Starters lists the starters, one per language.
var Starters = []starter{
	{"node", "", "node adapter.js", []file{{"adapter.js", "node/adapter.js"}, {"lockpick.js", "node/lockpick.js"}}},
	{"python", "", "python3 adapter.py", []file{{"adapter.py", "python/adapter.py"}, {"lockpick.py", "python/lockpick.py"}}},
	{"go", "go build", "./adapter", []file{{"adapter.go", "_go/adapter.go"}, {"lockpick/lockpick.go", "_go/lockpick/lockpick.go"}, {"go.mod", "_go/starter.mod"}}},
	{"java", "mvn -q package", "java -jar target/adapter.jar", []file{{"Adapter.java", "java/Adapter.java"}, {"Lockpick.java", "java/Lockpick.java"}, {"pom.xml", "java/starter.xml"}}},
	{"ruby", "", "ruby adapter.rb", []file{{"adapter.rb", "ruby/adapter.rb"}, {"lockpick.rb", "ruby/lockpick.rb"}}},
	{"php", "", "php adapter.php", []file{{"adapter.php", "php/adapter.php"}, {"lockpick.php", "php/lockpick.php"}}},
	{"rust", "cargo build --release", "target/release/adapter", []file{{"src/main.rs", "rust/src/main.rs"}, {"src/lockpick.rs", "rust/src/lockpick.rs"}, {"Cargo.toml", "rust/starter.toml"}}},
}

// Languages lists the starters' languages.
func Languages() (names []string) {
	for _, s := range Starters {
		names = append(names, s.Lang)
	}
	return names
}

// FindStarter returns the starter for a language.
func FindStarter(lang string) (starter, bool) {
	i := slices.IndexFunc(Starters, func(s starter) bool { return s.Lang == lang })
	if i < 0 {
		return starter{}, false
	}
	return Starters[i], true
}

// Write writes the starter's files to dir. It doesn't overwrite existing files.
func (s starter) Write(dir string) error {
	for _, f := range s.files {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s already exists", filepath.Join(dir, f.name)), err)
		}
	}
	for _, f := range s.files {
		text, err := adapterFiles.ReadFile("adapters/" + f.source)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Files lists the names of the files that Write creates.
func (s starter) Files() (names []string) {
	for _, f := range s.files {
		names = append(names, f.name)
	}
	return names
}

// AdapterFolder is the project folder where .ci/adapters installs the adapters.
const AdapterFolder = ".adapters"

// libraryAdapter is the adapter for a published library.
type libraryAdapter struct {
	Name    string // the adapter's name in reports and tests
	Library string // name, version and registry
	Set     string // set of adapters that .ci/adapters installs together
	command string // with paths relative to AdapterFolder/Set
}

// Libraries lists the adapters that can be installed for the tests.
var Libraries = []libraryAdapter{
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

// Command returns the adapter's command, given that the adapters are installed in dir.
func (s libraryAdapter) Command(dir string) string {
	words := strings.Fields(s.command)
	for i, w := range words {
		if strings.ContainsAny(w, "./") {
			words[i] = filepath.ToSlash(filepath.Join(dir, s.Set, w))
		}
	}
	return strings.Join(words, " ")
}
