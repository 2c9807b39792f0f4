package timeline

import (
	"slices"

	"lockpick/checker"
	"lockpick/reports/words"
)

// views lists what is violated.
func (b *builder) views(v checker.Verdict) {
	for _, r := range v.Results {
		if r.Outcome != checker.Violated || r.Witness == nil {
			continue
		}
		w := r.Witness
		from, to := min(max(w.From, 0), b.run.end), min(max(w.To, w.From, 0), b.run.end)
		b.chart.t.Views = append(b.chart.t.Views, View{Property: short(r.Property), Because: words.Visible(r.Because, longestText),
			From: micros(from), To: micros(to), Events: slices.Clone(w.Events)})
	}
}

// focus is the span that the page is about: of the first violation, or of the first fault.
func (b *builder) focus() (Span, bool) {
	if len(b.chart.t.Views) > 0 {
		return Span{b.chart.t.Views[0].From, b.chart.t.Views[0].To}, true
	}
	for _, g := range b.run.faultGroups() {
		from, _ := b.run.spanOf(g)
		return Span{micros(from), micros(from)}, false
	}
	return Span{}, false
}
