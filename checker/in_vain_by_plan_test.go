package checker

import (
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
)

// Whether a fault had an effect depends on its proof in the plan and on the other active faults.
func TestFaultWithoutEffectByPlan(t *testing.T) {
	offsetProof, diskProof := history.Proof{MinOffset: time.Millisecond}, history.Proof{NeedsPersistence: true}
	nodeProof, readProof := history.Proof{Targets: []string{history.TargetNode}}, history.Proof{Targets: []string{history.TargetNode}, MinOffset: time.Millisecond}
	withCounts := strings.Replace(quietHold, "ok set token=A", "ok set token=A fence=1", 1)
	const outage = "\n5 nemesis begin kill node=n1 step=2\n8 nemesis end kill node=n1 step=2"
	const clockJump = "\n1 nemesis begin clock-jump node=n1 step=2\n4 nemesis end clock-jump node=n1 step=2"
	for _, c := range []struct {
		what        string
		step        history.PlannedStep // on n1
		proof       history.Proof
		persistence string
		record      string
		from, to    string
		because     string // "" if the fault had an effect
	}{
		{"nodes without persistence", history.PlannedStep{Fault: "power-loss"}, diskProof, "none", quietHold, "1", "2", "the nodes keep nothing on disk"},
		{"nodes with persistence", history.PlannedStep{Fault: "power-loss"}, diskProof, "always", quietHold, "1", "2", ""},
		{"nodes with unknown persistence", history.PlannedStep{Fault: "power-loss"}, diskProof, "", quietHold, "1", "2", ""},

		{"a jump by the minimum", history.PlannedStep{Fault: "clock-jump", Offset: time.Millisecond}, offsetProof, "", quietHold, "1", "2", ""},
		{"a jump back by the minimum", history.PlannedStep{Fault: "clock-jump", Offset: -time.Millisecond}, offsetProof, "", quietHold, "1", "2", ""},
		{"a smaller jump", history.PlannedStep{Fault: "clock-jump", Offset: 999 * time.Microsecond}, offsetProof, "", quietHold, "1", "2", "the clock of n1 was wrong by less than 1ms"},
		{"a clock that is slow for long", history.PlannedStep{Fault: "clock-rate", Rate: 0.999}, offsetProof, "", quietHold, "1", "2", ""},
		{"a clock that is slow for a shorter time", history.PlannedStep{Fault: "clock-rate", Rate: 0.999}, offsetProof, "", quietHold, "1", "1.999", "the clock of n1 was wrong by less"},
		{"a smaller jump while another was active", history.PlannedStep{Fault: "clock-jump", Offset: time.Microsecond}, offsetProof, "", quietHold + clockJump, "3.999", "5", ""},
		{"a smaller jump after another was over", history.PlannedStep{Fault: "clock-jump", Offset: time.Microsecond}, offsetProof, "", quietHold + clockJump, "4", "5", "the clock of n1 was wrong by less"},
		{"a clock that is not read although a client wants the lock", history.PlannedStep{Fault: "clock-jump", Offset: time.Second}, readProof, "", quietHold, "5.9", "7", "n1 received no request in the meantime"},

		{"a jump on a node that is down", history.PlannedStep{Fault: "clock-jump", Offset: time.Second}, offsetProof, "", quietHold + outage, "5.5", "7", "n1 was down the whole time"},
		{"a jump that outlasts the outage", history.PlannedStep{Fault: "clock-jump", Offset: time.Second}, offsetProof, "", quietHold + outage, "5.5", "8.5", ""},
		{"a wrong rate on a node that is down, whose offset stays", history.PlannedStep{Fault: "clock-rate", Rate: 2}, offsetProof, "", quietHold + outage, "5.5", "7", ""},
		{"a slew on a node that is down", history.PlannedStep{Fault: "clock-slew", Offset: time.Second}, offsetProof, "", quietHold + outage, "5.5", "7", ""},
		{"a node that is down throughout", history.PlannedStep{Fault: "unplug"}, nodeProof, "", quietHold + outage, "5.5", "8", "n1 was down the whole time"},
		{"a node that returns before the end", history.PlannedStep{Fault: "unplug"}, nodeProof, "", quietHold + outage, "5.5", "8.5", ""},

		{"grants counted later", history.PlannedStep{Fault: "kill"}, nodeProof, "none", withCounts, "0.5", "0.9", "n1 received no request in the meantime"},
		{"counts on a release only", history.PlannedStep{Fault: "kill"}, nodeProof, "none", strings.Replace(quietHold, "ok release token=A", "ok release token=A fence=1", 1),
			"4", "5", "n1 received no request in the meantime"},
		{"an unused node that was down all the time", history.PlannedStep{Fault: "kill"}, nodeProof, "", strings.ReplaceAll(quietHold, "c1-n1,n2", "c1-n2"), "0", "8", ""},
		{"an unused node that was up first", history.PlannedStep{Fault: "kill"}, nodeProof, "", strings.ReplaceAll(quietHold, "c1-n1,n2", "c1-n2"), "0.001", "8", "n1 received no request in the meantime"},
		{"an unused node that returned before the end", history.PlannedStep{Fault: "kill"}, nodeProof, "", strings.ReplaceAll(quietHold, "c1-n1,n2", "c1-n2"), "0", "6.1",
			"n1 received no request in the meantime"},
	} {
		kind := c.step.Fault
		h := parseHistory(t, c.record+"\n"+c.from+" nemesis begin "+kind+" node=n1 step=1\n"+c.to+" nemesis end "+kind+" node=n1 step=1")
		c.step.Step, c.step.Targets, c.step.Proof = 1, []string{"n1"}, &c.proof
		h.Params.Steps, h.Params.Persistence = []history.PlannedStep{c.step}, c.persistence
		if v := Check(h); c.because == "" && v.Assumption != "" || !strings.Contains(v.Assumption, c.because) {
			t.Errorf("%s: %q, want %q", c.what, v.Assumption, c.because)
		}
	}
}

// An optional step need not have an effect unless its trigger occurs.
func TestOptionalSteps(t *testing.T) {
	for faults, reason := range map[string]string{
		"": "",
		"1.5 nemesis invoke pause node=c1 step=1":                                      "had no confirmed effect",
		"1.5 nemesis begin pause node=c1 step=1\n1.6 nemesis end pause node=c1 step=1": "had no confirmed effect on c2",
		"1.5 nemesis fail pause node=c1 step=1 cause=gone":                             "failed on c1: gone",
		"1.5 nemesis begin pause node=c1 step=1\n1.6 nemesis end pause node=c1 step=1\n1.5 nemesis begin pause node=c2 step=1\n1.6 nemesis end pause node=c2 step=1": "",
	} {
		h := parseHistory(t, quietHold+"\n"+faults)
		h.Params.Steps = []history.PlannedStep{{Step: 1, Fault: "pause", Targets: []string{"c1", "c2"}, Optional: true}}
		if v := Check(h); reason == "" && v.Assumption != "" || !strings.Contains(v.Assumption, reason) {
			t.Errorf("%q: %q, want %q", faults, v.Assumption, reason)
		}
	}
}
