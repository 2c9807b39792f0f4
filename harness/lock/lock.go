// Package lock defines the interface between the harness and a lock under test, so that any lock
// can take the place of the reference implementation.
//
// A Factory makes a Lock from an Env: the nodes' addresses, a way to dial them, a clock, named
// random numbers and Settings. Every lock implements Lock and Handle. Optional interfaces such as
// Extender, Fencer and Tokener describe additional features. A Kind is a factory with the lock's
// properties. Package lock/kinds lists the kinds by name.
//
// Deliberately missing: the protected resource, think times and hold times, and faults. A lock that
// could see them could cheat.
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

// Kind describes a kind of lock: its factory, and what a backend needs to know about it.
type Kind struct {
	// Name is the kind's name in histories and reports. Kinds listed in a table leave it empty.
	Name string
	New  Factory
	Doc  string // short description
	// OwnTime means that the lock calls package time directly for its clock, timers and context
	// deadlines, as an unmodified library does. Only a backend that can change the system clock
	// can give it a wrong time. Because the lock never calls Env.Now, it never reaches the point
	// during-acquire.
	OwnTime bool
	// Prefix is prepended to a lock's name to form the key on each node.
	Prefix string
	Belief Belief
	// Quorum returns the number of votes that the lock needs with the given number of nodes. If
	// Quorum is nil, the lock needs a majority.
	Quorum func(nodes int) int
	// OwnTokens means that the lock draws its keys' values from a source that can't be seeded.
	// Simulated histories contain numbered placeholders instead.
	OwnTokens bool
	// OneNode means that the lock uses a single server and has no votes.
	OneNode bool
	// Distinct means that the lock rejects a configuration in which a node is listed twice.
	Distinct bool
	// Server is the software on the lock's nodes: an element of Servers, or "" for Redis.
	Server string
	Can    Features
	// Options are the settings specific to this kind.
	Options []Option
}

// Servers other than Redis that a lock may use. In a run, all servers form a single store that
// reaches consensus, so a lock may contact any of them.
const (
	Etcd   = "etcd"
	Consul = "consul"
)

// Servers lists all servers other than Redis.
func Servers() []string { return []string{Etcd, Consul} }

// Belief describes how a holder knows whether it still has the lock.
type Belief string

// Possible values of Belief.
const (
	ByDeadline Belief = ""       // by a deadline: Handle.Deadline
	BySignal   Belief = "signal" // by a notification when the lock is lost: the handle is a LossNotifier
	ByNothing  Belief = "none"   // not at all: the holder believes that it has the lock until it releases the lock, or until a HeldChecker reports otherwise
)

// Option is a setting of a single kind. Its value is stored in Settings.Options under the option's
// name.
type Option struct {
	Name, Doc string
	Values    []string // allowed values, the default first
	With      string   // OPTION=VALUE without which the option has no effect, or ""
	Forgoes   []string // properties that the kind doesn't promise with a non-default value
}

// Features lists what a kind supports besides acquire and release. A scenario that needs other
// features doesn't apply to the kind.
type Features struct {
	Extend     bool // handles implement Extender
	Limit      bool // a hold ends after Settings.Extends extensions
	Fence      bool // handles implement Fencer
	Reenter    bool // a holder can acquire the lock again, which fails with ErrNotHeld if the lock was lost, and must release it once for each acquire
	Sequential bool // the lock can contact one node after another
}

// Env is the environment of one client's lock, simulated or real.
type Env struct {
	Client string
	Nodes  []Node
	// Dial opens a connection to a node's address. In the simulation it is the only way to connect.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Now reads the client's own monotonic clock, and After is a timer on that clock. The clock is
	// never set, but faults may make it run fast or slow. Only differences between readings are
	// meaningful.
	Now   func() time.Time
	After func(d time.Duration) <-chan time.Time
	// Wall reads the client's wall clock. It runs at the same rate as Now, but may be wrong from
	// the start and may be set forward or back at any time. If a lock computes its deadline with
	// this clock, its Handle must implement WallClockHandle.
	Wall func() time.Time
	// Random returns a number that depends only on the run's seed, the client and name. Calls with
	// the same name return the same number, so use a different name for each draw.
	Random   func(name string) uint64
	Settings Settings
}

// Token returns the n-th unique value for a key: 20 random bytes in hexadecimal, drawn with the
// names token/n/0 to token/n/2.
func (e Env) Token(n int) string {
	randomWord := func(i int) uint64 { return e.Random(fmt.Sprintf("token/%d/%d", n, i)) }
	return fmt.Sprintf("%016x%016x%08x", randomWord(0), randomWord(1), uint32(randomWord(2)))
}

// Delay returns the n-th random delay between two attempts, drawn with the name retry/n. Random
// delays keep contenders that split a vote from colliding again.
func (e Env) Delay(n int, shortest, longest time.Duration) time.Duration {
	width := uint64(max(longest-shortest, 0)) + 1
	return shortest + time.Duration(e.Random(fmt.Sprintf("retry/%d", n))%width)
}

// Node is one lock server.
type Node struct {
	Name string // n1, n2, …
	Addr string // host:port, as seen by this client
}

// Settings is the lock section of a scenario. A zero duration or count means the kind's own
// default, but a Drift of zero means no drift.
type Settings struct {
	Kind     string        `json:"kind"`
	Mistake  string        `json:"mistake,omitempty"` // mistake made by kind "broken"
	TTL      time.Duration `json:"ttl"`               // time to live of a key
	Timeout  time.Duration `json:"timeout"`           // timeout of a request to one node
	Drift    float64       `json:"drift"`             // allowance for clock drift, as a share of the TTL
	RetryMin time.Duration `json:"retryMin"`          // range of the random delay between attempts
	RetryMax time.Duration `json:"retryMax"`
	Tries    int           `json:"tries,omitempty"`   // attempts per Acquire; 0: until the context ends
	Ask      string        `json:"ask,omitempty"`     // multiplexed (default) or sequential
	Fence    bool          `json:"fence,omitempty"`   // issue fencing tokens
	Extends  int           `json:"extends,omitempty"` // maximum extensions per hold
	// Options holds the kind's options by name. Options not listed have their default values.
	Options      map[string]string `json:"options,omitempty"`
	Prefix       string            `json:"prefix,omitempty"`  // the kind's prefix
	Votes        int               `json:"votes,omitempty"`   // the kind's quorum; 0: a majority
	NoLossNotice bool              `json:"untold,omitempty"`  // the kind's Belief is ByNothing
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

// MaxPrefixLen is the maximum length of a kind's prefix, in bytes.
const MaxPrefixLen = 100

// ValidPrefix reports whether p consists of at most MaxPrefixLen bytes of printable ASCII.
func ValidPrefix(p string) bool {
	return len(p) <= MaxPrefixLen && !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r > '~' })
}

// DerivedKind returns a kind with the properties that can be derived from stored settings.
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
	// Acquire blocks until it has the lock or gives up. If it returns an error, the client does not
	// hold the lock.
	Acquire(ctx context.Context, key string) (Handle, error)
	// Close closes all connections. Handles must not be used afterwards.
	Close() error
}

// Handle is one acquired lock.
type Handle interface {
	// Release releases the lock. It returns ErrNotHeld if a quorum of nodes replied that the lock
	// was not held. After any other error, the outcome is unknown.
	Release(ctx context.Context) error
	// Deadline returns the instant, on the clock Env.Now, when the client stops considering itself
	// the holder. If it is zero, the client considers itself the holder until it releases the lock.
	Deadline() time.Time
}

// WallClockHandle is a Handle whose Deadline may be on the clock Env.Wall; ByWall reports whether
// it is. The client then compares the Deadline with its wall clock before each write.
type WallClockHandle interface {
	ByWall() bool
}

// Extender is a Handle that can be extended. Extend returns ErrNotHeld under the same condition as
// Release.
type Extender interface {
	Extend(ctx context.Context) error
}

// Fencer is a Handle that may have a fencing token. Fence returns 0 if there is none; otherwise the
// token is greater than those of all earlier holders.
type Fencer interface {
	Fence() int64
}

// LossNotifier is a Handle that closes the channel Lost when the lock is lost. It may close Lost
// after a release, too.
type LossNotifier interface {
	Lost() <-chan struct{}
}

// HeldChecker is a Handle that can check whether the lock is held. An error means that the answer
// is unknown. The client checks before each write.
type HeldChecker interface {
	Held(ctx context.Context) (bool, error)
}

// ContextHandle is a Handle with a context that is canceled when the hold ends. The client relies
// on it instead of the Deadline: if the context has not ended just before a write, the client
// considers itself the holder, whatever its clock shows. The history records the Deadline as the
// lock's promise, and a context that contradicts it as an extension.
type ContextHandle interface {
	Context() context.Context
}

// Tokener is a Handle that knows the random value that it set on the nodes.
type Tokener interface {
	Token() string
}

// RenewalNotifier is a Handle that the library extends on its own. It sends on the channel Renewed
// after the Deadline has changed.
type RenewalNotifier interface {
	Renewed() <-chan struct{}
}

// ErrBroken means that the lock can't be used at all. It ends the run with an error instead of
// being recorded as a result.
var ErrBroken = errors.New("the lock under test is broken")

// ErrNotHeld is the definite answer that the lock was not held when it was to be released or
// extended.
var ErrNotHeld = errors.New("lock is not held")

// Clients holds a lock's connections to its nodes, which are closed together.
type Clients[C io.Closer] []C

// Close closes all connections. It implements part of Lock.
func (all Clients[C]) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Defaults for libraries, used if the scenario doesn't set a value: the other kinds' default TTL,
// and redsync's timeout and delays.
const (
	libraryTTL      = 10 * time.Second
	libraryTimeout  = 0.05 // fraction of the TTL
	libraryRetryMin = 50 * time.Millisecond
	libraryRetryMax = 250 * time.Millisecond
)

// ForLibrary returns the settings for an unmodified library, with defaults for all required values.
// It returns an error for settings that no library supports: a mistake, fencing tokens, a limit on
// extensions, and sequential requests. name is the kind's name. nodesHint and askHint end the
// messages for missing nodes and for an unsupported value of Ask.
func (e Env) ForLibrary(name, nodesHint, askHint string) (Settings, error) {
	s := e.Settings
	switch {
	case len(e.Nodes) == 0:
		return s, fmt.Errorf("lock %q has no %s", name, nodesHint)
	case s.Mistake != "":
		return s, fmt.Errorf("lock %q does not support mistake %q: use kind \"broken\"", name, s.Mistake)
	case s.Fence:
		return s, fmt.Errorf("lock %q has no fencing tokens: remove fence", name)
	case s.Extends != 0:
		return s, fmt.Errorf("lock %q can't limit extensions: remove extends", name)
	case s.Ask != "" && s.Ask != "multiplexed":
		return s, fmt.Errorf("lock %q does not support ask: %q: %s", name, s.Ask, askHint)
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
