// Package harness is the engine: it interprets a scenario on a Cluster and
// records a history.
//
// A Backend makes a Cluster and calls the engine with it; Run joins the two.
//
//	harness.go  one run, from its first event to its last; what back ends and clusters offer
//	clients.go  who contends; which fault waits for which
//	faults.go   what triggers the steps of the plan, what they do to the cluster, and what is
//	            recorded although nobody planned it
//
// What lies around it:
//
//	scenario/  one experiment as plain data, and the YAML file that it is written in
//	history/   the facts: Event, Params, the recorder and the reader
//	resp/      lock commands read off the wire
//	lock/      what a lock under test gets and offers; lock/kinds is the table of locks
//	client/    the program that one contender runs, and the protected resource
//	sim/       backend: virtual time, simulated network and Redis nodes, deterministic
//	process/   backend: real redis-servers, clients as subprocesses
//	real/      what real backends share: child processes, links
//
// The engine looks at the time only through Cluster.Now and Cluster.At, so that
// the same code runs in virtual and in real time.
//
// A fault lasts as long as planned from when it is in force, which may be late. So
// that those of a plan hit a target in their order all the same, one that by the plan
// begins after another's end waits for that end, and its invoke event is of then. One
// that by the plan begins while another is in force does not wait.
//
// What nobody planned is recorded as well: where a real machine stalled by itself,
// and what somebody else did to a process of the run.
//
// Deliberately missing: any backend, any checker, any report, any file. The engine knows
// what was planned and what happened, not what it means.
package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Run runs a scenario once on a backend and records what happens. An error means
// that the backend or a client program could not do its part; the record then
// holds what was seen so far.
func Run(ctx context.Context, b Backend, s scenario.Scenario, seed uint64, rec *history.Recorder) error {
	return RunAtMost(ctx, b, s, seed, rec, 0)
}

// RunAtMost is Run that stops a run at that many events; 0 is any number.
func RunAtMost(ctx context.Context, b Backend, s scenario.Scenario, seed uint64, rec *history.Recorder, most int) error {
	s = s.Drawn(seed)
	var e *engine
	rec.AwaitBegin()
	err := b.Run(ctx, s, seed, rec, func(ctx context.Context, c Cluster) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		e = newEngine(s, seed, c, rec, most)
		rec.Watch(e.see)
		rec.Rename(s.Lock.Prefix, s.KeyNames())
		params := paramsOf(s, seed, b.Name(), c)
		e.rec.add(history.Event{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: &params})
		return e.run(ctx)
	})
	if e != nil {
		e.end(err)
	}
	if err != nil {
		err = fmt.Errorf("run %s on %s with seed %d: %w", s.ID(), b.Name(), seed, err)
	}
	return errors.Join(err, rec.Err())
}

// engine is one run: the clients, the nemesis, and who watches what is recorded.
//
//	             ┌──► logs       when the resource answered
//	recorder ────┼──► stopping   whether the run ends here
//	             └──► waits ───► clients, triggers ───► faults ───► cluster
type engine struct {
	s       scenario.Scenario
	cluster Cluster
	rec     record

	logs     logs
	waits    *waits
	clients  *clients
	faults   *faults
	triggers *triggers
	stopping *stopping
	stalls   *stalls

	over time.Duration // when all was done
}

func newEngine(s scenario.Scenario, seed uint64, c Cluster, to *history.Recorder, most int) *engine {
	e := &engine{s: s, cluster: c, rec: record{c, to}, logs: logs{applied: map[string]int64{}}, waits: &waits{cluster: c}}
	e.clients = &clients{s: s, seed: seed, cluster: c, waits: e.waits, ended: make(chan error, len(s.Clients))}
	e.faults = &faults{cluster: c, rec: e.rec, waits: e.waits, queues: newQueues(c), nests: &nests{cluster: c, of: map[string]*nested{}}}
	e.triggers = &triggers{s: s, cluster: c, faults: e.faults, again: again{c, e.faults, dice(seed), e.clients.hasEnded}, points: map[string][]int{}}
	e.clients.atPoint = e.triggers.atPoint
	e.stalls = &stalls{cluster: c, rec: e.rec, queues: e.faults.queues}
	e.stopping = &stopping{most: most, cluster: c, rec: e.rec, running: e.clients.left, quit: e.faults.queues.close, halted: make(chan struct{})}
	return e
}

// see is shown every event as it is recorded.
func (e *engine) see(ev history.Event) {
	e.logs.see(ev)
	e.stopping.see(ev)
	e.waits.see(ev)
}

func (e *engine) run(ctx context.Context) error {
	if err := e.triggers.arm(); err != nil {
		return err
	}
	e.stalls.watch()
	unguarded := sync.OnceFunc(guard(e.cluster, e.rec))
	defer unguarded()
	err := e.contend(ctx)
	e.stalls.moves()
	e.faults.queues.close() // what comes now meets nobody; what is being injected is recorded before
	e.faults.healAll(ctx)
	// What was held is delivered now, and late answers come in.
	pause(ctx, e.cluster, 4*e.s.Lock.Timeout)
	e.faults.recordIdle(e.s.Plan)
	recordUnsupported(e.cluster, e.rec)
	if ctx.Err() != nil { // the backend takes all down, and answers nothing any more
		err = context.Cause(ctx)
	} else {
		err = errors.Join(err, e.logs.read(ctx, e.cluster, e.s.KeyNames(), e.rec), e.faults.unhealed())
	}
	unguarded()
	e.over = e.cluster.Now()
	return err
}

// end records the end of the run. It is the last event: what the links still
// had under way, the backend has recorded by then.
func (e *engine) end(err error) {
	ev := history.Event{T: int64(e.over), Process: history.Harness, Type: history.End, Op: history.OpRun, Cause: "completed"}
	if why := e.stopping.reason(); why != "" {
		ev.Cause = why
	}
	if err != nil {
		ev.Cause = "stopped: " + err.Error()
	}
	e.rec.to.Record(ev)
}

// contend starts every client when its time has come and waits until all have
// ended, the limit is reached, or nobody is left who could start the rest.
func (e *engine) contend(ctx context.Context) error {
	var stops []context.CancelFunc
	for _, c := range e.s.Clients {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stops = append(stops, cancel)
		e.clients.schedule(ctx, c)
	}
	limit := make(chan struct{})
	e.cluster.At(e.s.Limit, func() { close(limit) })
	stopAll := func() {
		// One after another: what happens at one instant has no order.
		for _, stop := range stops {
			e.cluster.At(e.cluster.Now(), stop)
		}
	}
	over, halted := limit, e.stopping.halted
	var errs []error
	for e.clients.left() {
		select {
		case err := <-e.clients.ended:
			// If it died of a fault, that may start another client once it is recorded.
			e.faults.queues.settle()
			e.clients.running.Add(-1)
			errs = append(errs, err)
		case <-over:
			over = nil
			e.rec.note(fmt.Sprintf("the limit of %v is reached", e.s.Limit))
			e.faults.queues.stop() // a client may be at a point meanwhile
			stopAll()
		case <-halted:
			halted = nil
			e.faults.healAll(ctx) // who is paused can't end
			stopAll()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

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

// nodeReporter is a cluster that knows more about its nodes than clients see.
type nodeReporter interface{ NodeReport() NodeReport }

// NodeReport is what a cluster knows about its nodes at one moment.
type NodeReport struct {
	ServerVersion string               // as in "redis 7.0.15, image redis:7"; "" where the back end implies it
	ReportsKeys   bool                 // nodes report each key's life (history.Life)
	Epoch         int64                // what a correct wall clock shows at T = 0, in nanoseconds since 1970
	Unsupported   []UnsupportedCommand // what clients have asked for in vain so far
}

// UnsupportedCommand is something that clients asked a node for, which Redis has and the node doesn't.
type UnsupportedCommand struct {
	Node    string
	Command string // or part of one
	Times   int
}

func reportOf(c Cluster) NodeReport {
	if r, ok := c.(nodeReporter); ok {
		return r.NodeReport()
	}
	return NodeReport{}
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

// Liveness figures that are the same for every scenario.
const (
	clockRate = 0.0005                 // ρ: what a healthy quartz and its NTP daemon stay within
	slack     = 250 * time.Millisecond // what scheduling may add on a busy machine
	rounds    = 10                     // k: a group that loses as many in a row to split votes has no luck but a bad lock
)

// paramsOf is what the record says of a run before it begins.
func paramsOf(s scenario.Scenario, seed uint64, backend string, on Cluster) history.Params {
	p := history.Params{
		Schema: history.Schema, Scenario: s.Name, Variant: s.Variant, Backend: backend, Seed: seed,
		Clients: s.ClientNames(), Nodes: s.NodeNames(), Resource: scenario.ResourceName, Quorum: s.Quorum(),
		Lock: s.Lock.Kind, TTL: s.Lock.TTL, Drift: time.Duration(s.Lock.Drift*float64(s.Lock.TTL)) + 2*time.Millisecond,
		NodeTimeout: s.Lock.Timeout, RetryMin: s.Lock.RetryMin, RetryMax: s.Lock.RetryMax,
		Rate: clockRate, StampError: on.StampError(), Slack: slack + s.Settles(), Rounds: rounds,
		Untold: s.Lock.Untold, Fence: s.Workload.Fence, Limit: s.Limit, MaxExtends: s.Limits.Extensions, MaxHold: s.Limits.Hold, MayBeIdle: s.Vacuous, Persistence: s.Topology.Persistence,
	}
	nodes := reportOf(on)
	p.Server, p.Life, p.Epoch = nodes.ServerVersion, nodes.ReportsKeys, nodes.Epoch
	for i, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		p.Steps = append(p.Steps, history.PlannedStep{Step: i + 1, Fault: st.Fault.Kind, Targets: s.Targets(st),
			When: st.When.String(), Every: st.When.Event != nil && st.When.Event.Every, Delay: st.Fault.Delay.Max, By: st.Fault.By, Rate: kind.RateOf(st.Fault),
			Costs: kind.Costs, Optional: st.Drawn || st.When.Before > 0})
		if !st.Drawn && st.When.Before == 0 {
			p.Steps[i].Proof = kind.ProofOf(s.Topology.Persistence)
		}
	}
	for _, c := range s.Clients {
		if c.Reach != nil {
			p.Reach = append(p.Reach, history.Reach{Client: c.Name, Nodes: c.Reach})
		}
	}
	return p
}

// recordUnsupported records once what the cluster's nodes could not do: a lock that got an error there has
// not met Redis.
func recordUnsupported(on Cluster, rec record) {
	for _, c := range reportOf(on).Unsupported {
		rec.add(history.Event{Process: history.Harness, Type: history.Info, Op: history.OpLack, Node: c.Node, Value: c.Command,
			Cause: fmt.Sprintf("asked for %d times", c.Times)})
	}
}

// record is what the engine writes of the history: events of now, unless they say
// otherwise.
type record struct {
	cluster Cluster
	to      *history.Recorder
}

func (r record) add(ev history.Event) {
	if ev.T == 0 {
		ev.T = int64(r.cluster.Now())
	}
	r.to.Record(ev)
}

func (r record) note(text string) {
	r.add(history.Event{Process: history.Harness, Type: history.Info, Op: history.OpRun, Cause: text})
}
