//go:build containers && !windows

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/scenarios/outcome"
)

// buildImage compiles the Go adapter that "adapter new" writes, after replacing from with to in its
// source. It builds an image that contains nothing else, from the Dockerfile in help adapter.
func buildImage(t *testing.T, binary, name, from, to string) {
	t.Helper()
	dir := t.TempDir()
	run := func(program string, args ...string) {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	run(binary, "adapter", "new", "--lang", "go", ".")
	file := filepath.Join(dir, "adapter.go")
	text, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(text, []byte(from)) {
		t.Fatalf("%v: no %q in\n%s", err, from, text)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte(from), []byte(to), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	run("go", "build", "-o", "adapter")
	_, dockerfile, ok := strings.Cut(topicText("adapter"), "from this Dockerfile:\n\n")
	dockerfile, _, _ = strings.Cut(dockerfile, "\n\n")
	if !ok || !strings.Contains(dockerfile, "FROM node:22\n") {
		t.Fatalf("help adapter has no Dockerfile: %q", dockerfile)
	}
	dockerfile = strings.Replace(dockerfile, "node:22", "scratch", 1)
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	run("docker", "build", "--tag", name, ".")
	t.Cleanup(func() { run("docker", "rmi", name) })
}

// TestAdapterInContainers runs clients in containers with an adapter from an image. The adapter
// must be killed and paused with its client, its clocks can't be changed, and errors must quote the
// end of its stderr.
func TestAdapterInContainers(t *testing.T) {
	needEngine(t)
	binary := build(t)
	const image, wrong = "lockpick-adapter-test:right", "lockpick-adapter-test:wrong"
	buildImage(t, binary, image, "A starter for an adapter", "A starter for an adapter")
	buildImage(t, binary, wrong, "token, began, err := l.lock(r.Key)", `panic("no more memory")`+"\n"+`token, began, err := l.lock(r.Key)`)
	args := []string{"run", "--backend", "docker", "--adapter", "/app/adapter", "--adapter-image"}
	t.Run("runs", func(t *testing.T) {
		t.Run("right", func(t *testing.T) {
			t.Parallel() // this test mostly waits
			code, all := outcomes(t, binary, append(args, image, "gc-pause-after-acquire/", "holder-crashes/", "wall-clock-forward/")...)
			if code != outcome.ExitOK || len(all) != 3 || all[0].Skipped+all[1].Skipped != "" || !strings.Contains(all[2].Skipped, "not its adapter's") {
				t.Errorf("exit code %d: %+v", code, all)
			}
		})
		t.Run("wrong", func(t *testing.T) {
			t.Parallel()
			out, _ := exec.Command(binary, append(args, wrong, "baseline/", "--store", t.TempDir())...).CombinedOutput()
			if want := "panic: no more memory"; !strings.Contains(string(out), want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		})
	})
	for _, c := range []struct{ image, command, want string }{
		{image, "/nowhere", "/nowhere: no such file"},
		{"lockpick-adapter-test:none", "/app/adapter", "the engine has no image lockpick-adapter-test:none"},
	} {
		cmd := exec.Command(binary, "run", "baseline/", "--backend", "docker", "--adapter", c.command, "--adapter-image", c.image, "--store", t.TempDir())
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != outcome.ExitBackend || !strings.Contains(string(out), c.want) {
			t.Errorf("exit code %d, and no %q in\n%s", code, c.want, out)
		}
	}
	checkEngineIsClean(t)
}
