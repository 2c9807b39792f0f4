//go:build linux

package real

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// remoteNetwork returns a network with one client and one real node. Its links are served by
// ServeLinks.
func remoteNetwork(t *testing.T, ports int) *RemoteNetwork {
	t.Helper()
	node := startRedis(t, "n1")[0]
	in, calls := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- ServeLinks(in, out) }()
	r := DialNetwork(calls, answers)
	run := NetworkRun{Context: t.Context(), Record: func(history.Event) {}, Go: func(f func()) { go f() }, Ports: ports}
	if err := r.Open(run, 1, "127.0.0.1", map[string]string{"n1": node.Addr(), "r1": node.Addr()}, []string{"n1"}, []scenario.Client{{Name: "c1"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		checkErr(t, r.Close(ctx))
		calls.Close()
		checkErr(t, <-served)
	})
	return r
}

func checkErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// A link's ports identify its packets to a packet filter. PING confirms the filter's effect.
func TestPacketCutReadBack(t *testing.T) {
	r := remoteNetwork(t, 26000)
	p, err := r.Ports("c1-n1")
	if err != nil || p.First != 26000 || p.Last <= p.First {
		t.Errorf("ports %+v, %v", p, err)
	}
	if other, err := r.Ports("c1-r1"); err != nil || other.First != p.Last+1 {
		t.Errorf("ports %+v of the next link, %v", other, err)
	}
	if back, err := r.CheckUnanswered("c1-n1"); err == nil || !strings.Contains(err.Error(), "PING is still answered") {
		t.Errorf("no cut: %s, %v", back, err)
	}
	if _, err := r.Cut("c1-n1", nemesis.CutHold, ""); err != nil { // has the same effect as a packet filter
		t.Fatal(err)
	}
	if back, err := r.CheckUnanswered("c1-n1"); err != nil || !strings.HasPrefix(back, "PING got no answer: ") {
		t.Errorf("cut link: %s, %v", back, err)
	}
	if _, err := r.Mend("c1-n1"); err != nil {
		t.Fatal(err)
	}
	if back, err := r.CheckAnswered("c1-n1"); err != nil || back != "PING was answered" {
		t.Errorf("mended link: %s, %v", back, err)
	}
}

// If links connect from arbitrary ports, their packets can't be told apart.
func TestPortsWithoutRange(t *testing.T) {
	r := remoteNetwork(t, 0)
	if p, err := r.Ports("c1-n1"); err == nil || !strings.Contains(err.Error(), "links dial from any") {
		t.Errorf("ports %+v, %v", p, err)
	}
	if p, err := r.Ports("c9-n1"); err == nil || !strings.Contains(err.Error(), "there is no such link") {
		t.Errorf("ports %+v, %v", p, err)
	}
}
