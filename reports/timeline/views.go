package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/reports/display"
)

// mostViews is how many incidents a page lists.
const mostViews = 1000

// views lists what is violated: what the verdict shows, and every other incident that it
// counts, in the order of time. First is the one that the verdict shows first.
func (b *builder) views(v checker.Verdict) {
	all, unlisted := []view{}, []string{}
	for _, r := range v.Results {
		if r.Outcome != checker.Violated || r.Witness == nil {
			continue
		}
		shown := len(all) == 0
		found := append([]checker.Result{r}, b.run.incidents(&r)...)
		if i := slices.IndexFunc(found[1:], func(x checker.Result) bool { return x.Witness.Shows(r.Witness) }); i >= 0 {
			found = slices.Delete(found, i+1, i+2)
		}
		for i, x := range found {
			w := x.Witness
			from, to := min(max(w.From, 0), b.run.end), min(max(w.To, w.From, 0), b.run.end)
			all = append(all, view{Property: short(r.Property), Because: display.Visible(x.Because, longestText),
				From: micros(from), To: micros(to), Events: slices.Clone(w.Events), shown: shown && i == 0})
		}
		if n := r.Incidents - len(found); n > 0 && len(found) <= mostViews {
			unlisted = append(unlisted, fmt.Sprintf("%s of %s", display.Grouped(n), short(r.Property)))
		}
	}
	slices.SortStableFunc(all, func(x, y view) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	if len(all) > mostViews {
		seen := 0
		all = slices.DeleteFunc(all, func(x view) bool { seen++; return seen > mostViews && !x.shown })
		unlisted = append(unlisted, "those after "+display.Seconds(all[mostViews-1].From*1000))
	}
	if len(unlisted) > 0 {
		b.chart.t.Unlisted = "Counted by the verdict, and not listed: " + display.List(unlisted) + "."
	}
	b.chart.t.Views = all
	b.chart.t.First = max(0, slices.IndexFunc(all, func(x view) bool { return x.shown }))
}

// incidents is what a verdict counts of a property that it says is violated, as many as can
// be drawn.
func (r *run) incidents(res *checker.Result) []checker.Result {
	if res.Incidents < 2 {
		return nil
	}
	all, ok := r.violations[res.Property]
	if !ok {
		all = checker.Incidents(r.history, res.Property, mostItems)
		r.violations[res.Property] = all
	}
	return all
}

// focus is the span that the page is about: of the violation shown first, or of the first fault.
func (b *builder) focus() (span, bool) {
	if t := b.chart.t; len(t.Views) > 0 {
		return span{t.Views[t.First].From, t.Views[t.First].To}, true
	}
	for _, g := range b.run.faultGroups() {
		from, _ := b.run.spanOf(g)
		return span{micros(from), micros(from)}, false
	}
	return span{}, false
}
