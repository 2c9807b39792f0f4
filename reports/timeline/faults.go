package timeline

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/nemesis"
	"lockpick/reports/words"
)

// fault is one fault on one target.
type fault struct {
	kind, target            string
	step                    int
	invoke, begin, end, bad *event
}

func (f *fault) events() []*event { return []*event{f.invoke, f.begin, f.end, f.bad} }

// from is when it came into force, or else when it was tried.
func (f *fault) from() int64 {
	for _, e := range []*event{f.begin, f.invoke, f.bad, f.end} {
		if e != nil {
			return e.T
		}
	}
	return 0
}

// to is when it was over.
func (f *fault) to() int64 {
	switch {
	case f.end != nil:
		return f.end.T
	case f.begin == nil || slices.Contains(instant, f.kind):
		return f.from()
	}
	return never
}

// instant is the kinds of fault that happen, and are not healed.
var instant = []string{"clock-jump", "drop", "failover", "touch"}

func (b *builder) readFault(e *event) {
	open := func(ok func(*fault) bool) *fault {
		for _, f := range slices.Backward(b.faults) {
			if f.kind == e.Op && f.target == e.Node && f.step == e.Step && ok(f) {
				return f
			}
		}
		f := &fault{kind: e.Op, target: e.Node, step: e.Step}
		b.faults = append(b.faults, f)
		return f
	}
	switch {
	case e.Op == history.OpClock:
		return
	case e.Type == history.Invoke:
		b.faults = append(b.faults, &fault{kind: e.Op, target: e.Node, step: e.Step, invoke: e})
	case e.Type == history.Begin:
		open(func(f *fault) bool { return f.begin == nil && f.bad == nil }).begin = e
		if e.Op == "kill" && b.gone[e.Node] == nil {
			b.gone[e.Node] = e
		}
	case e.Type == history.End:
		open(func(f *fault) bool { return f.begin != nil && f.end == nil }).end = e
	case e.Type == history.Fail:
		open(func(f *fault) bool { return f.end == nil && f.bad == nil }).bad = e
	}
	if strings.HasPrefix(e.Op, "clock-") {
		b.turned(e)
	}
}

// turn is how a process's clock ran from an instant on, as it was read back.
type turn struct {
	at, offset int64
	rate       float64
	event      *event
}

func (b *builder) turned(e *event) {
	off, rate, ok := nemesis.ReadClock(e.Cause)
	if !ok || rate <= 0 {
		return
	}
	b.clocks[e.Node] = append(b.clocks[e.Node], turn{at: e.T, event: e, offset: int64(off), rate: rate})
}

func (t turn) wrong() bool { return t.offset != 0 || t.rate != 1 }

// words says what a clock shows.
func (t turn) words() string {
	var s string
	switch {
	case t.offset > 0:
		s = "clock " + words.Span(t.offset) + " ahead"
	case t.offset < 0:
		s = "clock " + words.Span(-t.offset) + " behind"
	default:
		s = "clock"
	}
	if t.rate != 1 {
		s += fmt.Sprintf(", runs ×%.4g", t.rate)
	}
	return s
}

// clockRow draws where a process's clock was wrong, if it ever was.
func (b *builder) clockRow(name string) {
	turns := b.clocks[name]
	if !slices.ContainsFunc(turns, turn.wrong) {
		return
	}
	row := b.row(13)
	for i, t := range turns {
		to := b.end
		if i+1 < len(turns) {
			to = turns[i+1].at
		}
		if t.wrong() {
			b.put(row, "clock", t.at, to, said{label: t.words(), detail: t.event.Cause}, t.event)
		}
	}
}

// stalls draws behind a process's lane where it stood still.
func (b *builder) stalls(name string) {
	cover := -1
	for _, f := range b.faults {
		class, ok := map[string]string{"pause": "paused", "kill": "down", "shutdown": "down", "power-loss": "down"}[f.kind]
		if !ok || f.target != name || f.begin == nil {
			continue
		}
		if cover < 0 {
			cover = b.cover()
		}
		label := class
		if f.end == nil && f.kind == "kill" {
			label = "killed"
			b.put(cover, "death", f.from(), f.from(), said{detail: f.begin.Cause}, f.begin)
		}
		b.put(cover, class, f.from(), f.to(), said{label: label, detail: causes(f)}, f.begin, f.end)
	}
}

// causes is what was read back of a fault.
func causes(f *fault) string {
	var parts []string
	if f.begin != nil && f.begin.Cause != "" {
		parts = append(parts, "read back: "+f.begin.Cause)
	}
	if f.end != nil {
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("healed at %s: %s", words.Seconds(f.end.T), f.end.Cause), ": "))
	}
	if f.bad != nil {
		parts = append(parts, "failed: "+f.bad.Cause)
	}
	return sentence(parts...)
}
