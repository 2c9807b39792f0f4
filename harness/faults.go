package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// faults injects faults into the cluster. Each fault waits for its turn on its targets, is verified
// once it is active, and is healed exactly once.
type faults struct {
	cluster Cluster
	rec     stampingRecorder
	waits   *eventWaits
	queues  *queues // one per target; no more waiting after the time limit, closed when the clients are done
	shared  *sharedFaults

	mu           sync.Mutex
	activeFaults []*activeFault
	healFailures []error // errors from healing
	healedFaults []healedFault
	healing      bool // the clients are done, and the remaining faults are being healed
}

// activeFault is a fault while it is active on one target.
type activeFault struct {
	step      int
	kind      string
	target    string
	heal      func() (string, error)
	endsAfter time.Duration // duration after which the fault ends by itself; 0: never
	queued    *queuedFault
}

type healedFault struct {
	*activeFault
	readBack string
	idle     bool // the fault was active but had no effect
}

// isIdle reports whether Heal returned err only because the fault had no effect.
func isIdle(err error) bool { return errors.Is(err, nemesis.ErrIdle) }

// inject waits for the fault's turn and then, if isDue still returns true, injects the fault on all
// its targets at once. It returns the faults to be healed.
func (fs *faults) inject(step int, f nemesis.Fault, targets []*queuedFault, isDue func() bool, healBy func() (string, error)) (injected []*activeFault, fired bool) {
	if !fs.queues.awaitTurn(targets) || !isDue() || !fs.queues.beginInjection() {
		fs.queues.remove(targets...)
		return nil, false
	}
	defer fs.queues.endInjection()
	kind, _ := nemesis.KindOf(f.Kind)
	for _, p := range targets {
		fs.rec.add(history.Event{Process: history.Nemesis, Type: history.Invoke, Op: kind.RecordedName(), Node: p.target, Step: step + 1})
	}
	// Inject in parallel: verifying a fault takes time on a real backend, and must not delay the
	// fault on the next target.
	effects := make([]injectionResult, len(targets))
	var done sync.WaitGroup
	for i, p := range targets {
		done.Go(func() {
			x := &effects[i]
			x.Effect, x.err = fs.shared.inject(kind, f, p.target)
			x.at = fs.cluster.Now()
		})
	}
	done.Wait()
	for i, p := range targets {
		if a := fs.recordBegin(step, kind, p, effects[i], healBy); a != nil {
			injected = append(injected, a)
		} else {
			fs.queues.remove(p)
		}
	}
	fs.mu.Lock()
	fs.activeFaults = append(fs.activeFaults, injected...)
	fs.mu.Unlock()
	fs.queues.markActive(targets)
	return injected, true
}

// recordBegin records the result of an injection on one target. It returns nil if there is nothing
// to heal.
func (fs *faults) recordBegin(step int, kind nemesis.Kind, p *queuedFault, x injectionResult, healBy func() (string, error)) *activeFault {
	ev := history.Event{T: int64(x.at), Process: history.Nemesis, Type: history.Begin, Op: kind.RecordedName(), Node: p.target, Step: step + 1, Cause: x.ReadBack}
	if kind.IsRepeated && errors.Is(x.err, nemesis.ErrEnded) {
		return nil // the target had already exited, which is not a failure
	}
	if x.err != nil {
		ev.Type, ev.Cause = history.Fail, x.err.Error()
		fs.rec.add(ev)
		return nil
	}
	fs.rec.add(ev)
	if x.Heal == nil {
		x.Heal = healBy
	}
	if x.Heal == nil {
		return nil
	}
	return &activeFault{step: step, kind: kind.RecordedName(), target: p.target, heal: x.Heal, endsAfter: x.EndsAfter, queued: p}
}

type injectionResult struct {
	nemesis.Effect
	err error
	at  time.Duration
}

// scheduleEnd schedules the end of faults relative to when they took effect, so that a late fault
// is not shortened. A node that loses its keys, for example, must stay down for as long as the
// locks it granted may last.
func (fs *faults) scheduleEnd(f nemesis.Fault, injected []*activeFault) {
	for _, a := range injected {
		if f.For == nil && a.endsAfter > 0 {
			fs.queues.setEnd(a.queued, a.queued.at+a.endsAfter)
		}
		fs.callAtEnd(f, a.endsAfter, func() { fs.heal(a) })
	}
}

// callAtEnd arranges for end to be called when a fault that starts now is over: after its planned
// duration, after endsAfter if it ends by itself, or when its end event occurs.
func (fs *faults) callAtEnd(f nemesis.Fault, endsAfter time.Duration, end func()) {
	switch {
	case f.For != nil:
		fs.cluster.At(fs.cluster.Now()+f.Timer.TrueDuration(*f.For), end)
	case endsAfter > 0:
		fs.cluster.At(fs.cluster.Now()+endsAfter, end)
	case f.Until != nil:
		fs.waits.await(*f.Until, nil, end)
	}
}

// heal ends a fault unless it has already been ended. The end is stamped before healing starts,
// just as the start is stamped after the fault was seen to be active. So the fault was certainly
// active between the two stamps, and nothing that a healed process does is stamped in between.
func (fs *faults) heal(a *activeFault) {
	fs.mu.Lock()
	i := slices.Index(fs.activeFaults, a)
	if i < 0 {
		fs.mu.Unlock()
		return
	}
	fs.activeFaults = slices.Delete(fs.activeFaults, i, i+1)
	fs.mu.Unlock()
	at := fs.cluster.Now()
	fs.queues.setEnd(a.queued, at)
	defer fs.queues.remove(a.queued)
	readBack, err := a.heal()
	if err != nil && !isIdle(err) {
		fs.mu.Lock()
		fs.healFailures = append(fs.healFailures, fmt.Errorf("end %s of %s (step %d): %w", a.kind, a.target, a.step+1, err))
		fs.mu.Unlock()
		return
	}
	fs.rec.add(history.Event{T: int64(at), Process: history.Nemesis, Type: history.End, Op: a.kind, Node: a.target, Step: a.step + 1, Cause: readBack})
	fs.mu.Lock()
	fs.healedFaults = append(fs.healedFaults, healedFault{a, readBack, isIdle(err)})
	fs.mu.Unlock()
}

// healAll heals all remaining faults when the clients are done.
func (fs *faults) healAll(ctx context.Context) {
	fs.mu.Lock()
	fs.healing = true
	remaining := slices.Clone(fs.activeFaults)
	fs.mu.Unlock()
	for _, a := range remaining {
		// Heal each at a different instant, because the order of simultaneous events is undefined.
		pause(ctx, fs.cluster, time.Microsecond)
		fs.heal(a)
	}
}

// isHealing reports whether healAll has been called.
func (fs *faults) isHealing() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.healing
}

func (fs *faults) healErrors() error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return errors.Join(fs.healFailures...)
}

// recordIdle records a failure for each step that had no effect on any of its targets. A fault may
// miss a single target by chance, but a run whose step had no effect at all shows nothing about
// that step. Randomly drawn steps are exempt because no run depends on any particular one.
func (fs *faults) recordIdle(plan nemesis.Plan) {
	fs.mu.Lock()
	healed := fs.healedFaults
	fs.mu.Unlock()
	hadEffect := map[int]bool{}
	for _, a := range healed {
		hadEffect[a.step] = hadEffect[a.step] || !a.idle
	}
	for _, a := range healed {
		if !hadEffect[a.step] && !plan[a.step].Drawn {
			fs.rec.add(history.Event{Process: history.Nemesis, Type: history.Fail, Op: a.kind, Node: a.target, Step: a.step + 1, Cause: nemesis.ErrIdle.Error() + ": " + a.readBack})
		}
	}
}

// pause waits for d on the cluster's clock, or until ctx is done, because a stopped cluster's
// timers don't fire.
func pause(ctx context.Context, c Cluster, d time.Duration) {
	done := make(chan struct{})
	c.At(c.Now()+d, func() { close(done) })
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// A tick is due every stallTick. A gap of more than stallBound between two ticks counts as a host
// stall. The bound is half the shortest node timeout: on a machine that is busy before and after
// the stall, too, such a request may well have timed out.
const (
	stallTick  = 10 * time.Millisecond
	stallBound = scenario.MinTimeout / 2
)

// stallDetector records when the host, or this process on it, stalled. A hypervisor may suspend a
// virtual machine for seconds, which stops all its processes at once. That does not affect safety,
// but no lock can meet a deadline during a stall.
type stallDetector struct {
	cluster Cluster
	rec     stampingRecorder
	queues  *queues
	enabled bool

	mu       sync.Mutex
	lastTick time.Duration // time of the last tick
}

// start starts the ticks unless the cluster is simulated, because a simulation can't stall. Only
// simulated clusters have an exact clock.
func (s *stallDetector) start() {
	if s.cluster.StampError() > 0 {
		s.enabled, s.lastTick = true, s.cluster.Now()
		s.scheduleTick()
	}
}

// scheduleTick schedules the next tick. The ticks end when faults can no longer be injected.
func (s *stallDetector) scheduleTick() {
	s.cluster.At(s.cluster.Now()+stallTick, func() {
		if !s.queues.beginInjection() {
			return
		}
		defer s.queues.endInjection()
		s.recordStall()
		s.scheduleTick()
	})
}

// recordStall records a stall if the previous tick was too long ago. It is called after the clients
// are done, too, because clients in separate processes may do all their work between two ticks.
func (s *stallDetector) recordStall() {
	if !s.enabled {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, now := s.lastTick, s.cluster.Now()
	s.lastTick = now
	if gap := now - last; gap > stallBound {
		cause := fmt.Sprintf("the host stalled for %v", gap.Round(time.Millisecond))
		s.rec.add(history.Event{T: int64(last), Process: history.Nemesis, Type: history.Begin, Op: history.OpStall, Node: history.Machine, Cause: cause})
		s.rec.add(history.Event{T: int64(now), Process: history.Nemesis, Type: history.End, Op: history.OpStall, Node: history.Machine})
	}
}

const eventLimitHint = "a run may record no more events; let clients think or hold longer, or set a shorter limit"

// eventLimit stops a run that has recorded the maximum number of events. It acts at most once, and
// only while clients are running.
type eventLimit struct {
	maxEvents   int // 0 means no limit
	cluster     Cluster
	rec         stampingRecorder
	anyRunning  func() bool
	closeQueues func()
	haltC       chan struct{} // closed when the run must stop

	mu    sync.Mutex
	cause string // why the run was stopped early, or ""
}

// observe stops the run if ev, which has just been recorded, reaches the limit.
func (s *eventLimit) observe(ev history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.maxEvents == 0 || ev.N < int64(s.maxEvents) || s.cause != "" || !s.anyRunning() {
		return
	}
	s.cause = fmt.Sprintf("stopped at event %d: %s", ev.N, eventLimitHint)
	s.cluster.At(s.cluster.Now(), func() { s.halt(time.Duration(ev.T)) })
}

func (s *eventLimit) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// halt stops the run and records that. reachedAt is when the limit was reached.
func (s *eventLimit) halt(reachedAt time.Duration) {
	// The stamp error may put reachedAt in the future.
	at := max(s.cluster.Now(), reachedAt)
	s.closeQueues()
	s.rec.add(history.Event{T: int64(at), Process: history.Harness, Type: history.Info, Op: history.OpStop, Cause: s.reason()})
	close(s.haltC)
}

// triggers starts the steps of a plan at their times, events, points and messages.
type triggers struct {
	s        scenario.Scenario
	cluster  Cluster
	faults   *faults
	repeater repeater

	mu     sync.Mutex
	points map[string][]int // by "client point": indexes of the steps planned there, ordered by Nth
}

// arm sets up the triggers of all planned steps.
func (t *triggers) arm() error {
	for i, st := range t.s.Plan {
		switch w := st.When; {
		case w.At != nil:
			t.cluster.At(*w.At, func() { t.fire(i, nil) })
		case w.Event != nil:
			t.faults.waits.await(*w.Event, nil, func() { t.fire(i, nil) })
		case w.Point != nil:
			key := w.Point.Client + " " + w.Point.Point
			t.points[key] = append(t.points[key], i)
		case w.Message != nil:
			tap, ok := t.cluster.(nemesis.Tapper)
			if !ok {
				return fmt.Errorf("arm step %d: this cluster can't watch messages", i+1)
			}
			if err := tap.Tap(*w.Message, func(h nemesis.HeldMessage) { t.onMessage(i, h) }); err != nil {
				return fmt.Errorf("arm step %d: %w", i+1, err)
			}
		}
	}
	for _, steps := range t.points {
		slices.SortFunc(steps, func(a, b int) int {
			return cmp.Compare(t.s.Plan[a].When.Point.Nth, t.s.Plan[b].When.Point.Nth)
		})
	}
	return nil
}

// onPoint starts the next step planned for a point. The client waits there meanwhile.
func (t *triggers) onPoint(client, point string) {
	t.mu.Lock()
	key := client + " " + point
	var step = -1
	if steps := t.points[key]; len(steps) > 0 {
		step, t.points[key] = steps[0], steps[1:]
	}
	t.mu.Unlock()
	if step >= 0 {
		t.fire(step, nil)
	}
}

// onMessage starts a step when its message is seen. The message is held on its link meanwhile.
func (t *triggers) onMessage(step int, m nemesis.HeldMessage) {
	kind, _ := nemesis.KindOf(t.s.Plan[step].Fault.Kind)
	switch {
	case kind.HoldsMessage:
		if !t.fire(step, func() (string, error) { m.Pass(); return "it was let pass", nil }) {
			m.Pass()
		}
	case kind.LosesMessage:
		if t.fire(step, nil) {
			m.Lose()
		} else {
			m.Pass()
		}
	default:
		t.fire(step, nil)
		m.Pass()
	}
}

// fire injects a step's fault on all its targets at once and schedules its end. If the fault's
// Effect has no Heal function, healBy heals the fault. Nothing is injected if the run is stopping
// or if it is too late for the step (Trigger.Before).
func (t *triggers) fire(step int, healBy func() (string, error)) (fired bool) {
	f, when, targets := t.s.Plan[step].Fault, t.s.Plan[step].When, t.s.Targets(t.s.Plan[step])
	isDue := func() bool { return when.Before == 0 || t.cluster.Now() <= when.Before }
	if !isDue() {
		return false
	}
	if kind, _ := nemesis.KindOf(f.Kind); kind.IsRepeated {
		t.repeater.start(step, f, targets)
		return true
	}
	at, end := t.cluster.Now(), noEnd
	if when.At != nil {
		at = *when.At
	}
	if f.For != nil {
		end = at + f.Timer.TrueDuration(*f.For)
	}
	injected, fired := t.faults.inject(step, f, t.faults.queues.enqueue(targets, at, end), isDue, healBy)
	t.faults.scheduleEnd(f, injected)
	return fired
}

// UnplannedEvent is something that happened to one of the run's processes but was not caused by the
// harness, such as a kill from outside. The process may be a node, the resource, a client, a
// replica, a Sentinel or the proxy that carries the links.
type UnplannedEvent struct {
	Op    string // kill, pause or history.OpContinue
	Node  string // name of the process
	Cause string // what was observed
}

// Interference is the error for a run that was disturbed from outside before its history began or
// after it ended, so that no event shows the disturbance. Retrying the run may help.
type Interference struct {
	UnplannedEvent
	Phase string // such as DuringSetup
}

func (i *Interference) Error() string {
	verb := "stalled"
	if i.Op == "kill" {
		verb = "exited"
	}
	return fmt.Sprintf("unplanned: %s %s %s (%s)", i.Node, verb, i.Phase, i.Cause)
}

// TimeoutAsInterference adds an Interference to a timeout error, because either the awaited process
// was stopped from outside or the machine is too busy. It returns other errors unchanged.
func TimeoutAsInterference(err error, phase string) error {
	type timeout interface {
		error
		Timeout() bool
	}
	if t, ok := errors.AsType[timeout](err); ok && t.Timeout() {
		firstLine, _, _ := strings.Cut(err.Error(), "\n")
		return errors.Join(&Interference{UnplannedEvent{Op: "pause", Node: history.Machine, Cause: firstLine}, phase}, err)
	}
	return err
}

// Values of Interference.Phase.
const (
	DuringSetup    = "while the run was being set up"
	DuringTeardown = "while the run was being torn down"
)

// processMonitor is implemented by clusters that detect outside interference with their processes.
// MonitorProcesses reports everything since the processes were started, and keeps reporting until
// stop is called. stop does a final check; nothing is reported after it returns.
type processMonitor interface {
	MonitorProcesses(report func(UnplannedEvent)) (stop func())
}

// recordUnplanned records unplanned events until stop is called. If something outside the harness
// ends or stops a process, the run no longer follows its plan.
func recordUnplanned(c Cluster, rec stampingRecorder) (stop func()) {
	monitor, ok := c.(processMonitor)
	if !ok {
		return func() {}
	}
	return monitor.MonitorProcesses(func(u UnplannedEvent) {
		rec.add(history.Event{T: int64(max(c.Now(), time.Nanosecond)), Process: history.Nemesis, Type: history.Begin, Op: u.Op, Node: u.Node, Step: history.UnplannedStep, Cause: u.Cause})
	})
}

// eventWait says what to call when an event occurs.
type eventWait struct {
	event      nemesis.Event
	numMatches int
	// onMatch is called immediately, while the recorder's lock is held. It may be nil.
	onMatch func()
	f       func()
}

type eventWaits struct {
	cluster Cluster

	mu    sync.Mutex
	waits []*eventWait
}

// await arranges for f to be called in its own goroutine soon after the event, but never at exactly
// the same instant.
func (w *eventWaits) await(ev nemesis.Event, onMatch func(), f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits = append(w.waits, &eventWait{event: ev, onMatch: onMatch, f: f})
}

// observe is called for every recorded event.
func (w *eventWaits) observe(ev history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waits) == 0 {
		return
	}
	var due []*eventWait
	w.waits = slices.DeleteFunc(w.waits, func(wait *eventWait) bool {
		if !wait.event.Matches(ev) {
			return false
		}
		wait.numMatches++
		last := !wait.event.Every && wait.numMatches == max(wait.event.Nth, 1)
		if last || wait.event.Every {
			due = append(due, wait)
		}
		return last
	})
	for _, wait := range due {
		if wait.onMatch != nil {
			wait.onMatch()
		}
		w.cluster.At(w.cluster.Now()+wait.event.After, wait.f)
	}
}

// repeater injects faults repeatedly.
type repeater struct {
	cluster  Cluster
	faults   *faults
	rand     seededRand
	hasEnded func(target string) bool
}

// start injects a fault repeatedly on each of its targets, until the fault's end, the run's end or
// the target's end.
func (a repeater) start(step int, f nemesis.Fault, targets []string) {
	var ended atomic.Bool
	stop := func() { ended.Store(true) }
	isOver := func(target string) bool { return ended.Load() || a.faults.isHealing() || a.hasEnded(target) }
	callAfter := func(d time.Duration, f func()) { a.cluster.At(a.cluster.Now()+d, f) }
	for _, target := range targets {
		var scheduleNext func(k int)
		scheduleNext = func(k int) {
			callAfter(a.rand.duration(f.Every, step, target, "every", k), func() {
				if isOver(target) {
					return
				}
				duration := a.rand.duration(f.Every, step, target, "lasts", k)
				if f.Lasts != (nemesis.Span{}) {
					duration = f.Lasts.DrawHeavyTailed(a.rand.number(step, target, "lasts", k))
				}
				now := a.cluster.Now()
				injected, _ := a.faults.inject(step, f, a.faults.queues.enqueue([]string{target}, now, now+duration), func() bool { return !isOver(target) }, nil)
				if len(injected) == 0 {
					return // the failed injection is already recorded
				}
				callAfter(duration, func() {
					for _, fault := range injected {
						a.faults.heal(fault)
					}
					scheduleNext(k + 1)
				})
			})
		}
		scheduleNext(1)
	}
	a.faults.callAtEnd(f, 0, stop)
}

// seededRand draws random numbers that depend only on the seed and on what they are used for.
type seededRand uint64

func (d seededRand) duration(s nemesis.Span, step int, target, what string, k int) time.Duration {
	return client.Range(s).Draw(d.number(step, target, what, k))
}

func (d seededRand) number(step int, target, what string, k int) uint64 {
	return client.Random(uint64(d), "step", fmt.Sprint(step), target, what, fmt.Sprint(k))
}

// sharedFault is a fault on one target that several steps may share. Each sharedFault has its own
// mutex, so that healing a fault may wait for a stopped node without delaying that node's
// resumption.
type sharedFault struct {
	mu       sync.Mutex
	fault    nemesis.Fault
	numSteps int // steps that keep the fault active
	heal     func() (string, error)
}

// sharedFaults holds the faults that steps may share.
type sharedFaults struct {
	cluster Cluster

	mu       sync.Mutex
	byTarget map[string]*sharedFault // by "kind target"
}

// inject injects a fault unless the same fault is already active on the target. In that case the
// fault lasts until all steps that share it have ended. Two different faults of one kind can't be
// active on the same target at once.
func (all *sharedFaults) inject(kind nemesis.Kind, f nemesis.Fault, target string) (nemesis.Effect, error) {
	if !kind.MayOverlap {
		return kind.Inject(all.cluster, f, target)
	}
	n := all.entry(kind.RecordedName() + " " + target)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.numSteps == 0:
		x, err := kind.Inject(all.cluster, f, target)
		if err != nil || x.Heal == nil {
			return x, err
		}
		n.fault, n.numSteps, n.heal = f, 1, x.Heal
		x.Heal = n.end
		return x, nil
	case n.fault.Mode != f.Mode || n.fault.Way != f.Way:
		return nemesis.Effect{}, fmt.Errorf("%s %s: it is in force already, in another way", kind.Name, target)
	}
	n.numSteps++
	return nemesis.Effect{ReadBack: "it was in force already", Heal: n.end}, nil
}

func (all *sharedFaults) entry(name string) *sharedFault {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byTarget[name] == nil {
		all.byTarget[name] = &sharedFault{}
	}
	return all.byTarget[name]
}

// end ends one step's share of the fault, and heals the fault if no other step shares it.
func (n *sharedFault) end() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.numSteps--; n.numSteps > 0 {
		return "it stays in force for another step", nil
	}
	return n.heal()
}
