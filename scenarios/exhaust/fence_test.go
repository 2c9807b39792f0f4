package exhaust

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

// countingNode is a scriptedNode that counts grants. In its script, a count replaces the y in
// replies to SET, and extendReplies holds the replies to RAISE.
type countingNode struct{ scriptedNode }

func (p countingNode) SetFenced(ctx context.Context, _, token string, _ time.Duration) (count int64, err error) {
	_, err = p.ask(ctx, "SET", token, func(a int) []byte { return p.replies[a] })
	if answer := p.replies[0][p.node]; err == nil && answer != 'n' {
		count = int64(answer - '0')
	}
	return count, err
}

func (p countingNode) RaiseFence(ctx context.Context, _, token string, count int64) (bool, error) {
	return p.ask(ctx, fmt.Sprintf("RAISE to %d", count), token, func(int) []byte { return p.extendReplies })
}

// countReplies returns all combinations of n nodes' replies to SET: one of two counts, no, or no
// reply.
func countReplies(n int) [][]byte {
	var out [][]byte
	for i := range 1 << (2 * n) {
		v := make([]byte, n)
		for k := range v {
			v[k] = "12n-"[i>>(2*k)&3]
		}
		out = append(out, v)
	}
	return out
}

// inOrder keeps the combinations whose replies are in a given order. Each represents all
// combinations with the nodes in another order.
func inOrder(combinations [][]byte, order string) [][]byte {
	return slices.DeleteFunc(combinations, func(v []byte) bool {
		return !slices.IsSortedFunc(v, func(a, b byte) int { return strings.IndexByte(order, a) - strings.IndexByte(order, b) })
	})
}

// fencedOutcome is what a client does with a script.
type fencedOutcome struct {
	fence    int64 // the token, or 0 if the client did not acquire the lock
	requests string
}

func (o fencedOutcome) String() string { return fmt.Sprintf("token %d with %s", o.fence, o.requests) }

// runFencedClient returns what the real client does.
func (s *script) runFencedClient(t *testing.T, nodes int, change func(*redlock.Config)) (out fencedOutcome) {
	cfg := redlock.Config{TTL: ttl, Timeout: timeout, Tries: 1, Now: s.now, Fence: true}
	for n := range nodes {
		cfg.Nodes = append(cfg.Nodes, countingNode{scriptedNode{s, n}})
	}
	if change != nil {
		change(&cfg)
	}
	synctest.Test(t, func(t *testing.T) {
		c, err := redlock.Specification(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := c.Acquire(t.Context(), "k"); err == nil {
			out.fence = l.Fence()
		}
	})
	out.requests = fmt.Sprint(slices.Sorted(slices.Values(s.requests)))
	return out
}

// runFencedModel returns what the model does.
func (m *model) runFencedModel(t *testing.T, s *script) (out fencedOutcome) {
	t.Helper()
	before := m.withReplies(0, []byte(strings.NewReplacer("1", "y", "2", "y").Replace(string(s.replies[0]))), false, false)
	var requests []string
	for i := range m.Nodes {
		requests = append(requests, describeRequest("SET", 0, i))
		if a := s.replies[0][i]; a == '1' || a == '2' {
			before.node[i].grantedCount[0] = a - '0'
		}
	}
	late := uint8(0)
	if s.elapsed[0] >= window {
		late = 1
	}
	step, after := m.decide(t, before)
	if step.Action == raiseStarted {
		for i := range m.Nodes {
			if r := &after.node[i].raise[0]; *r == requestInFlight {
				requests = append(requests, describeRequest(fmt.Sprintf("RAISE to %d", step.Fence), 0, i))
				*r = map[byte]request{'y': yesReceived, 'n': noReceived, '-': requestInFlight}[s.extendReplies[i]]
			}
		}
		before = after
	}
	before.endedWindows[0] = late
	step, after = m.decide(t, before)
	if step.Action == lockAcquired {
		out.fence = int64(step.Fence)
	}
	for i := range m.Nodes {
		if after.node[i].del[0] != requestNone {
			requests = append(requests, describeRequest("DEL", 0, i))
		}
	}
	out.requests = fmt.Sprint(slices.Sorted(slices.Values(requests)))
	return out
}

// findFencedDifference searches for a case where the real client and the model differ.
func (m *model) findFencedDifference(t *testing.T, replies, raises [][]byte, change func(*redlock.Config)) (cases int, difference string) {
	for _, first := range replies {
		for _, second := range raises {
			for _, e := range []time.Duration{window - 1, window} {
				cases++
				s := &script{replies: [][]byte{first}, extendReplies: second, elapsed: []time.Duration{e}}
				if got, want := s.runFencedClient(t, m.Nodes, change), m.runFencedModel(t, s); got != want {
					return cases, fmt.Sprintf("replies %s, then %s after %v: client: %v; model: %v", first, second, e, got, want)
				}
			}
		}
	}
	return cases, ""
}

// The clients issue the same tokens and write them back to the same nodes. The test covers all
// combinations of replies from up to three nodes. For five nodes, it covers every combination in
// one order of the nodes.
func TestFencedClientMatchesModel(t *testing.T) {
	for _, c := range []struct {
		nodes           int
		answers, raises [][]byte
	}{
		{1, countReplies(1), allReplies(1)}, {2, countReplies(2), allReplies(2)}, {3, countReplies(3), allReplies(3)}, {5, inOrder(countReplies(5), "12n-"), repliesByCount(5)},
	} {
		m := newModel(Scope{Nodes: c.nodes, Attempts: 1, Fence: true}, Reductions{})
		cases, difference := m.findFencedDifference(t, c.answers, c.raises, nil)
		if difference != "" {
			t.Errorf("%d nodes: %s", c.nodes, difference)
		}
		t.Logf("%d nodes: %d cases", c.nodes, cases)
	}
}

// falseConfirmer is a node that confirms tokens without storing them.
type falseConfirmer struct{ countingNode }

func (u falseConfirmer) RaiseFence(context.Context, string, string, int64) (bool, error) {
	return true, nil
}

func TestFencedClientDifferencesAreDetected(t *testing.T) {
	correct := Scope{Nodes: 3, Attempts: 1, Fence: true}
	mistaken := correct
	mistaken.Mistake = "fence-from-one-node"
	for name, p := range map[string]struct {
		scope  Scope
		change func(*redlock.Config)
	}{
		"a token that is not written back": {correct, func(c *redlock.Config) {
			for i, n := range c.Nodes {
				c.Nodes[i] = falseConfirmer{n.(countingNode)}
			}
		}},
		"a stopped clock":                   {correct, func(c *redlock.Config) { c.Now = func() time.Time { return epoch } }},
		"a model that uses the first count": {mistaken, nil},
		"a client without fencing tokens":   {correct, func(c *redlock.Config) { c.Fence = false }},
	} {
		if _, difference := newModel(p.scope, Reductions{}).findFencedDifference(t, countReplies(3), allReplies(3), p.change); difference == "" {
			t.Errorf("%s is not detected", name)
		}
	}
}

// fencedCommands returns the commands of a lock with fencing tokens.
func fencedCommands(t *testing.T) commands {
	cmds := referenceCommands(t)
	for a, name := range map[action]string{setArrived: "set_fenced.lua", raiseArrived: "raise_fence.lua"} {
		text, err := os.ReadFile("../../redlock/driver/" + name)
		if err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprint(ttl.Milliseconds())
		if a == raiseArrived {
			last = "3"
		}
		cmds[a] = []string{"EVAL", string(text), "2", "k", "k:fence", "0", last}
	}
	return cmds
}

// findCountDifference searches for a request and a state of the node's key and count for which the
// simulated node and the model differ in the reply or the count after it. The token to write back
// is 3.
func (m *model) findCountDifference(t *testing.T, cmds commands) (cases int, difference string) {
	for _, a := range []action{setArrived, raiseArrived, extendArrived, delArrived} {
		for lease := -1; lease < 2; lease++ {
			for count := range 5 {
				cases++
				n := start("")
				if lease >= 0 {
					n.set(t, lease)
				}
				if count > 0 {
					n.do(t, "SET", "k:fence", fmt.Sprint(count))
				}
				reply, err := n.Do(cmds[a]...)
				if err != nil {
					t.Fatal(err)
				}
				stored, err := n.Do("GET", "k:fence")
				if err != nil {
					t.Fatal(err)
				}
				if stored == nil {
					stored = "0"
				}
				n.Close()
				seen := map[string]bool{fmt.Sprintf("reply %v, then count %v", reply, stored): true}

				s, allowed := m.stateBefore(lease, false, a), map[string]bool{}
				if s.node[0].count = uint8(count); a == raiseArrived {
					s.client[0].phase, s.tokens[0], s.node[0].raise[0] = phaseRaising, 3, requestInFlight
				}
				walk{m, &s, func(next *state, did Step) {
					if did.Action != a {
						return
					}
					answer := 0
					if did.Yes {
						answer = 1
					}
					if a == setArrived {
						answer = int(next.node[0].grantedCount[0])
					}
					allowed[fmt.Sprintf("reply %d, then count %d", answer, next.node[0].count)] = true
				}}.nodeSteps(0)
				if !maps.Equal(allowed, seen) {
					return cases, fmt.Sprintf("%s at a node with key %d, count %d: node: %v; model: %v", a, lease, count, seen, allowed)
				}
			}
		}
	}
	return cases, ""
}

// The simulated node with the real scripts counts grants like the model's node.
func TestGrantCountsMatchModel(t *testing.T) {
	m := newModel(Scope{Nodes: 1, Attempts: 1, Extensions: 1, Fence: true}, exactReductions)
	cases, difference := m.findCountDifference(t, fencedCommands(t))
	if difference != "" {
		t.Error(difference)
	}
	t.Logf("%d cases", cases)
	for name, change := range map[string]func(commands){
		"a count of every request": func(c commands) {
			c[setArrived][1] = "redis.call('incr', KEYS[2]) " + c[setArrived][1]
		},
		"a count that restarts": func(c commands) {
			c[setArrived][1] = strings.Replace(c[setArrived][1], `return redis.call("incr", KEYS[2])`, `redis.call("set", KEYS[2], 1) return 1`, 1)
		},
		"a token that is written back to any key": func(c commands) {
			c[raiseArrived][1] = strings.Replace(c[raiseArrived][1], "~= ARGV[1]", "~= ARGV[1] and false", 1)
		},
		"a token that lowers the count": func(c commands) {
			c[raiseArrived][1] = strings.Replace(c[raiseArrived][1], `if tonumber(redis.call("get", KEYS[2]) or "0") < tonumber(ARGV[2])`, `if true`, 1)
		},
	} {
		cmds := fencedCommands(t)
		for a, args := range cmds {
			cmds[a] = slices.Clone(args)
		}
		if change(cmds); fmt.Sprint(cmds) == fmt.Sprint(fencedCommands(t)) {
			t.Fatalf("%s: the script lacks the text to replace", name)
		}
		if _, difference := m.findCountDifference(t, cmds); difference == "" {
			t.Errorf("%s is not detected", name)
		}
	}
}
