package timeline

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/words"
)

// over is when a fault was over.
func over(f *facts.Fault) int64 {
	if kind, _ := nemesis.KindOf(f.Kind); f.End == nil && (f.Begin == nil || kind.Momentary) {
		return f.From()
	}
	return f.To()
}

// clockWords says what a clock shows.
func clockWords(t facts.Turn) string {
	var s string
	switch {
	case t.Offset > 0:
		s = "clock " + words.Span(t.Offset) + " ahead"
	case t.Offset < 0:
		s = "clock " + words.Span(-t.Offset) + " behind"
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
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("healed at %s: %s", words.Seconds(f.End.T), f.End.Cause), ": "))
	}
	if f.Fail != nil {
		parts = append(parts, "failed: "+f.Fail.Cause)
	}
	return sentence(parts...)
}
