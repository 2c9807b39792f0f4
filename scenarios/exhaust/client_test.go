package exhaust

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

const (
	ttl     = 10 * time.Second
	timeout = 100 * time.Millisecond
	drift   = 0.01 // the default
)

// script determines the nodes' replies to a client and the client's clock. It identifies attempts
// by their tokens.
type script struct {
	mu            sync.Mutex
	tokens        []string
	requests      []string // requests received
	replies       [][]byte // for each attempt, a letter per node: y, n, or - for no reply
	extendReplies []byte   // replies to the extension
	elapsed       []time.Duration
	clockReads    int // number of times that the client read its clock
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// now is the client's clock. The client reads it at the start and at the end of a round.
func (s *script) now() time.Time {
	round := s.clockReads / 2
	s.clockReads++
	if s.clockReads%2 == 0 {
		return epoch.Add(s.elapsed[round])
	}
	return epoch
}

// scriptedNode is a node that follows a script.
type scriptedNode struct {
	*script
	node int
}

func (p scriptedNode) ask(ctx context.Context, what, token string, replies func(attempt int) []byte) (bool, error) {
	p.mu.Lock()
	if !slices.Contains(p.tokens, token) {
		p.tokens = append(p.tokens, token)
	}
	attempt := slices.Index(p.tokens, token)
	p.requests = append(p.requests, describeRequest(what, attempt, p.node))
	answer := replies(attempt)[p.node]
	p.mu.Unlock()
	if answer == '-' {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return answer == 'y', nil
}

func describeRequest(what string, attempt, node int) string {
	from := "without a token"
	if attempt >= 0 {
		from = fmt.Sprintf("of attempt %d", attempt+1)
	}
	return fmt.Sprintf("%s %s to node %d", what, from, node+1)
}

func (p scriptedNode) Set(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	return p.ask(ctx, "SET", token, func(a int) []byte { return p.replies[a] })
}

func (p scriptedNode) Extend(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	return p.ask(ctx, "EXTEND", token, func(int) []byte { return p.extendReplies })
}

func (p scriptedNode) Release(ctx context.Context, _, token string) (bool, error) {
	return p.ask(ctx, "DEL", token, func(int) []byte { return []byte("-----") })
}

// newClient returns a real client that runs with the script. change, if any, modifies its
// configuration.
func (s *script) newClient(t *testing.T, nodes int, change func(*redlock.Config)) *redlock.Client {
	cfg := redlock.Config{TTL: ttl, Timeout: timeout, Tries: len(s.replies), Now: s.now}
	for n := range nodes {
		cfg.Nodes = append(cfg.Nodes, scriptedNode{s, n})
	}
	if change != nil {
		change(&cfg)
	}
	c, err := redlock.Specification(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs the real client with the script. It returns whether the client acquired the lock and
// which requests it sent.
func (s *script) run(t *testing.T, nodes int, change func(*redlock.Config)) (acquired bool, requests []string) {
	synctest.Test(t, func(t *testing.T) {
		l, err := s.newClient(t, nodes, change).Acquire(t.Context(), "k")
		if acquired = err == nil; acquired {
			l.Release(t.Context())
		}
	})
	return acquired, slices.Sorted(slices.Values(s.requests))
}

// withReplies returns a state where the first client has received the given replies.
func (m *model) withReplies(attempt int, replies []byte, late, extending bool) state {
	var s state
	s.client[0] = clientState{phase: phaseAcquiring, attempts: uint8(attempt + 1)}
	l := m.lease(0, attempt)
	for n := range m.Nodes {
		r := map[byte]request{'y': yesReceived, 'n': noReceived, '-': requestInFlight}[replies[n]]
		if s.node[n].set[l] = r; extending {
			s.node[n].set[l], s.node[n].ext[l] = requestNone, r
		}
	}
	if extending {
		s.client[0].phase, s.client[0].extensions = phaseExtending, 1
	}
	if late {
		s.endedWindows[l] = 1
	}
	return s
}

// decide returns the only step with which the model's client can react to replies, and the state
// after it, which contains the requests sent in that step.
func (m *model) decide(t *testing.T, s state) (result Step, after state) {
	t.Helper()
	walk{m, &s, func(next *state, step Step) {
		switch step.Action {
		case windowEnded, lockReleased, extendStarted:
			return
		}
		if result.Action != "" {
			t.Fatalf("in %+v the model allows both %q and %q", s, result.Action, step.Action)
		}
		result, after = step, *next
	}}.clientSteps(0)
	return result, after
}

// runModel returns what the model's client does with the script, in the same form as run.
func (m *model) runModel(t *testing.T, s *script) (acquired bool, requests []string) {
	for a := 0; a < len(s.replies) && !acquired; a++ {
		step, next := m.decide(t, m.withReplies(a, s.replies[a], s.elapsed[a] >= window, false))
		if acquired = step.Action == lockAcquired; acquired {
			m.release(&next, 0)
		}
		token := 0 // number of the first attempt with the same token
		for !m.sameToken(&next, token, a) {
			token++
		}
		for n := range m.Nodes {
			requests = append(requests, describeRequest("SET", token, n))
			switch next.node[n].del[m.lease(0, a)] {
			case requestNone:
			case unconditionalDel:
				requests = append(requests, describeRequest("DEL", -1, n))
			default:
				requests = append(requests, describeRequest("DEL", token, n))
			}
		}
	}
	return acquired, slices.Sorted(slices.Values(requests))
}

var window = ttl - redlock.Drift(ttl, drift)

// roundDurations returns pairs of durations for two rounds. Each round ends just in time or just
// too late.
func roundDurations() (out [][]time.Duration) {
	for i := range 4 {
		out = append(out, []time.Duration{window - time.Duration(1-i&1), window - time.Duration(1-i>>1)})
	}
	return out
}

// allReplies returns all combinations of n nodes' replies.
func allReplies(n int) [][]byte {
	if n == 0 {
		return [][]byte{nil}
	}
	var out [][]byte
	for _, v := range allReplies(n - 1) {
		for _, a := range "yn-" {
			out = append(out, append(slices.Clone(v), byte(a)))
		}
	}
	return out
}

// repliesByCount returns one combination of n nodes' replies for each number of replies of each
// kind.
func repliesByCount(n int) [][]byte {
	return slices.DeleteFunc(allReplies(n), func(v []byte) bool {
		return !slices.IsSortedFunc(v, func(a, b byte) int { return strings.IndexByte("yn-", a) - strings.IndexByte("yn-", b) })
	})
}

// findDifference searches for a case where the real client and the model differ.
func (m *model) findDifference(t *testing.T, replies [][]byte, change func(*redlock.Config)) (cases int, difference string) {
	for _, first := range replies {
		for _, second := range replies {
			for _, e := range roundDurations() {
				cases++
				s := &script{replies: [][]byte{first, second}, elapsed: e}
				acquired, sent := s.run(t, m.Nodes, change)
				if want, requests := m.runModel(t, s); acquired != want || !slices.Equal(sent, requests) {
					return cases, fmt.Sprintf("replies %s, then %s after %v: client %s, sending %q; model %s, sending %q", first, second, e, describeAcquire(acquired), sent, describeAcquire(want), requests)
				}
			}
		}
	}
	return cases, ""
}

// The clients agree in two attempts, for all combinations of three nodes' replies and for all vote
// counts of five nodes, whether or not a round ends in time.
func TestClientMatchesModel(t *testing.T) {
	for nodes, answers := range map[int][][]byte{3: allReplies(3), 5: repliesByCount(5)} {
		m := newModel(Scope{Nodes: nodes, Attempts: 2}, Reductions{})
		cases, difference := m.findDifference(t, answers, nil)
		if difference != "" {
			t.Errorf("%d nodes: %s", nodes, difference)
		}
		t.Logf("%d nodes: %d cases", nodes, cases)
	}
}

// nodeWithoutRelease is a node that does not record releases.
type nodeWithoutRelease struct{ redlock.Node }

func (m nodeWithoutRelease) Release(context.Context, string, string) (bool, error) { return false, nil }

func TestClientDifferencesAreDetected(t *testing.T) {
	correct := Scope{Nodes: 3, Attempts: 2}
	for name, p := range map[string]struct {
		scope  Scope
		change func(*redlock.Config)
	}{
		"a stopped clock":               {correct, func(c *redlock.Config) { c.Now = func() time.Time { return epoch } }},
		"a smaller margin":              {correct, func(c *redlock.Config) { c.Drift = drift / 2 }},
		"a node left out":               {correct, func(c *redlock.Config) { c.Nodes = c.Nodes[:2] }},
		"a missing release":             {correct, func(c *redlock.Config) { c.Nodes[2] = nodeWithoutRelease{c.Nodes[2]} }},
		"one token for all attempts":    {correct, func(c *redlock.Config) { c.Random = func(string, []byte) error { return nil } }},
		"one attempt only":              {correct, func(c *redlock.Config) { c.Tries = 1 }},
		"a model with a smaller quorum": {Scope{Nodes: 3, Attempts: 2, Mistake: "quorum-half"}, nil},
		"a model without a clock check": {Scope{Nodes: 3, Attempts: 2, Mistake: "no-elapsed-check"}, nil},
	} {
		if _, difference := newModel(p.scope, Reductions{}).findDifference(t, allReplies(3), p.change); difference == "" {
			t.Errorf("%s is not detected", name)
		}
	}
}

// findExtensionDifference searches for a case where the real client and the model differ in an
// extension.
func (m *model) findExtensionDifference(t *testing.T, replies [][]byte, change func(*redlock.Config)) (cases int, difference string) {
	for _, v := range replies {
		for _, e := range []time.Duration{window - 1, window} {
			cases++
			s := &script{replies: [][]byte{[]byte("yyyyy")}, extendReplies: v, elapsed: []time.Duration{0, e}}
			var result action
			var sent []string
			synctest.Test(t, func(t *testing.T) {
				l, err := s.newClient(t, m.Nodes, change).Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				s.requests = nil
				switch err := l.Extend(t.Context()); {
				case err == nil:
					result = extendSucceeded
				case errors.Is(err, redlock.ErrLost):
					result = extendLost
				default:
					result = extendFailed
				}
				sent = s.requests
			})
			if want, _ := m.decide(t, m.withReplies(0, v, e >= window, true)); result != want.Action || len(sent) != m.Nodes {
				return cases, fmt.Sprintf("replies %s after %v: client %s, sending %q; model %s", v, e, result, sent, want.Action)
			}
		}
	}
	return cases, ""
}

func TestExtensionMatchesModel(t *testing.T) {
	for nodes, answers := range map[int][][]byte{3: allReplies(3), 5: repliesByCount(5)} {
		m := newModel(Scope{Nodes: nodes, Attempts: 1, Extensions: 1}, Reductions{})
		cases, difference := m.findExtensionDifference(t, answers, nil)
		if difference != "" {
			t.Errorf("%d nodes: %s", nodes, difference)
		}
		t.Logf("%d nodes: %d cases", nodes, cases)
	}
	mistaken := newModel(Scope{Nodes: 3, Attempts: 1, Extensions: 1, Mistake: "extension-below-quorum"}, Reductions{})
	if _, difference := mistaken.findExtensionDifference(t, allReplies(3), nil); difference == "" {
		t.Error("a model that extends below quorum is not detected")
	}
	correct := newModel(Scope{Nodes: 3, Attempts: 1, Extensions: 1}, Reductions{})
	frozenClock := func(c *redlock.Config) { c.Now = func() time.Time { return epoch } }
	if _, difference := correct.findExtensionDifference(t, allReplies(3), frozenClock); difference == "" {
		t.Error("a stopped clock is not detected")
	}
}
