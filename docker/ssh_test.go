//go:build linux

package docker

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockpick/docker/engine"
	"lockpick/docker/engine/enginetest"
)

func TestSSHCommand(t *testing.T) {
	for _, c := range []struct{ host, want string }{
		{"ssh://h", "ssh|-o|ConnectTimeout=30|-T|--|h|docker system dial-stdio"},
		{"ssh://me@h:22/", "ssh|-l|me|-p|22|-o|ConnectTimeout=30|-T|--|h|docker system dial-stdio"},
		{"ssh://-oProxyCommand=x", "ssh|-o|ConnectTimeout=30|-T|--|-oProxyCommand=x|docker system dial-stdio"},
		{"ssh://[::1]/run/a'$b.sock", `ssh|-o|ConnectTimeout=30|-T|--|::1|docker --host=unix://'/run/a'\''$b.sock' system dial-stdio`},
	} {
		if got, err := engine.SshCommand(c.host); err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, %v", c.host, got, err)
		}
	}
}

// What is written comes back through a command, half an end is none, and its words
// are the reason where it fails.
func TestConnectionByCommand(t *testing.T) {
	conn, err := engine.DialSSH([]string{"cat"})(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	failing, err := engine.DialSSH([]string{"sh", "-c", "echo no such host >&2; exit 255"})(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer failing.Close()
	if _, err := io.ReadAll(failing); err == nil || !strings.Contains(err.Error(), "exit status 255: no such host") {
		t.Errorf("it came out as %v", err)
	}
	deaf, err := engine.DialSSH([]string{"sleep", "600"})(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := deaf.Close(); err != nil || deaf.(*engine.SshConn).Cmd.ProcessState == nil {
		t.Errorf("closed with %v, and it still runs", err)
	}
	if _, err := engine.DialSSH([]string{"/no/ssh"})(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "start ssh") {
		t.Errorf("a missing ssh came out as %v", err)
	}
}

// sshd starts a server for us on the loopback, and puts an ssh on PATH that may log in.
func sshd(t *testing.T) (host string) {
	t.Helper()
	paths := map[string]string{}
	for _, program := range []string{"sshd", "ssh", "ssh-keygen", "docker"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skipf("an engine by ssh needs %s: apt-get install openssh-server docker-cli", program)
		}
		paths[program] = path
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" {
		if _, err := os.Stat("/run/sshd"); err != nil {
			t.Skip("sshd needs a directory to lock itself in: mkdir /run/sshd")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	dir := t.TempDir()
	for _, key := range []string{"host", "mine"} {
		if out, err := exec.Command(paths["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	enginetest.WriteFile(t, dir+"/known", fmt.Sprintf("[127.0.0.1]:%d %s", addr.Port, public))
	enginetest.WriteFile(t, dir+"/config", fmt.Sprintf("IdentityFile %s/mine\nIdentitiesOnly yes\nUserKnownHostsFile %s/known\nStrictHostKeyChecking yes\n", dir, dir))
	enginetest.WriteFile(t, dir+"/sshd_config", fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/mine.pub\nPidFile none\nStrictModes no\nPasswordAuthentication no\n", addr.Port, dir, dir))
	enginetest.WriteFile(t, dir+"/bin/ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s/config \"$@\"\n", paths["ssh"], dir))
	if err := os.Chmod(dir+"/bin/ssh", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+"/bin:"+os.Getenv("PATH"))
	cmd := exec.Command(paths["sshd"], "-D", "-e", "-f", dir+"/sshd_config")
	var said strings.Builder
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("sshd said:\n%s", &said)
		}
		nothingOf(t, dir)
	})
	return fmt.Sprintf("ssh://%s@127.0.0.1:%d", me.Username, addr.Port)
}

func TestEngineBySSH(t *testing.T) {
	needEngine(t)
	config := enginetest.NoEngineSet(t)
	host := sshd(t)
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1") // nobody's way
	enginetest.WriteContext(t, config, "far", enginetest.ContextAt("far", host))
	enginetest.WriteContext(t, config, "socket", enginetest.ContextAt("socket", host+engine.UsualSocket))
	enginetest.WriteContext(t, config, "stranger", enginetest.ContextAt("stranger", strings.Replace(host, "@127.0.0.1", "@localhost", 1)))
	enginetest.WriteContext(t, config, "nothing", enginetest.ContextAt("nothing", host+"/no/docker.sock"))
	t.Setenv("DOCKER_CONTEXT", "socket")
	await(t)
	t.Setenv("DOCKER_CONTEXT", "far")
	began := time.Now()
	a := await(t)
	t.Logf("version %s, API %s, after %v", a.Version, a.API, time.Since(began))
	e, err := engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	if e.At.IsHere(a) {
		t.Error("what ssh leads to may be anywhere")
	}
	began = time.Now()
	makeOne(t, e)
	t.Logf("an image, a network and a container in %v", time.Since(began))
	began = time.Now()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("closed in %v", time.Since(began))
	for name, why := range map[string]string{"stranger": "Host key verification failed", "nothing": "/no/docker.sock"} {
		t.Setenv("DOCKER_CONTEXT", name)
		_, err := askEngine(t)
		if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s came out as %v", name, err)
			continue
		}
		t.Logf("%v; to fix it: %s", err, err.(*engine.EndpointError).Remedy)
	}
}
