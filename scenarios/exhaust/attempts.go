package exhaust

import (
	"fmt"
	"slices"
)

// read sorts the path's steps by attempts.
func (t *telling) read() error {
	for i, s := range t.path {
		t.when = append(t.when, t.add())
		at := t.when[i]
		if s.Action == crashed || s.Action == jumped {
			t.faults = append(t.faults, faulty{s, at, t.add()})
		}
		if s.Client == 0 {
			continue
		}
		a := t.attempt(s.Client-1, s.Attempt-1)
		switch s.Action {
		case set:
			a.set[s.Node] = delivery{at, s.Yes, a.end < 0}
			if s.Yes && a.end < 0 {
				a.decides = s.Node
			}
		case extend:
			a.ext[s.Node] = delivery{at, s.Yes, a.extended < 0}
		case del:
			a.del[s.Node] = delivery{at, s.Yes, true}
		case acquired:
			a.end, a.won = at, true
			t.hear(a, s)
		case Raising:
			t.hear(a, s)
		case Raise:
			a.raised = append(a.raised, raise{s.Node, at})
		case Read:
			a.refused = !s.Yes
		case write:
			a.write = &delivery{at, s.Yes, !a.ended && t.attempts[s.Client-1][len(t.attempts[s.Client-1])-1] == a && (a.over == 0 || a.longer && a.over == 1)}
		case failed:
			a.end, a.ended = at, true
			a.release = at
		case Extending:
			a.extend, a.extends = at, true
		case Extended, extendFailed, extendLost:
			a.extended, a.longer, a.lost = at, s.Action == Extended, s.Action == extendLost
		case released:
			a.release, a.ended = at, true
		case over:
			a.late = a.late || a.end < 0
			a.over++
		case started, reply, writing:
		default:
			return fmt.Errorf("a step that can't be told yet: %v", s)
		}
	}
	t.complete()
	if err := t.returns(); err != nil {
		return err
	}
	return t.raises()
}

// hardened says whether the lock returns at a quorum.
func (t *telling) hardened() bool { return t.scope.Lock == Hardened }

// returns says whether a lock that returns at a quorum could do as the path has it: it has heard so
// many votes and no more. Its failures and extensions can't be told yet.
func (t *telling) returns() error {
	for _, a := range slices.Concat(t.attempts[0], t.attempts[1]) {
		votes, heard := 0, uint8(0)
		for n, d := range a.set {
			if d.yes && d.inTime {
				votes++
				heard |= 1 << (n - 1)
			}
		}
		if t.hardened() && (!a.won || a.extends || votes != t.scope.Nodes/2+1 || a.counted && a.heard != heard) {
			return fmt.Errorf("%w: a lock that returns at a quorum does not wait for more", errUntimed)
		}
	}
	return nil
}

// hear notes which counts make the token.
func (t *telling) hear(a *attempt, s Step) {
	if s.Heard > 0 {
		a.counted, a.heard, a.behind = true, s.Heard, s.Behind
	}
}

// raises says whether tokens are written back as no plan can prevent: at once, and answered.
func (t *telling) raises() error {
	for _, a := range slices.Concat(t.attempts[0], t.attempts[1]) {
		arrived := uint8(0)
		for _, r := range a.raised {
			arrived |= 1 << (r.node - 1)
		}
		if a.behind != arrived || a.behind > 0 && !a.won {
			return fmt.Errorf("%w: a token is written back late or never", errUntimed)
		}
	}
	return nil
}

// attempt is a client's, which is new where the path has not spoken of it.
func (t *telling) attempt(c, n int) *attempt {
	for len(t.attempts[c]) <= n {
		t.attempts[c] = append(t.attempts[c], &attempt{start: t.add(), end: -1, extended: -1, release: -1,
			set: map[int]delivery{}, ext: map[int]delivery{}, del: map[int]delivery{}})
	}
	return t.attempts[c][n]
}

// complete adds what the search does without a word: a hold that is followed by another attempt
// has been released.
func (t *telling) complete() {
	for c := range t.attempts {
		for n, a := range t.attempts[c] {
			if a.end < 0 {
				a.end = t.add()
			}
			if a.extends && a.extended < 0 {
				a.extended = t.add()
			}
			switch {
			case a.ended:
			case a.won && (n < len(t.attempts[c])-1 || len(a.del) > 0 || !t.both()):
				a.release, a.ended = t.add(), true
			case !a.won && !t.both():
				a.release, a.ended = a.end, true
			}
			a.sent = t.add()
			if a.late = a.late && a.won; a.late {
				a.pause = t.add()
			}
		}
	}
}
