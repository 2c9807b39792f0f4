// Package adapters has an adapter to start from in each of some languages, and those of libraries
// beside them, each with what it takes to install (README.md).
//
// Its noun is a Starter: the protocol's end and a small lock, in files that a user goes on with.
//
// Deliberately missing: who starts or checks one (package real/adapter).
package exec

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// In finds the Starter of a language.
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
