// Package resource judges by what came to the resource that the locks protect: whether it
// was harmed, and whether fencing tokens rise and are enforced.
//
// Its nouns are Log (a record with its resource's log, and what follows from that, log.go),
// harm (one harm, by two sessions at most), stay (the time that a session worked on the
// resource) and course (what a session did, in order). FencingOrder is in fencing_order.go,
// what it asks of the resource's answers in fencing_log.go.
//
// Deliberately missing: why a lock was broken.
package resource

import (
	"fmt"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Safety asks whether the resource that the locks protect came to harm.
// The resource's own log is the order of apply. Harm is a lost update, an
// interleaving, a write that was acknowledged and is missing, or one that was
// refused and is there. A write that was applied outside its session's belief
// but harmed nobody is counted in the numbers, not judged. A write where another client
// works, too, is an occasion.
func (r *Log) Safety() verdict.Result {
	if len(r.Log) == 0 && r.Touched {
		return withoutLog(r)
	}
	if len(r.Log) == 0 && r.Params.Resource == "" {
		return verdict.Result{Outcome: verdict.Undecided, Because: "the history tells of no resource"}
	}
	contended := contended(r.Facts)
	harms, stalled := r.harms()
	if len(harms) == 0 && r.Cut != "" && r.Touched {
		return verdict.Result{Outcome: verdict.Undecided, Occasions: contended, Because: "the resource's log may not have been read back whole"}
	}
	if len(harms) == 0 && stalled != nil {
		return excusedHarm(*stalled)
	}
	if len(harms) == 0 {
		return verdict.Result{
			Outcome: verdict.Holds, Occasions: contended,
			Because: fmt.Sprintf("the resource came to no harm, in %s", verdict.Plural(r.writes, "write")) + beside(r.writes, contended),
		}
	}
	res := harmed(r.Facts, harms)
	res.Occasions = contended
	return res
}

// Harms is each that Safety counts by the resource's log.
func (r *Log) Harms() []verdict.Incident {
	harms, _ := r.harms()
	return each(r.Facts, harms)
}

// harms is all but those for which stalls of the host may be to blame, and the first of these.
func (r *Log) harms() (harms []harm, stalled *harm) {
	all := slices.Concat(r.lost, interleavings(r))
	if r.Cut == "" { // otherwise the log may go on
		all = append(all, contradictions(r)...)
	}
	for _, h := range all {
		if h.class != stalledOverrun {
			harms = append(harms, h)
		} else if stalled == nil {
			stalled = &h
		}
	}
	return eachOnce(harms), stalled
}

// excusedHarm tells of harm that leaves it undecided whether the resource is safe.
func excusedHarm(h harm) verdict.Result {
	return verdict.Result{Outcome: verdict.Undecided, Because: fmt.Sprintf("the host stalled while a client worked, which may be why it worked past its lease: %s: %s", h.kind, h.text)}
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

// withoutLog judges by what the clients saw: of two sessions' acknowledged writes, each the
// first on top of one version, one is lost, whatever the order of apply.
func withoutLog(r *Log) verdict.Result {
	type base struct {
		key     string
		version int64
	}
	type acked struct {
		session *facts.Session
		write   facts.Operation
	}
	first := map[base]acked{}
	var stalled *harm
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
				h := harm{
					kind: lostUpdate, class: classify(r, []stay{stayOf(o, other.write), stayOf(s, w)}), key: s.Key(),
					at: later(other.write.Return, w.Return), from: min(other.write.Call.T, w.Call.T), sessions: []string{o.Name(), s.Name()},
					events: []*history.Event{other.write.Call, other.write.Return, w.Call, w.Return},
					text:   fmt.Sprintf("writes of %s and %s, both based on version %d, were acknowledged, so one is lost", o.Client(), s.Client(), at.version),
				}
				if h.class != stalledOverrun {
					return harmed(r.Facts, []harm{h})
				}
				stalled = &h
			}
		}
	}
	if stalled != nil {
		return excusedHarm(*stalled)
	}
	return verdict.Result{Outcome: verdict.Undecided, Because: "the resource's log was not read back"}
}
