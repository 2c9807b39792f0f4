package facts

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/harness/history"
)

// onWire reports whether an event is a command as its link saw it.
func onWire(e *history.Event) bool {
	return e.Node != "" && e.Process != history.Nemesis && e.Process != history.Harness
}

// Sent is all commands that the links saw, in the order in which they were sent.
func (f *Facts) Sent() []*history.Event {
	all := slices.Concat(f.Links, f.Others)
	slices.SortStableFunc(all, bySent)
	return all
}

func bySent(a, b *history.Event) int {
	return cmp.Or(cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.N, b.N))
}

// ByNode is what the links saw each node do, in the order in which it answered. Commands
// of which nobody knows that are left out.
func (f *Facts) ByNode() map[string][]*history.Event {
	nodes := map[string][]*history.Event{}
	for _, e := range f.Links {
		if e.Applied != 0 {
			nodes[e.Node] = append(nodes[e.Node], e)
		}
	}
	for _, all := range nodes {
		slices.SortStableFunc(all, func(a, b *history.Event) int { return cmp.Or(cmp.Compare(a.Applied, b.Applied), cmp.Compare(a.N, b.N)) })
	}
	return nodes
}

// LinkClient is the client's end of a link such as "c1-n3".
func LinkClient(link string) string {
	client, _, _ := strings.Cut(link, "-")
	return client
}

// Sender is the client that sent a command. Unlike a link's, its name may have a dash.
func Sender(e *history.Event) string {
	if client, ok := strings.CutSuffix(e.Process, e.Node); ok {
		return strings.TrimSuffix(client, "-")
	}
	return e.Process
}

// ReleaseOf is the release on the wire by which a node deleted a key, as it tells, or nil.
func (f *Facts) ReleaseOf(end *history.Event) *history.Event {
	for _, e := range f.Links {
		if e.Op == history.OpRelease && e.Process == end.Life.By && e.Sent == end.Sent && e.Key == end.Key {
			return e
		}
	}
	return nil
}
