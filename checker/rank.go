package checker

import (
	"math/bits"
	"slices"
)

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
