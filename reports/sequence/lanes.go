package sequence

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// mostLanes is how many lanes a reader can follow, and a terminal can show.
const mostLanes = 6

// makeLanes lays out the lanes as Kleppmann drew them: the first client, the
// lock, the other clients, the storage.
func (b *builder) makeLanes() {
	clients := b.laneClients()
	room := mostLanes - len(clients) - 1
	if len(clients) > 0 {
		b.addLane(Lane{Name: clients[0], Role: Client, Members: clients[:1]})
	}
	for _, group := range b.nodeGroups(room) {
		name := nodeRange(group)
		if len(group) == 0 {
			name = "locks"
		}
		b.addLane(Lane{Name: name, Role: Locks, Members: group})
	}
	for _, c := range clients[min(1, len(clients)):] {
		b.addLane(Lane{Name: c, Role: Client, Members: []string{c}})
	}
	if r := b.resource(); r != "" {
		b.storage = b.addLane(Lane{Name: r, Role: Storage, Members: []string{r}})
	}
}

func (b *builder) addLane(l Lane) int {
	i := len(b.d.Lanes)
	b.d.Lanes = append(b.d.Lanes, l)
	for _, m := range l.Members {
		if _, ok := b.laneOf[m]; !ok {
			b.laneOf[m] = i
		}
	}
	return i
}

// laneClients are the clients of the sessions, and one whose release mattered.
func (b *builder) laneClients() []string {
	var out []string
	for _, s := range b.focus {
		out = append(out, s.Client())
	}
	for _, d := range b.deletions {
		out = append(out, facts.Sender(d.release))
	}
	out = unique(out)
	return out[:min(3, len(out))]
}

// resource is the name of the storage, "" if nobody used one.
func (b *builder) resource() string {
	used := slices.ContainsFunc(b.focus, func(s *session) bool {
		return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Call.Op == history.OpRead || c.Call.Op == history.OpWrite })
	})
	switch {
	case !used:
		return ""
	case b.f.Params.Resource != "":
		return b.f.Params.Resource
	}
	return "storage"
}

// nodeGroups folds the lock nodes into at most room lanes. Nodes that behaved
// alike share one; where the story is not about single nodes, all do.
func (b *builder) nodeGroups(room int) [][]string {
	nodes := b.nodes()
	if len(nodes) == 0 {
		return [][]string{nil}
	}
	for _, sign := range []func(string) string{b.fullSignature, b.faultSignature, b.blamed} {
		if groups := groupBy(nodes, sign); b.aboutNodes() && len(groups) <= room {
			return groups
		}
	}
	return [][]string{nodes}
}

// nodes lists the lock nodes, from the params or else from the wire.
func (b *builder) nodes() []string {
	if len(b.f.Params.Nodes) > 0 {
		return b.f.Params.Nodes
	}
	var out []string
	for _, e := range b.f.tries {
		if !slices.Contains(out, e.Node) && len(out) < 100 {
			out = append(out, e.Node)
		}
	}
	slices.Sort(out)
	return out
}

// aboutNodes reports whether single nodes matter to the story.
func (b *builder) aboutNodes() bool {
	if b.result != nil && (b.result.Property == checker.MutualExclusion || b.result.Node != "") {
		return true
	}
	return slices.ContainsFunc(b.nodes(), func(n string) bool { return b.faultSignature(n) != b.faultSignature("") })
}

// blamed sets a node apart that the verdict names.
func (b *builder) blamed(node string) string {
	return fmt.Sprint(b.result != nil && b.result.Node == node && node != "")
}

// faultSignature is which faults hit the node or one of its links to a client shown.
func (b *builder) faultSignature(node string) string {
	s := ""
	for _, ft := range b.faults {
		if ft.Target == node {
			s += " " + ft.Kind
		}
		if client, ok := strings.CutSuffix(ft.Target, "-"+node); ok && slices.Contains(b.laneClients(), client) {
			s += " " + ft.Kind + " " + client
		}
	}
	return strings.Join(unique(strings.Fields(s)), " ")
}

// fullSignature adds which sessions the node granted the lock, and lost again.
func (b *builder) fullSignature(node string) string {
	s := b.faultSignature(node)
	if slices.ContainsFunc(b.deletions, func(d deletion) bool { return d.release.Node == node }) {
		s += " deleted"
	}
	for i, fs := range b.focus {
		if a := b.f.winning(fs); a != nil {
			if e := a.of(node); e != nil {
				s += fmt.Sprintf(" %d %s", i, e.Type)
			}
		}
	}
	return s
}

func groupBy(nodes []string, sign func(string) string) [][]string {
	var out [][]string
	at := map[string]int{}
	for _, n := range nodes {
		s := sign(n)
		i, ok := at[s]
		if !ok {
			i = len(out)
			at[s] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], n)
	}
	return out
}
