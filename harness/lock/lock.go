// Package lock says what a lock under test is given and what it must offer, so
// that any lock can stand where the reference stands.
//
// A Factory makes a Lock from an Env: the nodes' addresses, how to dial them, a
// clock, named randomness and Settings. Lock and Handle are the least that a
// lock has; Extender, Fencer and Tokener are powers that some have besides.
// A Kind is a factory and how it tells the time; package lock/kinds lists them by name.
//
// Deliberately missing: the protected resource, think and hold times, faults. A
// lock that could see them could cheat.
package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"time"
)

// Factory makes one client's lock.
type Factory func(Env) (Lock, error)

// Kind is a sort of lock: how one is made, and what a backend must know of it.
type Kind struct {
	// Name is what records and reports call it, where it is in no table that has its name.
	Name string
	New  Factory
	Doc  string // what it is, in a few words
	// OwnTime: it reads package time itself, as a library does that nobody changed: its clock,
	// timers and deadlines of contexts. Only a backend that turns that clock can give it a wrong
	// one. As it never reads Env.Now, it never comes to the point during-acquire.
	OwnTime bool
	// Prefix is what it puts before a lock's name to make a key of it: one on each node.
	Prefix string
	Belief Belief
	// Quorum is how many votes of so many nodes it needs; nil: a majority, and one of one.
	Quorum func(nodes int) int
	// OwnTokens: it draws the values of its keys from a source that nobody can seed. In what the
	// simulation records, numbers stand in their place.
	OwnTokens bool
	// OneNode: it is on one server, and knows no votes.
	OneNode bool
	// Distinct: it refuses a configuration in which one node stands twice.
	Distinct bool
	// Server is what its nodes run, of Servers; "": Redis.
	Server string
	Can    Powers
	// Options are the settings that only this kind has.
	Options []Option
}

// Servers that a lock may be on besides Redis. Those of a run are members of one store, which
// agree among themselves: a lock asks any of them.
const (
	Etcd   = "etcd"
	Consul = "consul"
)

// Servers lists them.
func Servers() []string { return []string{Etcd, Consul} }

// Belief is by what a holder knows how long it has the lock.
type Belief string

// What a lock may give its holder to know that by.
const (
	ByDeadline Belief = ""       // an instant: Handle.Deadline
	BySignal   Belief = "signal" // its word when the lock is lost: the handle is a Loser
	ByNothing  Belief = "none"   // nothing: it lasts until it is given back, or until a Holder says that it isn't held
)

// Option is a setting of one kind, which Settings.Options has by its name.
type Option struct {
	Name, Doc string
	Values    []string // that it can have, the default first
	With      string   // OPTION=VALUE without which it changes nothing; "": none
	Forgoes   []string // properties that the kind does not promise with another value than the default
}

// Powers is what a kind can do besides acquire and release. A scenario that asks for more is
// not for it.
type Powers struct {
	Extend     bool // its handles are Extenders
	Limit      bool // it ends a hold after Settings.Extends extensions
	Fence      bool // its handles are Fencers
	Reenter    bool // a client that holds it can acquire it again, and releases it as often; ErrNotHeld where it turns out to be lost
	Sequential bool // it can ask one node after another
}

// Env is the world as one client's lock sees it, simulated or real.
type Env struct {
	Client string
	Nodes  []Node
	// Dial opens a connection to a node's address. The simulation has no other way.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Now is the client's own monotonic clock, and After its timer. Nobody sets them, but
	// they may run fast or slow: that is the point. Only differences of Now mean anything.
	Now   func() time.Time
	After func(d time.Duration) <-chan time.Time
	// Wall is the client's wall clock. It runs as fast as Now, and besides it may be
	// wrong from the start, and be set forward or back at any time. A lock that keeps its
	// deadline by it says so: its Handle is a WallClocked.
	Wall func() time.Time
	// Random returns a number that depends on the run's seed, the client and name only. Every
	// call with one name gives the same number; give each draw its own name.
	Random   func(name string) uint64
	Settings Settings
}

// Token is a value for a key that nobody else draws, the n-th: 20 random bytes in hexadecimal
// digits, of the names token/n/0 to token/n/2.
func (e Env) Token(n int) string {
	word := func(i int) uint64 { return e.Random(fmt.Sprintf("token/%d/%d", n, i)) }
	return fmt.Sprintf("%016x%016x%08x", word(0), word(1), uint32(word(2)))
}

// Delay is a random one between two attempts, the n-th, of the name retry/n, so that
// contenders who split a vote do not meet again.
func (e Env) Delay(n int, shortest, longest time.Duration) time.Duration {
	span := uint64(max(longest-shortest, 0)) + 1
	return shortest + time.Duration(e.Random(fmt.Sprintf("retry/%d", n))%span)
}

// Node is one lock server.
type Node struct {
	Name string // n1, n2, …
	Addr string // host:port, for this client
}

// Settings is what a scenario's lock section says. A zero duration or count
// means the kind's own default; a drift of zero is one.
type Settings struct {
	Kind     string        `json:"kind"`
	Mistake  string        `json:"mistake,omitempty"` // of kind broken: what it does wrong
	TTL      time.Duration `json:"ttl"`               // a key's time to live
	Timeout  time.Duration `json:"timeout"`           // bound of one request to one node
	Drift    float64       `json:"drift"`             // clock drift allowed for, as a share of the TTL
	RetryMin time.Duration `json:"retryMin"`          // bounds of the random delay between attempts
	RetryMax time.Duration `json:"retryMax"`          //
	Tries    int           `json:"tries,omitempty"`   // attempts in one Acquire; 0: until the context ends
	Ask      string        `json:"ask,omitempty"`     // multiplexed (default) or sequential
	Fence    bool          `json:"fence,omitempty"`   // hand out fencing tokens
	Extends  int           `json:"extends,omitempty"` // most extensions of one hold
	// Options are those of the kind, by name. What isn't there has its default.
	Options map[string]string `json:"options,omitempty"`
	Prefix  string            `json:"prefix,omitempty"`  // the kind's
	Votes   int               `json:"votes,omitempty"`   // the kind's quorum; 0: a majority
	Untold  bool              `json:"untold,omitempty"`  // the kind's belief is by nothing
	Reenter bool              `json:"reenter,omitempty"` // the kind can be acquired again by its holder
}

// Of is the settings with what follows from their kind, for a lock on so many nodes.
func (s Settings) Of(k Kind, nodes int) Settings {
	s.Prefix, s.Votes, s.Untold, s.Reenter = k.Prefix, 0, k.Belief == ByNothing, k.Can.Reenter
	if k.Quorum != nil {
		s.Votes = k.Quorum(nodes)
	}
	return s
}

// MostPrefix is how long a kind's prefix may be, in bytes.
const MostPrefix = 100

// PrefixFits says whether a kind may put p before keys: printable ASCII, and no more than MostPrefix.
func PrefixFits(p string) bool {
	return len(p) <= MostPrefix && !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r > '~' })
}

// Kindred is a kind from which settings that a run has left follow: what they tell of their own.
func (s Settings) Kindred() Kind {
	k := Kind{Can: Powers{Reenter: s.Reenter}}
	if PrefixFits(s.Prefix) {
		k.Prefix = s.Prefix
	}
	if s.Untold {
		k.Belief = ByNothing
	}
	return k
}

// Lock is a lock as one client has it.
type Lock interface {
	// Acquire blocks until it has the lock or gives up. An error means that the
	// client does not hold it.
	Acquire(ctx context.Context, key string) (Handle, error)
	// Close frees connections. Handles are not used afterwards.
	Close() error
}

// Handle is one acquired lock.
type Handle interface {
	// Release gives it back. ErrNotHeld says that a quorum of nodes answered that
	// it was not held; any other error leaves the outcome open.
	Release(ctx context.Context) error
	// Deadline is the instant, by Env.Now, from which the client no longer believes
	// that it holds the lock. Zero: it believes so until it releases.
	Deadline() time.Time
}

// WallClocked is a Handle that can have its Deadline by Env.Wall; ByWall says
// whether it has. The client then looks at its wall clock before it writes.
type WallClocked interface {
	ByWall() bool
}

// Extender is a Handle that can be extended. ErrNotHeld as in Release.
type Extender interface {
	Extend(ctx context.Context) error
}

// Fencer is a Handle that may have a fencing token, above every earlier holder's; 0: it has none.
type Fencer interface {
	Fence() int64
}

// Loser is a Handle whose lock tells the client, unasked, that it is lost: Lost is closed
// then. After a release it may be closed, too.
type Loser interface {
	Lost() <-chan struct{}
}

// Holder is a Handle that can be asked whether the lock is held. An error leaves that open.
// The client asks before it writes.
type Holder interface {
	Held(ctx context.Context) (bool, error)
}

// Contexter is a Handle with a context that ends when the hold does, by which the client goes
// instead of the Deadline: before it writes it asks the context, and if that has not ended it
// believes that it holds the lock, whatever its clock shows. The record keeps the Deadline as what
// the lock promised, and an answer that contradicts it as an extension.
type Contexter interface {
	Context() context.Context
}

// Tokener is a Handle that knows the random value it set on the nodes.
type Tokener interface {
	Token() string
}

// Renewer is a Handle that the library extends by itself, and that tells when it has: Deadline
// is another then.
type Renewer interface {
	Renewed() <-chan struct{}
}

// ErrBroken says that the lock can't be worked with, which is no fact of the run but its end.
var ErrBroken = errors.New("the lock under test is broken")

// ErrNotHeld is a definite "no": the lock was not held when it was to be
// released or extended.
var ErrNotHeld = errors.New("lock is not held")

// Clients are what a lock asks its nodes by, and closes with them.
type Clients[C io.Closer] []C

// Close is that of a Lock.
func (all Clients[C]) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// What a library gets where the scenario says nothing: the TTL of the other kinds, and what
// redsync has for itself.
const (
	libraryTTL      = 10 * time.Second
	libraryTimeout  = 0.05 // of the TTL
	libraryRetryMin = 50 * time.Millisecond
	libraryRetryMax = 250 * time.Millisecond
)

// ForLibrary is the settings for a lock that is a library as it is published, with a value
// for each that it can't do without. The error is of what no library has: a mistake, fencing
// tokens, a limit of extensions, and nodes that are asked in turn. name is the kind's; nodes
// and ask say what to do where there is none, and where Ask is another.
func (e Env) ForLibrary(name, nodes, ask string) (Settings, error) {
	s := e.Settings
	switch {
	case len(e.Nodes) == 0:
		return s, fmt.Errorf("lock %s has no %s", name, nodes)
	case s.Mistake != "":
		return s, fmt.Errorf("lock %s makes no mistake %q: that is for kind broken", name, s.Mistake)
	case s.Fence:
		return s, fmt.Errorf("lock %s has no fencing tokens: leave fence out", name)
	case s.Extends != 0:
		return s, fmt.Errorf("lock %s has no limit of extensions: leave extends out", name)
	case s.Ask != "" && s.Ask != "multiplexed":
		return s, fmt.Errorf("lock %s can't ask %q: %s", name, s.Ask, ask)
	}
	if s.TTL == 0 {
		s.TTL = libraryTTL
	}
	if s.Timeout == 0 {
		s.Timeout = time.Duration(libraryTimeout * float64(s.TTL))
	}
	if s.RetryMax == 0 {
		s.RetryMin, s.RetryMax = libraryRetryMin, libraryRetryMax
	}
	if s.Tries == 0 {
		s.Tries = math.MaxInt
	}
	return s, nil
}
