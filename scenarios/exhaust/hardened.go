package exhaust

import (
	"fmt"
	"slices"
)

// Hardened is the lock that redlock.New makes. It does what the specification's does, and besides:
//
//   - it returns once a quorum has granted, or none can. Nothing new can come of that: where time is
//     not counted, a round may be over at any moment, and what it has sent arrives later or never.
//   - a node is not asked to forget what it has refused; where the node's answer to SET is missing it
//     is told to refuse that: a tombstone.
//   - a DEL is sent until it is answered: a debt. That it arrives twice makes no difference, unless the
//     tombstone that the first one left is gone by then.
//   - counts of grants begin at the node's clock, so that a node which forgot counts on above all that
//     was counted before, as long as clocks agree.
//   - with Scope.Quarantine a node that crashed refuses every SET until what it lost would have expired.
//
// Package wire needs no tombstones, for on one connection nothing overtakes: none of its SETs
// arrives after its DEL, and here none has an effect after it.
const Hardened = "hardened"

// Parts of it that Scope.Without can leave out.
const (
	Tombstones = "tombstones"
	Debts      = "debts"
	ClockCount = "clock-counts"
)

// Locks and Parts list what Scope.Lock and Scope.Without can be.
func Locks() []string { return []string{"redlock", Hardened} }
func Parts() []string { return []string{Tombstones, Debts, ClockCount} }

// hardening is those parts.
type hardening struct{ hardened, tombstones, debts, clockCount bool }

func (s Scope) harden(r *rules) {
	if s.Lock == Hardened {
		r.hardening = hardening{true, s.Without != Tombstones, s.Without != Debts, s.Without != ClockCount}
	}
}

func (s Scope) checkHardened() error {
	hardened := s.Lock == Hardened
	switch {
	case s.Lock != "" && !hardened:
		return fmt.Errorf("lock is %q, and can be one of %q", s.Lock, Locks())
	case s.Without != "" && !slices.Contains(Parts(), s.Without):
		return fmt.Errorf("without is %q, and can be one of %q", s.Without, Parts())
	case (s.Without != "" || s.Quarantine) && !hardened:
		return fmt.Errorf("tombstones, debts, counts from the clock and quarantine are of lock %s", Hardened)
	case hardened && s.Mistake != "":
		return fmt.Errorf("%s is a mistake of the specification's lock; lock %s can go without one of %q", s.Mistake, Hardened, Parts())
	case s.Without == ClockCount && !s.Fence:
		return fmt.Errorf("%s are of fencing tokens, and the lock gives none", ClockCount)
	case s.Quarantine && (s.Crashes == 0 || s.Restart == Delayed):
		return fmt.Errorf("a quarantine is of nodes that crash and are back at once")
	case s.Quarantine && s.Restart == everySec && s.Extends > 0 && s.Crashes > 1:
		return fmt.Errorf("a node in quarantine that loses an extension besides is not searched")
	case s.Property == LeftKeys && (s.Crashes > 0 || s.Jumps > 0 || s.Mistake != ""):
		return fmt.Errorf("%s is of scopes without faults and mistakes", LeftKeys)
	}
	return nil
}

// InTheModel is the cause of a violation which no run shows.
const InTheModel = "in the model"

// Runs says whether what violates the scope can be run: there is a lock like that and a verdict on it,
// and package story can tell of it. What breaks the tokens of nodes that come back with older counts
// takes attempts that fail, of which it can't tell.
func (s Scope) Runs() bool {
	return s.Without == "" && s.Property != LeftKeys && !(s.Lock == Hardened && s.Property == FencingOrder && s.Restart == everySec)
}

// spare leaves out the DELs to nodes that are known to have refused: they have nothing to forget.
func spare(m *Model, t *state, l int, refused uint8) {
	for n := range m.Nodes {
		if m.hardened && refused>>n&1 == 1 {
			t.node[n].del[l] = none
		}
	}
}

// bury has a node refuse the SET of a lease that is still under way.
func bury(m *Model, n *node, l int) {
	if m.tombstones && n.set[l] == flying {
		n.set[l] = doomed
	}
}

// lapsed is a SET that arrives when its tombstone may be gone, which lives a TTL, as keys do: by then
// the window of the attempt is over.
func (w walk) lapsed(n, l int, expired bool) {
	if w.from.node[n].set[l] != doomed || w.from.over[l] == 0 {
		return
	}
	late := *w.from
	late.node[n].set[l] = flying
	if w.debts {
		late.node[n].del[l] = flying // if no answer to it was heard, it comes again
	}
	walk{w.Model, &late, w.yield}.arrive(n, l, set, expired)
}

// forgets is what a crash takes besides keys and counts. What was sent before it is taken to arrive all
// the same, so that a tombstone which is lost has its SET arrive. A node that knows no count any more
// counts from its clock, which is above all that there was.
func forgets(m *Model, t *state, n int, before *node) {
	me := &t.node[n]
	if m.Restart != Always {
		for l := range m.leases() {
			if me.set[l] == doomed {
				me.set[l] = flying
			}
		}
	}
	if m.clockCount && me.count == 0 {
		me.count = before.count
		for l := range m.leases() {
			me.count = max(me.count, t.fence[l])
		}
		for k := range m.Nodes {
			me.count = max(me.count, t.node[k].count)
		}
	}
	if m.Quarantine && (me.down == up || m.mayExpire(t, key(me.down-1))) {
		me.down = downWith(before.key)
	}
}

// left says whether a key stays on a node for which nobody will ask: its attempt or hold is over, its
// window is not, and no DEL is on its way.
func left(m *Model, s *state) bool {
	for n := range m.Nodes {
		k := s.node[n].key
		if k == 0 || m.mayExpire(s, k) || s.node[n].del[k.lease()] != none {
			continue
		}
		if c := k.lease() / m.Attempts; s.client[c].phase == idle || m.current(s, c) != k.lease() {
			return true
		}
	}
	return false
}
