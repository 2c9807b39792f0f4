package skew

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"lockpick/harness/real/clock"
	"lockpick/harness/real/wire"
)

// Remote is clocks that an Agent turns. They stay as wrong as they are when the agent
// ends, as it does with the process, and the next one goes on with them.
type Remote struct {
	Context context.Context      // bounds all calls
	Both    bool                 // a rate is that of the monotonic clock, too
	True    func() time.Duration // true time, by CLOCK_MONOTONIC of where they are

	mu    sync.Mutex
	shown clock.Shown
	agent *wire.Caller // the latest
}

var _ Clocks = (*Remote)(nil)

// callBound is how long an agent may take; to wait for a gate takes the longest.
const callBound = 10 * time.Second

// Start lets a process through its gate, whose id is as the agent sees it. It returns
// when its program runs by these clocks.
func (r *Remote) Start(agent *wire.Caller, pid int) error {
	r.mu.Lock()
	r.agent = agent
	r.mu.Unlock()
	shown := r.Shown()
	if err := r.call("Start", wire.Args{pid, shown, r.Both}, &shown); err != nil {
		return err
	}
	r.set(shown)
	return nil
}

// Turn is of Clocks. Where no process runs, the next one finds them so.
func (r *Remote) Turn(by time.Duration, rate float64) (from, to time.Duration, err error) {
	var shown clock.Shown
	err = r.call("Turn", wire.Args{by, rate}, &from, &to, &shown)
	if errors.Is(err, wire.ErrGone) {
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
func (r *Remote) Shown() clock.Shown {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}

func (r *Remote) set(s clock.Shown) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = s
}

func (r *Remote) call(call string, args wire.Args, results ...any) error {
	r.mu.Lock()
	agent := r.agent
	r.mu.Unlock()
	if agent == nil {
		return fmt.Errorf("call %s: %w", call, wire.ErrGone)
	}
	ctx, cancel := context.WithTimeout(r.Context, callBound)
	defer cancel()
	return agent.Call(ctx, call, args, results...)
}

// Errors are those of an agent by which callers branch.
var Errors = wire.Errors{"permission": fs.ErrPermission}

type agent struct{ m clock.Machine }

// Start lets a process through its gate, by clocks that show what others did. both: a rate
// is that of the monotonic clock, too.
func (a *agent) Start(pid int, shown clock.Shown, both bool) (clock.Shown, error) {
	a.m.Monotonic = both
	a.m.Take(shown)
	return a.m.Shown(), a.m.StartGate(pid)
}

// Turn turns the clocks, and says when, and what they show since.
func (a *agent) Turn(by time.Duration, rate float64) (from, to time.Duration, shown clock.Shown, err error) {
	from, to, err = a.m.Turn(by, rate)
	return from, to, a.m.Shown(), err
}

// Agent turns the clocks of one process that it sees, until in ends.
func Agent(in io.Reader, out io.Writer) error {
	a := &agent{}
	defer a.m.Close()
	s := wire.Server{Errors: Errors, Of: func() []any { return []any{a} }}
	return s.Serve(in, out)
}

// Here is an agent in this process, for one that ended tells the end of.
func Here(ended <-chan struct{}) *wire.Caller {
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	go func() { out.CloseWithError(Agent(in, out)) }()
	go func() {
		<-ended
		ask.Close()
	}()
	return wire.NewCaller(ask, answers, Errors, nil)
}
