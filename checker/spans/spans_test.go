package spans

import (
	"math/rand/v2"
	"slices"
	"testing"

	"lockpick/harness/history/facts"
)

// TestSpansAgainstDumb compares the arithmetic of spans with one that asks of each beat.
func TestSpansAgainstDumb(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	const beats = 24
	some := func() []Span {
		var spans []Span
		for range rnd.IntN(4) {
			from := rnd.Int64N(beats)
			spans = append(spans, Span{from, from + rnd.Int64N(8)})
		}
		switch rnd.IntN(6) {
		case 0:
			spans = append(spans, Span{Ever, rnd.Int64N(beats)})
		case 1:
			spans = append(spans, Span{rnd.Int64N(beats), facts.Never})
		}
		return spans
	}
	has := func(spans []Span, at int64) bool {
		return slices.ContainsFunc(spans, func(s Span) bool { return s.From <= at && at < s.To })
	}
	for range 20_000 {
		rawA, rawB, rawC := some(), some(), some()
		a, b, c := Union(slices.Clone(rawA)), Union(slices.Clone(rawB)), Union(slices.Clone(rawC))
		k := rnd.IntN(4)
		met, out, two := Common(a, b), Outside(a), AtLeast(k, a, b, c)
		s := Span{rnd.Int64N(beats), rnd.Int64N(beats)}
		any, all, sum := false, true, int64(0)
		for at := int64(-2); at < beats+12; at++ {
			count := 0
			for _, list := range [][]Span{rawA, rawB, rawC} {
				if has(list, at) {
					count++
				}
			}
			if has(a, at) != has(rawA, at) || has(out, at) == has(rawA, at) || has(met, at) != (has(rawA, at) && has(rawB, at)) || has(two, at) != (count >= k) {
				t.Fatalf("at %d of %v, %v and %v: union %v, outside %v, common %v, at least %d %v", at, rawA, rawB, rawC, a, out, met, k, two)
			}
			if s.From <= at && at < s.To {
				any, all = any || has(a, at), all && has(a, at)
				if has(a, at) {
					sum++
				}
			}
		}
		if s.From < s.To && (Meets(a, s) != any || Share(a, s) != sum) || Covering(a, s) != all {
			t.Fatalf("%v of %v: meets %v, covering %v, share %d; want %v, %v, %d", s, a, Meets(a, s), Covering(a, s), Share(a, s), any, all, sum)
		}
	}
}
