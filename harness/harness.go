// Package harness contains the engine, which runs a scenario on a Cluster and records a history.
//
// A Backend creates a Cluster and calls the engine with it. Run connects the two.
//
//	harness.go  runs a scenario from start to end; interfaces of backends and clusters
//	clients.go  runs the contending clients; queues the faults on each target
//	faults.go   triggers the plan's steps, injects and heals their faults, and records unplanned
//	            events
//
// Related packages:
//
//	scenario/  one experiment as plain data, and its YAML format
//	history/   the recorded events: Event, Params, the recorder and the reader
//	resp/      parses the lock commands on a link
//	lock/      the interface of a lock under test, and its environment; lock/kinds is the table of locks
//	client/    the program that each contending client runs, and the protected resource
//	sim/       backend: virtual time, simulated network and Redis nodes, deterministic
//	process/   backend: real redis-servers, clients as subprocesses
//	real/      code shared by the real backends: child processes, links
//
// The engine reads the time only through Cluster.Now and Cluster.At, so the same code runs in
// virtual and in real time.
//
// A fault's planned duration starts when the fault takes effect, which may be later than planned.
// To keep the faults on each target in the plan's order anyway, a fault that is planned to start
// after another one's end waits for that end, and records its invoke event then. A fault that is
// planned to start while another is active does not wait.
//
// The engine records unplanned events, too: stalls of a real host, and outside interference with
// the run's processes.
//
// Deliberately missing: backends, checkers, reports and files. The engine does not interpret what
// it records.
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

// Run runs a scenario once on a backend and records what happens. If the backend or a client
// program fails, Run returns an error, and the history contains everything recorded until then.
func Run(ctx context.Context, b Backend, s scenario.Scenario, seed uint64, rec *history.Recorder) error {
	return RunWithLimit(ctx, b, s, seed, rec, 0)
}

// RunWithLimit is like Run, but stops the run after maxEvents events; 0 means no limit.
func RunWithLimit(ctx context.Context, b Backend, s scenario.Scenario, seed uint64, rec *history.Recorder, maxEvents int) error {
	s = s.WithRandomPlan(seed)
	var e *engine
	rec.DropUntilBegin()
	err := b.Run(ctx, s, seed, rec, func(ctx context.Context, c Cluster) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		e = newEngine(s, seed, c, rec, maxEvents)
		rec.Watch(e.observe)
		rec.NameLocks(s.Lock.Prefix, s.KeyNames())
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

// engine executes one run.
//
//	             ┌──► logs        records when the resource replied
//	recorder ────┼──► eventLimit  stops the run after too many events
//	             └──► waits ────► clients, triggers ───► faults ───► cluster
type engine struct {
	s       scenario.Scenario
	cluster Cluster
	rec     stampingRecorder

	logs          resourceLogs
	waits         *eventWaits
	clients       *clients
	faults        *faults
	triggers      *triggers
	eventLimit    *eventLimit
	stallDetector *stallDetector

	endTime time.Duration
}

func newEngine(s scenario.Scenario, seed uint64, c Cluster, to *history.Recorder, maxEvents int) *engine {
	e := &engine{s: s, cluster: c, rec: stampingRecorder{c, to}, logs: resourceLogs{replyTimes: map[string]int64{}}, waits: &eventWaits{cluster: c}}
	e.clients = &clients{s: s, seed: seed, cluster: c, waits: e.waits, results: make(chan error, len(s.Clients))}
	e.faults = &faults{cluster: c, rec: e.rec, waits: e.waits, queues: newQueues(c), shared: &sharedFaults{cluster: c, byTarget: map[string]*sharedFault{}}}
	e.triggers = &triggers{s: s, cluster: c, faults: e.faults, repeater: repeater{c, e.faults, seededRand(seed), e.clients.hasEnded}, points: map[string][]int{}}
	e.clients.onPoint = e.triggers.onPoint
	e.stallDetector = &stallDetector{cluster: c, rec: e.rec, queues: e.faults.queues}
	e.eventLimit = &eventLimit{maxEvents: maxEvents, cluster: c, rec: e.rec, anyRunning: e.clients.anyRunning, closeQueues: e.faults.queues.close, haltC: make(chan struct{})}
	return e
}

// observe is called for every recorded event.
func (e *engine) observe(ev history.Event) {
	e.logs.observe(ev)
	e.eventLimit.observe(ev)
	e.waits.observe(ev)
}

func (e *engine) run(ctx context.Context) error {
	if err := e.triggers.arm(); err != nil {
		return err
	}
	e.stallDetector.start()
	stopMonitor := sync.OnceFunc(recordUnplanned(e.cluster, e.rec))
	defer stopMonitor()
	err := e.runClients(ctx)
	e.stallDetector.recordStall()
	e.faults.queues.close() // starts no more faults; injections in progress are finished and recorded
	e.faults.healAll(ctx)
	// Wait for delayed messages and late replies.
	pause(ctx, e.cluster, 4*e.s.Lock.Timeout)
	e.faults.recordIdle(e.s.Plan)
	recordUnsupported(e.cluster, e.rec)
	if ctx.Err() != nil { // the backend is shutting down and no longer answers
		err = context.Cause(ctx)
	} else {
		err = errors.Join(err, e.logs.read(ctx, e.cluster, e.s.KeyNames(), e.rec), e.faults.healErrors())
	}
	stopMonitor()
	e.endTime = e.cluster.Now()
	return err
}

// end records the run's end as the last event. Messages in flight have already been recorded by the
// backend.
func (e *engine) end(err error) {
	ev := history.Event{T: int64(e.endTime), Process: history.Harness, Type: history.End, Op: history.OpRun, Cause: "completed"}
	if cause := e.eventLimit.reason(); cause != "" {
		ev.Cause = cause
	}
	if err != nil {
		ev.Cause = "stopped: " + err.Error()
	}
	e.rec.recorder.Record(ev)
}

// runClients starts each client at its configured time or event, stops all clients when the time
// limit or the event limit is reached, and returns when none is running. Clients whose start event
// has not occurred by then are never started.
func (e *engine) runClients(ctx context.Context) error {
	var stops []context.CancelFunc
	for _, c := range e.s.Clients {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stops = append(stops, cancel)
		e.clients.schedule(ctx, c)
	}
	limitReached := make(chan struct{})
	e.cluster.At(e.s.Limit, func() { close(limitReached) })
	stopAll := func() {
		// Stop the clients one by one, because the order of simultaneous events is undefined.
		for _, stop := range stops {
			e.cluster.At(e.cluster.Now(), stop)
		}
	}
	limitC, haltC := limitReached, e.eventLimit.haltC
	var errs []error
	for e.clients.anyRunning() {
		select {
		case err := <-e.clients.results:
			// If a fault killed the client, recording the fault may start another client. Wait for
			// that, or the run might end too early.
			e.faults.queues.awaitInjections()
			e.clients.numRunning.Add(-1)
			errs = append(errs, err)
		case <-limitC:
			limitC = nil
			e.rec.note(fmt.Sprintf("the limit of %v is reached", e.s.Limit))
			e.faults.queues.stopWaiting() // a client may be waiting at a point
			stopAll()
		case <-haltC:
			haltC = nil
			e.faults.healAll(ctx) // a paused client can't stop
			stopAll()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// Backend creates clusters. A cluster is simulated, or consists of processes or containers.
type Backend interface {
	Name() string
	// Probe reports what the backend can do on this machine. RunCapability says whether it can
	// run scenarios at all; for the other capabilities, see nemesis.Capability.
	Probe(ctx context.Context) []Capability
	// Run sets up a cluster for the scenario, calls body with it, and always tears it down
	// afterwards. The cluster's links record each lock command in rec. The backend calls the
	// engine, not the other way around, because the engine must run inside the virtual-time bubble.
	Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body Body) error
}

// A KeyPreserver is a backend that can rerun a seed while preventing selected changes to keys.
type KeyPreserver interface {
	// WithPreservedKeys returns a backend whose lock nodes call preserve before they change, delete
	// or expire a key (history.OpLife), and leave the key as it is if preserve returns true. Until
	// then the run is identical to a normal run.
	WithPreservedKeys(preserve func(history.Event) bool) Backend
}

// Body is the function that a backend calls with its cluster. It must use the context passed to it:
// a context created outside does not work in virtual time.
type Body func(ctx context.Context, c Cluster) error

// Capability says whether a backend has a capability and, if not, why.
type Capability struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why it isn't available
	Remedy    string `json:"remedy,omitempty"` // how to make it available
	// Unknown means that the check itself failed, for the given Reason. Runs that need the
	// capability then fail instead of being skipped.
	Unknown bool `json:"unknown,omitempty"`
}

// nodeReporter is implemented by clusters that know things about their nodes that clients can't
// see.
type nodeReporter interface{ NodeReport() NodeReport }

// NodeReport describes the current state of a cluster's nodes.
type NodeReport struct {
	ServerVersion string               // such as "redis 7.0.15, image redis:7"; "" if unknown or simulated
	ReportsKeys   bool                 // the nodes report every change to a key (history.OpLife)
	Epoch         int64                // Unix time at T = 0, in nanoseconds
	Unsupported   []UnsupportedCommand // client commands that the nodes could not execute
}

// UnsupportedCommand is a Redis command that a client sent but the node does not implement.
type UnsupportedCommand struct {
	Node    string
	Command string // the command, or the unsupported part of it
	Count   int    // how many times it was sent
}

func reportOf(c Cluster) NodeReport {
	if r, ok := c.(nodeReporter); ok {
		return r.NodeReport()
	}
	return NodeReport{}
}

// CapabilitiesOf lists every capability that faults need and whether the cluster has it, meaning
// that its type implements the interface declared in the fault's file. overrides replaces entries
// for which the backend knows a better reason or remedy.
func CapabilitiesOf(cluster any, overrides ...Capability) (all []Capability) {
	names, available := nemesis.Capabilities(cluster)
	for _, name := range names {
		c := Capability{Name: name, Available: available[name]}
		if !c.Available {
			c.Reason, c.Remedy = "this backend does not have it", "use a backend that supports it, see lockpick doctor"
		}
		if i := slices.IndexFunc(overrides, func(o Capability) bool { return o.Name == name }); i >= 0 {
			c = overrides[i]
		}
		all = append(all, c)
	}
	return all
}

// ErrKilled is returned by RunClient if the nemesis killed the client.
var ErrKilled = errors.New("client was killed")

// RunCapability is the ability to run scenarios at all on this machine.
const RunCapability = "run"

// Cluster is a running cluster as the engine sees it. Package nemesis declares optional interfaces;
// those that a cluster implements determine which faults can be injected into it.
type Cluster interface {
	// Now returns the true time since the run began.
	Now() time.Duration
	// At calls f in its own goroutine at true time t, or at once if t has passed.
	At(t time.Duration, f func())
	// RunClient runs a client until it ends or is killed. Whenever the client reaches an armed
	// point, RunClient calls at while the client waits there.
	RunClient(ctx context.Context, s client.Spec, at func(point string)) error
	// Resource sends a command to the protected resource, bypassing all links and faults, and
	// returns the reply. It is called only before the clients start and after they have ended.
	Resource(ctx context.Context, args ...string) (any, error)
	// TimestampUncertainty returns the maximum error in true-time timestamps.
	TimestampUncertainty() time.Duration
}

// Liveness parameters shared by all scenarios.
const (
	maxDriftRate    = 0.0005                 // ρ: maximum drift rate of a healthy quartz clock with an NTP daemon
	schedulingSlack = 250 * time.Millisecond // scheduling delay to expect on a busy machine
	maxLostRounds   = 10                     // k: a lock that loses this many consecutive rounds to split votes is buggy, not unlucky
)

func paramsOf(s scenario.Scenario, seed uint64, backend string, cluster Cluster) history.Params {
	driftOf := func(ttl time.Duration) time.Duration {
		return time.Duration(s.Lock.Drift*float64(ttl)) + 2*time.Millisecond
	}
	p := history.Params{
		Schema: history.Schema, Scenario: s.Name, Variant: s.Variant, Backend: backend, Seed: seed,
		Clients: s.ClientNames(), Nodes: s.NodeNames(), Resource: scenario.ResourceName, Quorum: s.Quorum(),
		Lock: s.Lock.Kind, TTL: s.Lock.TTL, Drift: driftOf(s.Lock.TTL),
		NodeTimeout: s.Lock.Timeout, RetryMin: s.Lock.RetryMin, RetryMax: s.Lock.RetryMax,
		Rate: maxDriftRate, TimestampUncertainty: cluster.TimestampUncertainty(), Slack: schedulingSlack + s.ExpirySlack(), Rounds: maxLostRounds,
		NoLossNotice: s.Lock.NoLossNotice, Fence: s.Workload.Fence, Limit: s.Limit, MaxExtends: s.Limits.Extensions, MaxHold: s.Limits.Hold, MayBeIdle: s.MayBeVacuous, Persistence: s.Topology.Persistence,
	}
	nodes := reportOf(cluster)
	p.Server, p.ReportsKeys, p.Epoch = nodes.ServerVersion, nodes.ReportsKeys, nodes.Epoch
	for i, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		p.Steps = append(p.Steps, history.PlannedStep{Step: i + 1, Fault: st.Fault.Kind, Targets: s.Targets(st),
			Trigger: st.When.String(), Repeats: st.When.Event != nil && st.When.Event.Every, Delay: st.Fault.Delay.Max, Offset: st.Fault.By, Rate: kind.RateOf(st.Fault),
			Impact: kind.Impact, Optional: st.Drawn || st.When.Before > 0})
		if !st.Drawn && st.When.Before == 0 {
			p.Steps[i].Proof = kind.ProofOf(s.Topology.Persistence)
		}
	}
	for _, c := range s.Clients {
		if c.TTL > 0 {
			p.TTLs = append(p.TTLs, history.ClientTTL{Client: c.Name, TTL: c.TTL, Drift: driftOf(c.TTL)})
		}
		if c.Reach != nil {
			p.Reach = append(p.Reach, history.Reach{Client: c.Name, Nodes: c.Reach})
		}
	}
	return p
}

// recordUnsupported records the commands that the cluster's nodes could not execute. A lock that
// got an error for one of them was not tested against real Redis behavior.
func recordUnsupported(cluster Cluster, rec stampingRecorder) {
	for _, c := range reportOf(cluster).Unsupported {
		rec.add(history.Event{Process: history.Harness, Type: history.Info, Op: history.OpUnsupported, Node: c.Node, Value: c.Command,
			Cause: fmt.Sprintf("asked for %d times", c.Count)})
	}
}

// stampingRecorder adds events to the history. Events without a time get the current time.
type stampingRecorder struct {
	cluster  Cluster
	recorder *history.Recorder
}

func (r stampingRecorder) add(ev history.Event) {
	if ev.T == 0 {
		ev.T = int64(r.cluster.Now())
	}
	r.recorder.Record(ev)
}

func (r stampingRecorder) note(text string) {
	r.add(history.Event{Process: history.Harness, Type: history.Info, Op: history.OpRun, Cause: text})
}
