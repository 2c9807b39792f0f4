package exhaust

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// findResourceDifference lets holds read and write in random order, in the model and with the
// resource's real scripts on a simulated node. It compares which requests are accepted, and which
// writes overwrite one that their client has not seen.
func (m *model) findResourceDifference(t *testing.T, rounds int, change func(script string) string) (lostUpdates, refusals int, difference string) {
	scripts := resourceScripts(t, change)
	mode := "none"
	if m.Fence {
		mode = "token"
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range rounds {
		n, s := start(""), m.initialState()
		for c := range s.client {
			s.client[c] = clientState{phase: phaseHolding, attempts: uint8(m.Attempts)}
		}
		base := map[int]int64{}
		for l := range m.leases() {
			s.tokens[l] = uint8(1 + rng.IntN(3))
		}
		ask := func(a action, l int, version int64) []any {
			reply, err := n.Do("EVAL", scripts[a], "1", "r", fmt.Sprintf("%d:%s", l, a), fmt.Sprint(l), fmt.Sprint(version), fmt.Sprint(s.tokens[l]), "token", mode)
			if err != nil {
				t.Fatal(err)
			}
			return reply.([]any)
		}
		var log []string
		for range 12 {
			l := rng.IntN(m.leases())
			accepted := m.accepts(&s, l)
			switch s.sections[l] {
			case sectionUnread:
				log = append(log, fmt.Sprintf("%d reads with token %d", l, s.tokens[l]))
				reply := ask(readDone, l, 0)
				if reply[0] != replyNumber(accepted) {
					return lostUpdates, refusals, fmt.Sprintf("round %d, %v: resource replied %v; model accepts: %v", round, log, reply[0], accepted)
				}
				if base[l] = reply[1].(int64); accepted {
					s.sections[l] = sectionRead
					m.recordToken(&s, l)
				} else {
					refusals++
					s.sections[l] = sectionWritten // the hold's work ends
				}
			case sectionRead, sectionReadLate:
				s.sections[l] += sectionSent - sectionRead
			case sectionSent, sectionSentLate:
				log = append(log, fmt.Sprintf("%d writes with token %d", l, s.tokens[l]))
				reply := ask(writeArrived, l, base[l])
				if reply[0] != replyNumber(accepted) {
					return lostUpdates, refusals, fmt.Sprintf("round %d, %v: resource replied %v; model accepts: %v", round, log, reply[0], accepted)
				}
				s.violated = false
				m.applyWrite(&s, l, accepted)
				lost := accepted && reply[1] != base[l]+1
				if lost != s.violated {
					return lostUpdates, refusals, fmt.Sprintf("round %d, %v: version %v, based on %d; lost update in the model: %v", round, log, reply[1], base[l], s.violated)
				}
				if lost {
					lostUpdates++
				}
				if !accepted {
					refusals++
				}
				s.sections[l] = sectionWritten
			}
		}
		n.Close()
	}
	return lostUpdates, refusals, ""
}

func resourceScripts(t *testing.T, change func(string) string) map[action]string {
	scripts := map[action]string{}
	for a, name := range map[action]string{readDone: "read.lua", writeArrived: "write.lua"} {
		text, err := os.ReadFile("../../harness/client/" + name)
		if err != nil {
			t.Fatal(err)
		}
		scripts[a] = change(string(text))
	}
	return scripts
}

func replyNumber(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// The real resource and the model accept the same requests and lose the same updates.
func TestResource(t *testing.T) {
	same := func(script string) string { return script }
	for _, fence := range []bool{false, true} {
		m := newModel(Scope{Nodes: 1, Attempts: 2, Fence: fence, Property: resourceSafety}, Reductions{})
		lostUpdates, refusals, difference := m.findResourceDifference(t, 300, same)
		if difference != "" {
			t.Error(difference)
		}
		if lostUpdates == 0 || fence != (refusals > 0) {
			t.Errorf("fence %v: %d lost updates, %d refusals", fence, lostUpdates, refusals)
		}
		for name, change := range map[string][2]string{
			"tokens that are not stored":         {`redis.call('set', k .. ':fence', `, `redis.call('set', k .. ':other', `},
			"tokens that must increase":          {"< top", "<= top"},
			"writes that keep the version":       {"version = version + 1", "version = version"},
			"a resource that asks for no tokens": {"mode == 'token'", "mode == 'x'"},
		} {
			if !fence && strings.Contains(name, "tok") || !fence && strings.Contains(name, "asks") {
				continue
			}
			if _, _, difference := m.findResourceDifference(t, 300, func(s string) string { return strings.ReplaceAll(s, change[0], change[1]) }); difference == "" {
				t.Errorf("fence %v: %s: not detected", fence, name)
			}
		}
	}
}
