// Package resource judges, from the log of the resource that the locks protect, whether the
// resource was damaged and whether fencing tokens rise and are enforced.
//
// A Log is a record together with what its resource's log shows. A damage is one violation by at
// most two sessions, a workSpan is the span during which a session worked on the resource, and a
// sessionIndex answers questions about one session's writes. FencingOrder is in fencing.go.
//
// Package cause explains why a lock was broken.
package resource

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Safety checks that the resource was not damaged. The resource applied writes in the order of its
// log. Damage is a lost update, an interleaving, a write that was acknowledged but is missing, or a
// write that was applied but refused. If a write outside its session's belief damaged nothing, it
// is counted in the numbers but not judged. Each write on a key that another client used is an
// occasion.
func (r *Log) Safety() verdict.Finding {
	if len(r.Log) == 0 && r.UsedResource {
		return judgeWithoutLog(r)
	}
	if len(r.Log) == 0 && r.Params.Resource == "" {
		return verdict.Finding{Undecided: "the history contains no resource"}
	}
	damages, excused := r.damages()
	f := newFinding(r.Facts, damages)
	f.Occasions = countContended(r.Facts)
	switch {
	case r.Truncation != "" && r.UsedResource:
		f.Undecided = "the resource's log may not have been read back completely"
	case excused != nil && len(damages) == 0:
		return excusedDamage(*excused)
	}
	f.Because = fmt.Sprintf("the resource was not damaged, in %s", verdict.Plural(r.numWrites, "write")) + otherClients(r.numWrites, f.Occasions)
	return f
}

// damages returns the damage that host stalls cannot explain. excused is the first damage that they
// may explain, or nil.
func (r *Log) damages() (damages []damage, excused *damage) {
	all := slices.Concat(r.lostUpdates, interleavings(r))
	if r.Truncation == "" { // a truncated log may continue
		all = append(all, contradictions(r)...)
	}
	for _, h := range all {
		if h.class != stalledOverrun {
			damages = append(damages, h)
		} else if excused == nil {
			excused = &h
		}
	}
	return dropDuplicates(damages), excused
}

// excusedDamage returns an undecided finding for damage that a host stall may explain.
func excusedDamage(h damage) verdict.Finding {
	return verdict.Finding{Undecided: fmt.Sprintf("the host stalled while a client worked, which may be why the client worked past its lease: %s: %s", h.kind, h.text)}
}

// otherClients describes how many of the writes were on keys that another client used.
func otherClients(writes, contended int) string {
	switch {
	case writes == 0:
		return ""
	case contended == 0:
		return "; no other client used the resource"
	}
	return fmt.Sprintf(", %d of them on keys that another client used, too", contended)
}

// judgeWithoutLog judges by the clients' events. If two sessions based writes on the same version
// and both writes were acknowledged, one of them is lost, whatever their order.
func judgeWithoutLog(r *Log) verdict.Finding {
	type base struct {
		key     string
		version int64
	}
	type ackedWrite struct {
		session *facts.Session
		write   facts.Operation
	}
	firstWrites := map[base]ackedWrite{}
	var excused *damage
	for s := range r.Sessions() {
		for w := range s.Calls(history.OpWrite) {
			if w.Outcome() != history.OK {
				continue
			}
			at := base{s.Key(), w.Call.Version}
			other, found := firstWrites[at]
			if !found {
				firstWrites[at] = ackedWrite{s, w}
				continue
			}
			if o := other.session; o != s {
				h := damage{
					kind: lostUpdate, class: classify(r, []workSpan{workSpanOf(o, other.write), workSpanOf(s, w)}), key: s.Key(),
					event: laterEvent(other.write.Return, w.Return), from: min(other.write.Call.T, w.Call.T), sessions: []string{o.Name(), s.Name()},
					events: []*history.Event{other.write.Call, other.write.Return, w.Call, w.Return},
					text:   fmt.Sprintf("writes of %s and %s, both based on version %d, were acknowledged, so one is lost", o.Client(), s.Client(), at.version),
				}
				if h.class != stalledOverrun {
					return newFinding(r.Facts, []damage{h})
				}
				excused = &h
			}
		}
	}
	if excused != nil {
		return excusedDamage(*excused)
	}
	return verdict.Finding{Undecided: "the resource's log was not read back"}
}

// damage is one case of damage to the resource, by at most two sessions.
type damage struct {
	kind     string
	class    string
	text     string
	event    *history.Event // the event that did the damage
	from     int64          // when the damage became possible
	key      string
	sessions []string // the earlier session first
	events   []*history.Event
}

// severity orders classes by severity: first what blames the lock, then other resource-safety
// violations, then fencing-order violations, beginning with those that reached the resource.
var severity = []string{verdict.LockBroken, verdict.FenceBroken, verdict.Overrun, verdict.Unexplained, verdict.StaleAccepted, verdict.HolderRefused, verdict.FreshRefused, verdict.TokenOrder, verdict.TokenTwice}

// newFinding turns damages into incidents. It reports the worst of them, or the first of equally
// bad ones.
func newFinding(r *facts.Facts, damages []damage) (f verdict.Finding) {
	for _, h := range damages {
		f.Incidents = append(f.Incidents, verdict.Incident{From: h.from, Describe: func() verdict.Result { return newResult(r, h) }})
	}
	if len(damages) > 0 {
		worst := slices.MinFunc(damages, func(x, y damage) int {
			return cmp.Or(slices.Index(severity, x.class)-slices.Index(severity, y.class), verdict.ByTime(x.event, y.event))
		})
		f.DescribeWorst = func() verdict.Result { return newResult(r, worst) }
	}
	return f
}

func newResult(r *facts.Facts, h damage) verdict.Result {
	events := h.events
	for _, name := range h.sessions {
		if s := r.SessionByName(name); s != nil {
			events = append(events, s.Acquire.Return)
			events = append(events, writesOf(s, h.events)...)
		}
	}
	return verdict.Result{
		Outcome: verdict.Violated, Cause: h.class, Because: fmt.Sprintf("%s: %s", h.kind, h.text),
		Witness: &verdict.Witness{Events: verdict.EventNumbers(events), Sessions: h.sessions, Key: h.key, From: h.from, To: facts.AppliedAt(h.event)},
	}
}

// writesOf returns the session's calls and returns of the writes in a damage's events.
func writesOf(s *facts.Session, damage []*history.Event) []*history.Event {
	var events []*history.Event
	for w := range s.Calls(history.OpWrite) {
		if w.Call.Value != "" && slices.ContainsFunc(damage, func(e *history.Event) bool { return e != nil && e.Value == w.Call.Value }) {
			events = append(events, w.Call, w.Return)
		}
	}
	return events
}

// dropDuplicates keeps one damage per event. A write that overwrites another one within a critical
// section is one case of damage, not two.
func dropDuplicates(damages []damage) []damage {
	seen := map[*history.Event]bool{}
	return slices.DeleteFunc(damages, func(h damage) bool {
		duplicate := seen[h.event]
		seen[h.event] = true
		return duplicate
	})
}

func laterEvent(a, b *history.Event) *history.Event {
	if verdict.ByTime(a, b) > 0 {
		return a
	}
	return b
}

// sessionName names a session by its client if the session is known.
func sessionName(r *facts.Facts, session string) string {
	if s := r.SessionByName(session); s != nil {
		return s.Client()
	}
	return "session " + session
}

// orderedNames returns the names of two sessions, ordered by the calls of their acquires.
func orderedNames(r *facts.Facts, a, b string) []string {
	x, y := r.SessionByName(a), r.SessionByName(b)
	if x != nil && y != nil && y.Acquire.Call.T < x.Acquire.Call.T {
		return []string{b, a}
	}
	return []string{a, b}
}

// Numbers adds measurements of the resource to n.
func (r *Log) Numbers(n map[string]float64) {
	if len(r.Log) == 0 {
		return
	}
	n["writes"] = float64(r.numWrites)
	n["refused-writes"] = float64(r.numRefused)
	n["writes-outside-belief"] = float64(r.numOutsideBelief)
	n["lost-updates"] = float64(len(r.lostUpdates))
	if hasFence(r.Facts) {
		n["refused-holders"] = float64(refusedHolders(r))
	}
}

// refusedHolders counts refusals of sessions that believed they held the lock, in any fence mode
// and for any reason.
func refusedHolders(r *Log) int {
	n := 0
	for _, e := range r.Log {
		if e.Type != history.Fail {
			continue
		}
		if _, held := windowAtRefusal(r, e); held {
			n++
		}
	}
	return n
}

// countContended counts the log's writes on keys that more than one client used.
func countContended(r *facts.Facts) int {
	shared := sharedKeys(r.Log, func(e *history.Event) string { return sessionName(r, e.Session) })
	n := 0
	for _, e := range r.Log {
		if _, ok := shared[e.Key]; ok && e.Cause == history.OpWrite {
			n++
		}
	}
	return n
}

// sharedKeys returns the keys that have entries of several owners. Each is mapped to the index of
// the second owner's first entry.
func sharedKeys(log []*history.Event, owner func(*history.Event) string) map[string]int {
	first, second := map[string]string{}, map[string]int{}
	for i, e := range log {
		if _, ok := second[e.Key]; ok {
			continue
		}
		switch firstOwner, found := first[e.Key]; {
		case !found:
			first[e.Key] = owner(e)
		case firstOwner != owner(e):
			second[e.Key] = i
		}
	}
	return second
}
