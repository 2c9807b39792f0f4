package checker

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// The functions below find by exhaustive scans what package facts finds with indexes.

// TestReadAgainstScan compares the facts in a history with the results of scans.
func TestReadAgainstScan(t *testing.T) {
	numFaults, numStopped, numClockChanges, numLosses := 0, 0, 0, 0
	for seed := range uint64(histories.NumCases(3000)) {
		h := histories.RandomWithFaults(seed)
		f := facts.Read(h)
		if want := scanFaults(h); !reflect.DeepEqual(want, f.Faults) {
			t.Fatalf("seed %d: faults differ", seed)
		}
		numFaults += len(f.Faults)
		for i := range h.Events {
			deadline := h.Events[i].ClockDeadline(clockChangesOf(h))
			want := effectiveDeadline(h, i, deadline)
			if got := f.Events[i].ValidUntil; got != want {
				t.Fatalf("seed %d: event %d is valid until %d, want %d", seed, i+1, got, want)
			}
			if deadline != h.Events[i].ValidUntil {
				numClockChanges++
			}
			if want != deadline {
				numLosses++
			}
		}
		if got, want := strings.Contains(f.Defect, "had been stopped"), scanStops(h, f); got != want {
			t.Fatalf("seed %d: a process acted while stopped: %v, want %v: %s", seed, got, want, f.Defect)
		} else if want {
			numStopped++
		}
		if f.Defect != "" {
			continue
		}
		for _, w := range f.AttemptsByLock() {
			for _, a := range w.Attempts {
				for _, e := range a.Sets {
					at, sent := a.Deletion(e)
					if wantAt, wantSent := scanDeletion(a, e); at != wantAt || sent != wantSent {
						t.Fatalf("seed %d: a key was deleted at %d by a release sent at %d, want %d and %d", seed, at, sent, wantAt, wantSent)
					}
				}
			}
		}
	}
	if min(numFaults, numStopped, numClockChanges, numLosses) < histories.NumCases(100) {
		t.Errorf("%d faults, %d histories with a stopped process that acted, %d deadlines moved by clock changes, %d by losses: too few", numFaults, numStopped, numClockChanges, numLosses)
	}
}

// effectiveDeadline returns an event's deadline, or the time of the session's next loss notification if
// that is earlier.
func effectiveDeadline(h *history.History, i int, deadline int64) int64 {
	isGrant := func(e history.Event) bool {
		return e.Type == history.OK && (e.Op == history.OpAcquire || e.Op == history.OpExtend)
	}
	sameSession := func(e history.Event) bool {
		return e.Session == h.Events[i].Session && e.Process == h.Events[i].Process
	}
	e := h.Events[i]
	wasHeld := e.Op == history.OpExtend && slices.ContainsFunc(h.Events[:i], func(x history.Event) bool { return sameSession(x) && isGrant(x) })
	if !isGrant(e) || deadline == 0 && wasHeld {
		return deadline
	}
	for _, x := range h.Events[i:] {
		if x.Op == history.OpLost && sameSession(x) && (deadline == 0 || x.T < deadline) {
			return max(x.T, 1)
		}
		if x.Op == history.OpLost && sameSession(x) {
			return deadline
		}
	}
	return deadline
}

func clockChangesOf(h *history.History) []history.Event {
	var changes []history.Event
	for _, e := range h.Events {
		if e.Op == history.OpClock && !slices.Contains(h.Params.Nodes, e.Node) {
			changes = append(changes, e)
		}
	}
	return changes
}

func scanFaults(h *history.History) []*facts.Fault {
	var all []*facts.Fault
	for _, e := range history.WithActualDeadlines(h.Events) {
		if e.Process != history.Nemesis || e.Type == history.Info {
			continue
		}
		last := func(open func(*facts.Fault) bool) *facts.Fault {
			for _, x := range slices.Backward(all) {
				if x.Kind == e.Op && x.Target == e.Node && x.Step == e.Step && open(x) {
					return x
				}
			}
			all = append(all, &facts.Fault{Kind: e.Op, Target: e.Node, Step: e.Step})
			return all[len(all)-1]
		}
		switch e.Type {
		case history.Invoke:
			last(func(*facts.Fault) bool { return false }).Invoke = &e
		case history.Begin:
			last(func(x *facts.Fault) bool { return x.Begin == nil && x.End == nil && x.Fail == nil }).Begin = &e
		case history.Fail:
			last(func(x *facts.Fault) bool { return x.End == nil && x.Fail == nil }).Fail = &e
		case history.End:
			latest := last(func(x *facts.Fault) bool { return x.Begin != nil && x.End == nil })
			for _, x := range all {
				if x.Kind == e.Op && x.Target == e.Node && x.Step == e.Step && x.Begin != nil && x.End == nil && x.Begin.N > latest.Begin.N {
					latest = x
				}
			}
			latest.End = &e
		}
	}
	return all
}

// scanStops reports whether a process acted while stopped. It returns false if the history is
// malformed in another way.
func scanStops(h *history.History, f *facts.Facts) bool {
	if f.Defect != "" && !strings.Contains(f.Defect, "had been stopped") {
		return false
	}
	for _, e := range h.Events {
		for _, x := range f.Faults {
			if x.Begin != nil && (x.Kind == facts.Pause || x.Kind == facts.Kill) && x.Target == e.Process && e.T > x.Begin.T && (x.End == nil || e.T < x.End.T) {
				return true
			}
		}
	}
	return false
}

func scanDeletion(a *facts.Attempt, set *history.Event) (at, sent int64) {
	at = facts.Never
	none := true
	for _, d := range a.Releases {
		if d.Node != set.Node {
			continue
		}
		if d.SentAt >= set.SentAt && (none || d.SentAt < sent) { // otherwise the command belongs to an earlier key
			sent, none = d.SentAt, false
		}
		if refused := d.Type == history.Fail && d.Cause != ""; !refused && d.AppliedAt > facts.AppliedAt(set) {
			at = min(at, d.AppliedAt)
		}
	}
	return at, sent
}
