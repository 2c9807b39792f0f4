//go:build linux

package engine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/docker/engine/enginetest"
)

// The docker command itself stores the contexts and says which it would use.
func TestFindsWhatTheDockerCommandFinds(t *testing.T) {
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Skip("no docker command to compare with: apt-get install docker-cli")
	}
	config := enginetest.NoEngineSet(t)
	ask := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(docker, args...)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, &said)
		}
		return strings.TrimSpace(string(out))
	}
	certs := t.TempDir()
	enginetest.NewAuthority(t).Write(t, certs, "client")
	tlsHost := fmt.Sprintf("host=tcp://192.0.2.1:2376,ca=%s/ca.pem,cert=%s/cert.pem,key=%s/key.pem", certs, certs, certs)
	ask("context", "create", "far", "--docker", tlsHost)
	ask("context", "create", "open.1", "--docker", "host=tcp://192.0.2.2:2375")
	ask("context", "create", "by+ssh", "--docker", "host=ssh://me@192.0.2.3:2222")
	ask("context", "create", "near", "--docker", "host=unix:///run/near.sock")
	current := filepath.Join(config, "config.json")
	for _, env := range []map[string]string{
		{},
		{"DOCKER_CONTEXT": "far"},
		{"DOCKER_CONTEXT": "open.1"},
		{"DOCKER_CONTEXT": "by+ssh"},
		{"DOCKER_CONTEXT": "default", "current": "far"},
		{"current": "near"},
		{"current": "near", "DOCKER_CONTEXT": "far"},
		{"current": "near", "DOCKER_HOST": "tcp://192.0.2.4:99"},
		{"DOCKER_CONTEXT": "far", "DOCKER_HOST": "ssh://192.0.2.4"},
		{"DOCKER_HOST": "192.0.2.4"},
		{"DOCKER_HOST": "tcp://"},
		{"DOCKER_HOST": "tcp://[::1]:99"},
		{"DOCKER_HOST": ":7777/path"},
		{"DOCKER_HOST": "unix://"},
		{"DOCKER_HOST": "tcp://192.0.2.4:2376", "DOCKER_CERT_PATH": certs},
		{"DOCKER_HOST": "tcp://192.0.2.4:2376", "DOCKER_CERT_PATH": certs, "DOCKER_TLS_VERIFY": "1"},
		{"DOCKER_CERT_PATH": certs, "DOCKER_TLS_VERIFY": "1"},
		{"DOCKER_CERT_PATH": certs, "DOCKER_TLS": "1"},
	} {
		t.Run(fmt.Sprint(env), func(t *testing.T) {
			for name, value := range env {
				t.Setenv(name, value)
			}
			enginetest.WriteFile(t, current, fmt.Sprintf(`{"auths":{},"currentContext":%q}`, env["current"]))
			want := ask("context", "show") + " " + ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}} {{.Endpoints.docker.SkipTLSVerify}} {{len .TLSMaterial}}", ask("context", "show"))
			p, err := Find()
			if err != nil {
				t.Fatal(err)
			}
			blind, sets := false, 0
			if p.Tls != nil {
				blind, sets = p.Tls.InsecureSkipVerify, 1
			}
			if got := fmt.Sprintf("%s %s %v %d", p.Context, p.Host, blind, sets); got != want {
				t.Errorf("found %s, the docker command %s", got, want)
			}
		})
	}
}

func TestWhatCannotBeFoundIsNamed(t *testing.T) {
	config := enginetest.NoEngineSet(t)
	certs := enginetest.WriteContext(t, config, "halved", enginetest.ContextAt("halved", "tcp://192.0.2.1:2376"))
	enginetest.WriteFile(t, filepath.Join(certs, "cert.pem"), "none")
	certs = enginetest.WriteContext(t, config, "blank", enginetest.ContextAt("blank", "tcp://192.0.2.1:2376"))
	enginetest.WriteFile(t, filepath.Join(certs, "ca.pem"), "none")
	enginetest.WriteContext(t, config, "torn", `{"Name":"torn","Endpoi`)
	enginetest.WriteContext(t, config, "null", `null`)
	enginetest.WriteContext(t, config, "kube", `{"Name":"kube","Endpoints":{"kubernetes":{}}}`)
	enginetest.WriteContext(t, config, "piped", enginetest.ContextAt("piped", "npipe:////./pipe/docker_engine"))
	current := filepath.Join(config, "config.json")
	for _, c := range []struct {
		variable, value string
		want            []string
	}{
		{"DOCKER_CONTEXT", "nil", []string{`context "nil" of DOCKER_CONTEXT`, "no such context", "default, blank, halved, kube, piped"}},
		{"DOCKER_CONTEXT", "../../etc", []string{"no such context"}},
		{"DOCKER_CONTEXT", "torn", []string{`"torn"`, "meta.json: unexpected end"}},
		{"DOCKER_CONTEXT", "null", []string{"meta.json has no endpoint of docker"}},
		{"DOCKER_CONTEXT", "kube", []string{"meta.json has no endpoint of docker"}},
		{"DOCKER_CONTEXT", "piped", []string{"meta.json", "none of unix://, tcp:// and ssh://"}},
		{"DOCKER_CONTEXT", "halved", []string{"cert.pem and key.pem", "no such file"}},
		{"DOCKER_CONTEXT", "blank", []string{"ca.pem: it has no certificate"}},
		{"DOCKER_HOST", "fd://", []string{"read DOCKER_HOST", "none of unix://"}},
		{"DOCKER_HOST", "tcp://a b", []string{"read DOCKER_HOST"}},
		{"DOCKER_HOST", "ssh://me:secret@192.0.2.1", []string{"ssh://user@host"}},
		{"DOCKER_HOST", "ssh://", []string{"ssh://user@host"}},
		{"DOCKER_HOST", "ssh://me:secret@%zz", []string{"read DOCKER_HOST", "invalid URL escape"}},
		{"DOCKER_TLS_VERIFY", "1", []string{"tcp://localhost:2376", "there is no " + config + "/ca.pem"}},
		{current, `{"currentContext":"nil"}`, []string{`context "nil" of ` + current}},
		{current, `{"currentContext":`, []string{"read " + current}},
		{current, `{"currentContext":7}`, []string{"read " + current}},
	} {
		t.Run(c.variable+"="+c.value, func(t *testing.T) {
			if c.variable == current {
				enginetest.WriteFile(t, current, c.value)
				defer os.Remove(current)
			} else {
				t.Setenv(c.variable, c.value)
			}
			e, err := Connect()
			if err == nil {
				t.Fatalf("found %s", e.At)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("it says the password: %v", err)
			}
			if a := (*EndpointError)(nil); !errors.As(err, &a) || a.Remedy == "" {
				t.Errorf("nothing says what to do: %v", err)
			}
		})
	}
}

func TestRootlessSocketStandsIn(t *testing.T) {
	dir := t.TempDir()
	usual, rootless := filepath.Join(dir, "usual.sock"), filepath.Join(dir, "docker.sock")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	for _, step := range []struct{ add, want string }{{want: usual}, {rootless, rootless}, {usual, usual}} {
		if step.add != "" {
			enginetest.WriteFile(t, step.add, "")
		}
		if got := Socket(usual); got != step.want {
			t.Errorf("after %q it is %s, not %s", step.add, got, step.want)
		}
	}
}
