package exhaust

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	server "lockpick/harness/sim/node"
)

// commands maps actions to the commands that a client sends to a node. A lease's token is its
// number.
type commands map[action][]string

// referenceCommands returns the reference lock's commands.
func referenceCommands(t *testing.T) commands {
	script := func(name string) string {
		text, err := os.ReadFile("../../redlock/driver/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	px := fmt.Sprint(ttl.Milliseconds())
	return commands{
		setArrived:    {"SET", "k", "0", "NX", "PX", px},
		extendArrived: {"EVAL", script("extend.lua"), "1", "k", "0", px},
		delArrived:    {"EVAL", script("release.lua"), "1", "k", "0"},
	}
}

// instance is a simulated node with a clock of its own.
type instance struct {
	*server.Node
	now  int64
	disk *server.Disk
}

func start(policy server.Fsync) *instance {
	n := &instance{}
	if policy != "" {
		n.disk = server.NewDisk(policy)
	}
	n.restart()
	return n
}

func (n *instance) restart() {
	n.Node = server.New(server.Config{RunID: strings.Repeat("0", 40), Clock: server.NewClock(1e18, func() int64 { return n.now }), Disk: n.disk})
}

func (n *instance) do(t *testing.T, args ...string) (yes bool) {
	t.Helper()
	reply, err := n.Do(args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply == "OK" || reply == int64(1)
}

// token returns the value of the node's key, or "" if there is none.
func (n *instance) token(t *testing.T) string {
	t.Helper()
	v, err := n.Do("GET", "k")
	if err != nil {
		t.Fatal(err)
	}
	token, _ := v.(string)
	return token
}

// set sets the key to a lease's token.
func (n *instance) set(t *testing.T, lease int) {
	n.do(t, "SET", "k", fmt.Sprint(lease), "NX", "PX", fmt.Sprint(ttl.Milliseconds()))
}

// stateBefore returns a state where the node has a lease's key, or none if lease is -1, and the
// first lease's request is on its way to the node. windowsEnded says whether the leases' first
// windows have ended.
func (m *model) stateBefore(lease int, windowsEnded bool, a action) state {
	var s state
	for c := range s.client {
		s.client[c] = clientState{phase: phaseAcquiring, attempts: 1}
	}
	n := &s.node[0]
	if lease >= 0 {
		n.key = keyOf(lease, 0)
	}
	if windowsEnded {
		s.endedWindows = [maxLeases]uint8{1, 1}
	}
	switch a {
	case setArrived:
		n.set[0] = requestInFlight
	case extendArrived:
		s.client[0].phase, s.client[0].extensions = phaseExtending, 1
		n.ext[0] = requestInFlight
	case delArrived:
		n.del[0] = requestInFlight
		if m.plainDel {
			n.del[0] = unconditionalDel
		}
	}
	return s
}

// allowedResults returns the results of a request that the model allows: the reply and the node's
// key after it.
func (m *model) allowedResults(lease int, windowsEnded bool, a action) map[string]bool {
	s, out := m.stateBefore(lease, windowsEnded, a), map[string]bool{}
	walk{m, &s, func(next *state, did Step) {
		if did.Action == a {
			after := ""
			if k := next.node[0].key; k > 0 {
				after = fmt.Sprint(k.lease())
			}
			out[describeResult(did.Yes, after)] = true
		}
	}}.nodeSteps(0)
	return out
}

func describeResult(yes bool, after string) string {
	reply := "no"
	if yes {
		reply = "yes"
	}
	return fmt.Sprintf("%s, then %s", reply, describeKey(after))
}

// describeKey says whose key a node has for the client of the first lease.
func describeKey(token string) string {
	switch token {
	case "", "-1":
		return "no key"
	case "0":
		return "the client's own key"
	}
	return "another client's key"
}

func joinResults(results map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(results)), " or ")
}

// findNodeDifference searches for a case where the simulated node does not produce exactly the
// results that the model allows.
func (m *model) findNodeDifference(t *testing.T, cmds commands) (cases int, difference string) {
	for _, a := range []action{setArrived, extendArrived, delArrived} {
		for lease := -1; lease < 2; lease++ { // none, the requester's, the other client's
			for _, windowsEnded := range []bool{false, true} {
				seen := map[string]bool{}
				ages := []time.Duration{0, ttl - time.Millisecond}
				if windowsEnded {
					ages = append(ages, ttl, 2*ttl)
				}
				for _, age := range ages {
					cases++
					n := start("")
					if lease >= 0 {
						n.set(t, lease)
					}
					n.now = int64(age)
					reply, err := n.Do(cmds[a]...)
					if err != nil {
						return cases, fmt.Sprintf("%s: node: %v", a, err)
					}
					seen[describeResult(reply == "OK" || reply == int64(1), n.token(t))] = true
					n.Close()
				}
				if allowed := m.allowedResults(lease, windowsEnded, a); !maps.Equal(allowed, seen) {
					when := "before the window ends"
					if windowsEnded {
						when = "after the window ends"
					}
					return cases, fmt.Sprintf("%s at a node with %s, %s: node: %s; model: %s", a, describeKey(fmt.Sprint(lease)), when,
						joinResults(seen), joinResults(allowed))
				}
			}
		}
	}
	return cases, ""
}

// The test covers each of the reference lock's requests with each state of the key.
func TestNodeMatchesModel(t *testing.T) {
	cases, difference := newModel(Scope{Nodes: 1, Attempts: 1, Extensions: 1}, exactReductions).findNodeDifference(t, referenceCommands(t))
	if difference != "" {
		t.Error(difference)
	}
	t.Logf("%d cases", cases)
}

// Wrong requests are detected unless the model has the same mistake.
func TestWrongCommandsAreDetected(t *testing.T) {
	px := fmt.Sprint(ttl.Milliseconds())
	for name, p := range map[string]struct {
		mistake string
		change  func(commands)
	}{
		"SET without NX":         {"set-without-nx", func(c commands) { c[setArrived] = []string{"SET", "k", "0", "PX", px} }},
		"DEL without comparison": {"plain-del", func(c commands) { c[delArrived] = []string{"DEL", "k"} }},
		"EXTEND of any key":      {"", func(c commands) { c[extendArrived] = []string{"PEXPIRE", "k", px} }},
	} {
		cmds := referenceCommands(t)
		p.change(cmds)
		if _, difference := newModel(Scope{Nodes: 1, Attempts: 1, Extensions: 1}, exactReductions).findNodeDifference(t, cmds); difference == "" {
			t.Errorf("%s is not detected", name)
		}
		if p.mistake == "" {
			continue
		}
		mistaken := newModel(Scope{Nodes: 1, Attempts: 1, Extensions: 1, Mistake: p.mistake}, exactReductions)
		if _, difference := mistaken.findNodeDifference(t, cmds); difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
		if _, difference := mistaken.findNodeDifference(t, referenceCommands(t)); difference == "" {
			t.Errorf("a model with %s is not detected", name)
		}
	}
}

// A restarted node has the same data as in the model.
func TestRestartData(t *testing.T) {
	for _, c := range []struct {
		restart Restart
		policy  server.Fsync
		synced  bool
		keeps   string
	}{
		{RestartEmpty, "", false, ""}, {RestartDelayed, "", false, ""}, {RestartAlways, server.Always, true, "0"},
		{restartEverySec, server.EverySec, true, "0"}, {restartEverySec, server.EverySec, false, ""},
	} {
		n := start(c.policy)
		n.set(t, 0)
		if n.disk != nil {
			n.Flush()
		}
		if c.synced {
			n.disk.Sync()()
		}
		n.Close()
		if n.disk != nil {
			n.disk.LosePower(false)
		}
		n.restart()
		if got := n.token(t); got != c.keeps {
			t.Errorf("%s, synced %v: the node has key %q, want %q", c.restart, c.synced, got, c.keeps)
		}
		m := newModel(Scope{Nodes: 1, Attempts: 1, Crashes: 1, Restart: c.restart}, exactReductions)
		s := m.stateBefore(0, false, replyArrived)
		s.crashes = 1
		if c.synced {
			s.node[0].diskKey = s.node[0].key
		}
		m.crash(&s, 0)
		if has := s.node[0].key > 0; has != (c.keeps != "") {
			t.Errorf("%s, synced %v: model node has a key: %v", c.restart, c.synced, has)
		}
		if down := s.node[0].downState != nodeUp; down != (c.restart == RestartDelayed) {
			t.Errorf("%s: model node is down: %v", c.restart, down)
		}
	}
}
