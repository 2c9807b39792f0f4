//go:build linux

package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
	"lockpick/harness/resp"
	"lockpick/nemesis"
)

// Clock controls the wall clock and the monotonic clock of one node, client or adapter. After a
// restart, the next process continues with the same clocks. If lockpick is not allowed to trace the
// process, an agent changes its clocks.
type Clock struct {
	PairedClock *Clock // another clock that changes at the same instant, or nil

	ctx      context.Context      // for calls to the agent
	trueTime func() time.Duration // true time, by CLOCK_MONOTONIC on the process's machine
	machine  vdso.Machine

	mu        sync.Mutex
	agent     *Caller         // nil if this process changes the clocks
	lastState vdso.ClockState // last state reported by the agent

	changeMu sync.Mutex // held during a change and its read-back, and while the process starts

	// minAhead and maxAhead bound how far a client's monotonic clock is ahead of its machine's, in
	// nanoseconds.
	minAhead, maxAhead int64
}

// NewClock returns correct clocks. Rate changes apply to the wall clock and, if includeMonotonic is
// set, to the monotonic clock.
func NewClock(ctx context.Context, includeMonotonic bool, trueTime func() time.Duration) *Clock {
	return &Clock{ctx: ctx, trueTime: trueTime, machine: vdso.Machine{Monotonic: includeMonotonic}}
}

// Start applies the clocks to a process traced by the calling thread. See vdso.Machine.
func (m *Clock) Start(pid int) error {
	err := m.machine.Start(pid)
	if errors.Is(err, vdso.ErrSignaled) {
		return fmt.Errorf("%w: %w", proc.ErrSignaled, err)
	}
	return err
}

// StartGate lets a process through its gate, and waits until the program behind the gate runs with
// these clocks.
func (m *Clock) StartGate(pid int) error {
	m.assignAgent(nil)
	startErr := make(chan error, 1)
	go func() { startErr <- m.machine.StartGate(pid) }()
	ctx, cancel := context.WithTimeout(m.ctx, agentTimeout) // a frozen process never passes the gate
	defer cancel()
	select {
	case err := <-startErr:
		return err
	case <-ctx.Done():
		return fmt.Errorf("pass gate: %w", context.Cause(ctx))
	}
}

// StartWithAgent is like StartGate, but lets an agent change the clocks. The agent exits together
// with the process. pid is the process ID as seen by the agent.
func (m *Clock) StartWithAgent(agent *Caller, pid int) error {
	state := m.assignAgent(agent)
	return m.call(agent, "Start", CallArgs{pid, state, m.machine.Monotonic})
}

// assignAgent makes the agent responsible for the clocks, or this process if agent is nil. It
// returns the current clock state.
func (m *Clock) assignAgent(agent *Caller) vdso.ClockState {
	state := m.State()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.machine.SetClockState(state)
	m.agent, m.lastState = agent, state
	return state
}

// Close stops tracing the process.
func (m *Clock) Close() error { return m.machine.Close() }

func (m *Clock) State() vdso.ClockState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agent == nil {
		return m.machine.ClockState()
	}
	return m.lastState
}

// agentTimeout limits a call to an agent. Waiting for a gate takes longest.
const agentTimeout = 10 * time.Second

// call calls the agent. The last result of every call is the new clock state.
func (m *Clock) call(agent *Caller, call string, args CallArgs, results ...any) error {
	ctx, cancel := context.WithTimeout(m.ctx, agentTimeout)
	defer cancel()
	var state vdso.ClockState
	if err := agent.Call(ctx, call, args, append(results, &state)...); err != nil {
		return err
	}
	m.setState(state)
	return nil
}

func (m *Clock) setState(state vdso.ClockState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastState = state
}

// change steps the wall clock and sets the rate. The change took effect at some instant of true
// time between from and to. If no process is running, the change applies to the next one.
func (m *Clock) change(step time.Duration, rate float64) (from, to time.Duration, err error) {
	pairedErr := make(chan error, 1)
	go func() {
		var err error
		if m.PairedClock != nil {
			_, _, err = m.PairedClock.change(step, rate)
		}
		pairedErr <- err
	}()
	m.mu.Lock()
	agent := m.agent
	m.mu.Unlock()
	if agent == nil {
		from, to, err = m.machine.Adjust(step, rate)
	} else {
		err = m.call(agent, "Turn", CallArgs{step, rate}, &from, &to)
	}
	if errors.Is(err, ErrAgentGone) {
		var state vdso.ClockState
		from = m.trueTime()
		to = from
		if state, err = m.State().AfterChange(from, step, rate, m.machine.Monotonic); err == nil {
			m.setState(state)
		}
	}
	return from, to, errors.Join(err, <-pairedErr)
}

// Adjust changes the clocks and returns the true time from which the change counts. The checker
// uses a client's clocks to compute how long the client considered itself the holder, so Adjust
// picks the instant that makes this period shorter.
func (m *Clock) Adjust(step time.Duration, rate float64) (at time.Duration, err error) {
	before := m.State().Rate()
	from, to, err := m.change(step, rate)
	if step < 0 || step == 0 && rate < before {
		return to, err
	}
	return from, err
}

// record adds clock events to the history: from the given true time on, a node's wall clock or a
// client's clocks show the recorded times.
func (m *Clock) record(rec *history.Recorder, target string, at, origin time.Duration) {
	s := m.State()
	wall, _ := s.Wall(at)
	e := history.Event{
		T: int64(at) - int64(origin), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: target,
		Drift: int64(math.Round((s.Rate() - 1) * 1e9)),
	}
	e.WallClock, e.Local = true, wall.UnixNano()
	rec.Record(e)
	if !m.machine.Monotonic { // a node's monotonic clock stays correct
		return
	}
	e.WallClock, e.Local = false, int64(s.Monotonic(at))+m.maxAhead
	rec.Record(e)
}

func (m *Clock) noProcessReadBack() string { return m.memoryReadBack("no process is running there") }

// memoryReadBack returns the read-back for a process that can't report its clocks. It describes the
// clock state that was written to the process's memory and read back from there.
func (m *Clock) memoryReadBack(why string) string {
	wall, trueWall := m.State().Wall(m.trueTime())
	return m.describe(why+"; the machine's clock shows", wall, trueWall)
}

func (m *Clock) describe(prefix string, wall, trueWall time.Time) string {
	offset := wall.Sub(trueWall).Round(time.Millisecond) // a reading takes a tenth of that
	return fmt.Sprintf("%s %s, %s", prefix, formatTime(wall), nemesis.DescribeClock(offset, m.State().Rate()))
}

func formatTime(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

const (
	clockError    = time.Millisecond      // error of a reading beyond its duration, because Redis caches the time during a command
	rateWatchTime = 50 * time.Millisecond // to observe a rate
)

// ReadBack reads the clocks and compares them with their expected state. After a rate change, it
// keeps reading until the rate has made a measurable difference. If the rate is too close to 1 for
// that, the next change checks its effect.
func (m *Clock) ReadBack(prefix string, read func() (ClockReading, error)) (string, error) {
	var first ClockReading
	rate := m.State().Rate()
	for {
		r, err := read()
		if err != nil {
			return "", err
		}
		if err := m.check(r); err != nil {
			return "", err
		}
		if first == (ClockReading{}) {
			first = r
		}
		elapsed := r.From - first.To
		expectedGain := time.Duration(float64(elapsed) * math.Abs(rate-1))
		seen := expectedGain > clockError+(first.To-first.From)+(r.To-r.From)
		if !seen && elapsed < rateWatchTime && rate != 1 {
			time.Sleep(time.Millisecond)
			continue
		}
		_, trueWall := m.State().Wall(r.To)
		back := m.describe(prefix, time.Unix(0, r.Wall), trueWall)
		if seen {
			back += fmt.Sprintf(", seen over %v", elapsed.Round(time.Millisecond))
		}
		return back, nil
	}
}

// CheckWallClock returns an error if the wall clock does not show the expected time.
func CheckWallClock(s vdso.ClockState, r ClockReading) error {
	from, _ := s.Wall(r.From)
	to, trueWall := s.Wall(r.To)
	if wall := time.Unix(0, r.Wall); wall.Before(from.Add(-clockError)) || wall.After(to.Add(clockError)) {
		return fmt.Errorf("its wall clock shows %s but should show %s; true time is %s", formatTime(wall), formatTime(to), formatTime(trueWall))
	}
	return nil
}

// check returns an error if the clocks do not show the expected times.
func (m *Clock) check(r ClockReading) error {
	s := m.State()
	if err := CheckWallClock(s, r); err != nil || r.Now == 0 || m.maxAhead == 0 {
		return err
	}
	minNow, maxNow := int64(s.Monotonic(r.From))+m.minAhead, int64(s.Monotonic(r.To))+m.maxAhead
	if r.Now < minNow-int64(clockError) || r.Now > maxNow+int64(clockError) {
		return fmt.Errorf("its monotonic clock is off by %v", time.Duration(r.Now-maxNow))
	}
	return nil
}

// lockChanges prevents other changes to the clocks until unlock is called. Further calls of unlock
// do nothing.
func (m *Clock) lockChanges() (unlock func()) {
	if m == nil {
		return func() {}
	}
	m.changeMu.Lock()
	return sync.OnceFunc(m.changeMu.Unlock)
}

// checkFirstReading checks a client's first clock reading. It computes minAhead and maxAhead.
func (m *Clock) checkFirstReading(r ClockReading) error {
	if m == nil {
		return errors.New("it reported its clocks without being asked")
	}
	s := m.State()
	m.minAhead, m.maxAhead = r.Now-int64(s.Monotonic(r.To)), r.Now-int64(s.Monotonic(r.From))
	return m.check(r)
}

// clocks holds the adjustable clocks of a run's nodes and clients.
type clocks struct {
	CheckOthers func(m *Clock) error // checks that no other node's clock has changed; may be nil

	run    *Run
	byName map[string]*Clock
}

// AddClock makes a node's or client's clocks adjustable. It must be called before the run begins.
func (cs *clocks) AddClock(name string, m *Clock) {
	if cs.byName == nil {
		cs.byName = map[string]*Clock{}
	}
	cs.byName[name] = m
}

// Clock returns the clocks of a node or client, or nil if they can't be changed.
func (cs *clocks) Clock(name string) *Clock { return cs.byName[name] }

// TurnClock changes the clocks of a node or client and reads them back from its process. If no
// process is running, the next one is read back when it starts.
func (cs *clocks) TurnClock(target string, step time.Duration, rate float64) (string, error) {
	name := target
	n, isNode := cs.run.Find(target)
	if isNode {
		name = n.Redis().Name // a promoted replica has no adjustable clock
	}
	m := cs.Clock(name)
	switch {
	case m == nil:
		return "", fmt.Errorf("turn clock of %s: no node or client with that name has adjustable clocks", target)
	case !isNode && cs.run.clientEnded(target):
		return "", fmt.Errorf("turn clock of %s: %w", target, nemesis.ErrEnded)
	}
	defer m.lockChanges()()
	at, err := m.Adjust(step, rate)
	var back string
	if err == nil {
		m.record(cs.run.rec, target, at, cs.run.Origin())
		if isNode {
			back, err = cs.readNodeClock(n, m)
		} else {
			back, err = cs.readClientClocks(target, m)
		}
	}
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	return back, nil
}

// readRestartedClock checks that a restarted node's clock still has its old offset, and returns the
// read-back. It returns "" if the clock is not adjustable.
func (cs *clocks) readRestartedClock(n Server) (string, error) {
	m := cs.Clock(n.Redis().Name)
	if m == nil {
		return "", nil
	}
	back, err := cs.readNodeClock(n, m)
	return "; " + back, err
}

func (cs *clocks) readNodeClock(n Server, m *Clock) (string, error) {
	if !n.Running() {
		return m.noProcessReadBack(), nil
	}
	if reason := n.WhyUnresponsive(); reason != "" {
		return m.memoryReadBack(reason), nil
	}
	back, err := m.ReadBack("TIME shows", func() (ClockReading, error) { return cs.run.ReadTime(n) })
	switch {
	case err != nil && n.Ended():
		return m.noProcessReadBack(), nil
	case err != nil || cs.CheckOthers == nil:
		return back, err
	}
	return back, cs.CheckOthers(m)
}

func (cs *clocks) readClientClocks(client string, m *Clock) (string, error) {
	c := cs.run.Client(client)
	switch {
	case c == nil && cs.run.clientEnded(client):
		return "", nemesis.ErrEnded
	case c == nil:
		return m.memoryReadBack("it has not begun"), nil
	}
	back, err := m.ReadBack("wall clock shows", func() (ClockReading, error) { return c.ReadClocks(cs.run.TrueTime) })
	switch {
	case errors.Is(err, proc.ErrEnded):
		return "", nemesis.ErrEnded
	case errors.Is(err, errPaused):
		return m.memoryReadBack(errPaused.Error()), nil
	}
	return back, err
}

// ParseTimeReply converts a reply to TIME into a clock reading. The command was sent at true time
// from, and its reply was received at true time to.
func ParseTimeReply(v resp.Value, from, to time.Duration) (ClockReading, error) {
	if len(v.Items) != 2 {
		return ClockReading{}, fmt.Errorf("TIME returned %d values, want 2: %s", len(v.Items), v.Str)
	}
	seconds, err1 := strconv.ParseInt(v.Items[0].Str, 10, 64)
	micros, err2 := strconv.ParseInt(v.Items[1].Str, 10, 64)
	return ClockReading{From: from, To: to, Wall: seconds*1e9 + micros*1e3}, cmp.Or(err1, err2)
}

// clockReplyTimeout limits the time that a running client takes to report its clocks.
const clockReplyTimeout = 2 * time.Second

// errPaused is returned for a client that can't report its clocks because it is paused.
var errPaused = errors.New("it is paused")

// ReadClocks requests a clock reading from the client. trueTime returns true time on the client's
// machine.
func (p *Client) ReadClocks(trueTime func() time.Duration) (ClockReading, error) {
	requestTime, start, done := trueTime(), time.Now(), p.Done()
	if _, err := io.WriteString(p.In, clockLine); err != nil {
		return ClockReading{}, proc.ErrEnded // the process no longer reads its stdin
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case r := <-p.clocks:
			if r.From >= requestTime { // otherwise, it answers an earlier request
				return r, nil
			}
		case <-done:
			return ClockReading{}, proc.ErrEnded
		case <-ticker.C:
			switch {
			case p.Paused():
				return ClockReading{}, errPaused
			case time.Since(start) > clockReplyTimeout:
				return ClockReading{}, fmt.Errorf("it did not report its clocks within %v", clockReplyTimeout)
			}
		}
	}
}

type clockServer struct{ m vdso.Machine }

// Start lets a process through its gate and gives it the clocks of its predecessor. Rate changes
// apply to the wall clock and, if includeMonotonic is set, to the monotonic clock.
func (a *clockServer) Start(pid int, state vdso.ClockState, includeMonotonic bool) (vdso.ClockState, error) {
	a.m.Monotonic = includeMonotonic
	a.m.SetClockState(state)
	return a.m.ClockState(), a.m.StartGate(pid)
}

// Turn changes the clocks. The change took effect at some instant of true time between from and to.
func (a *clockServer) Turn(step time.Duration, rate float64) (from, to time.Duration, state vdso.ClockState, err error) {
	from, to, err = a.m.Adjust(step, rate)
	return from, to, a.m.ClockState(), err
}

// ServeClock lets a caller change the clocks of one process. It answers calls until in is closed.
func ServeClock(in io.Reader, out io.Writer) error {
	a := &clockServer{}
	defer a.m.Close()
	s := CallServer{Targets: func() []any { return []any{a} }}
	return s.Serve(in, out)
}
