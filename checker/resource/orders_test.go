package resource

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// TestIndexAgainstLinearSearch compares the sorted data structures with a linear search; see
// histories.Compare.
func TestIndexAgainstLinearSearch(t *testing.T) {
	histories.Compare(t, func(h *history.History) (*Log, bool) { r := facts.Read(h); return Read(r), r.Defect == "" }, map[string]func(*rand.Rand, *Log) (got, want string){
		"courses": compareIndexes, "unseen writes": compareUnseen,
	})
}

// compareIndexes compares each session's index with a scan of the session's actions.
func compareIndexes(rng *rand.Rand, r *Log) (got, want string) {
	at := rng.Int64N(r.End + 1)
	for s := range r.Sessions() {
		if !s.Granted() {
			continue
		}
		c := r.index.lookup(s)
		w, ok := c.windowUntil(at)
		got += fmt.Sprint(w.From, w.To, ok, c.deadlineAt(at))
		w, ok = facts.Window{}, false
		for x := range r.Windows(s) {
			if !ok && x.To >= at {
				w, ok = x, true
			}
		}
		d := facts.Deadline(s.Acquire.Return)
		for x := range s.Calls(history.OpExtend) {
			if x.Outcome() == history.OK && x.Return.T <= at {
				d = facts.ExtendedDeadline(x.Return, d)
			}
		}
		want += fmt.Sprint(w.From, w.To, ok, d)
		for _, e := range r.Log {
			x, ok := c.answeredBy(e)
			got += fmt.Sprint(x.Call, ok)
			x, ok = answer(s, e)
			want += fmt.Sprint(x.Call, ok)
		}
	}
	return got, want
}

// answer returns the session's write of an entry's value, or its only read.
func answer(s *facts.Session, e *history.Event) (found facts.Operation, ok bool) {
	if e.Cause == history.OpWrite {
		for x := range s.Calls(history.OpWrite) {
			if x.Call.Value != "" && x.Call.Value == e.Value {
				return x, true
			}
		}
		return found, false
	}
	n := 0
	for x := range s.Calls(history.OpRead) {
		found = x
		n++
	}
	return found, n == 1
}

func compareUnseen(_ *rand.Rand, r *Log) (got, want string) {
	a := &appliedWrites{}
	for i, w := range r.appliedWrites {
		w.VersionAfter, w.Version = int64(i+1), int64(i)-w.Version%5
		x, ok := a.firstUnseen(w)
		got += fmt.Sprint(x.VersionAfter, ok, " ")
		i := slices.IndexFunc(a.writes, func(x facts.Write) bool { return x.VersionAfter > w.Version && x.Session != w.Session })
		if i < 0 {
			want += fmt.Sprint(0, false, " ")
		} else {
			want += fmt.Sprint(a.writes[i].VersionAfter, true, " ")
		}
		a.add(w)
	}
	return got, want
}
