// Package exhaust is a model checker for Redlock. It explores every reachable state of a small
// scope.
//
// A Scope consists of a few nodes with one key, two clients with a few attempts each, a budget of
// faults, possibly a mistake in the lock, and a Property. Search visits all reachable states in
// breadth-first order and stops at the first violation. The Counterexample is the shortest sequence
// of Steps that violates the property: both clients consider themselves the holder, a write
// overwrites another that its client has not seen, or a fencing token is not higher than an earlier
// holder's. Messages arrive in any order, arbitrarily late, or never, which covers clients and nodes
// that pause or die.
//
// The model has no clock, just windows in which a client may consider itself the holder
// ("believes"):
//
//	start ─── SETs in flight ──────┬─ believes ──────────────┐ over: start + TTL − drift
//	                               │     extend ─────────────┼───────── believes ─┐ over
//	the key on a node     ●────────┼─────────────────────────┼─ may expire from here on
//
// A window may end at any moment. A client must acquire the lock before its window ends, and
// considers itself the holder until then. A key does not expire before the window of the request
// that set or extended it ends, because the node applied the request after the window began, and
// the key lives a full TTL by a clock whose drift is within bounds. So every run within these
// assumptions is a path of the model, and if the result is "none", no such run in the scope
// violates the property. The converse is not true: some paths are not possible runs. newScenario
// assigns times to the steps of a path, or reports that this is impossible.
//
// Each of these files depends on those below it:
//
//	report.go   runs a search, replays the counterexample with the real lock, and prints the result
//	story.go    turns a path into a scenario: times for its steps (order.go), and messages to delay
//	search.go   the search, its reductions, and the shortest path to a violation
//	model.go    the possible next steps of clients, nodes, fencing tokens and the resource
//	state.go    the packed state, and the steps between states
//	exhaust.go  the scope
//
// The model does not cover a third client, a second key, a second write in a hold, replicas, or
// clock errors other than a limited number of jumps. The package does not run scenarios: the caller
// provides functions for that. Its tests compare the model with the real client and the simulated
// node.
package exhaust

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Scope defines what a search explores.
type Scope struct {
	Nodes      int     `json:"nodes"`             // 1 to MaxNodes
	Attempts   int     `json:"attempts"`          // per client, 1 to MaxAttempts
	Extensions int     `json:"extends,omitempty"` // per hold, 0 or 1
	Crashes    int     `json:"crashes,omitempty"` // total for all nodes
	Restart    Restart `json:"restart,omitempty"` // "" means RestartEmpty
	Jumps      int     `json:"jumps,omitempty"`   // jumps of node clocks; each makes a key expire early
	Mistake    string  `json:"mistake,omitempty"` // a mistake from package harness/lock/broken, or ""
	// Lock is hardenedLock, or "" for the specification's lock. OmittedPart is a part of the
	// hardened lock to leave out. Quarantine means that a restarted node does not vote until the
	// key it lost would have expired.
	Lock        string `json:"lock,omitempty"`
	OmittedPart string `json:"without,omitempty"`
	Quarantine  bool   `json:"quarantine,omitempty"`
	// Fence means that the lock issues fencing tokens and the resource rejects any token below the
	// highest it has seen.
	Fence    bool     `json:"fence,omitempty"`
	Property Property `json:"property,omitempty"` // the property to violate; "" means MutualExclusion
}

// Property is a property that a search tries to violate.
type Property string

// Properties, named as in the checker.
const (
	MutualExclusion Property = "mutual-exclusion" // both clients consider themselves the holder
	resourceSafety  Property = "resource-safety"  // a write overwrites one that its client has not seen
	fencingOrder    Property = "fencing-order"    // a token is not higher than one issued before its attempt started
	leftKeys        Property = "left-keys"        // a finished attempt leaves a key on a node within its window; in the checker this is a cause, not a property
)

func Properties() []Property {
	return []Property{MutualExclusion, resourceSafety, fencingOrder, leftKeys}
}

// Limits on a scope.
const (
	MaxNodes    = 5
	MaxAttempts = 3
	MaxFaults   = 7
	maxLeases   = 2 * MaxAttempts
)

// Restart says how a node restarts after a crash.
type Restart string

// Values of Restart.
const (
	RestartEmpty    Restart = "none"     // immediately, without data
	RestartDelayed  Restart = "delayed"  // without data, once the key it lost would have expired
	restartEverySec Restart = "everysec" // immediately, with its data from some earlier moment
	RestartAlways   Restart = "always"   // immediately, with all its data
)

func Restarts() []Restart {
	return []Restart{RestartEmpty, RestartDelayed, restartEverySec, RestartAlways}
}

// rules are the parameters of the lock algorithm. Each mistake changes one of them.
type rules struct {
	quorum, extendQuorum int  // votes required to acquire and to extend
	skipElapsedCheck     bool // clients ignore how long an attempt took: their window starts when it ends
	overwritingSet       bool // SET overwrites
	plainDel             bool // a release deletes the key, no matter whose it is
	tokenFromFirstNode   bool // the token is the first granting node's count, and is not written back
	sharing              tokenSharing
	hardening
}

// tokenSharing says which SETs share a token.
type tokenSharing uint8

const (
	shareNever     tokenSharing = iota
	shareInAcquire              // the attempts of one acquire
	shareAlways
)

var mistakes = map[string]func(*rules){
	"quorum-half":            func(r *rules) { r.quorum-- },
	"no-elapsed-check":       func(r *rules) { r.skipElapsedCheck = true },
	"set-without-nx":         func(r *rules) { r.overwritingSet = true },
	"plain-del":              func(r *rules) { r.plainDel = true },
	"same-value-for-retries": func(r *rules) { r.sharing = shareInAcquire },
	"same-value-for-clients": func(r *rules) { r.sharing = shareAlways },
	"extension-below-quorum": func(r *rules) { r.extendQuorum = 1 },
	"fence-from-one-node":    func(r *rules) { r.tokenFromFirstNode = true },
}

// Mistakes lists the mistakes that the model supports.
func Mistakes() []string { return slices.Sorted(maps.Keys(mistakes)) }

// Check validates the scope.
func (s Scope) Check() error {
	for _, b := range []struct {
		name                    string
		value, minimum, maximum int
	}{
		{"nodes", s.Nodes, 1, MaxNodes}, {"attempts", s.Attempts, 1, MaxAttempts}, {"extends", s.Extensions, 0, 1},
		{"crashes", s.Crashes, 0, MaxFaults}, {"jumps", s.Jumps, 0, MaxFaults},
	} {
		if b.value < b.minimum || b.value > b.maximum {
			return fmt.Errorf("%s is %d; valid values are %d to %d", b.name, b.value, b.minimum, b.maximum)
		}
	}
	if s.Restart != "" && !slices.Contains(Restarts(), s.Restart) {
		return fmt.Errorf("restart is %q; valid values are %q", s.Restart, Restarts())
	}
	if s.Property != "" && !slices.Contains(Properties(), s.Property) {
		return fmt.Errorf("property is %q; valid values are %q", s.Property, Properties())
	}
	if s.Property == fencingOrder && !s.Fence {
		return fmt.Errorf("%s requires fencing tokens, but the lock does not issue any", s.Property)
	}
	if err := s.checkHardened(); s.Mistake == "" || err != nil {
		return err
	}
	if mistakes[s.Mistake] == nil {
		return fmt.Errorf("mistake is %q; valid values are %q", s.Mistake, Mistakes())
	}
	switch r := s.rules(); {
	case r.quorum < 1:
		return fmt.Errorf("%s with %s requires no votes", s.Mistake, plural(s.Nodes, "node"))
	case r.overwritingSet && s.Fence:
		return fmt.Errorf("a lock with %s does not issue fencing tokens", s.Mistake)
	case r.tokenFromFirstNode && !s.Fence:
		return fmt.Errorf("%s requires fencing tokens, but the lock does not issue any", s.Mistake)
	}
	return nil
}

// SetImplied sets the fields that a mistake or a property requires, unless isSet reports that the
// user set them.
func (s *Scope) SetImplied(isSet func(field string) bool) {
	requiresTokens := strings.HasPrefix(s.Mistake, "fence-") || s.OmittedPart == clockCount
	if strings.HasPrefix(s.Mistake, "extension-") && !isSet("extends") {
		s.Extensions = 1
	}
	if (s.OmittedPart != "" || s.Quarantine) && !isSet("lock") {
		s.Lock = hardenedLock
	}
	switch {
	case isSet("property"):
	case s.OmittedPart == tombstones || s.OmittedPart == debts:
		s.Property = leftKeys
	case requiresTokens:
		s.Property = fencingOrder
	}
	if (requiresTokens || s.Property == fencingOrder) && !isSet("fence") {
		s.Fence = true
	}
}

// rules returns the rules of the scope's lock. quorum-half subtracts one vote, because half of the
// nodes, rounded down, is always one less than a majority.
func (s Scope) rules() rules {
	majority := s.Nodes/2 + 1
	r := rules{quorum: majority, extendQuorum: majority}
	if applyMistake := mistakes[s.Mistake]; applyMistake != nil {
		applyMistake(&r)
	}
	s.harden(&r)
	return r
}

// knownScope is a scope with its known verdict.
type knownScope struct {
	Scope
	// Cause is the cause that the checker reports for the counterexample, or "" if the property
	// holds.
	Cause string
}

// knownScopes returns scopes with known verdicts whose searches take a fraction of a second: the
// reference lock within and outside its assumptions, locks with mistakes, the other properties, and
// the hardened lock.
func knownScopes() []knownScope {
	return append([]knownScope{
		{Scope{Nodes: 1, Attempts: 3}, ""},
		{Scope{Nodes: 3, Attempts: 1}, ""},
		{Scope{Nodes: 3, Attempts: 2}, ""},
		{Scope{Nodes: 3, Attempts: 3}, ""},
		{Scope{Nodes: 5, Attempts: 2}, ""},
		{Scope{Nodes: 5, Attempts: 3}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extensions: 1}, ""},
		{Scope{Nodes: 3, Attempts: 3, Crashes: 2, Restart: RestartDelayed}, ""},
		{Scope{Nodes: 5, Attempts: 2, Crashes: 1, Restart: RestartDelayed}, ""},
		{Scope{Nodes: 3, Attempts: 2, Crashes: 1, Restart: RestartAlways}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extensions: 1, Crashes: 1, Restart: RestartDelayed}, ""},

		{Scope{Nodes: 1, Attempts: 1, Crashes: 1, Restart: RestartEmpty}, "restarted-and-forgot"},
		{Scope{Nodes: 2, Attempts: 1, Crashes: 2, Restart: RestartEmpty}, "restarted-and-forgot"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: RestartEmpty}, "restarted-and-forgot"},
		{Scope{Nodes: 5, Attempts: 1, Crashes: 1, Restart: RestartEmpty}, "restarted-and-forgot"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: restartEverySec}, "lost-unsynced"},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 1}, "expired-early"},
		{Scope{Nodes: 5, Attempts: 1, Jumps: 1}, "expired-early"},

		{Scope{Nodes: 3, Attempts: 1, Mistake: "quorum-half"}, "never-set"},
		{Scope{Nodes: 3, Attempts: 1, Mistake: "set-without-nx"}, "overwritten"},
		{Scope{Nodes: 3, Attempts: 1, Mistake: "no-elapsed-check"}, "given-shorter"},
		{Scope{Nodes: 3, Attempts: 1, Extensions: 1, Mistake: "extension-below-quorum"}, "given-shorter"},
		{Scope{Nodes: 3, Attempts: 2, Mistake: "same-value-for-clients"}, "deleted-by-other"},
		{Scope{Nodes: 3, Attempts: 2, Mistake: "same-value-for-retries"}, "deleted-by-other"},
		{Scope{Nodes: 5, Attempts: 2, Mistake: "same-value-for-retries"}, "deleted-by-other"},
		{Scope{Nodes: 3, Attempts: 2, Mistake: "plain-del"}, "deleted-by-other"},

		{Scope{Nodes: 1, Attempts: 1, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 5, Attempts: 2, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: RestartAlways, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Extensions: 1, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 5, Attempts: 1, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: RestartAlways, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 2, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: RestartDelayed, Fence: true, Property: resourceSafety}, "fence-broken"},
		{Scope{Nodes: 3, Attempts: 1, Fence: true, Property: fencingOrder}, ""},
		{Scope{Nodes: 5, Attempts: 1, Fence: true, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: RestartAlways, Fence: true, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 2, Fence: true, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: RestartEmpty, Fence: true, Property: fencingOrder}, "token-twice"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: RestartDelayed, Fence: true, Property: fencingOrder}, "token-twice"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: restartEverySec, Fence: true, Property: fencingOrder}, "token-twice"},
		{Scope{Nodes: 3, Attempts: 1, Mistake: "fence-from-one-node", Fence: true, Property: fencingOrder}, "token-twice"},
	}, hardenedScopes()...)
}

// hardenedScopes returns the known scopes of the hardened lock, and some where the specification's
// lock leaves keys behind.
func hardenedScopes() []knownScope {
	return []knownScope{
		{Scope{Nodes: 3, Attempts: 3, Lock: hardenedLock}, ""},
		{Scope{Nodes: 5, Attempts: 2, Lock: hardenedLock}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extensions: 1, Lock: hardenedLock}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Lock: hardenedLock}, "restarted-and-forgot"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: restartEverySec, Lock: hardenedLock}, "lost-unsynced"},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 1, Lock: hardenedLock}, "expired-early"},
		{Scope{Nodes: 3, Attempts: 3, Crashes: 2, Lock: hardenedLock, Quarantine: true}, ""},
		{Scope{Nodes: 5, Attempts: 2, Crashes: 1, Lock: hardenedLock, Quarantine: true}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extensions: 1, Crashes: 1, Lock: hardenedLock, Quarantine: true}, ""},
		{Scope{Nodes: 3, Attempts: 2, Crashes: 1, Restart: restartEverySec, Lock: hardenedLock, Quarantine: true}, ""},
		{Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Fence: true, Lock: hardenedLock, Quarantine: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Fence: true, Lock: hardenedLock, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 2, Restart: RestartDelayed, Fence: true, Lock: hardenedLock, Property: fencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Fence: true, Lock: hardenedLock, OmittedPart: clockCount, Property: fencingOrder}, modelOnly},
		{Scope{Nodes: 1, Attempts: 1, Property: leftKeys}, modelOnly},
		{Scope{Nodes: 3, Attempts: 1, Property: leftKeys}, modelOnly},
		{Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, Property: leftKeys}, ""},
		{Scope{Nodes: 3, Attempts: 1, Extensions: 1, Lock: hardenedLock, Property: leftKeys}, ""},
		{Scope{Nodes: 5, Attempts: 1, Lock: hardenedLock, Property: leftKeys}, ""},
		{Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, OmittedPart: tombstones, Property: leftKeys}, modelOnly},
		{Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock, OmittedPart: debts, Property: leftKeys}, modelOnly},
	}
}

func (s Scope) String() string {
	return strings.Join(append([]string{plural(s.Nodes, "node"), plural(s.Attempts, "attempt")}, s.options()...), ", ")
}

// options describes everything but the numbers of nodes and attempts.
func (s Scope) options() (parts []string) {
	if s.Lock != "" {
		parts = append(parts, s.Lock)
	}
	if s.OmittedPart != "" {
		parts = append(parts, "without "+s.OmittedPart)
	}
	if s.Extensions > 0 {
		parts = append(parts, plural(s.Extensions, "extension"))
	}
	if s.Crashes > 0 {
		parts = append(parts, plural(s.Crashes, "crash"), map[Restart]string{"": "restart without data", RestartEmpty: "restart without data",
			RestartDelayed: "delayed restart", restartEverySec: "fsync everysec", RestartAlways: "fsync always"}[s.Restart])
	}
	if s.Quarantine {
		parts = append(parts, "quarantine")
	}
	if s.Jumps > 0 {
		parts = append(parts, plural(s.Jumps, "clock jump"))
	}
	if s.Fence {
		parts = append(parts, "fencing tokens")
	}
	if s.Mistake != "" {
		parts = append(parts, s.Mistake)
	}
	return parts
}

func plural(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "sh"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Name returns a file name for the scope, without extension.
func (s Scope) Name() string {
	parts := []string{fmt.Sprintf("exhaust-%dn-%da", s.Nodes, s.Attempts)}
	for _, x := range []struct {
		n    int
		noun string
	}{{s.Extensions, "extend"}, {s.Crashes, "crash"}, {s.Jumps, "jump"}} {
		if x.n == 1 {
			parts = append(parts, x.noun)
		} else if x.n > 1 {
			parts = append(parts, fmt.Sprintf("%d-%s", x.n, x.noun))
		}
	}
	if s.Crashes > 0 && s.Restart != "" && s.Restart != RestartEmpty {
		parts = append(parts, string(s.Restart))
	}
	if s.Quarantine {
		parts = append(parts, "quarantine")
	}
	if s.Fence {
		parts = append(parts, "fence")
	}
	for _, part := range []string{s.Mistake, s.Lock, s.OmittedPart} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if s.Property != "" && s.Property != MutualExclusion {
		parts = append(parts, string(s.Property))
	}
	return strings.Join(parts, "-")
}
