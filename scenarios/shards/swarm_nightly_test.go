//go:build nightly && linux

package shards

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startSwarm starts an engine of its own, with a swarm of one node and an image of a lockpick, and
// gives its commands.
func startSwarm(t *testing.T, lockpick, image string) func(args ...string) string {
	dir, err := os.MkdirTemp("", "swarm") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		await(t, "the engine's folder goes", time.Minute, func() bool {
			syscall.Unmount(filepath.Join(dir, "exec/netns/default"), syscall.MNT_DETACH) // it stays behind
			return os.RemoveAll(dir) == nil
		})
	})
	host := "unix://" + filepath.Join(dir, "socket")
	t.Setenv("DOCKER_HOST", host)
	begin(t, "dockerd", "--host", host, "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--pidfile", filepath.Join(dir, "pid"), "--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false")
	command := func(args ...string) *exec.Cmd { return exec.CommandContext(quickly(t), "docker", args...) }
	await(t, "the engine answers", time.Minute, func() bool { return command("info").Run() == nil })
	docker := func(args ...string) string { return strings.TrimSpace(says(t, command(args...))) }
	docker("swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", fmt.Sprint("127.0.0.1:", freePort(t)))
	t.Cleanup(func() { // before the engine ends
		docker("swarm", "leave", "--force")
		docker("network", "rm", "docker_gwbridge")
	})
	if err := os.MkdirAll(filepath.Join(dir, "image/tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	says(t, exec.Command("cp", lockpick, filepath.Join(dir, "image/lockpick")))
	tar := says(t, exec.Command("tar", "-C", filepath.Join(dir, "image"), "-c", "."))
	load := command("import", "--change", `ENTRYPOINT ["/lockpick"]`, "--change", "ENV HOME=/tmp", "-", image)
	load.Stdin = strings.NewReader(tar)
	says(t, load)
	return docker
}

// TestSwarm runs a sweep as a replicated job of eight tasks, of which one is killed on its way and
// made again. A sweep that nobody can run ends.
func TestSwarm(t *testing.T) {
	needsRoot(t)
	needs(t, "apt-get install docker.io", "dockerd", "docker")
	binary, store := lockpick(t), t.TempDir()
	docker := startSwarm(t, binary, "lockpick:test")
	script := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		c := exec.CommandContext(t.Context(), "engines/swarm.sh", append([]string{"sweep", "8", "lockpick:test", store}, args...)...)
		c.Env = append(os.Environ(), "AT_ONCE=2")
		var said bytes.Buffer
		c.Stdout, c.Stderr = &said, &said
		return c, &said
	}
	c, said := script(swept()...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	killMidway(t, store, "LOCKPICK_SLOT=3")
	await(t, "the swarm tells of a task that was killed", time.Minute, func() bool {
		return strings.Contains(docker("service", "ps", "sweep", "--no-trunc", "--format", "{{.Error}}"), "exit (137)")
	})
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if left := docker("service", "ls", "--quiet"); left != "" {
		t.Errorf("services are left: %s", left)
	}
	sameAsOne(t, binary, store)

	c, said = script("baseline/", "--seeds", "0")
	c.Run()
	if c.ProcessState.ExitCode() != 64 || !strings.Contains(said.String(), "error: --seeds 0 is out of range") {
		t.Errorf("wrong usage ends with %v: %s", c.ProcessState, said)
	}
}
