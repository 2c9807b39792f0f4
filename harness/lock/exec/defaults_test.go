package exec

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/lock"
)

// The adapters for Node use ioredis with its defaults and set nothing but the server's address. If
// they disabled the offline queue or retries, a violation might be the adapter's fault.
func TestNodeAdaptersKeepDriverDefaults(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing: apt-get install nodejs")
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
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
	cmd.Env = append(os.Environ(), "NODE_PATH="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := `[{"host":"127.0.0.1","port":7001}]` + "\n" + `[{"host":"127.0.0.1","port":7002}]` + "\n"
	if string(out) != want {
		t.Errorf("options passed to ioredis:\n%swant\n%s", out, want)
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
			t.Errorf("%s creates its own clients: call ioredis from lockpick.js", path)
		}
	}
}

// startWithStandIns starts one of our adapters with stand-ins for the packages that it imports,
// given as files by name. output waits for the adapter to exit and returns what the stand-ins wrote
// to stderr.
func startWithStandIns(t *testing.T, program, script string, files map[string]string) (a *Adapter, output func() string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip(program + " is missing")
	}
	dir := t.TempDir()
	for _, source := range []string{script, filepath.Join(filepath.Dir(script), "lockpick"+filepath.Ext(script))} {
		text, err := os.ReadFile(filepath.Join("adapters", source))
		if err != nil {
			t.Fatal(err)
		}
		files = maps.Clone(files)
		files[filepath.Base(source)] = string(text)
	}
	for name, text := range files {
		target := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(path, filepath.Join(dir, filepath.Base(script)))
	stderr := &bytes.Buffer{}
	cmd.Stderr, cmd.WaitDelay = stderr, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output = sync.OnceValue(func() string { // when it has ended
		in.Close()
		cmd.Wait()
		return strings.TrimSpace(stderr.String())
	})
	t.Cleanup(func() { output() })
	if a, err = Connect(in, out, time.Now); err != nil {
		t.Fatal(err, output())
	}
	return a, output
}

// addNPMPackage adds a stand-in for an npm package.
func addNPMPackage(files map[string]string, name, text string) {
	files["node_modules/"+name+"/index.js"] = "'use strict'; const print = (...args) => require('fs').writeSync(2, JSON.stringify(args) + '\\n');\n" + text
	files["node_modules/"+name+"/package.json"] = `{"name": "` + name + `", "version": "0"}`
}

// addPyPIPackage adds a stand-in for a PyPI package.
func addPyPIPackage(files map[string]string, module, name, text string) {
	files[module+".py"] = "import sys\ndef told(*args): print(*args, file=sys.stderr, flush=True)\n" + text
	files[strings.ReplaceAll(name, "-", "_")+"-0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: " + name + "\nVersion: 0\n"
}

// Unless an option is set, adapters pass nothing but the scenario's settings to their library.
// Disabling retries would hide the mistakes that retries cause.
func TestAdaptersKeepLibraryDefaults(t *testing.T) {
	node, python := map[string]string{}, map[string]string{}
	addNPMPackage(node, "ioredis", "module.exports = class { on() {} once(_, ready) { ready(); } };")
	addNPMPackage(node, "redlock4", "module.exports = class { constructor(_, ...settings) { print(...settings); } on() {} };")
	addNPMPackage(node, "redlock5", "exports.default = class { constructor(_, ...settings) { print(...settings); } on() {} };")
	addPyPIPackage(python, "redis", "redis", "class Redis:\n  def __init__(self, **set): told('Redis', *sorted(set.keys() - {'host', 'port'}))\n")
	addPyPIPackage(python, "redlock", "redlock-py", "class Redlock:\n  quorum = 1\n  def __init__(self, nodes, **set): told('Redlock', *sorted(set.items()))\n")
	addPyPIPackage(python, "pottery", "pottery", `
class ExtendUnlockedLock(Exception): pass
class ReleaseUnlockedLock(Exception): pass
class TooManyExtensions(Exception): pass
class Redlock:
  _uuid = "t"
  def __init__(self, key, masters, auto_release_time, **set): told("Redlock", *sorted(set.items()))
  def acquire(self, **how): return True
`)
	for _, c := range []struct {
		program, script string
		files           map[string]string
		options         string // NAME=VALUE,…
		want            string
	}{
		{"node", "node/redlock4.js", node, "", `[{"driftFactor":0.01}]`},
		{"node", "node/redlock5.js", node, "", `[{"driftFactor":0.01}]`},
		{"node", "node/redlock5-using.js", node, "retries=none", `[{"driftFactor":0.01,"retryCount":0}]`},
		{"python3", "python/redlock_py.py", python, "", "Redis\nRedlock"},
		{"python3", "python/redlock_py.py", python, "driver=bounded,retries=none",
			"Redis socket_connect_timeout socket_timeout\nRedlock ('retry_count', 1) ('retry_delay', 0.001)"},
		{"python3", "python/pottery_redlock.py", python, "", "Redis\nRedlock"},
	} {
		t.Run(c.script+" "+c.options, func(t *testing.T) {
			a, output := startWithStandIns(t, c.program, c.script, c.files)
			settings := lock.Settings{TTL: time.Second, Timeout: 50 * time.Millisecond, Drift: 0.01, Options: map[string]string{}}
			for option := range strings.SplitSeq(c.options, ",") {
				if name, value, ok := strings.Cut(option, "="); ok {
					settings.Options[name] = value
				}
			}
			if err := a.Open(t.Context(), "c1", []lock.Node{{Name: "n1", Addr: "127.0.0.1:1"}}, settings); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.script, "pottery") { // it creates a new lock for each acquire
				if _, err := a.Acquire(t.Context(), "k", 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-a.outputEnded
			if got := output(); got != c.want {
				t.Errorf("settings passed to the library:\n%s\nwant\n%s", got, c.want)
			}
			for _, o := range a.Hello.Options {
				if !slices.Contains([]string{"defaults", "one"}, o.Values[0]) {
					t.Errorf("option %q has the default %q: list the library's own default first", o.Name, o.Values[0])
				}
			}
		})
	}
}

// pottery raises the same exception if the lock is not held and if nodes fail. Only the former
// means not-held.
func TestPotteryNodeErrorsAreNotRefusals(t *testing.T) {
	python := map[string]string{}
	addPyPIPackage(python, "redis", "redis", "class Redis:\n  def __init__(self, **set): pass\n")
	addPyPIPackage(python, "pottery", "pottery", `
class Refused(Exception):
  def __init__(self, errors): self.redis_errors = errors
class ExtendUnlockedLock(Refused): pass
class ReleaseUnlockedLock(Refused): pass
class TooManyExtensions(Exception): pass
class Redlock:
  _uuid = "t"
  def __init__(self, key, **set): self.key = key
  def acquire(self, **how): return True
  def extend(self):
    if self.key == "limit": raise TooManyExtensions()
    raise ExtendUnlockedLock([ConnectionError("n1")] if self.key == "down" else [])
  def release(self): raise ReleaseUnlockedLock([ConnectionError("n1")] if self.key == "down" else [])
`)
	a, _ := startWithStandIns(t, "python3", "python/pottery_redlock.py", python)
	if err := a.Open(t.Context(), "c1", []lock.Node{{Name: "n1", Addr: "127.0.0.1:1"}}, lock.Settings{TTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"down": false, "gone": true} {
		h, err := a.Acquire(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		for op, err := range map[string]error{"extend": h.Extend(t.Context()), "release": h.Release(t.Context())} {
			if no := (*RefusedError)(nil); !errors.As(err, &no) || errors.Is(err, lock.ErrNotHeld) != want {
				t.Errorf("%s %s: %v; want not held: %v", op, key, err, want)
			}
		}
	}
	h, err := a.Acquire(t.Context(), "limit", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Extend(t.Context()); err == nil || errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("extending more often than the library allows: %v; want an error other than ErrNotHeld", err)
	}
}
