// Package peaks finds the first of a list of heights, from a place on, that is high
// enough, without a look at each between.
//
// Its one noun is the Peaks, a tree over the list:
//
//	       9
//	   7       9
//	 3   7   9   2     the higher of each two
//	3 1 7 4 9 0 2 2    the list
//
// Deliberately missing: a list that changes.
package history

import "math"

// Peaks is a list of heights. The tree is in one piece: below i are 2i and 2i+1.
type Peaks struct {
	tree []int64
	len  int
}

// Of puts a list in order. O(n).
func PeaksOf(heights []int64) Peaks {
	room := 1
	for room < len(heights) {
		room *= 2
	}
	p := Peaks{tree: make([]int64, 2*room), len: len(heights)}
	for i := range room {
		p.tree[room+i] = math.MinInt64
	}
	copy(p.tree[room:], heights)
	for i := room - 1; i > 0; i-- {
		p.tree[i] = max(p.tree[2*i], p.tree[2*i+1])
	}
	return p
}

// From is the first place, from one on, whose height is at least so much, or the list's
// length. O(log n).
func (p Peaks) From(place int, least int64) int {
	if place >= p.len {
		return p.len
	}
	room := len(p.tree) / 2
	i := room + place
	for p.tree[i] < least {
		for i%2 == 1 { // all below what this is the right half of was looked at
			i /= 2
		}
		if i == 0 {
			return p.len
		}
		i++
	}
	for i < room {
		i *= 2
		if p.tree[i] < least {
			i++
		}
	}
	return min(i-room, p.len)
}
