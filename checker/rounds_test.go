package checker

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// roundGenerator generates a client's requests, with their tokens and rounds. A lock that uses a
// new token for each round reveals the rounds by its tokens. A lock that reuses its token does not.
type roundGenerator struct {
	*rand.Rand
	events        []history.Event
	rounds        []int             // by event: the command's round, counted from 1, or 0 for a client's event
	keys          map[string]string // by node: the token in its key
	pendingEvents []int             // indices of events that their nodes have not executed yet
	round         int
}

// TestRoundsAgainstFreshTokens uses one token for all rounds of an acquire, or for all acquires,
// and expects the same attempts as with a fresh token for each round.
func TestRoundsAgainstFreshTokens(t *testing.T) {
	maxRounds, numLateDeletions := 0, 0
	for seed := range uint64(3000) {
		a := &roundGenerator{Rand: rand.New(rand.NewPCG(seed, 7)), keys: map[string]string{}}
		reuseToken := seed%2 == 0
		at := int64(1e9)
		for i := range 2 + a.IntN(3) {
			at = a.acquire(fmt.Sprintf("c1/%d", i+1), at, reuseToken)
		}
		a.applyUntil(facts.Never)
		freshEvents := slices.Clone(a.events)
		for i, round := range a.rounds {
			if round > 0 {
				freshEvents[i].Token = fmt.Sprint("T", round)
			}
		}
		want, got := attemptsOf(freshEvents), attemptsOf(a.events)
		if len(want) != len(got) {
			t.Fatalf("seed %d: %d rounds, want %d", seed, len(got), len(want))
		}
		for i, x := range want {
			y := got[i]
			if describe := func(a *facts.Attempt) string {
				return fmt.Sprint(a.Session.Name(), a.From, a.To, a.End, a.YesVotes, a.NoVotes, a.Won, sendTimes(a.Sets))
			}; describe(x) != describe(y) {
				t.Fatalf("seed %d, round %d: %s, want %s", seed, i, describe(y), describe(x))
			}
			for _, e := range y.Sets {
				deletionTime, sent := y.Deletion(e)
				wantDeletionTime, wantSent := a.deletion(e)
				if e.Type == history.OK && (deletionTime != wantDeletionTime || deletionTime < facts.Never && sent != wantSent) {
					t.Fatalf("seed %d, round %d: the key on %s is deleted at %d by a release sent at %d, want %d and %d", seed, i, e.Node, deletionTime, sent, wantDeletionTime, wantSent)
				}
				if ownDeletion, _ := x.Deletion(x.Sets[0]); ownDeletion == facts.Never && deletionTime < facts.Never {
					numLateDeletions++
				}
			}
		}
		maxRounds = max(maxRounds, len(got))
	}
	if maxRounds < 8 || numLateDeletions < 100 {
		t.Errorf("at most %d rounds in a history and %d keys deleted by a later round: too few", maxRounds, numLateDeletions)
	}
}

func sendTimes(sets []*history.Event) (all []int64) {
	for _, e := range sets {
		all = append(all, e.SentAt)
	}
	return all
}

func attemptsOf(events []history.Event) []*facts.Attempt {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	for i := range events {
		events[i].N = int64(i + 1)
	}
	h := &history.History{Params: history.Params{Clients: []string{"c1"}, Nodes: []string{"n1", "n2", "n3"}, TTL: time.Hour, NodeTimeout: 50 * time.Millisecond}, Events: events}
	return facts.Read(h).AttemptsByLock()["k"].Attempts
}

const millisecond = int64(time.Millisecond)

// acquire generates an acquire with up to four rounds and returns its end. Requests go to the nodes
// at the same time or one after the other. Nodes that are down get no request.
func (a *roundGenerator) acquire(session string, at int64, reuseToken bool) int64 {
	call := history.Event{T: at, Process: "c1", Type: history.Invoke, Op: history.OpAcquire, Key: "k", Session: session}
	a.add(0, call)
	token, sequential, doRelease := "own", a.IntN(2) == 0, a.IntN(3) > 0
	if !reuseToken {
		token = session
	}
	nodes := []string{"n1", "n2", "n3"}
	for range 1 + a.IntN(4) {
		a.round++
		others := []string{"n1", "n2", "n3"}
		a.Shuffle(3, func(i, j int) { others[i], others[j] = others[j], others[i] })
		reachableNode := nodes[a.IntN(len(nodes))] // this node was up in the last round and still is
		nodes = append([]string{reachableNode}, slices.DeleteFunc(others[:a.IntN(4)], func(n string) bool { return n == reachableNode })...)
		at = a.send(history.OpSet, token, nodes, at, sequential) + millisecond
		if doRelease {
			at = a.send(history.OpRelease, token, nodes, at, sequential)
		}
		at += 60 * millisecond
	}
	call.T, call.Type = at, history.Fail
	a.add(0, call)
	return at + 200*millisecond
}

// send sends a command to nodes and returns when the client continues. An answer may be too late,
// or the request may be lost.
func (a *roundGenerator) send(op, token string, nodes []string, at int64, sequential bool) int64 {
	continueAt := at
	for _, n := range nodes {
		e := history.Event{Process: "c1-" + n, Node: n, Op: op, Key: "k", Token: token, SentAt: at}
		done := at + 2*millisecond + a.Int64N(millisecond)
		a.applyUntil(at + millisecond)
		switch a.IntN(8) {
		case 0: // lost
			e.T, e.Type, done = at+50*millisecond, history.Info, at+50*millisecond
		case 1: // answered late
			e.AppliedAt, e.T, done = at+millisecond, at+400*millisecond, at+50*millisecond
			e.Type = a.apply(&e)
		case 2: // delayed
			e.AppliedAt, e.T, done = at+300*millisecond, at+301*millisecond, at+50*millisecond
			a.pendingEvents = append(a.pendingEvents, len(a.events))
		default:
			e.AppliedAt, e.AnsweredAt, e.T = at+millisecond, done, done
			e.Type = a.apply(&e)
		}
		a.add(a.round, e)
		continueAt = max(continueAt, done)
		if sequential {
			at = done + 1
		}
	}
	return continueAt
}

// applyUntil executes the delayed commands that have arrived by an instant.
func (a *roundGenerator) applyUntil(at int64) {
	for len(a.pendingEvents) > 0 && a.events[a.pendingEvents[0]].AppliedAt <= at {
		e := &a.events[a.pendingEvents[0]]
		e.Type = a.apply(e)
		a.pendingEvents = a.pendingEvents[1:]
	}
}

// apply executes a command on its node and returns the answer.
func (a *roundGenerator) apply(e *history.Event) history.Type {
	switch isHeld := a.keys[e.Node] != ""; {
	case e.Op == history.OpSet && !isHeld:
		a.keys[e.Node] = e.Token
	case e.Op == history.OpRelease && a.keys[e.Node] == e.Token:
		a.keys[e.Node] = ""
	default:
		return history.Fail
	}
	return history.OK
}

// deletion returns when a set's key was deleted by the next release that its node executed, and
// when the client first sent a release.
func (a *roundGenerator) deletion(set *history.Event) (at, sent int64) {
	at, sent = facts.Never, facts.Never
	for _, e := range a.events {
		if e.Op != history.OpRelease || e.Node != set.Node || e.Token != set.Token {
			continue
		}
		if e.AppliedAt > set.AppliedAt {
			at = min(at, e.AppliedAt)
		}
		if e.SentAt >= set.SentAt {
			sent = min(sent, e.SentAt)
		}
	}
	return at, sent
}

func (a *roundGenerator) add(round int, e history.Event) {
	a.events, a.rounds = append(a.events, e), append(a.rounds, round)
}
