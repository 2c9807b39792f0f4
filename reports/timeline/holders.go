package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

const mostKeys = 4

// holderLanes draws for each lock how many clients believe that they hold it. Only
// what is certain counts, as it does for the checker.
func (b *builder) holderLanes() {
	byKey := map[string][]facts.Belief{}
	var keys []string
	for _, x := range b.run.beliefs {
		if byKey[x.Key] == nil {
			keys = append(keys, x.Key)
		}
		ε := int64(b.run.f.Params.StampError)
		x.From, x.To = x.From+ε, x.To-ε
		if x.From < x.To {
			byKey[x.Key] = append(byKey[x.Key], x)
		}
	}
	for i, key := range keys {
		if i == mostKeys {
			b.chart.omit("the holders of " + display.Plural(len(keys)-mostKeys, "more lock"))
			return
		}
		name := "holders"
		if len(keys) > 1 {
			name = "holders of " + key
		}
		b.chart.lane(name, holders)
		b.holders(b.chart.row(30), byKey[key])
	}
}

type step struct {
	at     int64
	belief int
	by     int // +1: it begins
}

func (b *builder) holders(row int, beliefs []facts.Belief) {
	var steps []step
	for i, x := range beliefs {
		steps = append(steps, step{x.From, i, 1}, step{x.To, i, -1})
	}
	slices.SortFunc(steps, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.by, y.by), cmp.Compare(x.belief, y.belief))
	})
	points := [][2]int64{{0, 0}}
	var now []int
	for i, s := range steps {
		if len(now) > 1 && s.at > steps[i-1].at {
			b.overlap(row, beliefs, now, steps[i-1].at, s.at)
		}
		if s.by > 0 {
			now = append(now, s.belief)
		} else {
			now = slices.DeleteFunc(now, func(i int) bool { return i == s.belief })
		}
		at := micros(s.at)
		if last := &points[len(points)-1]; last[0] == at {
			last[1] = int64(len(now))
		} else {
			points = append(points, [2]int64{at, int64(len(now))})
		}
	}
	b.chart.t.Lines = append(b.chart.t.Lines, line{Row: row, Points: points})
}

func (b *builder) overlap(row int, beliefs []facts.Belief, now []int, from, to int64) {
	i := item{Row: row, Kind: b.chart.kind("overlap"), From: micros(from), To: micros(to), Label: b.chart.text(fmt.Sprintf("%d hold", len(now)))}
	detail := ""
	for k, n := range now {
		x := beliefs[n]
		if k > 0 {
			detail += " and "
		}
		detail += fmt.Sprintf("%s until %s", short(x.Client), display.Seconds(x.To))
		i.Events = append(i.Events, x.Opens)
		if x.Closes != 0 {
			i.Events = append(i.Events, x.Closes)
		}
	}
	i.Detail = b.chart.text(detail + " believe that they hold " + short(beliefs[now[0]].Key))
	b.chart.add(i)
}
