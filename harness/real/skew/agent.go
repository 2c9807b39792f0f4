package skew

import (
	"context"
	"io"
	"io/fs"
	"time"

	"lockpick/harness/real/clock"
	"lockpick/harness/real/wire"
)

// starting asks an agent to let a process through its gate.
type starting struct {
	PID   int         `json:"pid"`
	Shown clock.Shown `json:"shown"`
	Both  bool        `json:"both"` // a rate is that of the monotonic clock, too
}

type turning struct {
	By   time.Duration `json:"by"`
	Rate float64       `json:"rate"`
}

type turned struct {
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
	Shown clock.Shown   `json:"shown"`
}

// Errors are those of an agent by which callers branch.
var Errors = wire.Errors{"permission": fs.ErrPermission}

// Agent turns the clocks of one process that it sees, and asks nodes that it reaches,
// until in ends.
func Agent(in io.Reader, out io.Writer) error {
	var m clock.Machine
	s := wire.Server{Errors: Errors, Handlers: map[string]wire.Handler{
		"start": wire.Handle(func(s starting) (clock.Shown, error) {
			m.Monotonic = s.Both
			m.Take(s.Shown)
			return m.Shown(), m.StartGate(s.PID)
		}),
		"turn": wire.Handle(func(t turning) (turned, error) {
			from, to, err := m.Turn(t.By, t.Rate)
			return turned{from, to, m.Shown()}, err
		}),
		"time": wire.Handle(func(addr string) (Reading, error) {
			return ReadTime(context.Background(), addr)
		}),
	}}
	return s.Serve(in, out)
}
