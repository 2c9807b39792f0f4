package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// ClockDriver are clocks that can be turned.
type ClockDriver interface {
	// Turn sets the wall clock by `by` and lets the clocks run at rate; it came to be
	// between two instants of true time.
	Turn(by time.Duration, rate float64) (from, to time.Duration, err error)
	// Shown is what they show.
	Shown() vdso.Shown
}

// Clock is what a node or a client runs on, as far as its clocks go. Nil is one
// whose clocks nobody turns.
type Clock struct {
	ClockDriver
	True func() time.Duration // true time, by CLOCK_MONOTONIC of where it is

	turning sync.Mutex // held while its clocks are turned and read back, and while its process starts

	// Of a client's monotonic clock: how far what it shows is ahead of the machine's, at
	// least and at most.
	least, most int64
}

// Turn turns the clocks, and reads them back by see. turned is told from when on they
// count as such.
func (m *Clock) Turn(by time.Duration, rate float64, turned func(at time.Duration), see func() (string, error)) (string, error) {
	m.turning.Lock()
	defer m.turning.Unlock()
	before := m.Shown().Rate()
	at, to, err := m.ClockDriver.Turn(by, rate)
	if err != nil {
		return "", err
	}
	// A lock holder's belief is reckoned from what a client's clocks did: the turn is
	// stamped so that it comes out shorter.
	if by < 0 || by == 0 && rate < before {
		at = to
	}
	turned(at)
	return see()
}

// Record records what a node's clock shows from an instant of true time on, or a client's
// clocks.
func (m *Clock) Record(rec *history.Recorder, whose string, client bool, at, origin time.Duration) {
	s := m.Shown()
	shown, _ := s.Wall(at)
	e := history.Event{
		T: int64(at) - int64(origin), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: whose,
		Drift: int64(math.Round((s.Rate() - 1) * 1e9)),
	}
	e.Wall, e.Local = true, shown.UnixNano()
	rec.Record(e)
	if !client { // its monotonic clock is true
		return
	}
	e.Wall, e.Local = false, int64(s.Mono(at))+m.most
	rec.Record(e)
}

// alone is the read-back of a machine on which no process can be asked.
func (m *Clock) alone() string { return m.unasked("no process runs there") }

// unasked is what a process would show that can't be asked: what is written where it
// would read it, which was read back.
func (m *Clock) unasked(why string) string {
	shown, right := m.Shown().Wall(m.True())
	return m.words(why+"; the machine's clock shows", shown, right)
}

func (m *Clock) words(who string, shown, right time.Time) string {
	off := shown.Sub(right).Round(time.Millisecond) // to ask takes a tenth of that
	return fmt.Sprintf("%s %s, %s", who, stamp(shown), nemesis.ClockWords(off, m.Shown().Rate()))
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

const (
	clockError = time.Millisecond      // of a reading, beyond the time that it took: Redis caches the time of a command
	rateBound  = 50 * time.Millisecond // how long a rate is watched
)

// See reads clocks and compares them with what they should show. A rate is watched
// until it has made a difference that can be seen; one that is too near to 1 for
// that is seen by what it has made when the clock is turned again.
func (m *Clock) See(who string, read func() (ClockReading, error)) (string, error) {
	var first ClockReading
	rate := m.Shown().Rate()
	for {
		r, err := read()
		if err != nil {
			return "", err
		}
		if err := m.differs(r); err != nil {
			return "", err
		}
		if first == (ClockReading{}) {
			first = r
		}
		passed := r.From - first.To
		gained := time.Duration(float64(passed) * math.Abs(rate-1))
		seen := gained > clockError+(first.To-first.From)+(r.To-r.From)
		if !seen && passed < rateBound && rate != 1 {
			time.Sleep(time.Millisecond)
			continue
		}
		_, right := m.Shown().Wall(r.To)
		back := m.words(who, time.Unix(0, r.Wall), right)
		if seen {
			back += fmt.Sprintf(", seen over %v", passed.Round(time.Millisecond))
		}
		return back, nil
	}
}

// ClockDiffers is an error if a wall clock does not show what it should.
func ClockDiffers(s vdso.Shown, r ClockReading) error {
	from, _ := s.Wall(r.From)
	to, right := s.Wall(r.To)
	if shown := time.Unix(0, r.Wall); shown.Before(from.Add(-clockError)) || shown.After(to.Add(clockError)) {
		return fmt.Errorf("its wall clock shows %s and should show %s; true time is %s", stamp(shown), stamp(to), stamp(right))
	}
	return nil
}

// differs is an error if clocks don't show what they should.
func (m *Clock) differs(r ClockReading) error {
	s := m.Shown()
	if err := ClockDiffers(s, r); err != nil || r.Now == 0 || m.most == 0 {
		return err
	}
	least, most := int64(s.Mono(r.From))+m.least, int64(s.Mono(r.To))+m.most
	if r.Now < least-int64(clockError) || r.Now > most+int64(clockError) {
		return fmt.Errorf("its monotonic clock is %v from what it should show", time.Duration(r.Now-most))
	}
	return nil
}

// starts keeps the clocks from being turned until its process has begun; the
// function that it returns may be called again.
func (m *Clock) starts() (started func()) {
	if m == nil {
		return func() {}
	}
	m.turning.Lock()
	return sync.OnceFunc(m.turning.Unlock)
}

// began looks at a client's first reading of its clocks.
func (m *Clock) began(r ClockReading) error {
	if m == nil {
		return errors.New("it tells its clocks and was not asked to")
	}
	s := m.Shown()
	m.least, m.most = r.Now-int64(s.Mono(r.To)), r.Now-int64(s.Mono(r.From))
	return m.differs(r)
}

// clocks are the clocks of a run, by the names of its nodes and clients whose clocks can be
// turned.
type clocks struct {
	Recorder *history.Recorder
	Origin   func() time.Duration           // true time zero
	Node     func(name string) nodeClock    // a node's server as it is now; the zero value: there is no such node
	Client   func(name string) *clientClock // that runs; nil: it does not
	Over     func(client string) bool       // it ran, and runs no more
	Others   func(m *Clock) error           // looks whether nodes were turned that were not meant; nil: nobody looks

	all map[string]*Clock
}

// nodeClock is a node's server, as far as its clock can be asked.
type nodeClock struct {
	Name  string                       // the node's, or that of a replica that has taken over
	Runs  bool                         // its process is there
	Mute  string                       // why it can't answer; "": it can
	Time  func() (ClockReading, error) // asks it
	Ended func() bool                  // it does not run any more, if only since just now
}

// Add lets a node's or a client's clocks be turned. It is called before the run begins.
func (ms *clocks) Add(name string, m *Clock) {
	if ms.all == nil {
		ms.all = map[string]*Clock{}
	}
	ms.all[name] = m
}

// Of is the machine of a node or a client; nil: nobody turns its clocks.
func (ms *clocks) Of(name string) *Clock { return ms.all[name] }

// Turn turns the clocks of a node or a client, and reads back what its process shows.
// While no process runs, its next one is read back at its start.
func (ms *clocks) Turn(target string, by time.Duration, rate float64) (string, error) {
	n := ms.Node(target)
	m := ms.Of(cmp.Or(n.Name, target)) // a replica that has taken over has none
	switch {
	case m == nil:
		return "", fmt.Errorf("turn clock of %s: no such node or client has a clock that can be turned", target)
	case n.Name == "" && ms.Over(target):
		return "", fmt.Errorf("turn clock of %s: %w", target, nemesis.ErrEnded)
	}
	turned := func(at time.Duration) { m.Record(ms.Recorder, target, n.Name == "", at, ms.Origin()) }
	see := func() (string, error) { return ms.seeClient(target, m) }
	if n.Name != "" {
		see = func() (string, error) { return ms.seeNode(target, m) }
	}
	back, err := m.Turn(by, rate, turned, see)
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	return back, nil
}

// Again reads back the clock of a node that was started again, which is as wrong as it
// was; "": nobody turns it.
func (ms *clocks) Again(node string) (string, error) {
	m := ms.Of(ms.Node(node).Name)
	if m == nil {
		return "", nil
	}
	back, err := ms.seeNode(node, m)
	return "; " + back, err
}

// seeNode reads back the clock of a node.
func (ms *clocks) seeNode(node string, m *Clock) (string, error) {
	n := ms.Node(node)
	switch {
	case !n.Runs:
		return m.alone(), nil
	case n.Mute != "":
		return m.unasked(n.Mute), nil
	}
	back, err := m.See("TIME shows", n.Time)
	switch {
	case err != nil && n.Ended():
		return m.alone(), nil
	case err != nil || ms.Others == nil:
		return back, err
	}
	return back, ms.Others(m)
}

// seeClient reads back the clocks of a client.
func (ms *clocks) seeClient(client string, m *Clock) (string, error) {
	c := ms.Client(client)
	switch {
	case c == nil && ms.Over(client):
		return "", nemesis.ErrEnded
	case c == nil:
		return m.unasked("it has not begun"), nil
	}
	back, err := m.See("wall clock shows", c.Read)
	switch {
	case errors.Is(err, proc.ErrEnded):
		return "", nemesis.ErrEnded
	case errors.Is(err, errPaused):
		return m.unasked(errPaused.Error()), nil
	}
	return back, err
}

// ReadTime is the reading of a node's clock that a reply to TIME is, which was asked for and
// given between two instants of true time.
func ReadTime(v resp.Value, from, to time.Duration) (ClockReading, error) {
	if len(v.Items) != 2 {
		return ClockReading{}, fmt.Errorf("TIME answers %d values, want 2: %s", len(v.Items), v.Str)
	}
	seconds, err1 := strconv.ParseInt(v.Items[0].Str, 10, 64)
	micros, err2 := strconv.ParseInt(v.Items[1].Str, 10, 64)
	return ClockReading{From: from, To: to, Wall: seconds*1e9 + micros*1e3}, cmp.Or(err1, err2)
}

// tellBound is within what time a client that runs tells its clocks.
const tellBound = 2 * time.Second

// errPaused says that a client can't tell its clocks.
var errPaused = errors.New("it is paused")

// clientClock is one that tells its clocks when it is asked.
type clientClock struct {
	In     io.Writer            // its stdin
	Clocks <-chan ClockReading  // what it says that they show
	Ended  <-chan struct{}      // closed when it has
	Paused func() bool          // it is, and says nothing
	True   func() time.Duration // true time, by CLOCK_MONOTONIC of where it is
}

// Read asks a client for its clocks.
func (c clientClock) Read() (ClockReading, error) {
	asked, began := c.True(), time.Now()
	if _, err := io.WriteString(c.In, tellClock); err != nil {
		return ClockReading{}, proc.ErrEnded // nobody reads it any more
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case r := <-c.Clocks:
			if r.From >= asked { // or it answers an earlier question
				return r, nil
			}
		case <-c.Ended:
			return ClockReading{}, proc.ErrEnded
		case <-look.C:
			switch {
			case c.Paused():
				return ClockReading{}, errPaused
			case time.Since(began) > tellBound:
				return ClockReading{}, fmt.Errorf("it did not tell its clocks within %v", tellBound)
			}
		}
	}
}

// RemoteClock is clocks that an Agent turns. They stay as wrong as they are when the agent
// ends, as it does with the process, and the next one goes on with them.
type RemoteClock struct {
	Context context.Context      // bounds all calls
	Both    bool                 // a rate applies to the monotonic clock, too
	True    func() time.Duration // true time, by CLOCK_MONOTONIC of where they are

	mu    sync.Mutex
	shown vdso.Shown
	agent *Caller // the latest
}

var _ ClockDriver = (*RemoteClock)(nil)

// callBound is how long an agent may take; to wait for a gate takes the longest.
const callBound = 10 * time.Second

// Start lets a process through its gate, whose id is as the agent sees it. It returns
// when its program runs by these clocks.
func (r *RemoteClock) Start(agent *Caller, pid int) error {
	r.mu.Lock()
	r.agent = agent
	r.mu.Unlock()
	shown := r.Shown()
	if err := r.call("Start", CallArgs{pid, shown, r.Both}, &shown); err != nil {
		return err
	}
	r.set(shown)
	return nil
}

// Turn is of Clocks. Where no process runs, the next one finds them so.
func (r *RemoteClock) Turn(by time.Duration, rate float64) (from, to time.Duration, err error) {
	var shown vdso.Shown
	err = r.call("Turn", CallArgs{by, rate}, &from, &to, &shown)
	if errors.Is(err, ErrAgentGone) {
		from = r.True()
		to = from
		shown, err = r.Shown().Turned(from, by, rate, r.Both)
	}
	if err != nil {
		return 0, 0, err
	}
	r.set(shown)
	return from, to, nil
}

// Shown is of Clocks.
func (r *RemoteClock) Shown() vdso.Shown {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}

func (r *RemoteClock) set(s vdso.Shown) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = s
}

func (r *RemoteClock) call(call string, args CallArgs, results ...any) error {
	r.mu.Lock()
	agent := r.agent
	r.mu.Unlock()
	if agent == nil {
		return fmt.Errorf("call %s: %w", call, ErrAgentGone)
	}
	ctx, cancel := context.WithTimeout(r.Context, callBound)
	defer cancel()
	return agent.Call(ctx, call, args, results...)
}

// ClockErrors are those of an agent by which callers branch.
var ClockErrors = callErrors{"permission": fs.ErrPermission}

type agent struct{ m vdso.Machine }

// Start lets a process through its gate, with the clocks that its predecessor had. both: a rate applies
// to the monotonic clock, too.
func (a *agent) Start(pid int, shown vdso.Shown, both bool) (vdso.Shown, error) {
	a.m.Monotonic = both
	a.m.Take(shown)
	return a.m.Shown(), a.m.StartGate(pid)
}

// Turn turns the clocks, and says when, and what they show since.
func (a *agent) Turn(by time.Duration, rate float64) (from, to time.Duration, shown vdso.Shown, err error) {
	from, to, err = a.m.Turn(by, rate)
	return from, to, a.m.Shown(), err
}

// ServeClock turns the clocks of one process that it sees, until in ends.
func ServeClock(in io.Reader, out io.Writer) error {
	a := &agent{}
	defer a.m.Close()
	s := CallServer{Errors: ClockErrors, Of: func() []any { return []any{a} }}
	return s.Serve(in, out)
}

// LocalClockAgent is an agent in this process, for one that ended tells the end of.
func LocalClockAgent(ended <-chan struct{}) *Caller {
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	go func() { out.CloseWithError(ServeClock(in, out)) }()
	go func() {
		<-ended
		ask.Close()
	}()
	return NewCaller(ask, answers, ClockErrors, nil)
}
