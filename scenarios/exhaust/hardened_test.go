package exhaust

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/driver"
)

// hardenedScripts returns the hardened lock's scripts by their action in the model.
func hardenedScripts(t *testing.T) map[action]string {
	out := map[action]string{}
	for a, name := range map[action]string{setArrived: "grant", delArrived: "abandon", raiseArrived: "raise_fence", extendArrived: "extend"} {
		text, err := os.ReadFile("../../redlock/driver/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		out[a] = string(text)
	}
	return out
}

// nodeState is a node's state when the first lease's request arrives.
type nodeState struct {
	lease                  int // the lease of its key, or -1
	count                  int // its grant count
	tombstone, quarantined bool
	quarantine             bool // whether the scope has a quarantine
}

func (s nodeState) String() string {
	return fmt.Sprintf("a node with %s, count %d, tombstone %v, quarantined %v", describeKey(fmt.Sprint(s.lease)), s.count, s.tombstone, s.quarantined)
}

const raisedCount = 3

// runScript runs a script on the simulated node, and describes the reply and the node's state after
// it.
func (s nodeState) runScript(t *testing.T, scripts map[action]string, a action) string {
	n := start("")
	defer n.Close()
	id, quarantine := strings.Repeat("0", 40), "0"
	if s.quarantine {
		quarantine = fmt.Sprint(ttl.Milliseconds())
		n.do(t, "SET", "known", id)
	}
	if s.quarantined {
		n.do(t, "SET", "known", "another process")
	}
	if s.lease >= 0 {
		n.set(t, s.lease)
	}
	if s.count > 0 {
		n.do(t, "SET", "k:fence", fmt.Sprint(s.count))
	}
	if s.tombstone {
		n.do(t, "SET", "k:gone:0", "", "PX", fmt.Sprint(ttl.Milliseconds()))
	}
	px := fmt.Sprint(ttl.Milliseconds())
	args := map[action][]string{
		setArrived:    {"5", "k", "k:fence", "k:gone:0", "known", "quarantine", "0", px, "1", quarantine},
		delArrived:    {"2", "k", "k:gone:0", "0", px},
		raiseArrived:  {"2", "k", "k:fence", "0", fmt.Sprint(raisedCount)},
		extendArrived: {"1", "k", "0", px},
	}[a]
	reply, err := n.Do(append([]string{"EVAL", scripts[a]}, args...)...)
	if err != nil {
		reply = "none"
	}
	count, err := n.Do("GET", "k:fence")
	if err != nil {
		t.Fatal(err)
	}
	hasTombstone, err := n.Do("EXISTS", "k:gone:0")
	if err != nil {
		t.Fatal(err)
	}
	// A count that starts at the clock is far above all others. The model's node continues from the
	// highest count instead.
	if first, ok := reply.(int64); ok && s.count == 0 && first > 1e9 {
		reply, count = int64(1), "1"
	}
	if count == nil {
		count = "0"
	}
	return fmt.Sprintf("reply %v, then key %q, count %v, SET refused: %v", reply, n.token(t), count, hasTombstone == int64(1))
}

// runModel sends the same request to the model's node, and describes the reply and the node's state
// after it.
func (s nodeState) runModel(m *model, a action) string {
	before := m.stateBefore(s.lease, false, a)
	n := &before.node[0]
	n.count = uint8(s.count)
	n.set[0] = requestInFlight // if another request arrives, the SET is still in flight
	if s.tombstone {
		n.set[0] = tombstonedSet
	}
	if s.quarantined {
		n.downState = downStateFor(0)
	}
	if a == raiseArrived {
		before.client[0].phase, before.tokens[0], n.raise[0] = phaseRaising, raisedCount, requestInFlight
	}
	answer, after := any("none"), before
	walk{m, &before, func(next *state, did Step) {
		if did.Action != a {
			return
		}
		after, answer = *next, 0
		switch {
		case did.Yes && a == setArrived:
			answer = next.node[0].grantedCount[0]
		case did.Yes:
			answer = 1
		}
	}}.nodeSteps(0)
	keyToken := ""
	if k := after.node[0].key; k > 0 {
		keyToken = fmt.Sprint(k.lease())
	}
	refused := after.node[0].set[0] == tombstonedSet || s.tombstone && a == setArrived
	return fmt.Sprintf("reply %v, then key %q, count %d, SET refused: %v", answer, keyToken, after.node[0].count, refused)
}

// findHardenedNodeDifference searches for a state of the key, the count, the tombstone and the
// quarantine for which the simulated node and the model's node differ.
func findHardenedNodeDifference(t *testing.T, m *model, scripts map[action]string) (cases int, difference string) {
	for _, a := range []action{setArrived, delArrived, raiseArrived, extendArrived} {
		for lease := -1; lease < 2; lease++ {
			for count := range 5 {
				for flags := range 4 {
					s := nodeState{lease, count, flags&1 == 1, flags&2 == 2, m.Quarantine}
					if s.quarantined && !m.Quarantine || lease == 0 && count == 0 {
						continue // every grant is counted
					}
					if a == delArrived && lease == 0 && !s.tombstone {
						continue // after a grant, no SET is in flight that could be refused
					}
					cases++
					if real, model := s.runScript(t, scripts, a), s.runModel(m, a); real != model {
						return cases, fmt.Sprintf("%s at %v: node: %s; model: %s", a, s, real, model)
					}
				}
			}
		}
	}
	return cases, ""
}

func TestHardenedNodeMatchesModel(t *testing.T) {
	scope := Scope{Nodes: 1, Attempts: 1, Extensions: 1, Fence: true, Lock: hardenedLock, Crashes: 1}
	quarantined := scope
	quarantined.Quarantine = true
	for _, s := range []Scope{scope, quarantined} {
		cases, difference := findHardenedNodeDifference(t, newModel(s, Reductions{Merge: true}), hardenedScripts(t))
		if difference != "" {
			t.Errorf("%v: %s", s, difference)
		}
		t.Logf("%v: %d cases", s, cases)
	}
	for name, p := range map[string]struct {
		of      action
		was, is string
		scope   Scope
		modeled string
	}{
		"a tombstone that is ignored":      {setArrived, `redis.call("exists", KEYS[3]) == 1`, `false`, scope, ""},
		"a tombstone that is not set":      {delArrived, `redis.call("set", KEYS[2], "", "PX", ARGV[2])`, ``, scope, tombstones},
		"a grant that ignores its own key": {setArrived, `if redis.call("get", KEYS[1]) ~= ARGV[1] then`, `if true then`, scope, ""},
		"a grant to every client":          {setArrived, `if redis.call("get", KEYS[1]) ~= ARGV[1] then`, `if false then`, scope, ""},
		"no quarantine":                    {setArrived, `if left > 0 then`, `if false then`, quarantined, ""},
		"a token that lowers the count":    {raiseArrived, `if tonumber(redis.call("get", KEYS[2]) or "0") < tonumber(ARGV[2])`, `if true`, scope, ""},
		"a release of any key":             {delArrived, `redis.call("get", KEYS[1]) == ARGV[1]`, `true`, scope, ""},
	} {
		scripts := hardenedScripts(t)
		wrong := strings.Replace(scripts[p.of], p.was, p.is, 1)
		if wrong == scripts[p.of] {
			t.Fatalf("%s: the script lacks the text to replace", name)
		}
		scripts[p.of] = wrong
		if p.modeled == "" {
			if _, difference := findHardenedNodeDifference(t, newModel(p.scope, Reductions{Merge: true}), scripts); difference == "" {
				t.Errorf("%s is not detected", name)
			}
			continue
		}
		wrongly := p.scope
		wrongly.OmittedPart = p.modeled
		if _, difference := findHardenedNodeDifference(t, newModel(wrongly, Reductions{Merge: true}), hardenedScripts(t)); difference == "" {
			t.Errorf("a model without %s is not detected", p.modeled)
		}
	}
}

// grantingNode is a scriptedNode for the hardened lock. It confirms all releases.
type grantingNode struct{ scriptedNode }

func (g grantingNode) Grant(ctx context.Context, _, token string, _ driver.Terms) (int64, error) {
	return grantCount(g.ask(ctx, "SET", token, func(a int) []byte { return g.replies[a] }))
}

func (g grantingNode) Abandon(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	return g.ask(ctx, "ABANDON", token, func(int) []byte { return []byte("yyyyy") })
}

func (g grantingNode) Release(ctx context.Context, _, token string) (bool, error) {
	return g.ask(ctx, "DEL", token, func(int) []byte { return []byte("yyyyy") })
}

// runHardenedClient runs the real client with the script. It returns whether the client acquired
// the lock and which requests it sent.
func (s *script) runHardenedClient(t *testing.T, nodes int, change func(*redlock.Config)) (acquired bool, requests []string) {
	cfg := redlock.Config{TTL: ttl, Timeout: timeout, Tries: 1, Now: s.now}
	for n := range nodes {
		cfg.Nodes = append(cfg.Nodes, grantingNode{scriptedNode{s, n}})
	}
	if change != nil {
		change(&cfg)
	}
	synctest.Test(t, func(t *testing.T) {
		l, err := redlock.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := l.Acquire(t.Context(), "k")
		synctest.Wait() // the client does not wait for all votes
		if acquired = err == nil; acquired {
			lease.Release(t.Context())
		}
		time.Sleep(time.Second)
		l.Close()
	})
	return acquired, slices.Sorted(slices.Values(s.requests))
}

// runHardenedModel returns what the model's client does with the script. It sends a tombstone for
// the SET to nodes whose reply is missing, and a DEL to the others.
func (m *model) runHardenedModel(t *testing.T, s *script) (acquired bool, requests []string) {
	before := m.withReplies(0, s.replies[0], s.elapsed[0] >= window, false)
	step, after := m.decide(t, before)
	if acquired = step.Action == lockAcquired; acquired {
		m.release(&after, 0)
	}
	for n := range m.Nodes {
		requests = append(requests, describeRequest("SET", 0, n))
		switch {
		case after.node[n].del[0] == requestNone:
		case before.node[n].set[0] == requestInFlight && m.tombstones:
			requests = append(requests, describeRequest("ABANDON", 0, n))
		default:
			requests = append(requests, describeRequest("DEL", 0, n))
		}
	}
	return acquired, slices.Sorted(slices.Values(requests))
}

func (m *model) findHardenedDifference(t *testing.T, replies [][]byte, change func(*redlock.Config)) (cases int, difference string) {
	for _, v := range replies {
		for _, e := range []time.Duration{window - 1, window} {
			cases++
			s := &script{replies: [][]byte{v}, elapsed: []time.Duration{e, e, e, e, e, e, e, e}}
			acquired, sent := s.runHardenedClient(t, m.Nodes, change)
			if want, requests := m.runHardenedModel(t, s); acquired != want || !slices.Equal(sent, requests) {
				return cases, fmt.Sprintf("replies %s after %v: client %s, sending %q; model %s, sending %q", v, e, describeAcquire(acquired), sent, describeAcquire(want), requests)
			}
		}
	}
	return cases, ""
}

// plainNode is a node without tombstones.
type plainNode struct{ redlock.Node }

// The test covers all combinations of three nodes' replies and all vote counts of five nodes.
func TestHardenedClientMatchesModel(t *testing.T) {
	correct := Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock}
	for nodes, answers := range map[int][][]byte{3: allReplies(3), 5: repliesByCount(5)} {
		m := newModel(Scope{Nodes: nodes, Attempts: 1, Lock: hardenedLock}, Reductions{})
		cases, difference := m.findHardenedDifference(t, answers, nil)
		if difference != "" {
			t.Errorf("%d nodes: %s", nodes, difference)
		}
		t.Logf("%d nodes: %d cases", nodes, cases)
	}
	without := correct
	without.OmittedPart = tombstones
	for name, p := range map[string]struct {
		scope  Scope
		change func(*redlock.Config)
	}{
		"a stopped clock":            {correct, func(c *redlock.Config) { c.Now = func() time.Time { return epoch } }},
		"a smaller margin":           {correct, func(c *redlock.Config) { c.Drift = drift / 2 }},
		"a node without tombstones":  {correct, func(c *redlock.Config) { c.Nodes[1] = plainNode{c.Nodes[1]} }},
		"a node left out":            {correct, func(c *redlock.Config) { c.Nodes = c.Nodes[:2] }},
		"the specification's model":  {Scope{Nodes: 3, Attempts: 1}, nil},
		"a model without tombstones": {without, nil},
	} {
		if _, difference := newModel(p.scope, Reductions{}).findHardenedDifference(t, allReplies(3), p.change); difference == "" {
			t.Errorf("%s is not detected", name)
		}
	}
}

func grantCount(yes bool, err error) (int64, error) {
	if yes {
		return 1, err
	}
	return 0, err
}
