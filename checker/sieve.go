package checker

import (
	"math"
	"math/bits"
	"slices"
)

// sieve finds ranks of values that it sees three times over, and keeps few of them: in a
// long history there are millions. The first look tells their span, the second counts how
// many lie in each of equal parts of it, and the third keeps those of the parts that the
// ranks are in.
type sieve struct {
	count       int
	least, most int64

	look   int
	shares []float64 // of each rank: how many don't exceed it
	width  int       // of a part, as a power of two
	parts  []int     // how many are in each
	rests  []rest
}

// rest is where one rank is to be found: at a place among the values of a part.
type rest struct {
	part   uint64
	place  int
	values []int64
}

const (
	sieveLooks = 3
	sieveParts = 12 // as a power of two
)

func newSieve(shares ...float64) *sieve {
	return &sieve{least: math.MaxInt64, most: math.MinInt64, shares: shares}
}

// see shows it a value. Those of each look are the same.
func (v *sieve) see(x int64) {
	switch v.look {
	case 0:
		v.count++
		v.least, v.most = min(v.least, x), max(v.most, x)
	case 1:
		v.parts[v.part(x)]++
	case 2:
		if v.width == 0 { // a part is one value
			return
		}
		part := v.part(x)
		for i := range v.rests {
			if r := &v.rests[i]; r.part == part {
				r.values = append(r.values, x)
			}
		}
	}
}

// part is the number of the part that a value lies in.
func (v *sieve) part(x int64) uint64 { return (uint64(x) - uint64(v.least)) >> v.width }

func (v *sieve) next() {
	v.look++
	switch {
	case v.look == 1:
		v.width = max(0, bits.Len64(uint64(v.most)-uint64(v.least))-sieveParts)
		v.parts = make([]int, 1<<sieveParts)
	case v.look == 2 && v.count > 0:
		for _, q := range v.shares {
			r := rest{place: max(0, int(math.Ceil(q*float64(v.count)))-1)}
			for ; r.place >= v.parts[r.part]; r.part++ {
				r.place -= v.parts[r.part]
			}
			if v.width > 0 {
				r.values = make([]int64, 0, v.parts[r.part])
			}
			v.rests = append(v.rests, r)
		}
	}
}

// rank is the smallest value that the share of that place among the shares doesn't exceed.
func (v *sieve) rank(i int) int64 {
	r := v.rests[i]
	if v.width == 0 {
		return v.least + int64(r.part)
	}
	return nth(r.values, r.place)
}

// nth is what would be at a place if the values were in order. It moves them, and takes
// O(n): of a million, a sort takes five times as long.
//
// Source: Hoare 1961, "Algorithm 65: find", Communications of the ACM 4 (7); after as many
// rounds as halving would need twice, the rest is sorted, so bad pivots cost O(n log n).
func nth(values []int64, place int) int64 {
	for rounds := 2 * bits.Len(uint(len(values))); len(values) > 12 && rounds > 0; rounds-- {
		less, more := parted(values, pivot(values))
		switch {
		case place < less:
			values = values[:less]
		case place >= more:
			values, place = values[more:], place-more
		default:
			return values[place]
		}
	}
	slices.Sort(values)
	return values[place]
}

// pivot is the middle one of the first value, the last and the one in the midst.
func pivot(values []int64) int64 {
	a, b, c := values[0], values[len(values)/2], values[len(values)-1]
	return max(min(a, b), min(max(a, b), c))
}

// parted puts what is less than a pivot first and what is more last: values[:less] and
// values[more:].
func parted(values []int64, pivot int64) (less, more int) {
	more = len(values)
	for i := 0; i < more; {
		switch v := values[i]; {
		case v < pivot:
			values[i], values[less] = values[less], v
			less++
			i++
		case v > pivot:
			more--
			values[i], values[more] = values[more], v
		default:
			i++
		}
	}
	return less, more
}
