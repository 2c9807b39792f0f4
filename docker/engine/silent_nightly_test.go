//go:build linux && nightly

package engine

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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+l.Addr().String())
	t.Setenv("DOCKER_API_VERSION", "1.41") // or it would be asked for that first
	e, err := Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	said := make(chan error, 1)
	go func() {
		_, err := e.Containers(t.Context(), OwnerLabel)
		said <- err
	}()
	select {
	case err = <-said:
	case <-time.After(answerBound + time.Minute):
		t.Fatal("it is still waiting")
	}
	if err == nil || !strings.Contains(err.Error(), "timeout awaiting response headers") {
		t.Errorf("it came out as %v", err)
	}
}
