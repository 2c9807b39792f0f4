package exec

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The adapters in Node leave ioredis as it comes: they say which server to connect to, and nothing else. With
// the offline queue or the retries switched off, a violation may be the adapter's and not the library's.
func TestNodeKeepsDriverDefaults(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing: apt-get install nodejs")
	}
	standIn := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(standIn, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("ioredis.js", `module.exports = class {
  constructor(...args) { require('fs').writeSync(1, JSON.stringify(args) + '\n'); }
  on() {}
  once(_, ready) { ready(); }
};`)
	main := write("main.js", `require(process.argv[2]).ioredis([{addr: '127.0.0.1:7001'}, {addr: '127.0.0.1:7002'}], 50);`)
	helper, err := filepath.Abs("adapters/node/lockpick.js")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, main, helper)
	cmd.Env = append(os.Environ(), "NODE_PATH="+standIn)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := `[{"host":"127.0.0.1","port":7001}]` + "\n" + `[{"host":"127.0.0.1","port":7002}]` + "\n"
	if string(out) != want {
		t.Errorf("ioredis is given\n%swant\n%s", out, want)
	}

	sources, err := filepath.Glob("adapters/node/*.js")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "require('ioredis')") && filepath.Base(path) != "lockpick.js" {
			t.Errorf("%s makes clients of its own: call ioredis of lockpick.js", path)
		}
	}
}
