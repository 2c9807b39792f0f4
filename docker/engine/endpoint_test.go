//go:build linux

package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// noEngineSet lets the environment name no engine.
func noEngineSet(t *testing.T) {
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, "")
	}
}

func TestFindsTheEngineByDockerHost(t *testing.T) {
	noEngineSet(t)
	for _, c := range []struct{ host, context, want string }{
		{"", "", "unix://" + UsualSocket},
		{"", "default", "unix://" + UsualSocket},
		{"unix:///run/near.sock", "far", "unix:///run/near.sock"},
		{"tcp://192.0.2.1:2375", "", "tcp://192.0.2.1:2375"},
	} {
		t.Setenv("DOCKER_HOST", c.host)
		t.Setenv("DOCKER_CONTEXT", c.context)
		e, err := Connect()
		if err != nil || e.Host != c.want || e.API.DaemonHost() != c.want {
			t.Errorf("%+v: found %+v, %v", c, e, err)
		}
	}
}

func TestWhatCannotBeFoundIsNamed(t *testing.T) {
	noEngineSet(t)
	for _, c := range []struct{ variable, value, why, remedy string }{
		{"DOCKER_CONTEXT", "far", "DOCKER_CONTEXT is far", "docker context inspect"},
		{"DOCKER_HOST", "ssh://me:secret@192.0.2.1", "does not log in by SSH", "ssh -NL "},
		{"DOCKER_HOST", "192.0.2.1", "unable to parse docker host", "tcp://HOST:2375"},
		{"DOCKER_CERT_PATH", "/no/certificates", "cert.pem: no such file", "DOCKER_HOST"},
	} {
		t.Run(c.variable+"="+c.value, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			e, err := Connect()
			if err == nil {
				t.Fatalf("found %s", e.Host)
			}
			reason, remedy := Explain(err)
			if !strings.Contains(reason, c.why) || !strings.Contains(remedy, c.remedy) || strings.Contains(reason, "secret") {
				t.Errorf("it came out as %s; to fix it: %s", reason, remedy)
			}
		})
	}
}

// What does not answer says where, and what to do.
func TestEngineThatDoesNotAnswer(t *testing.T) {
	noEngineSet(t)
	for host, want := range map[string]string{"unix://" + t.TempDir() + "/none.sock": StartEngine, "tcp://127.0.0.1:1": "let an engine listen there"} {
		t.Setenv("DOCKER_HOST", host)
		_, _, err := Meet(t.Context())
		a := (*endpointError)(nil)
		if !errors.As(err, &a) || !strings.Contains(err.Error(), "no Docker engine answers at "+host) || !strings.Contains(a.Remedy, want) {
			t.Errorf("%s came out as %v", host, err)
		}
	}
}

func TestRootlessSocketStandsIn(t *testing.T) {
	dir := t.TempDir()
	usual, rootless := filepath.Join(dir, "usual.sock"), filepath.Join(dir, "docker.sock")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	for _, step := range []struct{ add, want string }{{want: usual}, {rootless, rootless}, {usual, usual}} {
		if step.add != "" {
			if err := os.WriteFile(step.add, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := socket(usual); got != step.want {
			t.Errorf("after %q it is %s, not %s", step.add, got, step.want)
		}
	}
}

// Only an engine behind a socket, with our kernel, is known to be here: one of another kernel is
// in a virtual machine.
func TestWhetherAnEngineIsHere(t *testing.T) {
	ours, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	kernel := strings.TrimSpace(string(ours))
	for _, c := range []struct {
		host, kernel string
		here         bool
	}{{"unix://" + UsualSocket, kernel, true}, {"unix://" + UsualSocket, "6.10.14-linuxkit", false}, {"unix://" + UsualSocket, "", false}, {"tcp://127.0.0.1:2375", kernel, false}} {
		if got := (&Engine{Host: c.host}).IsHere(About{Kernel: c.kernel}); got != c.here {
			t.Errorf("%+v: here is %v", c, got)
		}
	}
}
