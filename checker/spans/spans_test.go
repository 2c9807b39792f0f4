package spans

import (
	"math/rand/v2"
	"slices"
	"testing"

	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// TestSpansAgainstNaive compares the arithmetic on spans with a version that examines every
// instant.
func TestSpansAgainstNaive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	const instants = 24
	randomSpans := func() []Span {
		var spans []Span
		for range rnd.IntN(4) {
			from := rnd.Int64N(instants)
			spans = append(spans, Span{from, from + rnd.Int64N(8)})
		}
		switch rnd.IntN(6) {
		case 0:
			spans = append(spans, Span{DistantPast, rnd.Int64N(instants)})
		case 1:
			spans = append(spans, Span{rnd.Int64N(instants), facts.Never})
		}
		return spans
	}
	contains := func(spans []Span, at int64) bool {
		return slices.ContainsFunc(spans, func(s Span) bool { return s.From <= at && at < s.To })
	}
	for range 20_000 {
		rawA, rawB, rawC := randomSpans(), randomSpans(), randomSpans()
		a, b, c := Union(slices.Clone(rawA)), Union(slices.Clone(rawB)), Union(slices.Clone(rawC))
		k := rnd.IntN(4)
		common, outside, overlapping := Intersect(a, b), Complement(a), AtLeast(k, a, b, c)
		s := Span{rnd.Int64N(instants), rnd.Int64N(instants)}
		any, all, sum := false, true, int64(0)
		for at := int64(-2); at < instants+12; at++ {
			count := 0
			for _, list := range [][]Span{rawA, rawB, rawC} {
				if contains(list, at) {
					count++
				}
			}
			if contains(a, at) != contains(rawA, at) || contains(outside, at) == contains(rawA, at) || contains(common, at) != (contains(rawA, at) && contains(rawB, at)) || contains(overlapping, at) != (count >= k) {
				t.Fatalf("at %d in %v, %v and %v: union %v, complement %v, intersection %v, at least %d: %v", at, rawA, rawB, rawC, a, outside, common, k, overlapping)
			}
			if s.From <= at && at < s.To {
				any, all = any || contains(a, at), all && contains(a, at)
				if contains(a, at) {
					sum++
				}
			}
		}
		if s.From < s.To && (Meets(a, s) != any || Share(a, s) != sum) || Covers(a, s) != all {
			t.Fatalf("%v in %v: meets %v, covers %v, share %d; want %v, %v, %d", s, a, Meets(a, s), Covers(a, s), Share(a, s), any, all, sum)
		}
	}
}

// A client waits until its acquire returns, the client dies, or the record ends.
func TestWait(t *testing.T) {
	for text, want := range map[string]Span{
		"3 c1 fail acquire session=c1/1": New(1e9, 3e9),
		"3 c1 info acquire session=c1/1": New(1e9, 3e9),
		"5 c1 end client":                New(1e9, 5e9),
		"5 c2 end client":                New(1e9, 9e9),
	} {
		r := facts.Read(histories.MustParse("params clients=c1,c2\n0 c1 begin client\n0 c2 begin client\n1 c1 invoke acquire session=c1/1\n" + text + "\n9 harness end run"))
		if got := Wait(r, r.SessionByName("c1/1")); got != want {
			t.Errorf("%s: the client waits from %d to %d, want to %d", text, got.From, got.To, want.To)
		}
	}
}

// TestSpreadAgainstLinearSearch compares Spread with a linear search. A span includes both its
// ends.
func TestSpreadAgainstLinearSearch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 5000 {
		var list []Span
		for range rnd.IntN(6) {
			from := rnd.Int64N(20)
			list = append(list, Span{from, from + rnd.Int64N(12)})
		}
		s := NewSpread(slices.Clone(list))
		x := Span{rnd.Int64N(30), 0}
		x.To = x.From + rnd.Int64N(6)
		started, latest, meets := 0, int64(DistantPast), false
		for _, y := range list {
			if y.From <= x.To {
				started, latest = started+1, max(latest, y.To)
			}
			meets = meets || y.From <= x.To && y.To >= x.From
		}
		if s.CountStarted(x.To) != started || s.LatestEnd(x.To) != latest || s.Meets(x) != meets {
			t.Fatalf("%v in %v: %d begun, latest end %d, meets %t; want %d, %d, %t", x, list, s.CountStarted(x.To), s.LatestEnd(x.To), s.Meets(x), started, latest, meets)
		}
	}
}
