package scenario

import (
	"slices"
	"strings"
	"testing"

	"lockpick/harness/lock"
)

// With a lock on a store, the nodes are members of the store. Pauses, kills and cuts affect them in
// the same way as Redis nodes. Faults that need Redis require a capability that no backend has,
// with an explanation.
func TestLockOnStore(t *testing.T) {
	kind := lock.Kind{Server: lock.Etcd, OwnTime: true, Belief: lock.BySignal}
	for _, tt := range []struct {
		plan, unsupported, why string // unsupported capability, or ""
	}{
		{plan: "{kind: pause, targets: [n1], for: 1s}"},
		{plan: "{kind: kill, targets: [n1], for: 1s}"},
		{plan: "{kind: cut, targets: [c1-n1], mode: hold, for: 1s}"},
		{plan: "{kind: delay, targets: [c1], delay: 1ms..2ms, for: 1s}"},
		{plan: "{kind: clock-rate, targets: [c1], rate: 1.1}"},
		{plan: "{kind: pause, targets: [c1], for: 1s}"},
		{plan: "{kind: clock-jump, targets: [n1], by: 5s}", unsupported: "etcd:clock-node", why: "the nodes run etcd, but only Redis supports clock-node"},
		{plan: "{kind: shutdown, targets: [n1], for: 1s}", unsupported: "etcd:shutdown-node", why: "but only Redis supports"},
		{plan: "{kind: touch, targets: [n1]}", unsupported: "etcd:touch-node", why: "but only Redis supports"},
	} {
		s, err := parse(t, requiredKeys+"\nplan:\n  - {when: {at: 1s}, fault: "+tt.plan+"}\n")[0].ForLock("other", kind)
		if err != nil {
			t.Fatalf("%s: %v", tt.plan, err)
		}
		needs := s.RequiredCapabilitiesForLock(kind)
		if s.Topology.Server != lock.Etcd || !slices.Contains(needs, lock.Etcd) {
			t.Errorf("%s: server %q, required capabilities %v", tt.plan, s.Topology.Server, needs)
		}
		var unsupported []string
		for _, n := range needs {
			if why := ExplainMissingCapability(n); why != "" {
				unsupported = append(unsupported, n)
				if !strings.Contains(why, tt.why) {
					t.Errorf("%s: %s", n, why)
				}
			}
		}
		if got := strings.Join(unsupported, " "); got != tt.unsupported {
			t.Errorf("%s: unsupported %q, want %q", tt.plan, got, tt.unsupported)
		}
		if s.ExpirySlack() <= s.Lock.TTL {
			t.Errorf("the expiry slack is %v for a store with leases of %v", s.ExpirySlack(), s.Lock.TTL)
		}
	}
	held := parse(t, requiredKeys+"\nplan:\n  - {when: {link: c1-n1, message: set, of: request, nth: 1}, fault: {kind: hold, for: 1s}}\n")[0]
	s, err := held.ForLock("other", kind)
	if err != nil {
		t.Fatal(err)
	}
	if needs := s.RequiredCapabilitiesForLock(kind); !slices.Contains(needs, "etcd:hold-message") || ExplainMissingCapability("etcd:drop-message+hold-message") != "the nodes run etcd, but only Redis supports drop-message, hold-message" {
		t.Errorf("holding a message requires %v", needs)
	}
}

// A scenario file that names a store applies only to locks that use the store.
func TestScenarioOnStore(t *testing.T) {
	s := parse(t, requiredKeys+"\ntopology: {server: etcd}\n")[0]
	if needs := s.RequiredCapabilitiesForLock(lock.Kind{}); !slices.Contains(needs, "lock:etcd") || !strings.Contains(ExplainMissingCapability("lock:etcd"), "--adapter") {
		t.Errorf("with a lock on Redis it requires %v", needs)
	}
	for server, fits := range map[string]bool{"": false, lock.Consul: false, lock.Etcd: true} {
		if _, err := s.ForLock("other", lock.Kind{Server: server}); (err == nil) != fits {
			t.Errorf("a lock on %q: %v", server, err)
		}
	}
	if why := ExplainMissingCapability("hold-message"); why != "" {
		t.Errorf("got an explanation for a capability of Redis nodes: %s", why)
	}
}
