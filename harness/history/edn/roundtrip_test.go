package edn

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"lockpick/checker"
	"lockpick/checker/mutex"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/internal/histories"
)

// When one of our runs, with many simultaneous events, is written and read back, then in the lease
// model and the owner-mutex model two clients hold the lock at the same time if and only if they
// did in the original run.
func TestWrittenHistoryAgainstOriginal(t *testing.T) {
	rnd := rand.New(rand.NewPCG(31, 32))
	seen := map[verdict.Outcome]int{}
	for range histories.NumCases(3000) {
		h := randomRun(rnd)
		want := checker.Check(h, verdict.MutualExclusion).Results[0]
		if want.Outcome == verdict.Undecided {
			continue
		}
		violated := want.Outcome == verdict.Violated
		seen[want.Outcome]++
		var b bytes.Buffer
		if err := Write(&b, h); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for name, got := range outcomes(t, text, 0) {
			if name != verdict.MutualExclusion && name != mutex.OwnerMutex {
				continue // other models check replies, too, which an expiry doesn't have
			}
			if got == verdict.Violated != violated {
				t.Fatalf("our run is %s (%s), but after reading it back, %s is %s:\n%s", want.Outcome, want.Because, name, got, text)
			}
		}
	}
	t.Log(seen)
	if minCount := histories.NumCases(300); seen[verdict.Violated] < minCount || seen[verdict.Holds]+seen[verdict.NotExercised] < minCount {
		t.Errorf("the comparison is one-sided: %v", seen)
	}
}

// randomRun returns a random run with few clients and few distinct times. A lease may have expired
// before its acquire returns, and its release may come immediately or much later. Only a client's
// last session may lack a release.
func randomRun(rnd *rand.Rand) *history.History {
	clients := []string{"c1", "c2", "c3"}[:1+rnd.IntN(3)]
	h := &history.History{Params: history.Params{Clients: clients}}
	add := func(e history.Event) { h.Events = append(h.Events, e) }
	for _, c := range clients {
		add(history.Event{Process: c, Type: history.Begin, Op: history.OpClient})
		at := int64(rnd.IntN(10))
		numSessions := 1 + rnd.IntN(3)
		for n := range numSessions {
			e := history.Event{Process: c, Key: "lock", Session: fmt.Sprintf("%s/%d", c, n+1)}
			do := func(op string, outcome history.Type, until int64) {
				e.Op, e.Type, e.T = op, history.Invoke, at
				add(e)
				at += int64(rnd.IntN(3))
				ret := e
				ret.Type, ret.T = outcome, at
				if until > 0 {
					ret.ValidUntil = max(1, at+until-2)
				}
				add(ret)
				at += int64(rnd.IntN(4))
			}
			outcome := func() history.Type {
				return []history.Type{history.OK, history.OK, history.OK, history.OK, history.Fail, history.Info}[rnd.IntN(6)]
			}
			if got := outcome(); got != history.OK {
				do(history.OpAcquire, got, 0)
				continue
			}
			do(history.OpAcquire, history.OK, int64(rnd.IntN(8)))
			numReleases := rnd.IntN(3)
			if n < numSessions-1 {
				numReleases = max(1, numReleases)
			}
			for range numReleases {
				do(history.OpRelease, outcome(), 0)
			}
		}
	}
	history.Sort(h.Events)
	add(history.Event{T: h.Events[len(h.Events)-1].T + 1, Process: history.Harness, Type: history.End, Op: history.OpRun})
	for i := range h.Events {
		h.Events[i].N = int64(i + 1)
	}
	return h
}
