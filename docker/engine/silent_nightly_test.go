//go:build linux && nightly

package engine

import (
	"net"
	"strings"
	"testing"
	"time"
)

// If an engine has died but another process, such as systemd, keeps its socket open, connections succeed
// but never get an answer.
func TestUnresponsiveEngineTimesOut(t *testing.T) {
	clearEngineEnv(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+l.Addr().String())
	t.Setenv("DOCKER_API_VERSION", "1.41") // otherwise the client would query the version first
	e, err := Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	result := make(chan error, 1)
	go func() {
		_, err := e.Containers(t.Context(), OwnerLabel)
		result <- err
	}()
	select {
	case err = <-result:
	case <-time.After(answerTimeout + time.Minute):
		t.Fatal("call did not time out")
	}
	if err == nil || !strings.Contains(err.Error(), "timeout awaiting response headers") {
		t.Errorf("got %v", err)
	}
}
