package resource

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/bruteforce"
	"lockpick/internal/histories"
)

// TestFencingAgainstNaive compares the counts with those of a naive judge that examines every pair
// and every entry.
func TestFencingAgainstNaive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	seen := map[string]int{}
	n := histories.NumCases(20_000)
	for i := range n {
		h := randomFencedHistory(rnd)
		r := Read(facts.Read(h))
		got := map[string]int{}
		for _, x := range slices.Concat(disorders(r.Facts, fencedGrants(r.Facts)), refusals(r)) {
			got[x.class]++
		}
		want := naiveFencing(h)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("history %d: got %v, want %v:\n%s", i, got, want, histories.FormatLines(h))
		}
		for class := range want {
			seen[class]++
		}
		if len(want) == 0 {
			seen["holds"]++
		}
	}
	for _, class := range []string{"holds", verdict.HolderRefused, verdict.StaleAccepted, verdict.FreshRefused, verdict.TokenOrder, verdict.TokenTwice} {
		if seen[class] < n/100 {
			t.Errorf("%s in %d of %d histories: the comparison is one-sided (%v)", class, seen[class], n, seen)
		}
	}
}

// randomFencedHistory returns a random history that includes tokens, sets and a resource's log.
func randomFencedHistory(rnd *rand.Rand) *history.History {
	h := histories.Random(rnd)
	h.Params.Fence, h.Params.StampError = "token", time.Duration(histories.Beat*int64(rnd.IntN(4)/3))
	var grantEvents []history.Event
	for i := range h.Events {
		e := &h.Events[i]
		if e.Op != history.OpAcquire || e.Type != history.OK {
			continue
		}
		e.Fence, e.Token = max(0, int64(len(grantEvents)+rnd.IntN(4)-1)), []string{"", e.Session, "shared"}[rnd.IntN(3)]
		grantEvents = append(grantEvents, *e)
	}
	add := func(e history.Event) {
		e.N, e.Key = int64(len(h.Events)+1), "k"
		h.Events = append(h.Events, e)
	}
	end := h.Events[len(h.Events)-1].T
	for _, g := range grantEvents {
		for range rnd.IntN(3) {
			at := max(0, g.T-histories.Beat*int64(rnd.IntN(6)-1))
			add(history.Event{T: end, Process: g.Process + "-n1", Node: "n1", Type: history.OK, Op: history.OpSet, Token: g.Token, SentAt: at})
		}
	}
	highest := int64(0)
	for range rnd.IntN(5) {
		if len(grantEvents) == 0 {
			break
		}
		g := grantEvents[rnd.IntN(len(grantEvents))]
		e := history.Event{T: end, Process: "r1", Type: history.OK, Op: history.OpLog, Cause: history.OpWrite, Session: g.Session,
			Fence: int64(rnd.IntN(6)), AppliedAt: g.T + histories.Beat/2 + histories.Beat*int64(rnd.IntN(6))}
		if isRight := rnd.IntN(6) > 0; isRight == (e.Fence < highest) { // usually the resource is right
			e.Type = history.Fail
		} else {
			highest = max(highest, e.Fence)
		}
		add(e)
	}
	return h
}

// naiveFencing counts violations by class, as defined in the comment on FencingOrder.
func naiveFencing(h *history.History) map[string]int {
	counts := map[string]int{}
	margin := 2 * int64(h.Params.StampError)
	var grants []*fencedGrant
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == history.OpAcquire && e.Type == history.OK && e.Fence != 0 {
			grants = append(grants, &fencedGrant{session: &facts.Session{Acquire: facts.Operation{Call: naiveCall(h, e.Session), Return: e}}, token: e.Fence, start: naiveStart(h, e), end: e.T})
		}
	}
	// If two grants have the same token, the violation is the grant that began later or, if both
	// began at the same time, the grant that returned later.
	slices.SortStableFunc(grants, func(a, b *fencedGrant) int { return int(a.start - b.start) })
	for i, g := range grants {
		hasHigher, hasSame := false, false
		for j, o := range grants {
			hasHigher = hasHigher || o.end+margin < g.start && o.token > g.token
			hasSame = hasSame || j < i && o.token == g.token
		}
		if hasHigher {
			counts[verdict.TokenOrder]++
		} else if hasSame {
			counts[verdict.TokenTwice]++
		}
	}
	var earlier []history.Event
	for _, e := range h.Events {
		if e.Op != history.OpLog {
			continue
		}
		var highest *history.Event
		for i, b := range earlier {
			if b.Type == history.OK && (highest == nil || b.Fence > highest.Fence) {
				highest = &earlier[i]
			}
		}
		earlier = append(earlier, e)
		switch isBelow := highest != nil && e.Fence < highest.Fence; {
		case e.Type == history.OK && isBelow:
			counts[verdict.StaleAccepted]++
		case e.Type == history.Fail && !isBelow:
			counts[verdict.FreshRefused]++
		case e.Type == history.Fail && naiveHolder(h, e.Session, e.AppliedAt, highest.Session, margin):
			counts[verdict.HolderRefused]++
		}
	}
	return counts
}

func naiveCall(h *history.History, session string) *history.Event {
	i := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Session == session && e.Op == history.OpAcquire })
	return &h.Events[i]
}

// naiveStart returns the send time of the earliest set that has the winning token and can belong to
// the acquire.
func naiveStart(h *history.History, ret *history.Event) int64 {
	call, margin := naiveCall(h, ret.Session).T, 2*int64(h.Params.StampError)
	start := int64(facts.Never)
	for _, e := range h.Events {
		if e.Op != history.OpSet || e.Process != ret.Process+"-n1" || ret.Token == "" || e.Token != ret.Token {
			continue
		}
		if e.SentAt == 0 {
			start = min(start, call)
		} else if call <= e.SentAt+margin && e.SentAt <= ret.T+margin {
			start = min(start, e.SentAt)
		}
	}
	if start == facts.Never {
		return call
	}
	return start
}

// naiveHolder checks each instant. The refused session must have believed it held the lock from its
// grant until the refusal, without a break. The other session must not have believed so after that
// grant.
func naiveHolder(h *history.History, session string, refusalTime int64, other string, margin int64) bool {
	if session == other {
		other = ""
	}
	end := h.Events[len(h.Events)-1].T
	holds := func(s string, at int64) bool { return at < end && bruteforce.BelievedHolder(h, s, at) }
	var from int64
	for _, e := range h.Events {
		if e.Op == history.OpAcquire && e.Type == history.OK {
			if e.Session == session {
				from = e.T
			}
		}
	}
	for at := from; at < refusalTime+margin; at += histories.Beat {
		if !holds(session, at+histories.Beat/2) {
			return false
		}
	}
	if other == "" {
		return true
	}
	var to int64
	for to = from; holds(session, to+histories.Beat/2); to += histories.Beat {
	}
	for _, e := range h.Events {
		if e.Op == history.OpAcquire && e.Type == history.OK && e.Session == other && e.T+margin >= from {
			return false
		}
	}
	for at := int64(0); at <= end; at += histories.Beat {
		if holds(other, at+histories.Beat/2) && at < to+margin && at+histories.Beat+margin > from {
			return false
		}
	}
	return true
}
