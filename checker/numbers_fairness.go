package checker

import (
	"cmp"
	"slices"
)

// Numbers of how a lock is shared out.
const (
	SplitVoteRate = "split-vote-rate" // split attempts as a share of those on a free lock: split or won
	LosingStreak  = "losing-streak"   // the most split attempts in a row, of whomever, on one lock
	Bypasses      = "bypasses"        // grants that an acquire saw go to one that was called later
	JainIndex     = "jain-index"      // of grants per client that tried: 1 is equal shares, 1/n all for one of n
)

func (r *record) fairness(n map[string]float64) {
	split, won, streak, bypasses := 0, 0, 0, 0
	grants := map[string]int{}
	for _, c := range r.contests() {
		for _, client := range c.names {
			grants[client] += 0
		}
		for _, s := range c.grants {
			grants[s.client]++
		}
		bypasses += r.bypasses(c)
		if c.wire != nil {
			s, w, longest := r.splitVotes(c)
			split, won, streak = split+s, won+w, max(streak, longest)
		}
	}
	if split+won > 0 {
		n[SplitVoteRate] = float64(split) / float64(split+won)
		n[LosingStreak] = float64(streak)
	}
	if len(grants) > 1 {
		n[Bypasses] = float64(bypasses)
	}
	if jain, ok := jainIndex(grants); ok {
		n[JainIndex] = jain
	}
}

// splitVotes counts the attempts on a lock that were split: a majority answered
// and could have said yes, for nobody had the lock or was getting it, and yet no
// client had a majority.
func (r *record) splitVotes(c *contest) (split, won, longest int) {
	quorum := quorumOf(len(r.params.Nodes))
	blocked := r.blocked(c)
	streak := 0
	for _, a := range c.wire.attempts {
		s := span{a.from, a.to}
		switch {
		case a.won:
			won++
			streak = 0
		case a.yes >= quorum, a.yes+a.no < quorum, meets(c.held, s), meets(blocked, s):
		default:
			split++
			streak++
			longest = max(longest, streak)
		}
	}
	return split, won, longest
}

// blocked is where keys that faults left behind kept a majority from everybody.
func (r *record) blocked(c *contest) []span {
	var lists [][]span
	for _, n := range r.params.Nodes {
		lists = append(lists, c.kept[n])
	}
	return atLeast(len(lists)-quorumOf(len(lists))+1, lists...)
}

// bypasses counts, for each acquire, the grants that it saw go to those called
// later. A Fenwick tree over the order of calls holds the grants so far.
func (r *record) bypasses(c *contest) int {
	order := make([]int, len(c.sessions))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(c.sessions[i].acquire.returned(), c.sessions[j].acquire.returned())
	})
	tree := make([]int, len(order)+1)
	granted, sum := 0, 0
	for _, i := range order {
		earlier := 0
		for k := i + 1; k > 0; k -= k & -k {
			earlier += tree[k]
		}
		sum += granted - earlier
		if c.sessions[i].granted() {
			granted++
			for k := i + 1; k < len(tree); k += k & -k {
				tree[k]++
			}
		}
	}
	return sum
}

// jainIndex is (Σx)²/(n·Σx²), Jain, Chiu and Hawe 1984.
func jainIndex(grants map[string]int) (float64, bool) {
	sum, squares := 0.0, 0.0
	for _, x := range grants {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	if len(grants) < 2 || sum == 0 {
		return 0, false
	}
	return sum * sum / (float64(len(grants)) * squares), true
}
