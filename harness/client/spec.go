package client

import (
	"context"
	"net"
	"slices"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// Points are the places at which a client can be stopped exactly. At a point
// that is armed it says so and waits until the harness lets it go on.
const (
	DuringAcquire = "during-acquire"          // inside an attempt's second clock reading, just before the clock is read
	AfterAcquire  = "after-acquire"           // the lock is held; nothing was read yet
	betweenCheck  = "between-check-and-write" // the client found its lease valid and has not written yet
	BeforeRelease = "before-release"          // the work is done; the release was not sent yet
)

// Points lists the points in the order in which a cycle passes them.
var Points = []string{DuringAcquire, AfterAcquire, betweenCheck, BeforeRelease}

// Fence modes of the resource.
const (
	FenceNone     = "none"          // every write is applied
	FenceToken    = "token"         // tokens below the largest seen are refused (Kleppmann 2016)
	FenceCounter  = "counter"       // the same, but the read itself draws the token, after the acquire (antirez 2016)
	FenceCheckSet = "check-and-set" // one script claims and reads; a write needs its claim (antirez 2016)
)

// Spec is what one client is to do. It is plain data: a subprocess gets it as
// one JSON line. Durations are already scaled.
type Spec struct {
	Name      string        `json:"name"` // c1, c2, …
	Seed      uint64        `json:"seed"` // the run's
	Lock      lock.Settings `json:"lock"`
	Nodes     []lock.Node   `json:"nodes"`               // filled in by the backend
	Addresses []string      `json:"addresses,omitempty"` // names of the nodes that the lock is told of; nil: all
	Resource  lock.Node     `json:"resource"`            // filled in by the backend
	Keys      []string      `json:"keys"`                // the locks that it works on, in turn
	Fence     string        `json:"fence"`               // fence mode of the resource
	Writes    int           `json:"writes"`              // writes in one critical section
	Cycles    int           `json:"cycles"`              // how often it works; 0: until Until
	Until     time.Duration `json:"until"`               // true time after which it starts nothing new; 0: none
	Start     time.Duration `json:"start,omitempty"`     // true time at which it was told to start; 0: that took it no time
	Think     Range         `json:"think"`               // before each cycle
	Hold      Range         `json:"hold"`                // between read and check
	Prepare   Range         `json:"prepare"`             // between check and write
	Cancel    time.Duration `json:"cancel,omitempty"`    // after which it cancels an acquire that has not returned; 0: never
	Extend    time.Duration `json:"extend"`              // how often it extends while it works; 0: never
	Reenter   int           `json:"reenter,omitempty"`   // how many times it acquires again what it holds, for half of the hold
	NoCheck   bool          `json:"noCheck"`             // it does not look at its deadline before it writes
	Armed     []Point       `json:"armed"`               // points at which it stops
}

// configured lists the nodes that the lock is told of.
func (s Spec) configured() []lock.Node {
	if s.Addresses == nil {
		return s.Nodes
	}
	var out []lock.Node
	for _, name := range s.Addresses {
		if i := slices.IndexFunc(s.Nodes, func(n lock.Node) bool { return n.Name == name }); i >= 0 {
			out = append(out, s.Nodes[i])
		}
	}
	return out
}

// Range is a span from which a duration is drawn, both ends included.
type Range struct {
	Min time.Duration `json:"min"`
	Max time.Duration `json:"max"`
}

// Point is one occurrence of a point, counted from 1; Nth 0 is every one.
type Point struct {
	Name string `json:"name"`
	Nth  int    `json:"nth"`
}

// Env is the world of one client: in the simulation made of virtual time and
// simulated connections, in a subprocess of the real ones.
type Env struct {
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	Now   func() time.Time                       // own monotonic clock
	Wall  func() time.Time                       // own wall clock
	After func(d time.Duration) <-chan time.Time // own timer
	True  func() time.Duration                   // true time since the run began
	Emit  func(history.Event)                    // record a fact; the client sets T itself
	// At blocks while the harness does what it planned for this occurrence of an armed point.
	At func(point string)
	// Lock makes the lock under test.
	Lock lock.Factory
}
