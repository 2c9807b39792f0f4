package checker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
)

// In quietHold, c1 holds a lock from 1 s to 3 s and sends no request in between. c2 tries at 6 s.
const quietHold = `
params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=2s nodeTimeout=50ms retryMax=100ms
0     c1 begin client
0     c2 begin client
1     c1 invoke acquire session=c1/1
1.01  c1-n1,n2,n3 ok set token=A
1.02  c1 ok acquire session=c1/1 until=3
2.9   c1 invoke write session=c1/1
2.95  c1 ok write session=c1/1
3     c1 invoke release session=c1/1
3.01  c1-n1,n2,n3 ok release token=A
3.02  c1 ok release session=c1/1
3.03  c1 end client
6     c2 invoke acquire session=c2/1
6.2   c2 ok acquire session=c2/1 until=8
9     harness end run`

// The record and the step's proof show whether a fault had an effect.
func TestFaultWithoutEffect(t *testing.T) {
	nodeProof, linkProof, clientProof := history.Proof{Targets: []string{history.TargetNode}}, history.Proof{Targets: []string{history.TargetLink}}, history.Proof{Targets: []string{history.TargetClient}}
	clockProof := history.Proof{Targets: []string{history.TargetNode}, MinOffset: time.Millisecond}
	for _, c := range []struct {
		what    string
		proof   history.Proof
		rate    float64
		kind    string
		target  string
		from    string
		to      string
		because string // "" if the fault had an effect
	}{
		{"a node without requests", nodeProof, 0, "unplug", "n1", "0.5", "0.9", "n1 received no request in the meantime"},
		{"a node after the last release", nodeProof, 0, "unplug", "n1", "3.5", "5.9", "n1 received no request in the meantime"},
		{"a node with a key", nodeProof, 0, "unplug", "n1", "1.5", "2", ""},
		{"a node with requests", nodeProof, 0, "unplug", "n1", "0.9", "1.1", ""},
		{"a node that is down when it is needed, and so gets no request", nodeProof, 0, "kill", "n3", "5.9", "7", ""},
		{"a node that the lock does not use", nodeProof, 0, "kill", "n4", "0.9", "7", "n4 received no request in the meantime"},
		{"a link while its client holds", linkProof, 0, "cut", "c1-n1", "1.5", "2", "c1-n1 carried no traffic in the meantime"},
		{"a link in use", linkProof, 0, "cut", "c1-n1", "2.99", "3.2", ""},
		{"a link before its client has a connection", linkProof, 0, "cut", "c2-n1", "5", "7", ""},
		{"a link during an acquire, for less than a round", linkProof, 0, "cut", "c2-n1", "6.05", "6.1", "c2-n1 carried no traffic in the meantime"},
		{"a link from the call of a release", linkProof, 0, "cut", "c1-n1", "3", "3.005", ""},
		{"a link during an acquire, for a round", linkProof, 0, "cut", "c2-n1", "6.04", "6.19", "c2-n1 carried no traffic in the meantime"},
		{"a link during an acquire, for longer than a round", linkProof, 0, "cut", "c2-n1", "6.04", "6.190001", ""},
		{"a link to the resource", linkProof, 0, "cut", "c1-r1", "1.5", "2.5", "c1-r1 carried no traffic in the meantime"},
		{"a link to the resource in use", linkProof, 0, "cut", "c1-r1", "2.5", "2.92", ""},
		{"a link to a replica", linkProof, 0, "cut", "n1-replica", "1.5", "2", "n1 had nothing to replicate"},
		{"a link to a replica of a node with writes", linkProof, 0, "cut", "n1-replica", "0.5", "2", ""},
		{"a client without a lock", clientProof, 0, "pause", "c2", "1", "5", "c2 neither wanted nor held a lock in the meantime"},
		{"a client that holds a lock", clientProof, 0, "pause", "c1", "1.5", "2", ""},
		{"a client that wants a lock", clientProof, 0, "pause", "c2", "6.05", "6.1", ""},
		{"a node's clock that is not read", clockProof, 1.5, "clock-rate", "n1", "3.5", "5.9", "n1 received no request"},
		{"a node's clock that is almost right", clockProof, 1.0001, "clock-rate", "n1", "1", "9", "the clock of n1 was wrong by less than 1ms"},
		{"a node's clock", clockProof, 1.001, "clock-rate", "n1", "1", "9", ""},
		{"a fault that reports that it had no effect", history.Proof{IdleText: "lost 0 records"}, 0, "power-loss", "n1", "1", "2", "lost 0 records"},
		{"a fault that does not report this", history.Proof{IdleText: "lost 1 record"}, 0, "power-loss", "n1", "1", "2", ""},
	} {
		h := parseHistory(t, quietHold+"\n"+c.from+" nemesis begin "+c.kind+" node="+c.target+" step=1 cause=it lost 0 records\n"+c.to+" nemesis end "+c.kind+" node="+c.target+" step=1")
		h.Params.Steps = []history.PlannedStep{{Step: 1, Fault: c.kind, Targets: []string{c.target}, Rate: c.rate, Proof: &c.proof}}
		v := Check(h)
		if c.because == "" && v.Assumption != "" || !strings.Contains(v.Assumption, c.because) {
			t.Errorf("%s: %q, want %q", c.what, v.Assumption, c.because)
		}
		h.Params.Steps[0].Optional = true
		if v := Check(h); v.Assumption != "" {
			t.Errorf("%s, optional: %q", c.what, v.Assumption)
		}
	}
}

// Terminating a node that has counted grants has an effect even if all its keys are gone, because
// the node loses the counts. It has no effect if there are no counts or if the fault preserves the
// node's memory.
func TestKillLosesGrantCounts(t *testing.T) {
	withCounts := strings.Replace(quietHold, "ok set token=A", "ok set token=A fence=1", 1)
	countedElsewhere := strings.Replace(withCounts, "c1-n1,n2,n3 ok set token=A fence=1", "c1-n2,n3 ok set token=A fence=1\n1.01 c1-n1 ok set token=A", 1)
	for _, c := range []struct {
		what, record, persistence, kind string
		twice, vain                     bool
	}{
		{"a lock without counts", quietHold, "none", "kill", false, true},
		{"counts", withCounts, "none", "kill", false, false},
		{"counts of other nodes", countedElsewhere, "none", "kill", false, true},
		{"counts that are on disk", withCounts, "always", "power-loss", false, false},
		{"counts, and the node keeps running", withCounts, "none", "unplug", false, true},
		{"counts that were lost before", withCounts, "none", "kill", true, true},
		{"counts that were restored from disk", withCounts, "always", "kill", true, false},
	} {
		record := c.record
		for i, from := range []string{"4", "5"} {
			if i == 0 && !c.twice {
				continue
			}
			record += fmt.Sprintf("\n%s nemesis begin %s node=n1 step=%d\n%s.5 nemesis end %[2]s node=n1 step=%[3]d", from, c.kind, 1+i, from)
		}
		h := parseHistory(t, record)
		h.Params.Persistence = c.persistence
		h.Params.Steps = []history.PlannedStep{{Step: 1, Fault: c.kind, Targets: []string{"n1"}, Optional: true},
			{Step: 2, Fault: c.kind, Targets: []string{"n1"}, Proof: &history.Proof{Targets: []string{history.TargetNode}}}}
		if v := Check(h); strings.Contains(v.Assumption, "n1 received no request") != c.vain {
			t.Errorf("%s: %q", c.what, v.Assumption)
		}
	}
}

// A record may contain no commands, for example because the lock's protocol is unknown. Then a
// fault has an effect if any client wanted or held a lock.
func TestFaultWithoutEffectWithoutCommands(t *testing.T) {
	for at, reason := range map[string]string{"1.5": "", "0.5": "n1 received no request in the meantime"} {
		h := parseHistory(t, quietHold+"\n"+at+" nemesis begin kill node=n1 step=1\n"+at+"9 nemesis end kill node=n1 step=1")
		h.Params.Steps = []history.PlannedStep{{Step: 1, Fault: "kill", Targets: []string{"n1"}, Proof: &history.Proof{Targets: []string{history.TargetNode}}}}
		h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool { return strings.Contains(e.Process, "-") })
		if v := Check(h); reason == "" && v.Assumption != "" || !strings.Contains(v.Assumption, reason) {
			t.Errorf("at %s s: %q, want %q", at, v.Assumption, reason)
		}
	}
}
