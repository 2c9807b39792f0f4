package checker

import (
	"fmt"
	"slices"

	"lockpick/harness/history"
)

// resourceSafety asks whether the resource that the locks protect came to harm.
// The resource's own log is the order of apply. Harm is a lost update, an
// interleaving, a write that was acknowledged and is missing, or one that was
// refused and is there. A write that was applied outside its session's belief
// but harmed nobody is counted in the numbers, not judged. A write where another client
// works, too, is an occasion.
func resourceSafety(r *record) Result {
	if len(r.Log) == 0 && r.Touched {
		return withoutLog(r)
	}
	if len(r.Log) == 0 && r.Params.Resource == "" {
		return Result{Outcome: Undecided, Because: "the history tells of no resource"}
	}
	b := readBooks(r)
	contended := r.contended()
	harms := slices.Concat(lostUpdates(r, b), interleavings(r, b))
	if r.Cut == "" { // otherwise the log may go on
		harms = append(harms, contradictions(r, b)...)
	}
	harms = eachOnce(harms)
	if len(harms) == 0 && r.Cut != "" && r.Touched {
		return Result{Outcome: Undecided, Occasions: contended, Because: "the resource's log may not have been read back whole"}
	}
	if len(harms) == 0 {
		return Result{
			Outcome: Holds, Occasions: contended,
			Because: fmt.Sprintf("the resource came to no harm, in %s", plural(b.writes, "write")) + beside(b.writes, contended),
		}
	}
	res := r.harmed(harms)
	res.Occasions = contended
	return res
}

// beside says how many of the writes were where another client worked, too.
func beside(writes, contended int) string {
	switch {
	case writes == 0:
		return ""
	case contended == 0:
		return "; no other client worked there"
	}
	return fmt.Sprintf(", %d of them where another client worked, too", contended)
}

// harm is one harm to the resource, by at most two sessions.
type harm struct {
	kind     string
	class    string
	text     string
	at       *history.Event // what did the harm
	from     int64          // when it became possible
	key      string
	sessions []string // the one that was there first, first
	events   []*history.Event
}

// severity orders classes by who is to blame: first what accuses the lock. Those
// of fencing-order follow, what befell the resource first.
var severity = []string{LockBroken, FenceBroken, Overrun, Unexplained, StaleAccepted, HolderRefused, FreshRefused, TokenOrder, TokenTwice}

// harmed shows the worst harm, and of equals the first.
func (r *record) harmed(harms []harm) Result {
	worst := slices.MinFunc(harms, func(x, y harm) int {
		if d := slices.Index(severity, x.class) - slices.Index(severity, y.class); d != 0 {
			return d
		}
		return byTime(x.at, y.at)
	})
	events := worst.events
	for _, name := range worst.sessions {
		if s := r.Named(name); s != nil {
			events = append(events, s.Acquire.Return)
			events = append(events, writesOf(s, worst.events)...)
		}
	}
	return Result{
		Outcome: Violated, Incidents: len(harms), Cause: worst.class,
		Because: fmt.Sprintf("%s: %s", worst.kind, worst.text),
		Witness: &Witness{
			Events: numbered(events), Sessions: worst.sessions, Key: worst.key,
			From: worst.from, To: instant(worst.at),
		},
	}
}

// writesOf is the session's own calls and returns of the writes in a harm.
func writesOf(s *session, harm []*history.Event) []*history.Event {
	var events []*history.Event
	for w := range s.Writes() {
		if w.Call.Value != "" && slices.ContainsFunc(harm, func(e *history.Event) bool { return e != nil && e.Value == w.Call.Value }) {
			events = append(events, w.Call, w.Return)
		}
	}
	return events
}

// eachOnce keeps one harm for each thing that did it: a write that overwrites
// another in the midst of a section is one harm, not two.
func eachOnce(harms []harm) []harm {
	seen := map[*history.Event]bool{}
	return slices.DeleteFunc(harms, func(h harm) bool {
		twice := seen[h.at]
		seen[h.at] = true
		return twice
	})
}

// withoutLog judges by what the clients saw. Two sessions whose writes were both
// acknowledged, each as the first on top of one version, lost one of them,
// whatever the order of apply.
func withoutLog(r *record) Result {
	type base struct {
		key     string
		version int64
	}
	type acked struct {
		session *session
		write   operation
	}
	first := map[base]acked{}
	for s := range r.Sessions() {
		for w := range s.Writes() {
			if w.Outcome() != history.OK {
				continue
			}
			at := base{s.Key(), w.Call.Version}
			other, taken := first[at]
			if !taken {
				first[at] = acked{s, w}
				continue
			}
			if o := other.session; o != s {
				return r.harmed([]harm{{
					kind: lostUpdate, class: r.classify([]stay{stayOf(o, other.write), stayOf(s, w)}), key: s.Key(),
					at: later(other.write.Return, w.Return), from: min(other.write.Call.T, w.Call.T), sessions: []string{o.Name(), s.Name()},
					events: []*history.Event{other.write.Call, other.write.Return, w.Call, w.Return},
					text:   fmt.Sprintf("writes of %s and %s, both based on version %d, were acknowledged, so one is lost", o.Client(), s.Client(), at.version),
				}})
			}
		}
	}
	return Result{Outcome: Undecided, Because: "the resource's log was not read back"}
}

func later(a, b *history.Event) *history.Event {
	if byTime(a, b) > 0 {
		return a
	}
	return b
}

// stay is the session's time on the resource as its client saw it.
func stayOf(s *session, w operation) stay {
	from := w.Call.T
	for read := range s.Reads() {
		if read.Outcome() == history.OK && read.Return.T < w.Call.T {
			from = read.Return.T
		}
	}
	return stay{s.Name(), from, w.Return.T}
}

// classify says whose fault a harm is: the fence's if there is one, the lock's
// if all worked inside their leases, otherwise that of the one who overran.
func (r *record) classify(spans []stay) string {
	if r.fenced() {
		return FenceBroken
	}
	for _, s := range spans {
		if !r.within(s) {
			return Overrun
		}
	}
	if len(spans) == 0 {
		return Unexplained
	}
	return LockBroken
}

// fenced reports whether the resource refuses anything.
func (r *record) fenced() bool { return r.Params.Fence != "" && r.Params.Fence != "none" }

// who names a session in a sentence.
func (r *record) who(session string) string {
	if s := r.Named(session); s != nil {
		return s.Client()
	}
	return "session " + session
}
