package exhaust

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// randomScope returns a random scope that can be searched without reductions.
func randomScope(r *rand.Rand) Scope {
	restarts := append(Restarts(), RestartDelayed)
	s := Scope{Nodes: 2, Attempts: 1, Crashes: r.IntN(2), Restart: restarts[r.IntN(len(restarts))]}
	if r.IntN(6) == 0 {
		s.Jumps = 1
	}
	switch r.IntN(3) {
	case 0:
		s.Extensions = 1
	case 1:
		s.Nodes, s.Attempts = 1, 2
	}
	if r.IntN(2) == 0 {
		s.Mistake = Mistakes()[r.IntN(len(Mistakes()))]
	}
	switch r.IntN(4) {
	case 0:
		s.Property, s.Fence = resourceSafety, r.IntN(2) == 0
	case 1:
		s.Property, s.Fence = fencingOrder, true
	}
	if r.IntN(3) == 0 {
		s.Lock, s.Mistake, s.OmittedPart = hardenedLock, "", append(Parts(), "", "")[r.IntN(5)]
		if s.Quarantine = r.IntN(2) == 0; s.Crashes+s.Jumps == 0 {
			s.Property, s.Fence = leftKeys, false
		}
	}
	if s.Check() != nil {
		return randomScope(r)
	}
	return s
}

// verdictOf returns a search's verdict, "" if it hits the limit, or the message if it panics
// because different states have the same canonical form.
func verdictOf(t *testing.T, m *model, maxBytes int) (result string) {
	defer func() {
		if r := recover(); r != nil {
			result = fmt.Sprint(r)
		}
	}()
	r := m.Search(t.Context(), maxBytes, nil)
	switch {
	case r.Counterexample != nil:
		return "violated"
	case r.Complete:
		return "none"
	}
	return ""
}

// reductionSteps maps names to sets of reductions that add one reduction at a time.
var reductionSteps = map[string]Reductions{
	"symmetry": {Symmetry: true}, "merge": {Merge: true}, "exact": exactReductions,
	"eager": {Symmetry: true, Merge: true, Eager: true}, "full": fullReductions,
}

// checkReductions compares searches of random scopes with and without reductions, except if the
// states need more than maxBytes.
func checkReductions(t *testing.T, scopes, maxBytes int) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range scopes {
		s := randomScope(r)
		unreduced := verdictOf(t, newModel(s, Reductions{}), maxBytes)
		seen[unreduced]++
		if unreduced == "" {
			continue
		}
		for name, reductions := range reductionSteps {
			if got := verdictOf(t, newModel(s, reductions), maxBytes); got != unreduced && got != "" {
				t.Errorf("%v: %s with reductions %q, %s without", s, got, name, unreduced)
			}
		}
	}
	t.Logf("%v", seen)
	if seen["violated"] < scopes/8 || seen["none"] < scopes/8 {
		t.Errorf("of %d scopes: %v", scopes, seen)
	}
}

func TestReductionsAgree(t *testing.T) { checkReductions(t, 10, 2<<20) }

// forEachNodeAndLease calls do for each pair of a node and a lease.
func forEachNodeAndLease(m *model, t *state, do func(*node, int)) {
	for n := range m.Nodes {
		for l := range m.leases() {
			do(&t.node[n], l)
		}
	}
}

// wrongReductions holds reductions that remove relevant state or add impossible states.
var wrongReductions = map[string]struct {
	scope Scope
	wrong func(m *model, t *state)
}{
	"every DEL is dropped": {Scope{Nodes: 3, Attempts: 2, Mistake: "same-value-for-retries"}, func(m *model, t *state) {
		forEachNodeAndLease(m, t, func(n *node, l int) { n.del[l] = requestNone })
	}},
	"crashes don't matter":     {Scope{Nodes: 3, Attempts: 1, Crashes: 1}, func(_ *model, t *state) { t.crashes = 0 }},
	"clock jumps don't matter": {Scope{Nodes: 3, Attempts: 1, Jumps: 1}, func(_ *model, t *state) { t.jumps = 0 }},
	"votes don't matter": {Scope{Nodes: 3, Attempts: 1, Mistake: "quorum-half"}, func(m *model, t *state) {
		forEachNodeAndLease(m, t, func(n *node, l int) {
			if n.set[l] == yesInFlight {
				n.set[l] = requestNone
			}
		})
	}},
	"windows end for believing clients": {Scope{Nodes: 3, Attempts: 1, Mistake: "set-without-nx"}, func(m *model, t *state) {
		for l := range m.leases() {
			t.endedWindows[l] = 1
		}
	}},
	"the window does not matter to the client": {Scope{Nodes: 3, Attempts: 1, Extensions: 1}, func(_ *model, t *state) {
		for c := range t.client {
			t.client[c].unbounded = 1
		}
	}},
	"keys expire at any time": {Scope{Nodes: 3, Attempts: 1}, func(m *model, t *state) {
		for n := range m.Nodes {
			t.node[n].key = 0
		}
	}},
	"nodes restart immediately": {Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: RestartDelayed}, func(m *model, t *state) {
		for n := range m.Nodes {
			t.node[n].downState = nodeUp
		}
	}},
	"disks lose everything": {Scope{Nodes: 1, Attempts: 1, Crashes: 1, Restart: RestartAlways}, func(m *model, t *state) {
		if t.crashes == 0 {
			t.node[0].key = 0
		}
	}},
	"an extension lasts forever": {Scope{Nodes: 3, Attempts: 1, Extensions: 1}, func(_ *model, t *state) {
		for c := range t.client {
			t.client[c].unbounded |= t.client[c].generation
		}
	}},
	"counts of grants don't matter": {Scope{Nodes: 3, Attempts: 1, Fence: true, Property: fencingOrder}, func(m *model, t *state) {
		for n := range m.Nodes {
			t.node[n].count = 0
		}
	}},
	"nodes remember counts": {Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: RestartDelayed, Fence: true, Property: fencingOrder}, func(m *model, t *state) {
		for n := range m.Nodes {
			t.node[n].count = max(t.node[n].count, t.maxToken)
		}
	}},
	"writing back does not matter": {Scope{Nodes: 3, Attempts: 2, Fence: true, Property: fencingOrder}, func(m *model, t *state) {
		forEachNodeAndLease(m, t, func(n *node, l int) {
			if n.raise[l] == requestInFlight {
				n.raise[l] = yesInFlight
			}
		})
	}},
	"tokens don't matter": {Scope{Nodes: 3, Attempts: 1, Fence: true, Property: resourceSafety}, func(m *model, t *state) {
		t.maxToken = min(t.maxToken, 1)
		for l := range m.leases() {
			t.tokens[l] = min(t.tokens[l], 1)
		}
	}},
	"late writes never arrive": {Scope{Nodes: 3, Attempts: 1, Property: resourceSafety}, func(m *model, t *state) {
		for l := range m.leases() {
			if t.sections[l] == sectionSentLate {
				t.sections[l] = sectionUnread
			}
		}
	}},
	"reads see later writes": {Scope{Nodes: 3, Attempts: 1, Property: resourceSafety}, func(m *model, t *state) {
		for l := range m.leases() {
			if t.sections[l] == sectionSentLate || t.sections[l] == sectionReadLate {
				t.sections[l]--
			}
		}
	}},
	"tombstones don't matter": {Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, Property: leftKeys}, func(m *model, t *state) {
		forEachNodeAndLease(m, t, func(n *node, l int) {
			if n.set[l] == tombstonedSet {
				n.set[l] = requestInFlight
			}
		})
	}},
	"a quarantine ends immediately": {Scope{Nodes: 3, Attempts: 1, Crashes: 1, Lock: hardenedLock, Quarantine: true}, func(m *model, t *state) {
		for n := range m.Nodes {
			t.node[n].downState = nodeUp
		}
	}},
	"windows don't matter to left keys": {Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, OmittedPart: debts, Property: leftKeys}, func(m *model, t *state) {
		for l := range m.leases() {
			t.endedWindows[l] = 1
		}
	}},
	"key owners don't matter": {Scope{Nodes: 3, Attempts: 2}, func(m *model, t *state) {
		for n := range m.Nodes {
			if k := t.node[n].key; k > 0 {
				t.node[n].key = keyOf(0, k.generation())
			}
		}
	}},
}

func TestWrongReductionsDiffer(t *testing.T) {
	for name, p := range wrongReductions {
		want := verdictOf(t, newModel(p.scope, fullReductions), 0)
		m := newModel(p.scope, fullReductions)
		m.extraReduction = func(t *state) { p.wrong(m, t) }
		if got := verdictOf(t, m, 0); got == want {
			t.Errorf("%s: the verdict is %q as without the wrong reduction", name, got)
		}
	}
}
