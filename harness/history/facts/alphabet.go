package facts

import (
	"fmt"

	"lockpick/harness/history"
)

// Stamps of a record lie within 73 years of its begin, and those of clocks within 146 of
// 1970, so that no sum of two that a judge forms overflows.
const (
	maxStamp = 1 << 61
	maxClock = 1 << 62
)

// strange says what in an event no record has, or "": a type or an operation that is none
// or is not the process's, a stamp that no run comes to, or a number that another has.
// What befalls processes is open: kinds of fault are the nemesis's to name.
func (in *reading) strange(e *history.Event, ofClient bool) string {
	switch {
	case !known(e, ofClient):
		return fmt.Sprintf("event %d of %s is %q of %q, which no record has", e.N, e.Process, e.Type, e.Op)
	case beyond(e.T) || beyond(e.ValidUntil) || beyond(e.Sent) || beyond(e.Applied) || beyond(e.Answered) || beyond(e.TTL), e.Local > maxClock, e.Local < -maxClock:
		return fmt.Sprintf("event %d of %s has a stamp that no run comes to", e.N, e.Process)
	case e.N > 0 && in.taken(e.N): // numbers that a record makes up are 0
		return fmt.Sprintf("two events have the number %d", e.N)
	}
	return ""
}

// taken enters the number of an event, and reports whether it is another's. Most records are
// numbered without gaps.
func (in *reading) taken(n int64) bool {
	if n >= int64(len(in.numbers)) {
		taken := in.beyond[n]
		in.beyond[n] = true
		return taken
	}
	taken := in.numbers[n]
	in.numbers[n] = true
	return taken
}

// known reports whether there are such events, of a client or of anybody else.
func known(e *history.Event, ofClient bool) bool {
	switch e.Type {
	case history.Invoke, history.OK, history.Fail, history.Info, history.Begin, history.End:
	default:
		return false
	}
	answer := e.Type == history.OK || e.Type == history.Fail || e.Type == history.Info
	switch e.Op {
	case history.OpAcquire, history.OpExtend, history.OpRead, history.OpWrite, history.OpRelease:
		return answer || ofClient && e.Type == history.Invoke
	case history.OpCheck:
		return answer
	case history.OpLost:
		return ofClient && e.Type == history.Info
	case history.OpClient, history.OpRun:
		return e.Type == history.Begin || e.Type == history.End || e.Type == history.Info
	case history.OpSet, history.OpFence, history.OpLog, history.OpStop, history.OpClock, history.OpLack, history.OpLife:
		return !ofClient && answer
	}
	return e.Process == history.Nemesis
}

func beyond(stamp int64) bool { return stamp > maxStamp || stamp < -maxStamp }

// extreme says which figure of a run no judge can reckon with, or "".
func extreme(p *history.Params) string {
	for _, f := range []struct {
		name string
		of   int64
	}{
		{"TTL", int64(p.TTL)}, {"error of the stamps", int64(p.StampError)}, {"node time-out", int64(p.NodeTimeout)}, {"retry delay", int64(p.RetryMax)},
		{"slack", int64(p.Slack)}, {"longest hold", int64(p.MaxHold)},
	} {
		if f.of < 0 || f.of > maxStamp {
			return fmt.Sprintf("the run's %s is %d ns, which no run has", f.name, f.of)
		}
	}
	if !(p.Rate >= 0 && p.Rate <= 1) {
		return fmt.Sprintf("the run's bound on the rate of clocks is %g, which no run has", p.Rate)
	}
	return ""
}
