package skew

import (
	"encoding/json"
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

// Agent turns the clocks of one process that it sees, until in ends.
func Agent(in io.Reader, out io.Writer) error {
	var m clock.Machine
	defer m.Close()
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
	}}
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
	return wire.NewCaller(ask, answers, Errors, func(string, json.RawMessage) {})
}
