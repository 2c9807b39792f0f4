//go:build linux && nightly

package docker

import (
	"net"
	"strings"
	"testing"
	"time"

	"lockpick/docker/engine"
	"lockpick/docker/engine/enginetest"
)

// An engine that died while another holds its socket, as systemd does, takes connections
// and never says a word.
func TestEngineThatSaysNothing(t *testing.T) {
	enginetest.NoEngineSet(t)
	certs := t.TempDir()
	enginetest.NewAuthority(t).Write(t, certs, "client")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+l.Addr().String())
	t.Setenv("DOCKER_CERT_PATH", certs)
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	e, err := engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	said := make(chan error, 1)
	go func() {
		_, err := e.Containers(t.Context(), engine.OwnerLabel)
		said <- err
	}()
	select {
	case err = <-said:
	case <-time.After(6 * engine.HandshakeBound):
		t.Fatal("it is still waiting")
	}
	if err == nil || !strings.Contains(err.Error(), "Cannot connect to the Docker daemon at "+e.At.Host) {
		t.Errorf("it came out as %v", err)
	}
}
