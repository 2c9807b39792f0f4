// Package exhaust looks at everything that can happen to Redlock in a small scope.
//
// A Scope is a few nodes with one key, two clients with a few attempts each, a budget of
// faults, perhaps a mistake in the lock, and a Property. Search visits every state that can come
// of it, breadth first, and stops at a Story: the fewest Steps after which the property is
// violated: both clients believe that they hold the lock, a write is applied over one that it has
// not seen, or a fencing token is not above an earlier holder's. Messages arrive in any order, as
// late as they like, or never; so a client or a node that pauses or dies is among what is searched.
//
// Time is not counted. What matters of it are the windows in which a client may believe:
//
//	start ─── SETs on their way ───┬─ believes ──────────────┐ over: start + TTL − drift
//	                               │     extend ─────────────┼───────── believes ─┐ over
//	the key on a node     ●────────┼─────────────────────────┼─ may expire from here on
//
// A window ends at any moment, once. A client takes the lock, and believes, only before that; a
// key expires only after the window of the request that set or extended it, for it was applied
// after the window began and lives a full TTL by a clock within the drift. So every run within
// these assumptions is a path here, and "none" holds for all of them within the scope. A path
// need not be a run: package story gives its steps instants, or says that there are none.
//
// The files, each of which uses only those below it:
//
//	search.go            all states, and the shortest way to a violation
//	pack.go              a state in a few bytes; the same for states that differ in names alone
//	reduce.go            states that need not be told apart, and steps that need not wait
//	client.go, node.go, fence.go, resource.go, hardened.go
//	                     what can happen next
//	state.go, step.go    what there is to know, and what happened
//	exhaust.go           the scope
//
// Deliberately missing: more than two clients or one key, more than one write in a hold,
// replicas, and clocks that run wrong beyond a budget of jumps. It knows no
// scenario and runs none: its tests hold it to the real client and the simulated node.
package exhaust

import (
	"fmt"
	"maps"
	"slices"
)

// Scope is what is searched.
type Scope struct {
	Nodes    int     `json:"nodes"`             // 1 to MaxNodes
	Attempts int     `json:"attempts"`          // of each client, 1 to MaxAttempts
	Extends  int     `json:"extends,omitempty"` // of each hold, 0 or 1
	Crashes  int     `json:"crashes,omitempty"` // of all nodes together
	Restart  Restart `json:"restart,omitempty"` // what a crashed node comes back with; "": Forgets
	Jumps    int     `json:"jumps,omitempty"`   // of nodes' clocks, each of which makes a key vanish before its time
	Mistake  string  `json:"mistake,omitempty"` // of package harness/lock/broken; "": the reference
	// Lock is the specification's, "", or Hardened; Without is a part of that which is left out;
	// Quarantine: a node that crashed gives no vote until what it lost would have expired.
	Lock       string `json:"lock,omitempty"`
	Without    string `json:"without,omitempty"`
	Quarantine bool   `json:"quarantine,omitempty"`
	// Fence: the lock gives fencing tokens, and the resource refuses one below the highest it has seen.
	Fence    bool     `json:"fence,omitempty"`
	Property Property `json:"property,omitempty"` // that is to be violated; "": MutualExclusion
}

// Property is what a search tries to violate.
type Property string

// Properties, by the names that the checker has for them.
const (
	MutualExclusion Property = "mutual-exclusion" // both clients believe that they hold the lock
	resourceSafety  Property = "resource-safety"  // a write is applied over one that its holder had not seen
	FencingOrder    Property = "fencing-order"    // a lock's token is not above that of one that was given before its attempt began
	LeftKeys        Property = "left-keys"        // a key stays on a node, within its window, of an attempt that is over; no checker's, but a cause
)

// Properties lists them.
func Properties() []Property {
	return []Property{MutualExclusion, resourceSafety, FencingOrder, LeftKeys}
}

// Bounds of a scope.
const (
	MaxNodes    = 5
	MaxAttempts = 3
	MaxFaults   = 7
	maxLeases   = 2 * MaxAttempts
)

// Restart is what a node does after a crash.
type Restart string

// Ways to come back.
const (
	Forgets  Restart = "none"     // at once, with nothing
	Delayed  Restart = "delayed"  // with nothing, once what it lost would have expired
	everySec Restart = "everysec" // at once, with what it had at some earlier moment
	Always   Restart = "always"   // at once, with what it had
)

// Restarts lists them.
func Restarts() []Restart { return []Restart{Forgets, Delayed, everySec, Always} }

// rules are the algorithm, of which a mistake changes one.
type rules struct {
	quorum, renewal int  // votes that an attempt and an extension need
	noElapsed       bool // nobody looks at the clock once an attempt is over, and the window is claimed from there
	noNX            bool // SET overwrites
	plainDel        bool // a hold is released by DEL, whoever has the key
	firstCount      bool // the token is the count of the first node that grants, and is not written back
	shares          sharing
	hardening
}

// sharing is who sets the same token.
type sharing uint8

const (
	nobody   sharing = iota
	attempts         // those of one acquire
	everybody
)

var mistakes = map[string]func(*rules){
	"quorum-half":            func(r *rules) { r.quorum-- },
	"no-elapsed-check":       func(r *rules) { r.noElapsed = true },
	"set-without-nx":         func(r *rules) { r.noNX = true },
	"plain-del":              func(r *rules) { r.plainDel = true },
	"same-value-for-retries": func(r *rules) { r.shares = attempts },
	"same-value-for-clients": func(r *rules) { r.shares = everybody },
	"extension-below-quorum": func(r *rules) { r.renewal = 1 },
	"fence-from-one-node":    func(r *rules) { r.firstCount = true },
}

// Mistakes lists what Scope.Mistake can be.
func Mistakes() []string { return slices.Sorted(maps.Keys(mistakes)) }

// Check says what is wrong with a scope.
func (s Scope) Check() error {
	for _, b := range []struct {
		name               string
		value, least, most int
	}{
		{"nodes", s.Nodes, 1, MaxNodes}, {"attempts", s.Attempts, 1, MaxAttempts}, {"extends", s.Extends, 0, 1},
		{"crashes", s.Crashes, 0, MaxFaults}, {"jumps", s.Jumps, 0, MaxFaults},
	} {
		if b.value < b.least || b.value > b.most {
			return fmt.Errorf("%s is %d, and can be %d to %d", b.name, b.value, b.least, b.most)
		}
	}
	if s.Restart != "" && !slices.Contains(Restarts(), s.Restart) {
		return fmt.Errorf("restart is %q, and can be one of %q", s.Restart, Restarts())
	}
	if s.Property != "" && !slices.Contains(Properties(), s.Property) {
		return fmt.Errorf("property is %q, and can be one of %q", s.Property, Properties())
	}
	if s.Property == FencingOrder && !s.Fence {
		return fmt.Errorf("%s is of fencing tokens, and the lock gives none", s.Property)
	}
	if err := s.checkHardened(); s.Mistake == "" || err != nil {
		return err
	}
	if mistakes[s.Mistake] == nil {
		return fmt.Errorf("mistake is %q, and can be one of %q", s.Mistake, Mistakes())
	}
	switch r := s.rules(); {
	case r.quorum < 1:
		return fmt.Errorf("%s with %s needs no vote at all", s.Mistake, count(s.Nodes, "node"))
	case r.noNX && s.Fence:
		return fmt.Errorf("a lock with %s gives no fencing tokens", s.Mistake)
	case r.firstCount && !s.Fence:
		return fmt.Errorf("%s is a mistake of fencing tokens, and the lock gives none", s.Mistake)
	}
	return nil
}

// rules are those of the scope's lock. With an even number of nodes half of them is one less
// than a majority, as it is with an odd one.
func (s Scope) rules() rules {
	majority := s.Nodes/2 + 1
	r := rules{quorum: majority, renewal: majority}
	if wrong := mistakes[s.Mistake]; wrong != nil {
		wrong(&r)
	}
	s.harden(&r)
	return r
}
