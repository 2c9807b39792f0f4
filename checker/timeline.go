package checker

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// timeline is what became of one key on one node, as the links saw it. All is in
// the order in which the node answered.
type timeline struct {
	node     string
	sets     []*history.Event // that the node accepted
	extends  []*history.Event // that the node accepted
	releases []*history.Event // that deleted the key
	silent   []*history.Event // releases whose answer nobody saw: they may have deleted it
	losses   []*fault         // by which the node may have forgotten keys
	clocks   []*fault
}

// timelines is the timelines of a key by node.
func (r *record) timelines(key string) map[string]*timeline {
	nodes := map[string]*timeline{}
	for _, n := range r.Params.Nodes {
		nodes[n] = &timeline{node: n}
	}
	for _, e := range r.Links {
		t := nodes[e.Node]
		if t == nil || e.Key != key {
			continue
		}
		switch {
		case e.Op == history.OpSet && e.Type == history.OK:
			t.sets = append(t.sets, e)
		case e.Op == history.OpExtend && e.Type == history.OK:
			t.extends = append(t.extends, e)
		case e.Op == history.OpRelease && e.Type == history.OK:
			t.releases = append(t.releases, e)
		case e.Op == history.OpRelease && e.Type == history.Info:
			t.silent = append(t.silent, e)
		}
	}
	for _, f := range r.Faults {
		t := nodes[f.Target]
		switch {
		case t == nil:
		case memory(f) != nil:
			t.losses = append(t.losses, f)
		case strings.HasPrefix(f.Kind, clockWrong) && f.Begin != nil:
			t.clocks = append(t.clocks, f)
		}
	}
	for _, t := range nodes {
		for _, es := range [][]*history.Event{t.sets, t.extends, t.releases} {
			slices.SortStableFunc(es, func(a, b *history.Event) int { return cmp.Compare(a.Applied, b.Applied) })
		}
	}
	return nodes
}

// votes is the sets by which nodes granted the lock to a session: on each node
// the last that it accepted of those whose answer came before acquire returned.
// Where the lock doesn't tell its token, the last accepted set of all tells it,
// for a lock may have made several attempts in one acquire.
func (r *record) votes(s *session, nodes map[string]*timeline) map[string]*history.Event {
	ε := int64(r.Params.StampError)
	token := s.Token()
	counted := func(e *history.Event) bool {
		return facts.LinkClient(e.Process) == s.Client() && (token == "" || e.Token == token) &&
			e.Sent >= s.Acquire.Call.T-ε && e.Answered > 0 && e.Answered <= s.Acquire.Return.T+ε
	}
	if token == "" {
		var last *history.Event
		for _, name := range r.Params.Nodes {
			for _, e := range nodes[name].sets {
				if counted(e) && (last == nil || e.Applied > last.Applied) {
					last = e
				}
			}
		}
		if last != nil {
			token = last.Token
		}
	}
	votes := map[string]*history.Event{}
	for name, t := range nodes {
		for _, e := range t.sets {
			if counted(e) {
				votes[name] = e
			}
		}
	}
	return votes
}

// successor is the first set that the node accepted after a vote and that was
// somebody else's: by then the voted key was gone.
func (t *timeline) successor(vote *history.Event) *history.Event {
	for _, e := range t.sets {
		if e.Applied > vote.Applied && (e.Token != vote.Token || facts.LinkClient(e.Process) != facts.LinkClient(vote.Process)) {
			return e
		}
	}
	return nil
}

// deletion is the first release between two instants that deleted a key with
// the vote's token, or whatever key there was.
func deletion(releases []*history.Event, vote, next *history.Event) *history.Event {
	for _, e := range releases {
		ours := e.Token == "" || e.Token == vote.Token
		if ours && e.Sent < next.Applied && (e.Applied == 0 || e.Applied > vote.Applied && e.Applied < next.Applied) {
			return e
		}
	}
	return nil
}

// memory is when a fault's node had only what had outlived the fault, or nil.
func memory(f *fault) *history.Event {
	switch f.Kind {
	case killed, powerLost:
		return f.End
	case failedOver:
		return f.Begin
	}
	return nil
}

// before is the latest instant of which the record says that this was still to come.
func before(f *fault) *history.Event {
	if f.Kind == failedOver {
		return f.First()
	}
	return f.Begin
}

// loss is the first fault between two instants by which the node may have forgotten a
// key. It may answer again some time before the fault's event says so, which is stamped
// once that was read back.
func (t *timeline) loss(vote, next *history.Event) *fault {
	for _, f := range t.losses {
		if memory(f).T > vote.Applied && before(f).T < next.Applied {
			return f
		}
	}
	return nil
}

// life is the span of true time that the voted key was to live on the node, by
// the last expiry that it was given before an instant. The key was set between
// Sent and Applied; the earliest end is what a cautious client reckons with.
func (t *timeline) life(vote, next *history.Event, otherwise int64) (from, to int64) {
	ttl := cmp.Or(vote.TTL, otherwise)
	from, to = vote.Sent, vote.Sent+ttl
	for _, e := range t.extends {
		if e.Token == vote.Token && e.Applied > vote.Applied && e.Applied < next.Applied {
			to = e.Sent + cmp.Or(e.TTL, ttl)
		}
	}
	return from, to
}
