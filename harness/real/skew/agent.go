package skew

import (
	"io"
	"io/fs"
	"time"

	"lockpick/harness/real/clock"
	"lockpick/harness/real/wire"
)

// Errors are those of an agent by which callers branch.
var Errors = wire.Errors{"permission": fs.ErrPermission}

// agent is what a Remote calls.
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
