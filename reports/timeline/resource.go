package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/harness/history"
)

// resourceLane draws the writes that the resource accepted or refused, from its
// own log.
func (b *builder) resourceLane(v checker.Verdict) {
	if !slices.ContainsFunc(b.run.f.Log, func(e *event) bool { return e.Applied != 0 }) {
		return
	}
	b.chart.lane(cmp.Or(b.run.f.Params.Resource, "resource"), resource)
	row := b.chart.row(26)
	harm := b.run.harmed(v)
	for _, w := range b.run.f.Writes() {
		e := w.Event
		if e.Applied == 0 {
			continue
		}
		client := short(b.run.clientOf(e.Session))
		class, became := "accepted", fmt.Sprintf("%s's write, based on version %d", client, e.Version)
		if e.Type != history.OK {
			class = "refused"
		} else if because := harm[e.N]; because != "" {
			class, became = "harm", sentence(became, because)
		}
		label := fmt.Sprintf("%s v%d", client, e.Version+1)
		if e.Type != history.OK {
			label = client
		}
		if e.Fence != 0 {
			label += fmt.Sprintf(" #%d", e.Fence)
			became = sentence(became, fmt.Sprintf("fencing token %d", e.Fence))
		}
		b.chart.put(row, class, e.Applied, e.Applied, said{label: label, detail: became, session: e.Session}, e)
	}
}

// harmed is the events by which the resource came to harm, and how.
func (r *run) harmed(v checker.Verdict) map[int64]string {
	harm := map[int64]string{}
	for _, name := range []string{checker.FencingOrder, checker.ResourceSafety} {
		res := v.Result(name)
		if res == nil || res.Outcome != checker.Violated || res.Witness == nil {
			continue
		}
		for _, x := range r.incidents(res) {
			for _, n := range x.Witness.Events {
				harm[n] = x.Because
			}
		}
		for _, n := range res.Witness.Events {
			harm[n] = res.Because
		}
	}
	return harm
}
