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

// summary describes the violation, its cause and its effect in one sentence. If it has nothing to add,
// it returns the verdict's own sentence. Without a violation, it returns "".
func (sc *layout) summary() string {
	if !sc.isViolated() {
		return ""
	}
	text := ""
	switch sc.result.Property {
	case verdict.FaultTolerance, verdict.DeadlockFreedom:
		if sc.outage != nil {
			text = sc.outage.summary()
		}
	case verdict.MutualExclusion:
		text = narrator{sc}.sharedHoldSentence()
	case verdict.ResourceSafety:
		text = narrator{sc}.overrunSentence()
	}
	return cmp.Or(text, strings.TrimSuffix(sc.result.Because, "."))
}

// narrator has the methods that describe a layout in sentences.
type narrator struct{ *layout }

// sharedHoldSentence explains why a second client got a lock that the first client still held.
func (sc narrator) sharedHoldSentence() string {
	first, second := sc.witnessPair()
	if first == nil || second == nil {
		return ""
	}
	a, b := shorten(first.Client()), shorten(second.Client())
	why := sc.causeClause(a, b)
	got := fmt.Sprintf("%s acquired %s while %s still held it", b, shorten(first.Key()), a)
	if a == b { // the same client twice
		got = fmt.Sprintf("%s acquired %s again while it still held it", b, shorten(first.Key()))
	}
	if why != "" {
		got = why + ", so " + got
	}
	if s, write := sc.overwritingWrite(); s != nil {
		got += fmt.Sprintf(", and %s overwrote %s", shorten(s.Client()), lostWriters(write.lostUpdates))
	}
	return got
}

// witnessPair returns the first and second holder according to a loss with the verdict's cause or, if
// there is none, the sessions in focus.
func (sc narrator) witnessPair() (first, second *session) {
	if len(sc.focus) < 2 {
		return nil, nil
	}
	for _, l := range sc.result.Losses {
		if a, b := sc.f.byName[l.First], sc.f.byName[l.Second]; l.Cause == sc.result.Cause && a != nil && b != nil {
			return a, b
		}
	}
	return sc.focus[0], sc.focus[1]
}

// causeClause explains why client a's votes were gone when client b requested the lock.
func (sc narrator) causeClause(a, b string) string {
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
	return display.CauseClause(sc.result.Cause, display.Parties{Holder: a, NextHolder: b, Nodes: on, Deleter: sc.deleterNoun()})
}

// deleterNoun returns a noun phrase for the releases that deleted another client's key.
func (sc narrator) deleterNoun() string {
	names := sc.causingClients()
	if len(names) == 0 && len(sc.deletions) > 0 {
		names = []string{facts.Sender(sc.deletions[0].release)}
	}
	switch len(names) {
	case 0:
		return "a release by another client"
	case 1:
		return "a release by " + shorten(names[0])
	}
	return "releases by " + joinNames(names)
}

// overrunSentence describes a write applied after the session's lease ended: why it was late, and what
// it overwrote.
func (sc narrator) overrunSentence() string {
	s, write := sc.overwritingWrite()
	if s == nil || sc.result.Cause == verdict.FenceBroken {
		return ""
	}
	who, effect := shorten(s.Client()), "overwrote "+lostWriters(write.lostUpdates)
	if sc.result.Cause != verdict.Overrun || !s.Granted() {
		return who + " " + effect
	}
	if s.ending != facts.Expired {
		return fmt.Sprintf("%s wrote after %s and %s", who, s.lateReason(), effect)
	}
	if g := sc.delayingFault(s, write); g != nil {
		return sc.faultClause(g, who) + effect
	}
	if sent, applied := sentAt(sc.f, write.Value), sc.f.appliedAt(write.Value); sent != 0 && sent < s.beliefEnd && s.beliefEnd <= applied {
		return fmt.Sprintf("%s's write took %s to reach %s, so %s overran its lease and %s", who, display.Duration(roundSpan(saturatingSub(applied, sent))), shorten(sc.resource()), who, effect)
	}
	return fmt.Sprintf("%s continued past the end of its lease and %s", who, effect)
}

// delayingFault returns the faults that delayed a write until after its session's lease ended, or nil.
// If the write was sent before that, it considers only faults on the write's link. Otherwise it prefers
// faults on the write's link, then faults that stopped the client, then other faults that hit the
// client, then faults on the client's other links.
func (sc narrator) delayingFault(s *session, write *appliedWrite) []*facts.Fault {
	link := s.Client() + "-" + sc.resource()
	at := sentAt(sc.f, write.Value)
	sent := at != 0 && at < s.beliefEnd
	rank := func(ft *facts.Fault) int {
		switch {
		case !activeAtLeaseEnd(ft, s):
		case ft.Target == link:
			return 4
		case sent:
		case ft.Target == s.Client() && nemesis.WordingOf(ft.Kind).State == nemesis.StateStopped:
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

// isBlamed reports whether the verdict or the summary names a fault as part of the cause.
func (sc narrator) isBlamed(g []*facts.Fault) bool {
	if !sc.isViolated() {
		return false
	}
	if s, write := sc.overwritingWrite(); s != nil && sc.result.Cause == verdict.Overrun {
		late := sc.delayingFault(s, write)
		return late != nil && late[0] == g[0]
	}
	return slices.ContainsFunc(sc.result.Losses, func(l verdict.Loss) bool { return slices.Contains(l.Steps, g[0].Step) })
}

// faultClause describes the faults that made a client overrun its lease.
func (sc narrator) faultClause(g []*facts.Fault, who string) string {
	w := wordingFor(g, sc.faultTargets(g), sc.f.heldMessage(g[0]))
	predicate, _, _ := strings.Cut(w.PastPredicate, " (")
	text := fmt.Sprintf("%s %s for %s, ", w.Subject, predicate, display.Duration(roundSpan(saturatingSub(min(g[0].To(), sc.f.end), g[0].From()))))
	if w.State != nemesis.StateStopped {
		text += "so " + who + " "
	}
	return text + "overran its lease and "
}

// roundSpan rounds durations of a second or more to the precision used in summaries.
func roundSpan(ns int64) int64 {
	if ns >= 1e9 {
		ns = saturatingAdd(ns, 5e6) / 1e7 * 1e7
	}
	return ns
}

// activeAtLeaseEnd reports whether a fault that hit a session's client was active when the session's
// lease ended.
func activeAtLeaseEnd(ft *facts.Fault, s *session) bool {
	return ft.Hits(s.Client()) && ft.From() <= s.beliefEnd && s.beliefEnd <= ft.To()
}

// overwritingWrite returns the last applied write of a session in focus that overwrote updates, with
// its session.
func (sc narrator) overwritingWrite() (by *session, write *appliedWrite) {
	at := int64(-1)
	for _, s := range sc.focus {
		for _, c := range s.calls {
			if c.Call.Op != history.OpWrite {
				continue
			}
			if p := sc.f.appliedWrites[c.Call.Value]; p != nil && len(p.lostUpdates) > 0 && p.AppliedAt > at {
				by, write, at = s, p, p.AppliedAt
			}
		}
	}
	return by, write
}

// lostWriters names the lost writes by client: "c2's write", "writes of c2 and c3".
func lostWriters(lost []lostUpdate) string {
	var names []string
	for _, l := range lost {
		names = append(names, l.client)
	}
	names = uniqueNames(names)
	if len(names) == 1 && len(lost) == 1 {
		return shorten(names[0]) + "'s write"
	}
	if len(names) == 1 {
		return shorten(names[0]) + "'s writes"
	}
	return "writes of " + joinNames(names)
}

// lostVersions names the lost versions: "versions 3 to 6 of c2".
func lostVersions(lost []lostUpdate) string {
	if len(lost) == 1 {
		return shorten(lost[0].client) + "'s update"
	}
	var parts []string
	for _, g := range groupBy(lost, func(l lostUpdate) string { return l.client }) {
		parts = append(parts, versionList(g)+" of "+shorten(g[0].client))
	}
	return display.List(parts)
}

func versionList(g []lostUpdate) string {
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

// saturatingSub returns a - b, clamped to the int64 range.
func saturatingSub(a, b int64) int64 {
	d := a - b
	switch {
	case a >= 0 && b < 0 && d < 0:
		return math.MaxInt64
	case a < 0 && b > 0 && d >= 0:
		return math.MinInt64
	}
	return d
}

// saturatingAdd returns a + b, clamped to the int64 range.
func saturatingAdd(a, b int64) int64 {
	if b == math.MinInt64 {
		return math.MinInt64
	}
	return saturatingSub(a, -b)
}

const maxNameLen = 24

// shorten truncates a name to leave room for the rest of the sentence.
func shorten(name string) string { return display.Truncate(name, maxNameLen) }

// joinNames shortens names and joins them for use in a sentence.
func joinNames(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = shorten(n)
	}
	return display.List(out)
}

// nodeRange lists nodes, sorted and without duplicates: "n1–n5", "n1 n2", "n1 n2 n4 n5".
func nodeRange(nodes []string) string { return strings.Join(nodeParts(nodes), " ") }

// nodeList is nodeRange for use in a sentence: "n1–n5", "n1 and n2".
func nodeList(nodes []string) string { return display.List(nodeParts(nodes)) }

func nodeParts(nodes []string) (parts []string) {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b string) int {
		pa, na, _ := splitNumber(a)
		pb, nb, _ := splitNumber(b)
		return cmp.Or(cmp.Compare(pa, pb), cmp.Compare(na, nb), cmp.Compare(a, b))
	})
	nodes = slices.Compact(nodes)
	for i := 0; i < len(nodes); {
		j := i
		for j+1 < len(nodes) && isNextName(nodes[j], nodes[j+1]) {
			j++
		}
		switch {
		case j-i >= 2:
			parts = append(parts, shorten(nodes[i])+"–"+shorten(nodes[j]))
		default:
			for _, n := range nodes[i : j+1] {
				parts = append(parts, shorten(n))
			}
		}
		i = j + 1
	}
	return parts
}

// isNextName reports whether b is a with the next number.
func isNextName(a, b string) bool {
	pa, na, oka := splitNumber(a)
	pb, nb, okb := splitNumber(b)
	return oka && okb && pa == pb && nb == na+1
}

func splitNumber(name string) (prefix string, n int, ok bool) {
	prefix = strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(prefix):])
	return prefix, n, err == nil
}

// uniqueNames returns names without duplicates, in order of first occurrence.
func uniqueNames(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// groupBy groups elements by key. Groups are in the order of their first elements.
func groupBy[T any, K comparable](all []T, key func(T) K) [][]T {
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

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
