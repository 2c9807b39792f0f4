package story

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/harness/history"
)

// endLife fills in of a fact of a key's life what the story leaves out.
func endLife(e *history.Event) {
	l := e.Life
	if l.By != "" && l.By != history.Harness && !strings.Contains(l.By, ":") {
		l.By += "-" + e.Process
	}
	switch l.What {
	case history.KeySet, history.KeyChanged, history.KeyExpiry, history.KeyAppeared, history.KeyKept, history.KeyReverted:
		l.Expires = e.Local + e.TTL
	}
	e.TTL = 0
}

// order numbers each node's facts as they happened.
func order(h *history.History) {
	var facts []*history.Event
	for i := range h.Events {
		if h.Events[i].Life != nil {
			facts = append(facts, &h.Events[i])
		}
	}
	slices.SortStableFunc(facts, func(a, b *history.Event) int { return cmp.Compare(a.T, b.T) })
	seq := map[string]int64{}
	for _, e := range facts {
		seq[e.Process]++
		e.Life.Seq = seq[e.Process]
	}
}
