package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"lockpick/harness/real/vdso"
)

// Remote is clocks that an Agent turns. They stay as wrong as they are when the agent
// ends, as it does with the process, and the next one goes on with them.
type RemoteClock struct {
	Context context.Context      // bounds all calls
	Both    bool                 // a rate is that of the monotonic clock, too
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

// Errors are those of an agent by which callers branch.
var ClockErrors = callErrors{"permission": fs.ErrPermission}

type agent struct{ m vdso.Machine }

// Start lets a process through its gate, by clocks that show what others did. both: a rate
// is that of the monotonic clock, too.
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

// Agent turns the clocks of one process that it sees, until in ends.
func ServeClock(in io.Reader, out io.Writer) error {
	a := &agent{}
	defer a.m.Close()
	s := CallServer{Errors: ClockErrors, Of: func() []any { return []any{a} }}
	return s.Serve(in, out)
}

// Here is an agent in this process, for one that ended tells the end of.
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
