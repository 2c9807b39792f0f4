package life

import (
	"maps"
	"slices"

	"lockpick/harness/history"
)

// compare tells what has become of each key while nobody told, now that the node was read:
// by the end of a life, or unseen in the same life, where why is "". The node's mutex is
// held, and it is not read.
func (n *node) compare(s *stream, why string) {
	all := maps.Clone(n.keys)
	maps.Copy(all, s.found)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		before, after := n.keys[key], s.found[key]
		f := fact{key: key, after: after, bounds: bounds{s.at, min(n.told, s.at), s.at}, clock: s.clock, why: why}
		f.what = n.fate(key, before, after, s.clock/1e6, why)
		switch {
		case f.what == "":
			n.keys[key] = after // an expiry as it is, and not as it was replayed
			continue
		case f.what == history.KeyExpired:
			f.why = ""
		}
		n.become(f)
	}
}

// fate says what has become of a key.
func (n *node) fate(key string, before, after *state, now int64, why string) history.Change {
	switch {
	case after == nil && before.expires != 0 && now >= before.expires:
		return history.KeyExpired
	case why == "" && before != nil && after != nil && after.is(before):
		return ""
	case why == "":
		return change(before, after)
	case after == nil:
		return history.KeyLost
	case before == nil:
		return history.KeyAppeared
	case after.is(before):
		return history.KeyKept
	case slices.ContainsFunc(n.past[key], after.is):
		return history.KeyReverted
	}
	return change(before, after)
}
