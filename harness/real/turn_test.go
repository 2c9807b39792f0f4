//go:build linux

package real

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Links served by another process can be redirected to a node's replica. The master's death then
// does not affect connections to the replica.
func TestRemoteRedirectsToReplica(t *testing.T) {
	nodes := startRedis(t, "n1", "n1-replica")
	master, replica := nodes[0], nodes[1]
	r := dialNetwork(t)
	run := NetworkRun{Context: t.Context(), Record: func(history.Event) {}, Go: func(f func()) { go f() }}
	addrs := map[string]string{"n1": master.Addr(), scenario.ResourceName: master.Addr()}
	must(t, r.Open(run, 1, "", addrs, []string{"n1"}, []scenario.Client{{Name: "c1"}}))
	defer func() { must(t, r.Close(t.Context())) }()
	a, _ := r.Addresses("c1")
	ask := func(args ...string) string {
		v, err := proc.Ask(t.Context(), a.Nodes[0].Addr, args...)
		must(t, err)
		return v.Str
	}
	link, err := r.OpenReplication("n1", master.Addr())
	must(t, err)
	must(t, replica.Follow(t.Context(), link))
	if back, err := r.Cut("n1-replica", nemesis.CutHold, ""); err != nil {
		t.Errorf("cut: %q, %v", back, err)
	}
	ask("SET", "late", "v") // not replicated
	_, err = master.Kill(t.Context())
	must(t, err)
	must(t, r.SetServerState(t.Context(), master.Addr(), false, false))
	_, err = replica.Promote(t.Context())
	must(t, err)
	must(t, r.Redirect("n1", replica.Addr()))
	if got := ask("GET", "late"); got != "" {
		t.Errorf("the replica has the unreplicated key: %q", got)
	}
	if back, err := r.Mend("n1-replica"); err != nil || !strings.HasPrefix(back, "the node is down: ") {
		t.Errorf("mend: %q, %v", back, err)
	}
	// If a cut drops replies, its read-back counts the answers of the node at the new address.
	if back, err := r.Cut("c1-n1", nemesis.CutHold, nemesis.Reply); err != nil || !strings.HasPrefix(back, "PING got no answer, though the node gave one") {
		t.Errorf("cut: %q, %v", back, err)
	}
}

// dialNetwork returns a network served by this process.
func dialNetwork(t *testing.T) *RemoteNetwork {
	calls, in := io.Pipe()
	out, answers := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- ServeLinks(calls, answers) }()
	t.Cleanup(func() {
		in.Close()
		must(t, <-served)
	})
	return DialNetwork(in, out)
}

// startRedis starts redis-servers that stop at the end of the test.
func startRedis(t *testing.T, names ...string) (all []*proc.Redis) {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on PATH: apt-get install redis-server")
	}
	g, err := proc.NewGroup(t.TempDir())
	must(t, err)
	t.Cleanup(func() { checkErr(t, g.Close()) })
	for _, name := range names {
		r, err := g.StartRedis(t.Context(), name, bin, "none")
		must(t, err)
		all = append(all, r)
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
