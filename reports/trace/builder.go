package trace

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// builder puts the facts of a run on threads.
type builder struct {
	f       *facts.Facts
	threads []*thread
	lanes   map[string][]*thread // by group and name; the second and later for what overlaps
	counts  []mark
	end     int64
}

func newBuilder(h *history.History) *builder {
	b := &builder{f: facts.Read(h), lanes: map[string][]*thread{}}
	for _, c := range h.Params.Clients {
		b.lane(clients, c, 0)
		b.lane(clients, c+" believes", 0)
	}
	for _, n := range h.Params.Nodes {
		b.lane(nodes, n, 0)
	}
	for _, e := range b.f.Events {
		b.end = max(b.end, e.T)
	}
	return b
}

// lane is a thread of a name on which nothing is any more at an instant.
func (b *builder) lane(pid int, name string, from int64) *thread {
	id := fmt.Sprint(pid, " ", name)
	for _, t := range b.lanes[id] {
		if t.free <= from {
			return t
		}
	}
	t := &thread{pid: pid, tid: len(b.threads) + 1, name: name}
	if n := len(b.lanes[id]); n > 0 {
		t.name = fmt.Sprintf("%s (%d)", clip(name), n+1)
	}
	b.lanes[id] = append(b.lanes[id], t)
	b.threads = append(b.threads, t)
	return t
}

func (b *builder) span(pid int, name string, s span) {
	s.name, s.to = clip(s.name), max(s.from, s.to)
	t := b.lane(pid, name, s.from)
	t.free = s.to
	t.spans = append(t.spans, s)
}

func (b *builder) instant(pid int, name string, m mark) {
	m.Name, m.Phase, m.Scope = clip(m.Name), "i", "t"
	t := b.lane(pid, name, int64(1)<<62)
	t.instants = append(t.instants, m)
}

// begun is a span with the place where it belongs.
type begun struct {
	pid  int
	lane string
	span span
}

// read puts each fact on its thread.
func (b *builder) read() {
	for _, e := range slices.Concat(b.f.Links, b.f.Others) {
		b.instant(nodes, e.Node, mark{Name: e.Process + " " + e.Op + " " + string(e.Type), TS: micros(cmp.Or(e.Applied, e.Sent, e.T)), Args: args(e)})
	}
	var all []begun
	for s := range b.f.Sessions() {
		all = append(all, b.lasting(clients, s.Client(), history.OpAcquire, s.Acquire))
		for a := range s.Actions() {
			if a.Call == a.Return { // a look at the deadline
				b.remark(a.Call)
				continue
			}
			all = append(all, b.lasting(clients, s.Client(), a.Call.Op, a))
		}
	}
	for _, e := range b.f.Loose {
		b.remark(e)
	}
	for _, e := range b.f.Log {
		b.instant(resource, "log", mark{Name: string(e.Type) + " " + e.Cause, TS: micros(facts.Applied(e)), Args: args(e)})
	}
	for _, f := range b.f.Faults {
		if f.Begin != nil {
			name := f.Kind + " " + f.Target
			all = append(all, b.lasting(faults, name, name, facts.Operation{Call: f.Begin, Return: f.End}))
		}
	}
	all = append(all, b.keys()...)
	slices.SortStableFunc(all, func(x, y begun) int {
		return cmp.Or(cmp.Compare(x.span.from, y.span.from), cmp.Compare(x.span.args["event"].(int64), y.span.args["event"].(int64)))
	})
	for _, s := range all {
		b.span(s.pid, s.lane, s.span)
	}
}

// keys are the values that keys had on nodes, as the nodes told it, each to the fact that
// ended it.
func (b *builder) keys() (all []begun) {
	lives := b.f.Lives()
	for _, n := range b.f.Params.Nodes {
		for _, key := range lives.Keys {
			for _, s := range lives.Stays(n, key) {
				x := span{name: cmp.Or(facts.LinkClient(s.By()), "nobody") + "'s " + key, from: s.From(), to: min(s.To(), b.end), args: args(s.Put)}
				x.args["value"] = clip(s.Value)
				if e := s.End; e != nil {
					x.args["end"], x.args["came"] = e.N, string(e.Life.What)
				} else {
					x.args["unfinished"] = true
				}
				all = append(all, begun{nodes, n + " " + key, x})
			}
		}
	}
	return all
}

// remark puts what takes no time on its client's thread.
func (b *builder) remark(e *history.Event) {
	b.instant(clients, e.Process, mark{Name: e.Op + " " + string(e.Type), TS: micros(e.T), Args: args(e)})
}

// lasting is a span from a call to its return, or to the end of the record.
func (b *builder) lasting(pid int, lane, name string, o facts.Operation) begun {
	s := span{name: name, from: o.Call.T, to: b.end, args: args(o.Call)}
	if ret := o.Return; ret != nil {
		s.to = ret.T
		s.args["end"], s.args["came"] = ret.N, string(ret.Type)
		if ret.Cause != "" {
			s.args["cause"] = clip(ret.Cause)
		}
	} else {
		s.args["unfinished"] = true
	}
	return begun{pid, lane, s}
}

// args are what a viewer shows of an event.
func args(e *history.Event) map[string]any {
	a := map[string]any{"event": e.N}
	for name, text := range map[string]string{"key": e.Key, "session": e.Session, "value": e.Value, "cause": e.Cause} {
		if text != "" {
			a[name] = clip(text)
		}
	}
	for name, n := range map[string]int64{"fence": e.Fence, "version": e.Version, "sent": e.Sent, "applied": e.Applied, "answered": e.Answered, "step": int64(e.Step)} {
		if n != 0 {
			a[name] = n
		}
	}
	return a
}

// believe puts beliefs on threads, and counts the holders of each lock.
func (b *builder) believe() {
	type change struct {
		t    int64
		key  string
		step int
	}
	var changes []change
	keys := map[string]bool{}
	for _, s := range b.f.Beliefs() {
		a := map[string]any{"event": s.Opens, "session": clip(s.Session), "ended": string(s.End)}
		if s.End == facts.Still {
			a["unfinished"] = true
		}
		b.span(clients, s.Client+" believes", span{name: "believes it holds " + s.Key, from: s.From, to: s.To, args: a})
		changes = append(changes, change{s.From, s.Key, 1}, change{s.To, s.Key, -1})
		if !keys[s.Key] {
			keys[s.Key] = true
			b.counts = append(b.counts, counter(s.Key, 0, 0))
		}
	}
	slices.SortStableFunc(changes, func(x, y change) int { return cmp.Or(cmp.Compare(x.t, y.t), cmp.Compare(x.step, y.step)) })
	holders := map[string]int{}
	for _, c := range changes {
		holders[c.key] += c.step
		b.counts = append(b.counts, counter(c.key, c.t, holders[c.key]))
	}
}

func counter(key string, t int64, n int) mark {
	return mark{Name: clip("holders of " + key), Phase: "C", TS: micros(t), PID: clients, Args: map[string]any{"holders": n}}
}

// violations marks the span of harm of each violated property.
func (b *builder) violations(v checker.Verdict) {
	for _, r := range v.Results {
		if w := r.Witness; r.Outcome == checker.Violated && w != nil {
			b.span(faults, "violated: "+r.Property, span{name: r.Property, from: w.From, to: min(w.To, b.end),
				args: map[string]any{"because": clip(r.Because), "cause": r.Cause, "events": w.Events}})
		}
	}
}

// thread is a lane of the trace, on which no two spans overlap without one lying
// wholly in the other: viewers pair a begin with the end that comes next.
type thread struct {
	pid, tid int
	name     string
	spans    []span
	instants []mark
	free     int64 // from when on nothing is on it
}

type span struct {
	name     string
	from, to int64
	args     map[string]any
}

// marks are a thread's spans and instants in the order of time. At one instant what
// ends comes first, then what has no length, then what begins.
func (t *thread) marks() []mark {
	type placed struct {
		mark
		rank int
	}
	var out []placed
	slices.SortStableFunc(t.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i, s := range t.spans {
		begin := mark{Name: s.name, Phase: "B", TS: micros(s.from), PID: t.pid, TID: t.tid, Args: s.args}
		end := mark{Name: s.name, Phase: "E", TS: micros(s.to), PID: t.pid, TID: t.tid}
		// The spans of a lane follow each other, so their places in it keep pairs together.
		out = append(out, placed{begin, 2 * i}, placed{end, 2*i + 1})
	}
	for _, m := range t.instants {
		m.PID, m.TID = t.pid, t.tid
		out = append(out, placed{m, len(out)})
	}
	slices.SortStableFunc(out, func(a, b placed) int { return cmp.Or(cmp.Compare(a.TS, b.TS), cmp.Compare(a.rank, b.rank)) })
	marks := make([]mark, len(out))
	for i, p := range out {
		marks[i] = p.mark
	}
	return marks
}
