package sequence

import (
	"cmp"
	"slices"
)

// row is one fact of a drawing: arrows of one operation, or a mark on a lane.
type row struct {
	at     int64
	n      int64 // number of its first event: the order of facts at one instant
	arrows []Arrow
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
func byFact(d Diagram) [][]Arrow {
	var out [][]Arrow
	at := map[int]int{}
	for _, a := range d.Arrows {
		if a.From == a.To || min(a.From, a.To) < 0 || max(a.From, a.To) >= len(d.Lanes) {
			continue
		}
		i, ok := at[a.Fact]
		if !ok {
			i = len(out)
			at[a.Fact] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], a)
	}
	return out
}

// arrowRows makes the rows of one fact: a request stands at the instant when it
// was sent, an answer where it arrived, and what was slow at both.
func arrowRows(arrows []Arrow) []row {
	var quick, slow []Arrow
	for _, a := range arrows {
		if a.Slow {
			slow = append(slow, a)
		} else {
			quick = append(quick, a)
		}
	}
	var rows []row
	if len(quick) > 0 {
		rows = append(rows, arrowRow(quick, whole))
	}
	if len(slow) > 0 {
		rows = append(rows, arrowRow(slow, departure), arrowRow(slow, arrival))
	}
	return rows
}

func arrowRow(arrows []Arrow, p part) row {
	r := row{arrows: arrows, part: p, n: first(arrows[0].Events), lane: -1}
	r.at = arrows[0].Sent
	for _, a := range arrows {
		r.at = min(r.at, a.Sent)
	}
	if p == arrival || p == whole && arrows[0].Answer {
		for _, a := range arrows {
			r.at = max(r.at, a.Arrived)
		}
	}
	for _, a := range arrows {
		r.bad = r.bad || a.Bad && p != departure
	}
	return r
}
