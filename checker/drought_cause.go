package checker

import (
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Causes of a drought: why the attempts in it came to nothing.
const (
	LeftKeys    = "left-keys"     // keys of attempts that were over stood in the way on so many nodes that no majority was left
	SplitVote   = "split-vote"    // attempts of several clients stood in each other's way
	TooFewVotes = "too-few-votes" // nothing stood in the way, and the nodes gave too few votes all the same
)

// whyDry is the cause that holds for most of the attempts in a drought;
// Unexplained if the record has none.
func (r *record) whyDry(d drought) string {
	if d.contest.wire == nil {
		return Unexplained
	}
	var near []*attempt
	for _, a := range d.contest.wire.Attempts {
		if a.From < d.to && a.To+r.life() > d.from {
			near = append(near, a)
		}
	}
	keys := r.keysOf(near)
	count := map[string]int{}
	for _, a := range near {
		if a.From < d.from || a.Won {
			continue
		}
		switch left, rivals := met(a, keys); {
		case len(r.Params.Nodes)-left < quorumOf(len(r.Params.Nodes)):
			count[LeftKeys]++
		case rivals > 0:
			count[SplitVote]++
		default:
			count[TooFewVotes]++
		}
	}
	if len(count) == 0 {
		return Unexplained
	}
	causes := []string{LeftKeys, SplitVote, TooFewVotes}
	return slices.MaxFunc(causes, func(a, b string) int { return count[a] - count[b] })
}

// setKey is a key that an attempt set on a node, from then until it was deleted
// or its life was over at the latest.
type setKey struct {
	interval
	node string
	by   *attempt
	left bool // it wasn't seen to be deleted
}

func (r *record) keysOf(attempts []*attempt) []setKey {
	var keys []setKey
	for _, a := range attempts {
		for _, s := range a.Sets {
			k := setKey{interval{facts.Applied(s), facts.Applied(s) + r.life()}, s.Node, a, true}
			for _, e := range a.Deletes {
				if e.Node == s.Node && e.Type == history.OK && facts.Applied(e) >= k.from {
					k.to, k.left = min(k.to, facts.Applied(e)), false
				}
			}
			keys = append(keys, k)
		}
	}
	return keys
}

// met counts the nodes on which an attempt met a key that was left by one that
// was over, and those on which it met a key of another client's that was not.
func met(a *attempt, keys []setKey) (left, rivals int) {
	var leftOn, rivalOn []string
	for _, k := range keys {
		if k.by == a || k.from > a.To || k.to < a.From {
			continue
		}
		switch {
		case k.left && k.by.Over <= a.From:
			leftOn = append(leftOn, k.node)
		case k.by.Session.Client() != a.Session.Client():
			rivalOn = append(rivalOn, k.node)
		}
	}
	return distinct(leftOn), distinct(rivalOn)
}

func distinct(words []string) int {
	slices.Sort(words)
	return len(slices.Compact(words))
}
