package harness

import (
	"context"
	"errors"
	"slices"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Backend makes clusters: simulated, of processes, of containers.
type Backend interface {
	Name() string
	// Probe says what it can do on this machine. The capability "run" is whether it
	// can run at all; the others are named by nemesis.Capability.
	Probe(ctx context.Context) []Capability
	// Run sets a cluster up for the scenario, calls body with it, and takes it down
	// again, whatever happens. The backend calls the engine, since a virtual-time
	// bubble must enclose it. Links record each lock command in rec.
	Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body Body) error
}

// Sparer is a backend that can run a seed again as if some facts of keys' lives had not been.
type Sparer interface {
	// Sparing is the backend whose nodes ask spare before a key on a lock node ends or changes
	// (history.OpLife) whether that is not to be. All before the first yes is the same as without.
	Sparing(spare func(history.Event) bool) Backend
}

// Body is what is done on a cluster. Its context is the backend's: one from
// outside has no meaning in virtual time.
type Body func(ctx context.Context, c Cluster) error

// Capability is something a backend can do, or why it can't.
type Capability struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why it isn't available
	Remedy    string `json:"remedy,omitempty"` // what to do about it
	// Unknown: it could not be found out, and Reason says why. A run that needs it is an error, not a skip.
	Unknown bool `json:"unknown,omitempty"`
}

// stocked is a cluster that knows what its nodes run, as in "redis 7.0.15, image redis:7".
type stocked interface{ Stock() string }

// telling is a cluster that knows whether its nodes tell of each key's life (history.Life),
// and what a right wall clock shows at T = 0, in nanoseconds since 1970.
type telling interface {
	TellsLife() bool
	Epoch() int64
}

// PowersOf tells of each capability that faults need whether a cluster has it, by its type:
// what implements the interface that a fault's file declares. Why it lacks one, own says,
// where the backend has better words.
func PowersOf(cluster any, own ...Capability) (all []Capability) {
	names, has := nemesis.Capabilities(cluster)
	for _, name := range names {
		c := Capability{Name: name, Available: has[name]}
		if !c.Available {
			c.Reason, c.Remedy = "this backend does not have it", "run it on a backend that has it, see lockpick doctor"
		}
		if i := slices.IndexFunc(own, func(o Capability) bool { return o.Name == name }); i >= 0 {
			c = own[i]
		}
		all = append(all, c)
	}
	return all
}

// ErrKilled is what RunClient returns for a client that the nemesis killed.
var ErrKilled = errors.New("client was killed")

// CanRun is the capability without which a backend is of no use.
const CanRun = "run"

// Cluster is a set-up cluster while the engine uses it. Its powers are the
// optional interfaces that package nemesis declares.
type Cluster interface {
	// Now is true time since the run began.
	Now() time.Duration
	// At calls f, in a goroutine of its own, once true time is t or as soon as it is past.
	At(t time.Duration, f func())
	// RunClient runs a client and returns when it has ended or was killed. at is called
	// each time it comes to a point that is armed, and the client waits until it returns.
	RunClient(ctx context.Context, s client.Spec, at func(point string)) error
	// Resource sends one command to the protected resource, past all links and faults,
	// and returns its reply. It is used before the clients start and after they ended.
	Resource(ctx context.Context, args ...string) (any, error)
	// StampError bounds the error of true stamps (ε).
	StampError() time.Duration
}
