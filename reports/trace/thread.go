package trace

import (
	"cmp"
	"slices"
)

// thread is a lane of the trace, on which no two spans overlap without one lying
// wholly in the other: viewers pair a begin with the end that comes next.
type thread struct {
	pid, tid int
	name     string
	spans    []span
	instants []mark
	free     int64 // from when on nothing is on it
}

// span is what lasts.
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
