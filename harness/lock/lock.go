// Package lock defines the interface between the harness and a lock under test, so that any lock
// can take the place of the reference implementation.
//
// A Factory makes a Lock from an Env: the nodes' addresses, a way to dial them, a clock, named
// random numbers and Settings. Lock and Handle are the minimum that every lock implements. Optional
// interfaces such as Extender, Fencer and Tokener describe additional features. A Kind is a factory
// with the lock's properties. Package lock/kinds lists the kinds by name.
//
// Deliberately missing: the protected resource, think and hold times, and faults. A lock that could
// see them could cheat.
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

// Kind describes a kind of lock: its factory, and what a backend must know about it.
type Kind struct {
	// Name is the name in histories and reports, for a kind that isn't listed in a table by name.
	Name string
	New  Factory
	Doc  string // short description
	// OwnTime means that the lock calls package time directly, as an unmodified library does, for
	// its clock, timers and context deadlines. Only a backend that can change the system clock can
	// give it a wrong time. Because the lock never calls Env.Now, it never reaches the point
	// during-acquire.
	OwnTime bool
	// Prefix is prepended to a lock's name to form the key on each node.
	Prefix string
	Belief Belief
	// Quorum returns the number of votes that the lock needs with the given number of nodes. If
	// nil, it is a majority.
	Quorum func(nodes int) int
	// OwnTokens means that the lock draws the values of its keys from a source that can't be
	// seeded. In simulated histories they are replaced by numbers.
	OwnTokens bool
	// OneNode means that the lock uses a single server and has no votes.
	OneNode bool
	// Distinct means that the lock rejects a configuration in which a node is listed twice.
	Distinct bool
	// Server is the software that the lock's nodes run, from Servers. "" means Redis.
	Server string
	Can    Features
	// Options are the settings specific to this kind.
	Options []Option
}

// Servers other than Redis that a lock may use. All servers of a run are members of a single store
// that reach consensus among themselves, so a lock may contact any of them.
const (
	Etcd   = "etcd"
	Consul = "consul"
)

// Servers lists all servers other than Redis.
func Servers() []string { return []string{Etcd, Consul} }

// Belief is the way in which a holder knows whether it still has the lock.
type Belief string

// The ways in which a lock may inform its holder.
const (
	ByDeadline Belief = ""       // by a deadline: Handle.Deadline
	BySignal   Belief = "signal" // by a notification when the lock is lost: the handle is a LossNotifier
	ByNothing  Belief = "none"   // not at all: the holder considers the lock held until it releases it, or until a HeldChecker reports otherwise
)

// Option is a setting of a single kind, which is stored in Settings.Options under its name.
type Option struct {
	Name, Doc string
	Values    []string // allowed values, the default first
	With      string   // OPTION=VALUE without which the option has no effect, or ""
	Forgoes   []string // properties that the kind doesn't promise with a value other than the default
}

// Features are what a kind supports besides acquire and release. A scenario that needs other
// features doesn't apply to the kind.
type Features struct {
	Extend     bool // handles implement Extender
	Limit      bool // ends a hold after Settings.Extends extensions
	Fence      bool // handles implement Fencer
	Reenter    bool // a holder can reacquire the lock, which fails with ErrNotHeld if the lock was lost, and must release it as often
	Sequential bool // can contact one node after another
}

// Env is the environment of one client's lock, simulated or real.
type Env struct {
	Client string
	Nodes  []Node
	// Dial opens a connection to a node's address. In the simulation it is the only way to connect.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Now is the client's own monotonic clock, and After its timer. They are never set, but faults
	// may make them run fast or slow. Only differences between readings of Now are meaningful.
	Now   func() time.Time
	After func(d time.Duration) <-chan time.Time
	// Wall is the client's wall clock. It runs at the same speed as Now, but may be wrong from the
	// start and may be set forward or back at any time. The Handle of a lock that computes its
	// deadline with this clock must implement WallClockHandle.
	Wall func() time.Time
	// Random returns a number that depends only on the run's seed, the client and name. Calls with
	// the same name return the same number, so use a different name for each draw.
	Random   func(name string) uint64
	Settings Settings
}

// Token returns the n-th unique value for a key: 20 random bytes in hexadecimal, drawn with the
// names token/n/0 to token/n/2.
func (e Env) Token(n int) string {
	word := func(i int) uint64 { return e.Random(fmt.Sprintf("token/%d/%d", n, i)) }
	return fmt.Sprintf("%016x%016x%08x", word(0), word(1), uint32(word(2)))
}

// Delay returns the n-th random delay between two attempts, drawn with the name retry/n. Random
// delays keep contenders that split a vote from colliding once more.
func (e Env) Delay(n int, shortest, longest time.Duration) time.Duration {
	span := uint64(max(longest-shortest, 0)) + 1
	return shortest + time.Duration(e.Random(fmt.Sprintf("retry/%d", n))%span)
}

// Node is one lock server.
type Node struct {
	Name string // n1, n2, …
	Addr string // host:port, for this client
}

// Settings is the lock section of a scenario. A zero duration or count means the kind's own
// default, but a drift of zero means no drift.
type Settings struct {
	Kind     string        `json:"kind"`
	Mistake  string        `json:"mistake,omitempty"` // the mistake of kind broken
	TTL      time.Duration `json:"ttl"`               // a key's time to live
	Timeout  time.Duration `json:"timeout"`           // timeout of a request to one node
	Drift    float64       `json:"drift"`             // allowance for clock drift, as a share of the TTL
	RetryMin time.Duration `json:"retryMin"`          // range of the random delay between attempts
	RetryMax time.Duration `json:"retryMax"`          //
	Tries    int           `json:"tries,omitempty"`   // attempts per Acquire; 0: until the context ends
	Ask      string        `json:"ask,omitempty"`     // multiplexed (default) or sequential
	Fence    bool          `json:"fence,omitempty"`   // issue fencing tokens
	Extends  int           `json:"extends,omitempty"` // maximum extensions per hold
	// Options are the kind's options by name. Options that are not listed have their defaults.
	Options      map[string]string `json:"options,omitempty"`
	Prefix       string            `json:"prefix,omitempty"`  // the kind's prefix
	Votes        int               `json:"votes,omitempty"`   // the kind's quorum; 0: a majority
	NoLossNotice bool              `json:"untold,omitempty"`  // the kind's belief is ByNothing
	Reenter      bool              `json:"reenter,omitempty"` // the kind is reentrant
}

// ForKind returns the settings with the values that follow from the kind and the number of nodes.
func (s Settings) ForKind(k Kind, nodes int) Settings {
	s.Prefix, s.Votes, s.NoLossNotice, s.Reenter = k.Prefix, 0, k.Belief == ByNothing, k.Can.Reenter
	if k.Quorum != nil {
		s.Votes = k.Quorum(nodes)
	}
	return s
}

// MaxPrefixLen is the maximum length of a kind's prefix in bytes.
const MaxPrefixLen = 100

// ValidPrefix reports whether p consists of at most MaxPrefixLen bytes of printable ASCII.
func ValidPrefix(p string) bool {
	return len(p) <= MaxPrefixLen && !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r > '~' })
}

// DerivedKind returns a kind with those properties that can be derived from stored settings.
func (s Settings) DerivedKind() Kind {
	k := Kind{Can: Features{Reenter: s.Reenter}}
	if ValidPrefix(s.Prefix) {
		k.Prefix = s.Prefix
	}
	if s.NoLossNotice {
		k.Belief = ByNothing
	}
	return k
}

// Lock is one client's lock.
type Lock interface {
	// Acquire blocks until it has the lock or gives up. An error means that the client does not
	// hold the lock.
	Acquire(ctx context.Context, key string) (Handle, error)
	// Close closes all connections. Handles are not used afterwards.
	Close() error
}

// Handle is one acquired lock.
type Handle interface {
	// Release releases the lock. ErrNotHeld means that a quorum of nodes replied that the lock was
	// not held. After any other error the outcome is unknown.
	Release(ctx context.Context) error
	// Deadline returns the instant on the clock Env.Now at which the client stops considering
	// itself the holder. If it is zero, the client considers itself the holder until it releases
	// the lock.
	Deadline() time.Time
}

// WallClockHandle is a Handle whose Deadline may be measured by Env.Wall. ByWall reports whether it
// is. The client then compares the Deadline with its wall clock before it writes.
type WallClockHandle interface {
	ByWall() bool
}

// Extender is a Handle that can be extended. ErrNotHeld has the same meaning as in Release.
type Extender interface {
	Extend(ctx context.Context) error
}

// Fencer is a Handle that may have a fencing token greater than those of all earlier holders, or 0
// if it has none.
type Fencer interface {
	Fence() int64
}

// LossNotifier is a Handle that notifies the client when the lock is lost, by closing Lost. Lost
// may also be closed after a release.
type LossNotifier interface {
	Lost() <-chan struct{}
}

// HeldChecker is a Handle that can check whether the lock is held. An error means that the answer
// is unknown. The client checks before it writes.
type HeldChecker interface {
	Held(ctx context.Context) (bool, error)
}

// ContextHandle is a Handle with a context that is canceled when the hold ends. The client relies
// on it in place of the Deadline: if the context has not ended just before a write, the client
// considers itself the holder, whatever its clock shows. The history records the Deadline as the
// lock's promise, and a context that contradicts it as an extension.
type ContextHandle interface {
	Context() context.Context
}

// Tokener is a Handle that knows the random value that it set on the nodes.
type Tokener interface {
	Token() string
}

// RenewalNotifier is a Handle that the library extends on its own. It sends on Renewed after the
// Deadline has changed.
type RenewalNotifier interface {
	Renewed() <-chan struct{}
}

// ErrBroken means that the lock can't be used at all. It ends the run with an error rather than
// being recorded as a result.
var ErrBroken = errors.New("the lock under test is broken")

// ErrNotHeld is a definite answer that the lock was not held when it was released or extended.
var ErrNotHeld = errors.New("lock is not held")

// Clients are a lock's connections to its nodes, which are closed together.
type Clients[C io.Closer] []C

// Close implements part of Lock.
func (all Clients[C]) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Defaults for libraries, if the scenario doesn't set a value: the TTL of the other kinds, and
// redsync's timeout and delays.
const (
	libraryTTL      = 10 * time.Second
	libraryTimeout  = 0.05 // of the TTL
	libraryRetryMin = 50 * time.Millisecond
	libraryRetryMax = 250 * time.Millisecond
)

// ForLibrary returns the settings for an unmodified library, with defaults for all values that are
// required. It returns an error for settings that no library supports: a mistake, fencing tokens, a
// limit of extensions, and sequential requests. name is the kind's name. nodes and ask are the last
// words of the messages for missing nodes and for an unsupported value of Ask.
func (e Env) ForLibrary(name, nodes, ask string) (Settings, error) {
	s := e.Settings
	switch {
	case len(e.Nodes) == 0:
		return s, fmt.Errorf("lock %s has no %s", name, nodes)
	case s.Mistake != "":
		return s, fmt.Errorf("lock %s does not support mistake %q: use kind broken", name, s.Mistake)
	case s.Fence:
		return s, fmt.Errorf("lock %s has no fencing tokens: remove fence", name)
	case s.Extends != 0:
		return s, fmt.Errorf("lock %s can't limit extensions: remove extends", name)
	case s.Ask != "" && s.Ask != "multiplexed":
		return s, fmt.Errorf("lock %s does not support ask: %q: %s", name, s.Ask, ask)
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
