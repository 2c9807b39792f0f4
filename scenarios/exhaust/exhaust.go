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
// need not be a run: scenarioOf gives its steps instants, or says that there are none.
//
// The files, each of which uses only those below it:
//
//	report.go   a search, its story run by the real lock, and what came of it in words
//	story.go    a scenario of a path: instants for its steps, and which messages the network holds
//	search.go   all states, and the shortest way to a violation; states that need not be told apart
//	model.go    what can happen next: clients, nodes, fencing tokens, the resource
//	state.go    what there is to know, in a few bytes, and what happened
//	exhaust.go  the scope
//
// Deliberately missing: more than two clients or one key, more than one write in a hold,
// replicas, and clocks that run wrong beyond a budget of jumps. It runs no
// scenario: whoever searches says how, and its tests hold it to the real client and the simulated node.
package exhaust

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
	// Lock is the specification's, "", or hardenedLock; Without is a part of that which is left out;
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
	fencingOrder    Property = "fencing-order"    // a lock's token is not above that of one that was given before its attempt began
	leftKeys        Property = "left-keys"        // a key stays on a node, within its window, of an attempt that is over; no checker's, but a cause
)

// Properties lists them.
func Properties() []Property {
	return []Property{MutualExclusion, resourceSafety, fencingOrder, leftKeys}
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
	if s.Property == fencingOrder && !s.Fence {
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

// Imply sets what a mistake or a property can't do without, unless somebody set the field of that name.
func (s *Scope) Imply(set func(field string) bool) {
	ofTokens := strings.HasPrefix(s.Mistake, "fence-") || s.Without == clockCount
	if strings.HasPrefix(s.Mistake, "extension-") && !set("extends") {
		s.Extends = 1
	}
	if (s.Without != "" || s.Quarantine) && !set("lock") {
		s.Lock = hardenedLock
	}
	switch {
	case set("property"):
	case s.Without == tombstones || s.Without == debts:
		s.Property = leftKeys
	case ofTokens:
		s.Property = fencingOrder
	}
	if (ofTokens || s.Property == fencingOrder) && !set("fence") {
		s.Fence = true
	}
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

// row is a scope whose verdict is known.
type row struct {
	Scope
	// Cause is what violates the scope's property where the story is run; "": nothing does.
	Cause string
}

// knownRows are the scopes whose verdicts are known and that take a fraction of a second: the reference
// within its assumptions, then what takes it beyond them, and locks with a mistake.
func knownRows() []row {
	return append([]row{
		{Scope{Nodes: 1, Attempts: 3}, ""},
		{Scope{Nodes: 3, Attempts: 1}, ""},
		{Scope{Nodes: 3, Attempts: 2}, ""},
		{Scope{Nodes: 3, Attempts: 3}, ""},
		{Scope{Nodes: 5, Attempts: 2}, ""},
		{Scope{Nodes: 5, Attempts: 3}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extends: 1}, ""},
		{Scope{Nodes: 3, Attempts: 3, Crashes: 2, Restart: Delayed}, ""},
		{Scope{Nodes: 5, Attempts: 2, Crashes: 1, Restart: Delayed}, ""},
		{Scope{Nodes: 3, Attempts: 2, Crashes: 1, Restart: Always}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extends: 1, Crashes: 1, Restart: Delayed}, ""},

		{Scope{Nodes: 1, Attempts: 1, Crashes: 1, Restart: Forgets}, "restarted-and-forgot"},
		{Scope{Nodes: 2, Attempts: 1, Crashes: 2, Restart: Forgets}, "restarted-and-forgot"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Forgets}, "restarted-and-forgot"},
		{Scope{Nodes: 5, Attempts: 1, Crashes: 1, Restart: Forgets}, "restarted-and-forgot"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: everySec}, "lost-unsynced"},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 1}, "expired-early"},
		{Scope{Nodes: 5, Attempts: 1, Jumps: 1}, "expired-early"},

		{Scope{Nodes: 3, Attempts: 1, Mistake: "quorum-half"}, "never-set"},
		{Scope{Nodes: 3, Attempts: 1, Mistake: "set-without-nx"}, "overwritten"},
		{Scope{Nodes: 3, Attempts: 1, Mistake: "no-elapsed-check"}, "given-shorter"},
		{Scope{Nodes: 3, Attempts: 1, Extends: 1, Mistake: "extension-below-quorum"}, "given-shorter"},
		{Scope{Nodes: 3, Attempts: 2, Mistake: "same-value-for-clients"}, "deleted-by-other"},
		{Scope{Nodes: 3, Attempts: 2, Mistake: "same-value-for-retries"}, "deleted-by-other"},
		{Scope{Nodes: 5, Attempts: 2, Mistake: "same-value-for-retries"}, "deleted-by-other"},
		{Scope{Nodes: 3, Attempts: 2, Mistake: "plain-del"}, "deleted-by-other"},

		{Scope{Nodes: 1, Attempts: 1, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 5, Attempts: 2, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Always, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Extends: 1, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 5, Attempts: 1, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Always, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 2, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Delayed, Fence: true, Property: resourceSafety}, "fence-broken"},
		{Scope{Nodes: 3, Attempts: 1, Fence: true, Property: fencingOrder}, ""},
		{Scope{Nodes: 5, Attempts: 1, Fence: true, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Always, Fence: true, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 2, Fence: true, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Forgets, Fence: true, Property: fencingOrder}, "token-twice"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Delayed, Fence: true, Property: fencingOrder}, "token-twice"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: everySec, Fence: true, Property: fencingOrder}, "token-twice"},
		{Scope{Nodes: 3, Attempts: 1, Mistake: "fence-from-one-node", Fence: true, Property: fencingOrder}, "token-twice"},
	}, hardenedRows()...)
}

// hardenedRows are those of the hardened lock, and of what it is hardened against.
func hardenedRows() []row {
	return []row{
		{Scope{Nodes: 3, Attempts: 3, Lock: hardenedLock}, ""},
		{Scope{Nodes: 5, Attempts: 2, Lock: hardenedLock}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extends: 1, Lock: hardenedLock}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Lock: hardenedLock}, "restarted-and-forgot"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: everySec, Lock: hardenedLock}, "lost-unsynced"},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 1, Lock: hardenedLock}, "expired-early"},
		{Scope{Nodes: 3, Attempts: 3, Crashes: 2, Lock: hardenedLock, Quarantine: true}, ""},
		{Scope{Nodes: 5, Attempts: 2, Crashes: 1, Lock: hardenedLock, Quarantine: true}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extends: 1, Crashes: 1, Lock: hardenedLock, Quarantine: true}, ""},
		{Scope{Nodes: 3, Attempts: 2, Crashes: 1, Restart: everySec, Lock: hardenedLock, Quarantine: true}, ""},
		{Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Fence: true, Lock: hardenedLock, Quarantine: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Fence: true, Lock: hardenedLock, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 2, Restart: Delayed, Fence: true, Lock: hardenedLock, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Fence: true, Lock: hardenedLock, Without: clockCount, Property: fencingOrder}, inTheModel},
		{Scope{Nodes: 1, Attempts: 1, Property: leftKeys}, inTheModel},
		{Scope{Nodes: 3, Attempts: 1, Property: leftKeys}, inTheModel},
		{Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, Property: leftKeys}, ""},
		{Scope{Nodes: 3, Attempts: 1, Extends: 1, Lock: hardenedLock, Property: leftKeys}, ""},
		{Scope{Nodes: 5, Attempts: 1, Lock: hardenedLock, Property: leftKeys}, ""},
		{Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, Without: tombstones, Property: leftKeys}, inTheModel},
		{Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, Without: debts, Property: leftKeys}, inTheModel},
	}
}

// String is a scope in words.
func (s Scope) String() string {
	return strings.Join(append([]string{count(s.Nodes, "node"), count(s.Attempts, "attempt")}, s.besides()...), ", ")
}

// besides is what a scope has besides nodes and attempts.
func (s Scope) besides() (parts []string) {
	if s.Lock != "" {
		parts = append(parts, s.Lock)
	}
	if s.Without != "" {
		parts = append(parts, "without "+s.Without)
	}
	if s.Extends > 0 {
		parts = append(parts, "extend")
	}
	if s.Crashes > 0 {
		parts = append(parts, count(s.Crashes, "crash"), map[Restart]string{"": "nothing kept", Forgets: "nothing kept",
			Delayed: "delayed restart", everySec: "fsync everysec", Always: "fsync always"}[s.Restart])
	}
	if s.Quarantine {
		parts = append(parts, "quarantine")
	}
	if s.Jumps > 0 {
		parts = append(parts, count(s.Jumps, "clock jump"))
	}
	if s.Fence {
		parts = append(parts, "fence")
	}
	if s.Mistake != "" {
		parts = append(parts, s.Mistake)
	}
	return parts
}

func count(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "sh"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Name is a scope as the name of a file.
func (s Scope) Name() string {
	parts := []string{fmt.Sprintf("exhaust-%dn-%da", s.Nodes, s.Attempts)}
	for _, x := range []struct {
		n    int
		what string
	}{{s.Extends, "extend"}, {s.Crashes, "crash"}, {s.Jumps, "jump"}} {
		if x.n == 1 {
			parts = append(parts, x.what)
		} else if x.n > 1 {
			parts = append(parts, fmt.Sprintf("%d-%s", x.n, x.what))
		}
	}
	if s.Crashes > 0 && s.Restart != "" && s.Restart != Forgets {
		parts = append(parts, string(s.Restart))
	}
	if s.Quarantine {
		parts = append(parts, "quarantine")
	}
	if s.Fence {
		parts = append(parts, "fence")
	}
	for _, part := range []string{s.Mistake, s.Lock, s.Without} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if s.Property != "" && s.Property != MutualExclusion {
		parts = append(parts, string(s.Property))
	}
	return strings.Join(parts, "-")
}
