//go:build linux

package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// clearEngineEnv clears the environment variables that can specify an engine.
func clearEngineEnv(t *testing.T) {
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, "")
	}
}

func TestConnectUsesDockerHost(t *testing.T) {
	clearEngineEnv(t)
	for _, c := range []struct{ host, context, want string }{
		{"", "", "unix://" + DefaultSocket},
		{"", "default", "unix://" + DefaultSocket},
		{"unix:///run/near.sock", "far", "unix:///run/near.sock"},
		{"tcp://192.0.2.1:2375", "", "tcp://192.0.2.1:2375"},
	} {
		t.Setenv("DOCKER_HOST", c.host)
		t.Setenv("DOCKER_CONTEXT", c.context)
		e, err := Connect()
		if err != nil || e.Host != c.want || e.API.DaemonHost() != c.want {
			t.Errorf("%+v: Connect returned %+v, %v", c, e, err)
		}
	}
}

func TestConnectErrors(t *testing.T) {
	clearEngineEnv(t)
	for _, c := range []struct{ variable, value, why, remedy string }{
		{"DOCKER_CONTEXT", "far", "DOCKER_CONTEXT is far", "docker context inspect"},
		{"DOCKER_HOST", "ssh://me:secret@192.0.2.1", "which lockpick does not support", "ssh -NL "},
		{"DOCKER_HOST", "192.0.2.1", "unable to parse docker host", "tcp://HOST:2375"},
		{"DOCKER_CERT_PATH", "/no/certificates", "cert.pem: no such file", "DOCKER_HOST"},
	} {
		t.Run(c.variable+"="+c.value, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			e, err := Connect()
			if err == nil {
				t.Fatalf("Connect found %s, want an error", e.Host)
			}
			reason, remedy := Explain(err)
			if !strings.Contains(reason, c.why) || !strings.Contains(remedy, c.remedy) || strings.Contains(reason, "secret") {
				t.Errorf("reason is %q, remedy %q", reason, remedy)
			}
		})
	}
}

// The error for an engine that does not answer includes its address and a remedy.
func TestOpenWithoutEngine(t *testing.T) {
	clearEngineEnv(t)
	for host, want := range map[string]string{"unix://" + t.TempDir() + "/none.sock": StartEngine, "tcp://127.0.0.1:1": "start an engine there"} {
		t.Setenv("DOCKER_HOST", host)
		_, _, err := Open(t.Context())
		a := (*endpointError)(nil)
		if !errors.As(err, &a) || !strings.Contains(err.Error(), "no Docker engine answers at "+host) || !strings.Contains(a.Remedy, want) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestFallsBackToRootlessSocket(t *testing.T) {
	dir := t.TempDir()
	usual, rootless := filepath.Join(dir, "usual.sock"), filepath.Join(dir, "docker.sock")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	for _, step := range []struct{ add, want string }{{want: usual}, {rootless, rootless}, {usual, usual}} {
		if step.add != "" {
			if err := os.WriteFile(step.add, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := localSocket(usual); got != step.want {
			t.Errorf("after adding %q, socket is %s, want %s", step.add, got, step.want)
		}
	}
}

// Only an engine that has a local socket and runs on our kernel is known to be on this machine. An engine
// on another kernel is in a virtual machine.
func TestIsLocal(t *testing.T) {
	ours, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	kernel := strings.TrimSpace(string(ours))
	for _, c := range []struct {
		host, kernel string
		here         bool
	}{{"unix://" + DefaultSocket, kernel, true}, {"unix://" + DefaultSocket, "6.10.14-linuxkit", false}, {"unix://" + DefaultSocket, "", false}, {"tcp://127.0.0.1:2375", kernel, false}} {
		if got := (&Engine{Host: c.host}).IsLocal(About{Kernel: c.kernel}); got != c.here {
			t.Errorf("%+v: IsLocal returned %v", c, got)
		}
	}
}
