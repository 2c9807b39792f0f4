package sequence

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// clients are the clients of the sessions, and one whose release mattered.
func (sc *scene) clients() []string {
	var out []string
	for _, s := range sc.focus {
		out = append(out, s.Client())
	}
	for _, d := range sc.deletions {
		out = append(out, facts.Sender(d.release))
	}
	out = unique(out)
	return out[:min(3, len(out))]
}

// resource is the name of the storage, "" if nobody used one.
func (sc *scene) resource() string {
	used := slices.ContainsFunc(sc.focus, func(s *session) bool {
		return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Call.Op == history.OpRead || c.Call.Op == history.OpWrite })
	})
	switch {
	case !used:
		return ""
	case sc.f.Params.Resource != "":
		return sc.f.Params.Resource
	}
	return "storage"
}

// nodeGroups folds the lock nodes into at most room lanes. Nodes that behaved
// alike share one; where the story is not about single nodes, all do.
func (sc *scene) nodeGroups(room int) [][]string {
	nodes := sc.f.nodes()
	if len(nodes) == 0 {
		return [][]string{nil}
	}
	for _, sign := range []func(string) string{sc.fullSignature, sc.faultSignature, sc.blamed} {
		if groups := grouped(nodes, sign); sc.aboutNodes() && len(groups) <= room {
			return groups
		}
	}
	return [][]string{nodes}
}

// aboutNodes reports whether single nodes matter to the story.
func (sc *scene) aboutNodes() bool {
	if sc.result != nil && (sc.result.Property == checker.MutualExclusion || sc.result.Node != "") {
		return true
	}
	return slices.ContainsFunc(sc.f.nodes(), func(n string) bool { return sc.faultSignature(n) != sc.faultSignature("") })
}

// blamed sets a node apart that the verdict names.
func (sc *scene) blamed(node string) string {
	return fmt.Sprint(sc.result != nil && sc.result.Node == node && node != "")
}

// faultSignature is which faults hit the node or one of its links to a client shown.
func (sc *scene) faultSignature(node string) string {
	s := ""
	for _, ft := range sc.faults {
		if ft.Target == node {
			s += " " + ft.Kind
		}
		if client, ok := strings.CutSuffix(ft.Target, "-"+node); ok && slices.Contains(sc.clients(), client) {
			s += " " + ft.Kind + " " + client
		}
	}
	return strings.Join(unique(strings.Fields(s)), " ")
}

// fullSignature adds which sessions the node granted the lock, and lost again.
func (sc *scene) fullSignature(node string) string {
	s := sc.faultSignature(node)
	if slices.ContainsFunc(sc.deletions, func(d deletion) bool { return d.release.Node == node }) {
		s += " deleted"
	}
	for i, fs := range sc.focus {
		if a := sc.f.winning(fs); a != nil {
			if e := a.of(node); e != nil {
				s += fmt.Sprintf(" %d %s", i, e.Type)
			}
		}
	}
	return s
}
