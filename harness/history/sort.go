package history

import (
	"cmp"
	"slices"
)

// Sort orders events by true time, and those of one instant by number. Real
// backends number events as they arrive, which is not quite how they happened.
func Sort(events []Event) {
	if sorted(events) {
		return
	}
	// An event is large: sort what it is sorted by, then move each event once.
	type place struct {
		t int64
		i int // where the event is
	}
	places := make([]place, len(events))
	for i := range events {
		places[i] = place{events[i].T, i}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.t != b.t {
			return cmp.Compare(a.t, b.t)
		}
		return cmp.Or(cmp.Compare(events[a.i].N, events[b.i].N), cmp.Compare(a.i, b.i))
	})
	// Each round moves one cycle of the permutation; a place that is done points to itself.
	for i := range places {
		if places[i].i == i {
			continue
		}
		e, to := events[i], i
		for places[to].i != i {
			from := places[to].i
			events[to], places[to].i = events[from], to
			to = from
		}
		events[to], places[to].i = e, to
	}
}

func sorted(events []Event) bool {
	for i := 1; i < len(events); i++ {
		a, b := &events[i-1], &events[i]
		if b.T < a.T || b.T == a.T && b.N < a.N {
			return false
		}
	}
	return true
}
