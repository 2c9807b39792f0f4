package sequence

// sheet takes the marks between and on the lanes. It cuts off what lies outside of its span.
type sheet struct {
	from, to int64
	slow     int64 // how long a message is in flight if that is worth telling
	facts    int   // of the arrows so far

	arrows []Arrow
	bars   []Bar
	notes  []Note
	bands  []Band
}

// message adds an arrow of the latest fact.
func (sh *sheet) message(a Arrow) {
	a.Fact = sh.facts
	if a.Lost {
		a.Arrived = a.Sent
	}
	a.Arrived = max(a.Arrived, a.Sent)
	a.Slow = minus(a.Arrived, a.Sent) > sh.slow
	sh.arrows = append(sh.arrows, a)
}

func (sh *sheet) note(n Note) {
	if sh.from <= n.At && n.At <= sh.to {
		sh.notes = append(sh.notes, n)
	}
}

func (sh *sheet) bar(lane int, state State, from, to int64, events ...*event) {
	from, to = max(from, sh.from), min(to, plus(sh.to, 1))
	if from < to {
		sh.bars = append(sh.bars, Bar{Lane: lane, State: state, From: from, To: to, Events: numbers(events...)})
	}
}

func (sh *sheet) band(from, to int64, label string, events []int64) {
	sh.bands = append(sh.bands, Band{From: from, To: min(to, plus(sh.to, 1)), Label: label, Events: events})
}
