package liveness

import (
	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history/facts"
)

// fairness measures how a lock is shared out.
func fairness(r *Run, n map[string]float64) {
	split, won, streak := 0, 0, 0
	for _, c := range r.locks {
		if c.wire != nil {
			s, w, longest := splitVotes(c)
			split, won, streak = split+s, won+w, max(streak, longest)
		}
	}
	if split+won > 0 {
		n[verdict.SplitVoteRate] = float64(split) / float64(split+won)
		n[verdict.LosingStreak] = float64(streak)
	}
	if jain, ok := jainIndex(r.Shares); ok {
		n[verdict.JainIndex] = jain
	}
}

// splitVotes counts the attempts on a lock that were split: a majority could have said yes,
// for nobody had the lock or was getting it, and yet no client had a majority, for attempts
// met. One that meets nobody's loses to keys that were left behind.
func splitVotes(c *lockState) (split, won, longest int) {
	quorum := quorumOf(&c.Params)
	held, blocked := heldBy(c.holders()), c.blocked()
	streak := 0
	met := metRival(c.wire)
	for i, a := range c.wire.Attempts {
		s := spans.Of(a.From, a.To)
		switch {
		case a.Won:
			won++
			streak = 0
		case a.Yes >= quorum, a.Yes+a.No < quorum, !met[i], spans.Meets(held, s), spans.Meets(blocked, s):
		default:
			split++
			streak++
			longest = max(longest, streak)
		}
	}
	return split, won, longest
}

// metRival says of each attempt whether it met another client's: its keys were not
// taken back yet when the other's were set.
func metRival(w *facts.Wire) []bool {
	met, gone := make([]bool, len(w.Attempts)), make([]int64, len(w.Attempts))
	for i, a := range w.Attempts {
		gone[i] = goneBy(a)
	}
	var far, second int // the attempt that reaches furthest so far, and the furthest of another client
	far, second = -1, -1
	for i, a := range w.Attempts {
		for _, k := range []int{far, second} {
			if k >= 0 && w.Attempts[k].Session.Client() != a.Session.Client() && gone[k] >= a.From {
				met[k], met[i] = true, true
			}
		}
		switch {
		case far < 0 || gone[far] <= gone[i]:
			if far >= 0 && w.Attempts[far].Session.Client() != a.Session.Client() {
				second = far
			}
			far = i
		case w.Attempts[far].Session.Client() == a.Session.Client():
		case second < 0 || gone[second] <= gone[i]:
			second = i
		}
	}
	return met
}

// goneBy is when the last of an attempt's commands was done.
func goneBy(a *facts.Attempt) int64 {
	at := a.To
	for _, d := range a.Deletes {
		at = max(at, d.T)
	}
	return at
}

// jainIndex is (Σx)²/(n·Σx²), Jain, Chiu and Hawe 1984.
func jainIndex(grants []int) (float64, bool) {
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
