package sequence

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"lockpick/harness/history"
)

type event = history.Event

// never is the instant of what does not happen.
const never = math.MaxInt64

// facts is a history put in the order of who did what. It takes any history, also
// one that no run could have made: what makes no sense is left out.
type facts struct {
	params   history.Params
	sessions []*session // in the order in which their acquire was called
	named    map[string]*session
	wires    []*event // lock commands on the wire, in the order in which they were sent
	tries    []*event // those of them that set a key
	log      []*event // of the resource, in the order of apply
	applies  map[string]*apply
	faults   []*fault
	gone     map[string]int64 // when a client ended or was killed
	last     int64            // the last instant of the run's own time
	stop     *event           // where the run was stopped early, nil: it was not
	keys     []*event         // how the lock's key stood on each node then
}

// fault is one fault on one target.
type fault struct {
	kind, target string
	step         int
	begin, end   *event // end is nil if it lasted to the end
}

func (f *fault) from() int64 { return f.begin.T }

func (f *fault) to() int64 {
	if f.end == nil {
		return never
	}
	return f.end.T
}

func newFacts(h *history.History) *facts {
	f := &facts{named: map[string]*session{}, applies: map[string]*apply{}, gone: map[string]int64{}}
	if h == nil {
		return f
	}
	f.params = h.Params
	current := map[string]*session{}
	events := history.CameTrue(h.Events)
	for i := range events {
		switch e := &events[i]; {
		case e.Process == history.Harness && e.Op == history.OpStop:
			f.stop = e
		case e.Process == history.Harness && e.Op == history.OpKey:
			f.keys = append(f.keys, e)
			continue
		case f.stop != nil && e.Op != history.OpLog && (e.Sent == 0 || e.Sent > f.stop.T):
			continue // that is the run's taking down
		case e.Op == history.OpRun:
		case e.Op == history.OpLog:
			f.log = append(f.log, e)
			continue // it is stamped when it was read back
		case e.Process == history.Nemesis:
			f.fault(e)
		case e.Node != "":
			f.wires = append(f.wires, e)
		case e.Op == history.OpClient:
			if e.Type == history.End {
				f.leave(e.Process, e.T)
			}
		default:
			f.client(current, e)
		}
		f.last = max(f.last, h.Events[i].T)
	}
	f.finish()
	return f
}

// finish derives what needs all facts.
func (f *facts) finish() {
	slices.SortStableFunc(f.wires, func(a, b *event) int { return cmp.Or(cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.N, b.N)) })
	for _, e := range f.wires {
		if e.Op == history.OpSet {
			f.tries = append(f.tries, e)
		}
	}
	slices.SortStableFunc(f.log, func(a, b *event) int { return cmp.Compare(a.N, b.N) })
	for _, ft := range f.faults {
		if ft.kind == "kill" {
			f.leave(ft.target, ft.from())
		}
	}
	for _, s := range f.sessions {
		s.settle(f.gone)
	}
	f.readLog()
}

func (f *facts) leave(client string, at int64) {
	if t, ok := f.gone[client]; !ok || at < t {
		f.gone[client] = at
	}
}

func (f *facts) fault(e *event) {
	switch e.Type {
	case history.Begin:
		f.faults = append(f.faults, &fault{kind: e.Op, target: e.Node, step: e.Step, begin: e})
	case history.End:
		for _, ft := range slices.Backward(f.faults) {
			if ft.kind == e.Op && ft.target == e.Node && ft.step == e.Step && ft.end == nil {
				ft.end = e
				return
			}
		}
	}
}

// client books an event of a client with its session.
func (f *facts) client(current map[string]*session, e *event) {
	if e.Op == history.OpAcquire && e.Type == history.Invoke {
		s := &session{name: e.Session, client: e.Process, key: e.Key}
		s.calls = append(s.calls, &call{op: e.Op, call: e})
		f.sessions = append(f.sessions, s)
		current[e.Process] = s
		if e.Session != "" && f.named[e.Session] == nil {
			f.named[e.Session] = s
		}
		return
	}
	s := f.named[e.Session]
	if s == nil || s.client != e.Process {
		s = current[e.Process]
	}
	if s == nil {
		return
	}
	s.book(e)
}

// linkClient is the client's end of the link that a wire command passed.
func linkClient(e *event) string { return strings.TrimSuffix(e.Process, "-"+e.Node) }

// sent returns the wire commands that a client sent from one instant to another.
func sent(wires []*event, client string, from, to int64) []*event {
	i, _ := slices.BinarySearchFunc(wires, from, func(e *event, t int64) int { return cmp.Compare(e.Sent, t) })
	var out []*event
	for _, e := range wires[i:] {
		if e.Sent > to {
			break
		}
		if linkClient(e) == client {
			out = append(out, e)
		}
	}
	return out
}

// numbers lists the numbers of events, each once, in order.
func numbers(events ...*event) []int64 {
	var out []int64
	for _, e := range events {
		if e != nil {
			out = append(out, e.N)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
