// Package story makes a scenario of a path that package exhaust found.
//
// A path has an order and no time. Scenario gives its steps instants at which they can happen,
// and writes each message that arrives, or doesn't, as one that the network holds so long. The
// error ErrUntimed says that there are no such instants: the path needs time to pass otherwise
// than it can. What the scenario shows is for whoever runs it to say.
//
//	steps ──► attempts: which message counts for what   (attempts.go)
//	      ──► limits between instants, and a solution    (story.go, order.go, work.go, instants.go)
//	      ──► clients, and a plan of held messages       (plan.go, round.go)
//
// Only what depends on each other is in order: what one node sees, what a client knows when it
// decides, and a key's end after its TTL. Whatever else the search did one after the other
// happens as it may.
//
// Deliberately missing: running the scenario, and making it small, which package shrink does.
package exhaust

import (
	"errors"
	"fmt"
	"time"

	"lockpick/harness/scenario"
	"lockpick/redlock"
)

// errUntimed says that a path can't happen in time: a search goes on for another.
var errUntimed = errors.New("no instants fit the path")

// Settings of the scenarios.
const (
	storyTtl     = 10 * time.Second
	storyDrift   = 0.01
	storyTimeout = 2 * time.Second
	retry        = 50 * time.Millisecond
	overlap      = time.Second // both believe at least so long
)

// pace is how far apart things are at least that must be in order: longer than anything takes
// that the network does not hold.
type pace struct {
	gap   time.Duration
	back  time.Duration // from a crash until its node can be spoken to
	sync  time.Duration // after a change it is on disk for certain
	scale float64       // of all this on real servers, where a gap is a tenth of a second; 0: real time can't promise so short a one
}

// paces are tried in turn, so that a story has as much room as it can have.
var paces = []pace{realPace(8), realPace(4), realPace(2), realPace(1), {gap: 50 * time.Millisecond, back: 50 * time.Millisecond, sync: 3 * time.Second}}

// realPace is one for servers and clients that are processes, so many times as slow as they can be
// told to act one after the other.
func realPace(times int) pace {
	slow := func(d time.Duration) time.Duration { return d * time.Duration(times) }
	return pace{slow(100 * time.Millisecond), slow(400 * time.Millisecond), slow(3 * time.Second), 1 / float64(times)}
}

// window is how long a client may believe, from the start of its attempt.
func storyWindow() time.Duration { return storyTtl - redlock.Drift(storyTtl, storyDrift) }

// Times that the instants of several steps hang on, to be tried in turn: how long a client
// holds a lock that it releases, and after how long both extend theirs.
var (
	sections = []time.Duration{1500 * time.Millisecond, 7500 * time.Millisecond}
	extends  = []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 7 * time.Second}
)

// Scenario is a path of a scope as a scenario of that name, which expects that the scope's property
// is violated. The names that a file may use are the caller's.
func ScenarioOf(name string, scope Scope, path []Step, known scenario.Known) (scenario.Scenario, error) {
	for _, p := range paces {
		for _, section := range sections {
			for _, after := range extends[:1+scope.Extends*(len(extends)-1)] {
				t := &telling{scope: scope, path: path, pace: p, after: after, section: section}
				if err := t.read(); err != nil {
					return scenario.Scenario{}, err
				}
				if (limits{t}).order(); t.solve() {
					return storyPlay{t}.scenario(name, known)
				}
			}
		}
	}
	return scenario.Scenario{}, fmt.Errorf("%w: it takes a client or a request that is later than it can be", errUntimed)
}

// telling is a path that is given instants.
type telling struct {
	instants
	pace
	scope    Scope
	path     []Step
	section  time.Duration // a hold that ends, if nothing is extended in it
	after    time.Duration // from the grant to the extension
	attempts [2][]*attempt
	when     []instant // of each step
	faults   []faulty
}

// limits puts the instants of a telling in order.
type limits struct{ *telling }

// play makes clients and a plan of a telling whose instants are known.
type storyPlay struct{ *telling }

// faulty is a crash or a jump.
type faulty struct {
	Step
	at    instant
	stall instant // with EverySec: from here on nothing is synced
}

// attempt is one of a client's, with the hold that came of it.
type attempt struct {
	start, end    instant // the SETs are sent, the client has decided
	won, late     bool    // late: after its own window
	pause         instant // of the client, where it is late: once its round is over
	extend        instant // the extension begins
	extends       bool
	extended      instant          // it ends
	longer, lost  bool             // with success, or with a majority against it
	release       instant          // the DELs are sent
	ended         bool             // they are: it failed, or was held no longer
	set, ext, del map[int]delivery // by node

	decides int // the node whose vote was the last that it needed, of a lock that returns at a quorum

	counted       bool    // the token is by the counts of the nodes that were heard
	heard, behind uint8   // a bit each
	raised        []raise // the token has been written back
	sent          instant // the write is, with ResourceSafety
	write         *delivery
	refused       bool // the read was, and nothing is written
	over          int  // windows that are, so far
}

// raise is a token that arrives at a node.
type raise struct {
	node int
	at   instant
}

// delivery is a message that arrives.
type delivery struct {
	at     instant
	yes    bool
	inTime bool // before its round ended
}
