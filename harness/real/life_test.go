//go:build linux

package real

import (
	"io"
	"sync"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
)

// Nodes that the user runs report their keys if another process serves their links. A node's
// setting is restored when the run ends, and when the process that changed it is killed.
func TestRemoteNodesReportKeys(t *testing.T) {
	node := startRedis(t, "n1")[0]
	setting := func() string {
		v, err := proc.Ask(t.Context(), node.Addr(), "CONFIG", "GET", "notify-keyspace-events")
		must(t, err)
		return v.Items[1].Str
	}
	for _, killed := range []bool{false, true} {
		_, err := proc.Ask(t.Context(), node.Addr(), "CONFIG", "SET", "notify-keyspace-events", "xE")
		must(t, err)
		in, calls := io.Pipe()
		answers, out := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- ServeLinks(in, out); out.Close() }()
		r := DialNetwork(calls, answers)
		var mu sync.Mutex
		var facts []history.Event
		run := NetworkRun{Context: t.Context(), Go: func(f func()) { go f() }, Record: func(e history.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Op == history.OpLife {
				facts = append(facts, e)
			}
		}}
		addrs := map[string]string{"n1": node.Addr(), scenario.ResourceName: node.Addr()}
		must(t, r.Open(run, 1, "", addrs, []string{"n1"}, []scenario.Client{{Name: "c1"}}))
		must(t, r.WatchKeys(map[string]string{"n1": node.Addr()}))
		epoch, err := r.Begin(proc.TrueClock())
		must(t, err)
		if offset := time.Since(time.Unix(0, epoch)); offset.Abs() > time.Minute {
			t.Errorf("the epoch is off by %v", offset)
		}
		a, _ := r.Addresses("c1")
		if _, err := proc.Ask(t.Context(), a.Nodes[0].Addr, "SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		r.NodeEnding("n1", false)()
		if !killed {
			must(t, r.Close(t.Context()))
			mu.Lock()
			if len(facts) != 1 || facts[0].Key != "k" || facts[0].Life.Sender != "c1-n1" {
				t.Errorf("reported: %+v", facts)
			}
			mu.Unlock()
		}
		calls.Close()
		must(t, <-served)
		if got := setting(); got != "xE" {
			t.Errorf("killed %v: the setting is %q, want xE", killed, got)
		}
		_, err = proc.Ask(t.Context(), node.Addr(), "FLUSHALL")
		must(t, err)
	}
}

// A server's name and version are taken from its reply to INFO. Valkey also reports the version of Redis
// that it is compatible with.
func TestServerVersion(t *testing.T) {
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n":                             "redis 7.0.15",
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.8\r\nos:Linux": "valkey 8.1.8",
		"# Server\r\n": "",
	} {
		if got := serverVersion(info); got != want {
			t.Errorf("%q: %q, want %q", info, got, want)
		}
	}
}
