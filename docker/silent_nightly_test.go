//go:build linux && nightly

package docker

import (
	"net"
	"strings"
	"testing"
	"time"
)

// An engine that died while another holds its socket, as systemd does, takes connections
// and never says a word.
func TestEngineThatSaysNothing(t *testing.T) {
	noEngineSet(t)
	certs := t.TempDir()
	newAuthority(t).write(t, certs, "client")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+l.Addr().String())
	t.Setenv("DOCKER_CERT_PATH", certs)
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	e, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	said := make(chan error, 1)
	go func() {
		_, err := e.containers(t.Context(), ownerLabel)
		said <- err
	}()
	select {
	case err = <-said:
	case <-time.After(6 * handshakeBound):
		t.Fatal("it is still waiting")
	}
	if err == nil || !strings.Contains(err.Error(), "Cannot connect to the Docker daemon at "+e.at.host) {
		t.Errorf("it came out as %v", err)
	}
}
