package sequence

import (
	"cmp"
	"slices"
)

// row is one fact of a drawing: arrows of one operation, or a mark on a lane.
type row struct {
	at     int64
	n      int64 // number of its first event: the order of facts at one instant
	arrows []arrow
	part   part
	lane   int
	mark   Mark
	label  string
	bad    bool
}

// part is how much of a message a row shows.
type part int

const (
	whole     part = iota
	departure      // it leaves, and other things happen before it arrives
	arrival
)

// makeRows puts all facts in the order of time. A slow message has two rows.
func makeRows(d Diagram) []row {
	var rows []row
	for _, g := range byFact(d) {
		rows = append(rows, arrowRows(g)...)
	}
	for _, n := range d.Notes {
		rows = append(rows, row{at: n.At, n: first(n.Events), lane: n.Lane, mark: n.Mark, label: n.Label, bad: n.Bad})
	}
	for _, b := range d.Bands {
		rows = append(rows, row{at: b.From, n: first(b.Events) + 1<<40, lane: -1, label: b.Label, bad: true})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	return rows
}

func first(events []int64) int64 {
	if len(events) == 0 {
		return 0
	}
	return events[0]
}

// byFact groups the arrows of one fact that can be drawn.
func byFact(d Diagram) [][]arrow {
	drawn := slices.DeleteFunc(slices.Clone(d.Arrows), func(a arrow) bool {
		return a.From == a.To || min(a.From, a.To) < 0 || max(a.From, a.To) >= len(d.Lanes)
	})
	return grouped(drawn, func(a arrow) int { return a.Fact })
}

// arrowRows makes the rows of one fact: a request stands at the instant when it
// was sent, an answer where it arrived, and what was slow at both.
func arrowRows(arrows []arrow) []row {
	slow := slices.DeleteFunc(slices.Clone(arrows), func(a arrow) bool { return !a.Slow })
	quick := slices.DeleteFunc(arrows, func(a arrow) bool { return a.Slow })
	var rows []row
	if len(quick) > 0 {
		rows = append(rows, arrowRow(quick, whole))
	}
	if len(slow) > 0 {
		rows = append(rows, arrowRow(slow, departure), arrowRow(slow, arrival))
	}
	return rows
}

func arrowRow(arrows []arrow, p part) row {
	r := row{at: arrows[0].Sent, n: first(arrows[0].Events), arrows: arrows, part: p, lane: -1}
	for _, a := range arrows {
		r.at = min(r.at, a.Sent)
		r.bad = r.bad || a.Bad && p != departure
	}
	if p == arrival || p == whole && arrows[0].Answer {
		r.at = max(r.at, latest(arrows))
	}
	return r
}

func latest(arrows []arrow) int64 {
	t := arrows[0].Arrived
	for _, a := range arrows {
		t = max(t, a.Arrived)
	}
	return t
}
