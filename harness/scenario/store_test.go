package scenario

import (
	"slices"
	"strings"
	"testing"

	"lockpick/harness/lock"
)

// A lock on a store has its nodes there: pauses, kills and cuts hit these all the same, and what
// needs Redis is a capability that nothing has, and that says why.
func TestLockOnAStore(t *testing.T) {
	kind := lock.Kind{Server: lock.Etcd, OwnTime: true, Belief: lock.BySignal}
	for _, tt := range []struct {
		plan, lacks, why string // what it lacks besides a backend that has etcd; "": nothing
	}{
		{plan: "{kind: pause, targets: [n1], for: 1s}"},
		{plan: "{kind: kill, targets: [n1], for: 1s}"},
		{plan: "{kind: cut, targets: [c1-n1], mode: hold, for: 1s}"},
		{plan: "{kind: delay, targets: [c1], delay: 1ms..2ms, for: 1s}"},
		{plan: "{kind: clock-rate, targets: [c1], rate: 1.1}"},
		{plan: "{kind: pause, targets: [c1], for: 1s}"},
		{plan: "{kind: clock-jump, targets: [n1], by: 5s}", lacks: "etcd:clock-node", why: "the nodes are etcd, and there is no clock-node but with Redis"},
		{plan: "{kind: shutdown, targets: [n1], for: 1s}", lacks: "etcd:shutdown-node", why: "but with Redis"},
		{plan: "{kind: touch, targets: [n1]}", lacks: "etcd:touch-node", why: "but with Redis"},
	} {
		s, err := parse(t, head+"\nplan:\n  - {when: {at: 1s}, fault: "+tt.plan+"}\n")[0].With("other", kind)
		if err != nil {
			t.Fatalf("%s: %v", tt.plan, err)
		}
		needs := s.NeedsOf(kind)
		if s.Topology.Server != lock.Etcd || !slices.Contains(needs, lock.Etcd) {
			t.Errorf("%s: server %q, needs %v", tt.plan, s.Topology.Server, needs)
		}
		var lacks []string
		for _, n := range needs {
			if why := LackOf(n); why != "" {
				lacks = append(lacks, n)
				if !strings.Contains(why, tt.why) {
					t.Errorf("%s: %s", n, why)
				}
			}
		}
		if got := strings.Join(lacks, " "); got != tt.lacks {
			t.Errorf("%s lacks %q, want %q", tt.plan, got, tt.lacks)
		}
		if s.Settles() <= s.Lock.TTL {
			t.Errorf("a store settles in %v, and a lease lasts %v", s.Settles(), s.Lock.TTL)
		}
	}
	held := parse(t, head+"\nplan:\n  - {when: {link: c1-n1, message: set, of: request, nth: 1}, fault: {kind: hold, for: 1s}}\n")[0]
	s, err := held.With("other", kind)
	if err != nil {
		t.Fatal(err)
	}
	if needs := s.NeedsOf(kind); !slices.Contains(needs, "etcd:hold-message") || LackOf("etcd:drop-message+hold-message") != "the nodes are etcd, and there is no drop-message, hold-message but with Redis" {
		t.Errorf("a message that is held needs %v", needs)
	}
}

// A file may name a store: it is for a lock that is on it, and for no other.
func TestScenarioOnAStore(t *testing.T) {
	s := parse(t, head+"\ntopology: {server: etcd}\n")[0]
	if needs := s.NeedsOf(lock.Kind{}); !slices.Contains(needs, "lock:etcd") || !strings.Contains(LackOf("lock:etcd"), "--adapter") {
		t.Errorf("with a lock on Redis it needs %v", needs)
	}
	for server, fits := range map[string]bool{"": false, lock.Consul: false, lock.Etcd: true} {
		if _, err := s.With("other", lock.Kind{Server: server}); (err == nil) != fits {
			t.Errorf("a lock on %q: %v", server, err)
		}
	}
	if why := LackOf("hold-message"); why != "" {
		t.Errorf("a need of Redis's own: %s", why)
	}
}
