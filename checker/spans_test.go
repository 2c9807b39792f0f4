package checker

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSpansAgainstDumb compares the arithmetic of spans with one that asks of each beat.
func TestSpansAgainstDumb(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	const beats = 24
	some := func() []interval {
		var spans []interval
		for range rnd.IntN(4) {
			from := rnd.Int64N(beats)
			spans = append(spans, interval{from, from + rnd.Int64N(8)})
		}
		switch rnd.IntN(6) {
		case 0:
			spans = append(spans, interval{ever, rnd.Int64N(beats)})
		case 1:
			spans = append(spans, interval{rnd.Int64N(beats), never})
		}
		return spans
	}
	has := func(spans []interval, at int64) bool {
		return slices.ContainsFunc(spans, func(s interval) bool { return s.from <= at && at < s.to })
	}
	for range 20_000 {
		rawA, rawB, rawC := some(), some(), some()
		a, b, c := union(slices.Clone(rawA)), union(slices.Clone(rawB)), union(slices.Clone(rawC))
		k := rnd.IntN(4)
		met, out, two := common(a, b), outside(a), atLeast(k, a, b, c)
		s := interval{rnd.Int64N(beats), rnd.Int64N(beats)}
		any, all, sum := false, true, int64(0)
		for at := int64(-2); at < beats+12; at++ {
			count := 0
			for _, list := range [][]interval{rawA, rawB, rawC} {
				if has(list, at) {
					count++
				}
			}
			if has(a, at) != has(rawA, at) || has(out, at) == has(rawA, at) || has(met, at) != (has(rawA, at) && has(rawB, at)) || has(two, at) != (count >= k) {
				t.Fatalf("at %d of %v, %v and %v: union %v, outside %v, common %v, at least %d %v", at, rawA, rawB, rawC, a, out, met, k, two)
			}
			if s.from <= at && at < s.to {
				any, all = any || has(a, at), all && has(a, at)
				if has(a, at) {
					sum++
				}
			}
		}
		if s.from < s.to && (meets(a, s) != any || share(a, s) != sum) || covering(a, s) != all {
			t.Fatalf("%v of %v: meets %v, covering %v, share %d; want %v, %v, %d", s, a, meets(a, s), covering(a, s), share(a, s), any, all, sum)
		}
	}
}
