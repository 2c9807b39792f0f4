package timeline

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

func over(f *facts.Fault) int64 {
	if kind, _ := nemesis.KindOf(f.Kind); f.End == nil && (f.Begin == nil || kind.Momentary) {
		return f.From()
	}
	return f.To()
}

func clockWords(t facts.Turn) string {
	var s string
	switch {
	case t.Offset > 0:
		s = "clock " + display.Span(t.Offset) + " ahead"
	case t.Offset < 0:
		s = "clock " + display.Span(-t.Offset) + " behind"
	default:
		s = "clock"
	}
	if t.Rate != 1 {
		s += fmt.Sprintf(", runs ×%.4g", t.Rate)
	}
	return s
}

// clockRow draws where a process's clock was wrong, if it ever was.
func (b *builder) clockRow(name string) {
	turns := b.run.f.TurnsOf(name)
	if !slices.ContainsFunc(turns, facts.Turn.Wrong) {
		return
	}
	row := b.chart.row(13)
	for i, t := range turns {
		to := b.run.end
		if i+1 < len(turns) {
			to = turns[i+1].T
		}
		if t.Wrong() {
			b.chart.put(row, "clock", t.T, to, said{label: clockWords(t)}, t.Event)
		}
	}
}

// stalls draws behind a process's lane where it stood still.
func (b *builder) stalls(name string) {
	cover := -1
	for _, f := range b.run.f.Faults {
		class := string(nemesis.ToldOf(f.Kind).State)
		if class == "" || f.Target != name || f.Begin == nil {
			continue
		}
		if cover < 0 {
			cover = b.chart.cover()
		}
		label := class
		if f.End == nil && f.Kind == facts.Kill {
			label = "killed"
			b.chart.put(cover, "death", f.From(), f.From(), said{detail: f.Begin.Cause}, f.Begin)
		}
		b.chart.put(cover, class, f.From(), over(f), said{label: label, detail: causes(f)}, f.Begin, f.End)
	}
}

// causes is what was read back of a fault.
func causes(f *facts.Fault) string {
	var parts []string
	if f.Begin != nil && f.Begin.Cause != "" {
		parts = append(parts, "read back: "+f.Begin.Cause)
	}
	if f.End != nil {
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("healed at %s: %s", display.Seconds(f.End.T), f.End.Cause), ": "))
	}
	if f.Fail != nil {
		parts = append(parts, "failed: "+f.Fail.Cause)
	}
	return sentence(parts...)
}

// mostTracks is how many rows of faults a reader can follow.
const mostTracks = 8

// faultLane draws what the nemesis did: each fault from its injection to its end,
// those of one kind and step that came and went together as one.
func (b *builder) faultLane() {
	groups := b.run.faultGroups()
	if len(groups) == 0 {
		return
	}
	b.chart.lane("faults", faults)
	var rows []int
	var free, clear []int64 // when each row is free again, and its last label has room
	crowded := 0
	for _, g := range groups {
		from, to := b.run.spanOf(g)
		i := slices.IndexFunc(clear, func(t int64) bool { return t <= from })
		if i < 0 && len(rows) < mostTracks {
			i = len(rows)
			rows, free, clear = append(rows, b.chart.row(18)), append(free, 0), append(clear, 0)
		}
		if i < 0 {
			i = slices.IndexFunc(free, func(t int64) bool { return t <= from })
		}
		if i < 0 {
			crowded++
			continue
		}
		free[i], clear[i] = to, max(to, from+b.run.end/50)
		b.drawFault(rows[i], g)
	}
	if crowded > 0 {
		b.chart.omit(fmt.Sprintf("%d faults that were in force at once with %d others", crowded, mostTracks))
	}
}

func (b *builder) drawFault(row int, g []*facts.Fault) {
	var events []*event
	var targets, details []string
	begun, tried, failed := int64(never), int64(never), false
	for _, f := range g {
		events = append(events, f.Events()...)
		targets = append(targets, f.Target)
		details = append(details, causes(f))
		if f.Begin != nil {
			begun = min(begun, f.Begin.T)
		}
		if f.Invoke != nil {
			tried = min(tried, f.Invoke.T)
		}
		failed = failed || f.Fail != nil
	}
	_, to := b.run.spanOf(g)
	s := said{label: g[0].Kind + " " + joined(targets), detail: sentence(append([]string{b.run.planned(g[0].Step)}, slices.Compact(details)...)...)}
	if tried < min(begun, to) && micros(tried) < micros(min(begun, to)) {
		b.chart.put(row, "fault-try", tried, min(begun, to), s, events...)
	}
	switch at := min(begun, to); {
	case failed:
		b.chart.put(row, "fault-no", at, max(at, to), s, events...)
	case to <= at:
		b.chart.put(row, "fault-at", at, at, s, events...)
	default:
		b.chart.put(row, "fault", at, to, s, events...)
	}
}

// planned says what a step was to do.
func (r *run) planned(step int) string {
	if step == history.Unplanned {
		return "nobody planned it"
	}
	for _, p := range r.f.Params.Steps {
		if p.Step == step {
			return fmt.Sprintf("planned as step %d: %s %s when %s", step, p.Fault, joined(p.Targets), p.When)
		}
	}
	return ""
}

// faultGroups puts those together that came and went at once. They are in the
// order of their begin.
func (r *run) faultGroups() [][]*facts.Fault {
	const moment = 20e6
	near := func(x, y int64) bool { return x == y || max(x, y)-min(x, y) <= moment }
	var out [][]*facts.Fault
	for _, f := range r.f.Faults {
		i := -1
		for j := len(out) - 1; j >= max(0, len(out)-20); j-- {
			o := out[j][0]
			if slices.ContainsFunc(out[j], func(x *facts.Fault) bool { return x.Target == f.Target }) {
				continue
			}
			if o.Kind == f.Kind && o.Step == f.Step && near(o.From(), f.From()) && near(min(over(o), r.end), min(over(f), r.end)) {
				i = j
				break
			}
		}
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], f)
	}
	slices.SortStableFunc(out, func(x, y []*facts.Fault) int {
		a, _ := r.spanOf(x)
		c, _ := r.spanOf(y)
		return int(min(max(a-c, -1), 1))
	})
	return out
}

// spanOf is from when to when a group of faults lasted, with what it took to inject them.
func (r *run) spanOf(g []*facts.Fault) (from, to int64) {
	from = never
	for _, f := range g {
		from = min(from, f.From())
		if f.Invoke != nil {
			from = min(from, f.Invoke.T)
		}
		to = max(to, min(over(f), r.end))
	}
	return from, to
}

// joined names targets briefly; links of one client as "c1–n1 n2 n3".
func joined(targets []string) string {
	var out []string
	last := ""
	for _, t := range targets {
		client, node, link := strings.Cut(short(t), "-")
		if link && client == last {
			out = append(out, node)
			continue
		}
		if link {
			last = client
		}
		out = append(out, short(t))
	}
	if len(out) > 8 {
		out = append(out[:8], "…")
	}
	return strings.Join(out, " ")
}
