package history

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func TestSortIsAStableSortByTimeAndNumber(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		events := make([]Event, rnd.IntN(40))
		times, numbers := 1+rnd.Int64N(50), 1+rnd.Int64N(50)
		for i := range events {
			events[i] = Event{T: rnd.Int64N(times), N: rnd.Int64N(numbers), Local: int64(i)}
		}
		want := slices.Clone(events)
		slices.SortStableFunc(want, func(a, b Event) int { return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.N, b.N)) })
		if Sort(events); !reflect.DeepEqual(events, want) {
			t.Fatalf("got %+v\nwant %+v", events, want)
		}
	}
}
