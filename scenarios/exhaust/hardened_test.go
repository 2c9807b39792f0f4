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

// hardenedScripts are those of the hardened lock's nodes, by what they do in the model.
func hardenedScripts(t *testing.T) map[action]string {
	out := map[action]string{}
	for a, name := range map[action]string{set: "grant", del: "abandon", Raise: "raise_fence", extend: "extend"} {
		text, err := os.ReadFile("../../redlock/driver/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		out[a] = string(text)
	}
	return out
}

// nodeState is a node in which the first lease's request arrives.
type nodeState struct {
	lease           int // whose key it has; -1: nobody's
	count           int // of grants; 0: none is known
	buried, secured bool
	quarantine      bool // the scope has one
}

const raisedTo = 3

// real has the simulated node carry out the script: its answer, and what is there then.
func (s nodeState) real(t *testing.T, scripts map[action]string, a action) string {
	n := start("")
	defer n.Close()
	id, quarantine := strings.Repeat("0", 40), "0"
	if s.quarantine {
		quarantine = fmt.Sprint(ttl.Milliseconds())
		n.do(t, "SET", "known", id)
	}
	if s.secured {
		n.do(t, "SET", "known", "another process")
	}
	if s.lease >= 0 {
		n.set(t, s.lease)
	}
	if s.count > 0 {
		n.do(t, "SET", "k:fence", fmt.Sprint(s.count))
	}
	if s.buried {
		n.do(t, "SET", "k:gone:0", "", "PX", fmt.Sprint(ttl.Milliseconds()))
	}
	px := fmt.Sprint(ttl.Milliseconds())
	args := map[action][]string{
		set:    {"5", "k", "k:fence", "k:gone:0", "known", "quarantine", "0", px, "1", quarantine},
		del:    {"2", "k", "k:gone:0", "0", px},
		Raise:  {"2", "k", "k:fence", "0", fmt.Sprint(raisedTo)},
		extend: {"1", "k", "0", px},
	}[a]
	reply, err := n.Do(append([]string{"EVAL", scripts[a]}, args...)...)
	if err != nil {
		reply = "none"
	}
	count, err := n.Do("GET", "k:fence")
	if err != nil {
		t.Fatal(err)
	}
	gone, err := n.Do("EXISTS", "k:gone:0")
	if err != nil {
		t.Fatal(err)
	}
	// A count from the clock is far above any: the model's node counts from where all stand.
	if first, ok := reply.(int64); ok && s.count == 0 && first > 1e9 {
		reply, count = int64(1), "1"
	}
	if count == nil {
		count = "0"
	}
	return fmt.Sprintf("answer %v, then key %q, count %v, SET is refused: %v", reply, n.has(t), count, gone == int64(1))
}

// model has the model's node do it.
func (s nodeState) model(m *model, a action) string {
	in := m.before(s.lease, false, a)
	n := &in.node[0]
	n.count = uint8(s.count)
	n.set[0] = flying // unless it is what arrives, it still may
	if s.buried {
		n.set[0] = doomed
	}
	if s.secured {
		n.down = downWith(0)
	}
	if a == Raise {
		in.client[0].phase, in.fence[0], n.raise[0] = raising, raisedTo, flying
	}
	answer, after := any("none"), in
	walk{m, &in, func(next *state, did Step) {
		if did.Action != a {
			return
		}
		after, answer = *next, 0
		switch {
		case did.Yes && a == set:
			answer = next.node[0].granted[0]
		case did.Yes:
			answer = 1
		}
	}}.node(0)
	has := ""
	if k := after.node[0].key; k > 0 {
		has = fmt.Sprint(k.lease())
	}
	buried := after.node[0].set[0] == doomed || s.buried && a == set
	return fmt.Sprintf("answer %v, then key %q, count %d, SET is refused: %v", answer, has, after.node[0].count, buried)
}

// hardenedNodeDiffers compares the two in each state of a key, its count, its tombstone and a quarantine.
func hardenedNodeDiffers(t *testing.T, m *model, scripts map[action]string) (cases int, difference string) {
	for _, a := range []action{set, del, Raise, extend} {
		for lease := -1; lease < 2; lease++ {
			for count := range 5 {
				for flags := range 4 {
					s := nodeState{lease, count, flags&1 == 1, flags&2 == 2, m.Quarantine}
					if s.secured && !m.Quarantine || lease == 0 && count == 0 {
						continue // what was granted was counted
					}
					if a == del && lease == 0 && !s.buried {
						continue // it was granted: no SET is under way, and whether one was refused is of no matter
					}
					cases++
					if real, model := s.real(t, scripts, a), s.model(m, a); real != model {
						return cases, fmt.Sprintf("%s at %+v: %s; the model: %s", a, s, real, model)
					}
				}
			}
		}
	}
	return cases, ""
}

// The simulated node does with the hardened lock's scripts what the model's does.
func TestHardenedNode(t *testing.T) {
	scope := Scope{Nodes: 1, Attempts: 1, Extends: 1, Fence: true, Lock: hardenedLock, Crashes: 1}
	quarantined := scope
	quarantined.Quarantine = true
	for _, s := range []Scope{scope, quarantined} {
		cases, difference := hardenedNodeDiffers(t, newModel(s, Reductions{Merge: true}), hardenedScripts(t))
		if difference != "" {
			t.Errorf("%v: %s", s, difference)
		}
		t.Logf("%v: %d cases", s, cases)
	}
	for name, p := range map[string]struct {
		of       action
		was, is  string
		scope    Scope
		modelled string
	}{
		"a tombstone that is not heeded":     {set, `redis.call("exists", KEYS[3]) == 1`, `false`, scope, ""},
		"a tombstone that is not set":        {del, `redis.call("set", KEYS[2], "", "PX", ARGV[2])`, ``, scope, tombstones},
		"a grant that does not know its own": {set, `if redis.call("get", KEYS[1]) ~= ARGV[1] then`, `if true then`, scope, ""},
		"a grant to everybody":               {set, `if redis.call("get", KEYS[1]) ~= ARGV[1] then`, `if false then`, scope, ""},
		"no quarantine":                      {set, `if left > 0 then`, `if false then`, quarantined, ""},
		"a token that lowers the count":      {Raise, `if tonumber(redis.call("get", KEYS[2]) or "0") < tonumber(ARGV[2])`, `if true`, scope, ""},
		"a release of anybody's key":         {del, `redis.call("get", KEYS[1]) == ARGV[1]`, `true`, scope, ""},
	} {
		scripts := hardenedScripts(t)
		wrong := strings.Replace(scripts[p.of], p.was, p.is, 1)
		if wrong == scripts[p.of] {
			t.Fatalf("%s: the script has no such place", name)
		}
		scripts[p.of] = wrong
		if p.modelled == "" {
			if _, difference := hardenedNodeDiffers(t, newModel(p.scope, Reductions{Merge: true}), scripts); difference == "" {
				t.Errorf("%s is not seen", name)
			}
			continue
		}
		wrongly := p.scope
		wrongly.Without = p.modelled
		if _, difference := hardenedNodeDiffers(t, newModel(wrongly, Reductions{Merge: true}), hardenedScripts(t)); difference == "" {
			t.Errorf("a model without %s is not seen", p.modelled)
		}
	}
}

// granting is a puppet with the steps of the hardened lock. What it is asked to forget it forgets.
type granting struct{ puppet }

func (g granting) Grant(ctx context.Context, _, token string, _ driver.Terms) (int64, error) {
	return voted(g.ask(ctx, "SET", token, func(a int) []byte { return g.answers[a] }))
}

func (g granting) Abandon(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	return g.ask(ctx, "ABANDON", token, func(int) []byte { return []byte("yyyyy") })
}

func (g granting) Release(ctx context.Context, _, token string) (bool, error) {
	return g.ask(ctx, "DEL", token, func(int) []byte { return []byte("yyyyy") })
}

// hardenedClient is what the real one made of a script.
func (s *script) hardenedClient(t *testing.T, nodes int, change func(*redlock.Config)) (held bool, sent []string) {
	cfg := redlock.Config{TTL: ttl, Timeout: timeout, Tries: 1, Now: s.now}
	for n := range nodes {
		cfg.Nodes = append(cfg.Nodes, granting{puppet{s, n}})
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
		synctest.Wait() // for votes that are not waited for
		if held = err == nil; held {
			lease.Release(t.Context())
		}
		time.Sleep(time.Second)
		l.Close()
	})
	return held, slices.Sorted(slices.Values(s.sent))
}

// hardenedModel is what the model makes of it. A node whose answer is missing is told to refuse the
// SET, others to delete their key.
func (m *model) hardenedModel(t *testing.T, s *script) (held bool, sent []string) {
	before := m.answered(0, s.answers[0], s.elapsed[0] >= window, false)
	did, after := m.decides(t, before)
	if held = did.Action == acquired; held {
		m.release(&after, 0)
	}
	for n := range m.Nodes {
		sent = append(sent, asked("SET", 0, n))
		switch {
		case after.node[n].del[0] == none:
		case before.node[n].set[0] == flying && m.tombstones:
			sent = append(sent, asked("ABANDON", 0, n))
		default:
			sent = append(sent, asked("DEL", 0, n))
		}
	}
	return held, slices.Sorted(slices.Values(sent))
}

func (m *model) hardenedDiffers(t *testing.T, answers [][]byte, change func(*redlock.Config)) (cases int, difference string) {
	for _, v := range answers {
		for _, e := range []time.Duration{window - 1, window} {
			cases++
			s := &script{answers: [][]byte{v}, elapsed: []time.Duration{e, e, e, e, e, e, e, e}}
			held, sent := s.hardenedClient(t, m.Nodes, change)
			if want, requests := m.hardenedModel(t, s); held != want || !slices.Equal(sent, requests) {
				return cases, fmt.Sprintf("%s after %v: held %v after %q; in the model %v after %q", v, e, held, sent, want, requests)
			}
		}
	}
	return cases, ""
}

// barren is a node without tombstones.
type barren struct{ redlock.Node }

// The real Locker does what the model's client does, whatever nodes answer: all cases of three nodes,
// and all counts of votes of five.
func TestHardenedClient(t *testing.T) {
	right := Scope{Nodes: 3, Attempts: 1, Lock: hardenedLock}
	for nodes, answers := range map[int][][]byte{3: vectors(3), 5: multisets(5)} {
		m := newModel(Scope{Nodes: nodes, Attempts: 1, Lock: hardenedLock}, Reductions{})
		cases, difference := m.hardenedDiffers(t, answers, nil)
		if difference != "" {
			t.Errorf("%d nodes: %s", nodes, difference)
		}
		t.Logf("%d nodes: %d cases", nodes, cases)
	}
	without := right
	without.Without = tombstones
	for name, p := range map[string]struct {
		scope  Scope
		change func(*redlock.Config)
	}{
		"a clock that stands still":         {right, func(c *redlock.Config) { c.Now = func() time.Time { return epoch } }},
		"a smaller margin":                  {right, func(c *redlock.Config) { c.Drift = drift / 2 }},
		"nodes that know no tombstones":     {right, func(c *redlock.Config) { c.Nodes[1] = barren{c.Nodes[1]} }},
		"a node that it never asks":         {right, func(c *redlock.Config) { c.Nodes = c.Nodes[:2] }},
		"the specification's model":         {Scope{Nodes: 3, Attempts: 1}, nil},
		"a model that leaves no tombstones": {without, nil},
	} {
		if _, difference := newModel(p.scope, Reductions{}).hardenedDiffers(t, vectors(3), p.change); difference == "" {
			t.Errorf("%s: not seen", name)
		}
	}
}

func voted(yes bool, err error) (int64, error) {
	if yes {
		return 1, err
	}
	return 0, err
}
