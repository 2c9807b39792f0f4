package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/reports/words"
)

// mostViews is how many incidents a page lists.
const mostViews = 1000

// views lists what is violated: what the verdict shows, and every other incident that the
// record tells, in the order of time. First is the one that the verdict shows first.
func (b *builder) views(v checker.Verdict) {
	all, unlisted := []View{}, []string{}
	for _, r := range v.Results {
		if r.Outcome != checker.Violated || r.Witness == nil {
			continue
		}
		w := r.Witness
		shown := len(all) == 0
		found := []incident{{from: w.From, to: w.To, because: r.Because, events: slices.Clone(w.Events)}}
		for _, x := range b.run.incidents(r.Property) {
			if !x.isOf(r.Property, w) {
				found = append(found, x)
			}
		}
		for i, x := range found {
			from, to := min(max(x.from, 0), b.run.end), min(max(x.to, x.from, 0), b.run.end)
			all = append(all, View{Property: short(r.Property), Because: words.Visible(x.because, longestText),
				From: micros(from), To: micros(to), Events: x.events, shown: shown && i == 0})
		}
		if n := r.Incidents - len(found); n > 0 {
			unlisted = append(unlisted, fmt.Sprintf("%s of %s", words.Grouped(n), short(r.Property)))
		}
	}
	slices.SortStableFunc(all, func(x, y View) int { return cmp.Compare(x.From, y.From) })
	if len(all) > mostViews {
		seen := 0
		all = slices.DeleteFunc(all, func(x View) bool { seen++; return seen > mostViews && !x.shown })
		unlisted = append(unlisted, "those after "+words.Seconds(all[mostViews-1].From*1000))
	}
	if len(unlisted) > 0 {
		b.chart.t.Unlisted = "Counted by the verdict, and not listed: " + words.List(unlisted) + "."
	}
	b.chart.t.Views = all
	b.chart.t.First = max(0, slices.IndexFunc(all, func(x View) bool { return x.shown }))
}

// focus is the span that the page is about: of the violation shown first, or of the first fault.
func (b *builder) focus() (Span, bool) {
	if t := b.chart.t; len(t.Views) > 0 {
		return Span{t.Views[t.First].From, t.Views[t.First].To}, true
	}
	for _, g := range b.run.faultGroups() {
		from, _ := b.run.spanOf(g)
		return Span{micros(from), micros(from)}, false
	}
	return Span{}, false
}
