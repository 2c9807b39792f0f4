package checker

import (
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
)

// What a fault hits, hangs on what the plan says of it, and on what else was in force.
func TestInVainByThePlan(t *testing.T) {
	off, disk := history.Proof{Off: time.Millisecond}, history.Proof{Keeps: true}
	node, read := history.Proof{Use: []string{history.UseNode}}, history.Proof{Use: []string{history.UseNode}, Off: time.Millisecond}
	counts := strings.Replace(quietHold, "ok set token=A", "ok set token=A fence=1", 1)
	const down = "\n5 nemesis begin kill node=n1 step=2\n8 nemesis end kill node=n1 step=2"
	const turned = "\n1 nemesis begin clock-jump node=n1 step=2\n4 nemesis end clock-jump node=n1 step=2"
	for _, c := range []struct {
		what        string
		step        history.PlannedStep // of n1
		proof       history.Proof
		persistence string
		record      string
		from, to    string
		because     string // "": it hit something
	}{
		{"nodes that keep nothing", history.PlannedStep{Fault: "power-loss"}, disk, "none", quietHold, "1", "2", "the nodes keep nothing on disk"},
		{"nodes that keep all", history.PlannedStep{Fault: "power-loss"}, disk, "always", quietHold, "1", "2", ""},
		{"nodes of which nobody knows what they keep", history.PlannedStep{Fault: "power-loss"}, disk, "", quietHold, "1", "2", ""},

		{"a jump by what it must be", history.PlannedStep{Fault: "clock-jump", By: time.Millisecond}, off, "", quietHold, "1", "2", ""},
		{"a jump back by that", history.PlannedStep{Fault: "clock-jump", By: -time.Millisecond}, off, "", quietHold, "1", "2", ""},
		{"a jump by less", history.PlannedStep{Fault: "clock-jump", By: 999 * time.Microsecond}, off, "", quietHold, "1", "2", "the clock of n1 was wrong by less than 1ms"},
		{"a clock that is slow for long", history.PlannedStep{Fault: "clock-rate", Rate: 0.999}, off, "", quietHold, "1", "2", ""},
		{"a clock that is slow for less", history.PlannedStep{Fault: "clock-rate", Rate: 0.999}, off, "", quietHold, "1", "1.999", "the clock of n1 was wrong by less"},
		{"a jump by less, while another was in force", history.PlannedStep{Fault: "clock-jump", By: time.Microsecond}, off, "", quietHold + turned, "3.999", "5", ""},
		{"a jump by less, when another was over", history.PlannedStep{Fault: "clock-jump", By: time.Microsecond}, off, "", quietHold + turned, "4", "5", "the clock of n1 was wrong by less"},
		{"a clock that nobody reads, though somebody wants the lock", history.PlannedStep{Fault: "clock-jump", By: time.Second}, read, "", quietHold, "5.9", "7", "n1 received no request meanwhile"},

		{"a jump of a node that is down", history.PlannedStep{Fault: "clock-jump", By: time.Second}, off, "", quietHold + down, "5.5", "7", "n1 was down the whole time"},
		{"a jump that outlasts that", history.PlannedStep{Fault: "clock-jump", By: time.Second}, off, "", quietHold + down, "5.5", "8.5", ""},
		{"a rate of a node that is down, which its clock has gained by", history.PlannedStep{Fault: "clock-rate", Rate: 2}, off, "", quietHold + down, "5.5", "7", ""},
		{"a slew, likewise", history.PlannedStep{Fault: "clock-slew", By: time.Second}, off, "", quietHold + down, "5.5", "7", ""},
		{"a node that is down as long", history.PlannedStep{Fault: "unplug"}, node, "", quietHold + down, "5.5", "8", "n1 was down the whole time"},
		{"a node that is back before", history.PlannedStep{Fault: "unplug"}, node, "", quietHold + down, "5.5", "8.5", ""},

		{"counts that it made later", history.PlannedStep{Fault: "kill"}, node, "none", counts, "0.5", "0.9", "n1 received no request meanwhile"},
		{"counts that somebody gave back", history.PlannedStep{Fault: "kill"}, node, "none", strings.Replace(quietHold, "ok release token=A", "ok release token=A fence=1", 1),
			"4", "5", "n1 received no request meanwhile"},
		{"a node that is never asked, but was down all the time", history.PlannedStep{Fault: "kill"}, node, "", strings.ReplaceAll(quietHold, "c1-n1,n2", "c1-n2"), "0", "8", ""},
		{"a node that is never asked, and was up first", history.PlannedStep{Fault: "kill"}, node, "", strings.ReplaceAll(quietHold, "c1-n1,n2", "c1-n2"), "0.001", "8", "n1 received no request meanwhile"},
		{"a node that is never asked, and came back before the end", history.PlannedStep{Fault: "kill"}, node, "", strings.ReplaceAll(quietHold, "c1-n1,n2", "c1-n2"), "0", "6.1",
			"n1 received no request meanwhile"},
	} {
		kind := c.step.Fault
		h := tale(t, c.record+"\n"+c.from+" nemesis begin "+kind+" node=n1 step=1\n"+c.to+" nemesis end "+kind+" node=n1 step=1")
		c.step.Step, c.step.Targets, c.step.Proof = 1, []string{"n1"}, &c.proof
		h.Params.Steps, h.Params.Persistence = []history.PlannedStep{c.step}, c.persistence
		if v := Check(h); c.because == "" && v.Assumption != "" || !strings.Contains(v.Assumption, c.because) {
			t.Errorf("%s: %q, want %q", c.what, v.Assumption, c.because)
		}
	}
}

// Of a step whose trigger need not come nothing is asked before it comes.
func TestOptionalSteps(t *testing.T) {
	for faults, because := range map[string]string{
		"": "",
		"1.5 nemesis invoke pause node=c1 step=1":                                      "had no confirmed effect",
		"1.5 nemesis begin pause node=c1 step=1\n1.6 nemesis end pause node=c1 step=1": "had no confirmed effect on c2",
		"1.5 nemesis fail pause node=c1 step=1 cause=gone":                             "failed on c1: gone",
		"1.5 nemesis begin pause node=c1 step=1\n1.6 nemesis end pause node=c1 step=1\n1.5 nemesis begin pause node=c2 step=1\n1.6 nemesis end pause node=c2 step=1": "",
	} {
		h := tale(t, quietHold+"\n"+faults)
		h.Params.Steps = []history.PlannedStep{{Step: 1, Fault: "pause", Targets: []string{"c1", "c2"}, Optional: true}}
		if v := Check(h); because == "" && v.Assumption != "" || !strings.Contains(v.Assumption, because) {
			t.Errorf("%q: %q, want %q", faults, v.Assumption, because)
		}
	}
}
