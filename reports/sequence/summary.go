package sequence

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// summary is the violation in one sentence: its cause and its harm, by the verdict and the
// facts that it names. Where these don't say more than the verdict does, it is the
// verdict's own sentence. "": nothing is violated.
func (sc *scene) summary() string {
	if !sc.violated() {
		return ""
	}
	text := ""
	switch sc.result.Property {
	case verdict.FaultTolerance, verdict.DeadlockFreedom:
		if sc.out != nil {
			text = sc.out.summary()
		}
	case verdict.MutualExclusion:
		text = inWords{sc}.sharedHold()
	case verdict.ResourceSafety:
		text = inWords{sc}.overrun()
	}
	return cmp.Or(text, strings.TrimSuffix(sc.result.Because, "."))
}

// inWords is a scene that is told.
type inWords struct{ *scene }

// sharedHold says why a second client got a lock that the first still held.
func (sc inWords) sharedHold() string {
	first, second := sc.pair()
	if first == nil || second == nil {
		return ""
	}
	a, b := short(first.Client()), short(second.Client())
	why := sc.lossOf(a, b)
	got := fmt.Sprintf("%s acquired %s while %s still held it", b, short(first.Key()), a)
	if a == b { // one client, twice
		got = fmt.Sprintf("%s acquired %s again while it still held it", b, short(first.Key()))
	}
	if why != "" {
		got = why + ", so " + got
	}
	if s, write := sc.overwriting(); s != nil {
		got += fmt.Sprintf(", and %s overwrote %s", short(s.Client()), writesLost(write.lost))
	}
	return got
}

// pair is the sessions of the witness by the order of their keys, where the losses tell it.
func (sc inWords) pair() (first, second *session) {
	if len(sc.focus) < 2 {
		return nil, nil
	}
	for _, l := range sc.result.Losses {
		if a, b := sc.f.named[l.First], sc.f.named[l.Second]; l.Cause == sc.result.Cause && a != nil && b != nil {
			return a, b
		}
	}
	return sc.focus[0], sc.focus[1]
}

// lossOf is a clause for each cause by which a's vote on a node was gone when b asked.
func (sc inWords) lossOf(a, b string) string {
	var nodes []string
	for _, l := range sc.result.Losses {
		if l.Cause == sc.result.Cause {
			nodes = append(nodes, l.Node)
		}
	}
	if len(nodes) == 0 && sc.result.Node != "" {
		nodes = []string{sc.result.Node}
	}
	on := cmp.Or(nodeList(nodes), "the nodes")
	return display.CauseClause(sc.result.Cause, display.Parties{First: a, Second: b, Nodes: on, Deleter: sc.deleter()})
}

// deleter is who deleted a key that was not its own.
func (sc inWords) deleter() string {
	names := sc.actors()
	if len(names) == 0 && len(sc.deletions) > 0 {
		names = []string{facts.Sender(sc.deletions[0].release)}
	}
	switch len(names) {
	case 0:
		return "a release of another client"
	case 1:
		return "a release of " + short(names[0])
	}
	return "releases of " + list(names)
}

// overrun says why a write came after its session's lease, and what it did.
func (sc inWords) overrun() string {
	s, write := sc.overwriting()
	if s == nil || sc.result.Cause == verdict.FenceBroken {
		return ""
	}
	who, harm := short(s.Client()), "overwrote "+writesLost(write.lost)
	if sc.result.Cause != verdict.Overrun || !s.Granted() {
		return who + " " + harm
	}
	if s.ended != facts.Expired {
		return fmt.Sprintf("%s wrote after %s and %s", who, s.lateness(), harm)
	}
	if g := sc.delayed(s, write); g != nil {
		return sc.suffered(g, who) + harm
	}
	if sent, applied := sentAt(sc.f, write.Value), sc.f.appliedAt(write.Value); sent != 0 && sent < s.until && s.until <= applied {
		return fmt.Sprintf("%s's write took %s to reach %s, so %s outlived its lease and %s", who, display.Span(about(minus(applied, sent))), short(sc.resource()), who, harm)
	}
	return fmt.Sprintf("%s worked past the end of its lease and %s", who, harm)
}

// delayed finds the fault that kept a write until its session's lease was over, or nil. If the write had been sent by
// then, that is a fault of its link. Otherwise it is one of the client itself, first one that stopped it, or else of any of
// its links.
func (sc inWords) delayed(s *session, write *apply) []*facts.Fault {
	link := s.Client() + "-" + sc.resource()
	at := sentAt(sc.f, write.Value)
	sent := at != 0 && at < s.until
	rank := func(ft *facts.Fault) int {
		switch {
		case !crosses(ft, s):
		case ft.Target == link:
			return 4
		case sent:
		case ft.Target == s.Client() && nemesis.ToldOf(ft.Kind).State == nemesis.Stopped:
			return 3
		case ft.Target == s.Client():
			return 2
		default:
			return 1
		}
		return 0
	}
	var found []*facts.Fault
	for _, g := range sc.faultGroups() {
		if r := rank(g[0]); r > 0 && (found == nil || r > rank(found[0])) {
			found = g
		}
	}
	return found
}

// blames reports whether a fault is part of the cause, by the verdict or by the headline.
func (sc inWords) blames(g []*facts.Fault) bool {
	if !sc.violated() {
		return false
	}
	if s, write := sc.overwriting(); s != nil && sc.result.Cause == verdict.Overrun {
		late := sc.delayed(s, write)
		return late != nil && late[0] == g[0]
	}
	return slices.ContainsFunc(sc.result.Losses, func(l verdict.Loss) bool { return slices.Contains(l.Steps, g[0].Step) })
}

// suffered says what a fault did to a client until its lease was over.
func (sc inWords) suffered(g []*facts.Fault, who string) string {
	w := wordsFor(g, sc.faultTargets(g), sc.f.held(g[0]))
	was, _, _ := strings.Cut(w.Was, " (")
	text := fmt.Sprintf("%s %s for %s, ", w.Whom, was, display.Span(about(minus(min(g[0].To(), sc.f.last), g[0].From()))))
	if w.State != nemesis.Stopped {
		text += "so " + who + " "
	}
	return text + "outlived its lease and "
}

// about is a length of time as precisely as a summary tells it.
func about(ns int64) int64 {
	if ns >= 1e9 {
		ns = plus(ns, 5e6) / 1e7 * 1e7
	}
	return ns
}

// crosses reports whether a fault of a session's client was in force when its lease ended.
func crosses(ft *facts.Fault, s *session) bool {
	return ft.Hits(s.Client()) && ft.From() <= s.until && s.until <= ft.To()
}

// overwriting is the session shown whose write did away with others', and that write: the one that was applied last.
func (sc inWords) overwriting() (by *session, write *apply) {
	at := int64(-1)
	for _, s := range sc.focus {
		for _, c := range s.calls {
			if c.Call.Op != history.OpWrite {
				continue
			}
			if p := sc.f.applies[c.Call.Value]; p != nil && len(p.lost) > 0 && p.Applied > at {
				by, write, at = s, p, p.Applied
			}
		}
	}
	return by, write
}

// writesLost names whose writes were lost, and how many.
func writesLost(lost []lostWrite) string {
	var names []string
	for _, l := range lost {
		names = append(names, l.client)
	}
	names = unique(names)
	if len(names) == 1 && len(lost) == 1 {
		return short(names[0]) + "'s write"
	}
	if len(names) == 1 {
		return short(names[0]) + "'s writes"
	}
	return "writes of " + list(names)
}

// versionsLost names the versions that were lost: "versions 3 to 6 of c2".
func versionsLost(lost []lostWrite) string {
	if len(lost) == 1 {
		return short(lost[0].client) + "'s update"
	}
	var parts []string
	for _, g := range grouped(lost, func(l lostWrite) string { return l.client }) {
		parts = append(parts, versions(g)+" of "+short(g[0].client))
	}
	return display.List(parts)
}

func versions(g []lostWrite) string {
	var runs []string
	for i := 0; i < len(g); {
		j := i
		for j+1 < len(g) && g[j+1].version == g[j].version+1 {
			j++
		}
		switch {
		case j-i > 1 || len(g) == 2 && j > i:
			between := " to "
			if j-i == 1 {
				between = " and "
			}
			runs = append(runs, fmt.Sprint(g[i].version, between, g[j].version))
		default:
			for _, l := range g[i : j+1] {
				runs = append(runs, fmt.Sprint(l.version))
			}
		}
		i = j + 1
	}
	if len(g) == 1 {
		return "version " + runs[0]
	}
	return "versions " + display.List(runs)
}

// minus is a - b, and the nearest number where that can't be said.
func minus(a, b int64) int64 {
	d := a - b
	switch {
	case a >= 0 && b < 0 && d < 0:
		return math.MaxInt64
	case a < 0 && b > 0 && d >= 0:
		return math.MinInt64
	}
	return d
}

// plus is a + b likewise.
func plus(a, b int64) int64 {
	if b == math.MinInt64 {
		return math.MinInt64
	}
	return minus(a, -b)
}

const longestName = 24

// short cuts a name, so that one name can't crowd out the sentence about it.
func short(name string) string { return display.Fit(name, longestName) }

// list joins names as a sentence does, each cut short.
func list(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = short(n)
	}
	return display.List(out)
}

// nodeRange names nodes briefly, in their order and each once: "n1–n5", "n1 n2", "n1 n2 n4 n5".
func nodeRange(nodes []string) string { return strings.Join(nodeParts(nodes), " ") }

// nodeList names them as a sentence does: "n1–n5", "n1 and n2".
func nodeList(nodes []string) string { return display.List(nodeParts(nodes)) }

func nodeParts(nodes []string) (parts []string) {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b string) int {
		pa, na, _ := numbered(a)
		pb, nb, _ := numbered(b)
		return cmp.Or(cmp.Compare(pa, pb), cmp.Compare(na, nb), cmp.Compare(a, b))
	})
	nodes = slices.Compact(nodes)
	for i := 0; i < len(nodes); {
		j := i
		for j+1 < len(nodes) && follows(nodes[j], nodes[j+1]) {
			j++
		}
		switch {
		case j-i >= 2:
			parts = append(parts, short(nodes[i])+"–"+short(nodes[j]))
		default:
			for _, n := range nodes[i : j+1] {
				parts = append(parts, short(n))
			}
		}
		i = j + 1
	}
	return parts
}

// follows reports whether b is a's name with the next number.
func follows(a, b string) bool {
	pa, na, oka := numbered(a)
	pb, nb, okb := numbered(b)
	return oka && okb && pa == pb && nb == na+1
}

func numbered(name string) (prefix string, n int, ok bool) {
	prefix = strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(prefix):])
	return prefix, n, err == nil
}

// unique returns the names in their first order, each once.
func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// grouped puts together what has the same key, in the order of its first.
func grouped[T any, K comparable](all []T, key func(T) K) [][]T {
	var out [][]T
	at := map[K]int{}
	for _, x := range all {
		k := key(x)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], x)
	}
	return out
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
