package sequence

import (
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

// drawLosses draws where a node lost the key by which it had granted the first session, by
// the facts that the verdict names. What a release took away is drawn as that release.
func (b *builder) drawLosses() {
	if b.scene.result == nil {
		return
	}
	type group struct {
		lane  int
		first string
		what  history.Change
	}
	ends := map[group][]*event{}
	var order []group
	for _, l := range b.scene.result.Losses {
		e := b.scene.ending(l)
		lane, ok := b.lanes.of(l.Node)
		if e == nil || !ok || e.Life.What == history.KeyDeleted && l.Cause == verdict.DeletedByOther || !b.scene.shown(e.T) {
			continue
		}
		g := group{lane, l.First, e.Life.What}
		if ends[g] == nil {
			order = append(order, g)
		}
		ends[g] = append(ends[g], e)
	}
	for _, g := range order {
		i := slices.IndexFunc(b.f.sessions, func(s *session) bool { return s.Name() == g.first })
		if i < 0 {
			continue
		}
		var names []string
		for _, e := range ends[g] {
			names = append(names, e.Process)
		}
		slices.Sort(names)
		at := ends[g][0].T
		nodes, text := nodeRange(unique(names)), gone(g.what, short(b.f.sessions[i].Client()), ends[g][0].Life.By)
		b.sheet.note(note{Lane: g.lane, At: at, Mark: cross, Label: nodes + " " + text, Bad: true, Events: numbers(ends[g]...)})
		b.caption.tell(at, list(unique(names)), text+" at "+display.Seconds(at))
	}
}

// ending is the fact that ended a key before its time, or nil.
func (sc *scene) ending(l checker.Loss) *event {
	for _, s := range sc.f.Lives().Stays(l.Node, sc.result.Witness.Key) {
		if s.End != nil && s.End.N == l.Fact {
			return s.End
		}
	}
	return nil
}

// gone says how a node lost a client's key.
func gone(what history.Change, client, by string) string {
	key := client + "'s key"
	switch what {
	case history.KeyExpired:
		return "let " + key + " expire before its time"
	case history.KeyReverted:
		return "lost " + key + ", and has what was there before"
	case history.KeyChanged:
		return fmt.Sprintf("has %s put over %s", short(facts.LinkClient(by))+"'s value", key)
	case history.KeyFlushed:
		return "lost " + key + " with all others"
	case history.KeyEvicted:
		return "dropped " + key + " for want of memory"
	}
	return "lost " + key
}
