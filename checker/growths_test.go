package checker

import (
	"fmt"
	"strconv"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// growths lists the dimensions in which a record may grow.
var growths = []growth{
	{"clients", func(t *builder, n int) {
		t.params.Clients = histories.NumberedNames("c", n)
		for _, c := range t.params.Clients {
			t.section(c, "k")
		}
	}},
	{"clients that wait at the same time", func(t *builder, n int) {
		t.params.Clients = histories.NumberedNames("c", n)
		for _, c := range t.params.Clients {
			t.callAcquire(c, "k")
		}
		for i := range n { // the last client first
			c := t.params.Clients[n-1-i]
			t.grantAcquire(c, "k")
			t.callAndReturn(c, history.OpRelease, history.Event{})
		}
	}},
	{"clients without an answer", func(t *builder, n int) {
		t.params.Clients = histories.NumberedNames("c", n)
		t.section("c1", "k")
		for _, c := range t.params.Clients {
			t.callAcquire(c, "k")
		}
	}},
	{"sections", func(t *builder, n int) {
		for i := range n {
			t.section(t.params.Clients[i%2], "k")
		}
	}},
	{"sections of one client", func(t *builder, n int) {
		for range n {
			t.section("c1", "k")
		}
	}},
	{"failures", func(t *builder, n int) {
		t.params.TTL = time.Hour
		for i := range n {
			c := t.params.Clients[i/(n/2+1)]
			t.callAcquire(c, "k")
			t.clientEvent(c, history.Fail, history.OpAcquire, history.Event{})
			t.section(c, "k")
		}
	}},
	{"keys", func(t *builder, n int) {
		for i := range n {
			t.section(t.params.Clients[i%2], fmt.Sprintf("k%d", 1_000_000-i))
		}
	}},
	{"writes of a session", func(t *builder, n int) {
		t.operations(history.OpWrite, n)
	}},
	{"reads of a session", func(t *builder, n int) {
		t.operations(history.OpRead, n)
	}},
	{"writes of two sessions", func(t *builder, n int) {
		for _, c := range t.params.Clients {
			t.callAcquire(c, "k")
			t.grantAcquire(c, "k")
		}
		var log []history.Event
		for i := range n {
			c := t.params.Clients[i%2]
			v := history.Event{Value: strconv.Itoa(i), Version: int64(i), Fence: int64(i%2 + 1)}
			t.callAndReturn(c, history.OpWrite, v)
			log = append(log, t.logEntry(c, history.OpWrite, v))
		}
		t.emitLog(log)
	}},
	{"stale writes of a session", func(t *builder, n int) {
		t.params.TTL, t.params.Fence = time.Hour, "none"
		t.section("c1", "k")
		t.callAcquire("c1", "k")
		t.grantAcquire("c1", "k")
		var log []history.Event
		for i := range n {
			v := history.Event{Value: strconv.Itoa(i), Version: 0}
			t.callAndReturn("c1", history.OpWrite, v)
			log = append(log, t.logEntry("c1", history.OpWrite, v))
		}
		t.emitLog(log)
	}},
	{"refused writes of a session", func(t *builder, n int) {
		t.params.Fence = "token"
		for _, c := range t.params.Clients {
			t.callAcquire(c, "k")
			t.grantAcquire(c, "k")
		}
		log := []history.Event{t.logEntry("c2", history.OpWrite, history.Event{Value: "first", Fence: 2})}
		for i := range n {
			v := history.Event{Value: strconv.Itoa(i), Version: 1, Fence: 1}
			t.clientEvent("c1", history.Invoke, history.OpWrite, v)
			t.clientEvent("c1", history.Fail, history.OpWrite, v)
			e := t.logEntry("c1", history.OpWrite, v)
			e.Type = history.Fail
			log = append(log, e)
			if i%2 == 0 {
				t.callAndReturn("c1", history.OpExtend, history.Event{ValidUntil: t.at + 80*microsecond})
			}
		}
		t.emitLog(log)
	}},
	{"extensions of a session", func(t *builder, n int) {
		t.callAcquire("c1", "k")
		t.grantAcquire("c1", "k")
		for range n {
			t.clientEvent("c1", history.Invoke, history.OpExtend, history.Event{})
			t.clientEvent("c1", history.OK, history.OpExtend, history.Event{ValidUntil: t.at + 80*microsecond})
		}
	}},
	{"writes and extensions of a session", func(t *builder, n int) {
		t.callAcquire("c1", "k")
		t.grantAcquire("c1", "k")
		var log []history.Event
		for i := range n {
			t.clientEvent("c1", history.Invoke, history.OpExtend, history.Event{})
			t.clientEvent("c1", history.OK, history.OpExtend, history.Event{ValidUntil: t.at + microsecond})
			v := history.Event{Value: strconv.Itoa(i), Version: int64(i)}
			t.callAndReturn("c1", history.OpWrite, v)
			log = append(log, t.logEntry("c1", history.OpWrite, v))
		}
		t.emitLog(log)
	}},
	{"releases of a session", func(t *builder, n int) {
		t.callAcquire("c1", "k")
		t.grantAcquire("c1", "k")
		for i := range n {
			t.clientEvent("c1", history.Invoke, history.OpRelease, history.Event{})
			t.clientEvent("c1", history.Info, history.OpRelease, history.Event{})
			t.linkEvent("c1", "n1", history.OpSet, history.Fail, "t"+strconv.Itoa(i), "k")
		}
	}},
	{"pauses", func(t *builder, n int) {
		for i := range n {
			c := t.params.Clients[i%2]
			t.callAcquire(c, "k")
			t.grantAcquire(c, "k")
			t.fault(facts.Pause, c, 0, func() { t.at += 200 * microsecond })
			t.callAndReturn(c, history.OpRelease, history.Event{})
		}
	}},
	{"pauses of a waiting client", func(t *builder, n int) {
		t.callAcquire("c2", "k")
		for range n {
			t.section("c1", "k")
			t.fault(facts.Pause, "c2", 0, func() { t.section("c1", "k") })
		}
	}},
	{"nested pauses", func(t *builder, n int) {
		t.section("c1", "k")
		for range n {
			t.nemesisEvent(history.Invoke, facts.Pause, "c2", 0)
			t.nemesisEvent(history.Begin, facts.Pause, "c2", 0)
		}
		for range n {
			t.nemesisEvent(history.End, facts.Pause, "c2", 0)
		}
	}},
	{"steps", func(t *builder, n int) {
		n = n / 8
		for i := range n {
			c := t.params.Clients[i%2]
			t.params.Steps = append(t.params.Steps, history.PlannedStep{Step: i + 1, Fault: facts.Pause, Targets: []string{c}, Proof: &history.Proof{Targets: []string{history.TargetClient}}})
			t.callAcquire(c, "k")
			t.grantAcquire(c, "k")
			t.fault(facts.Pause, c, i+1, func() {})
			t.callAndReturn(c, history.OpRelease, history.Event{})
		}
	}},
	{"steps that hit nodes", func(t *builder, n int) {
		n = n / 8
		for i := range n {
			node := t.params.Nodes[i%3]
			t.params.Steps = append(t.params.Steps, history.PlannedStep{Step: i + 1, Fault: "slow-disk", Targets: []string{node}, Proof: &history.Proof{Targets: []string{history.TargetNode}}})
			t.fault("slow-disk", node, i+1, func() {
				t.callAcquire("c1", "k")
				t.linkEvent("c1", node, history.OpSet, history.OK, t.currentSessions["c1"], "k")
				t.grantAcquire("c1", "k")
				t.callAndReturn("c1", history.OpRelease, history.Event{})
				t.linkEvent("c1", node, history.OpRelease, history.OK, t.currentSessions["c1"], "k")
			})
		}
	}},
	{"targets of a step", func(t *builder, n int) {
		t.params.Clients = histories.NumberedNames("c", n)
		t.section("c1", "k")
		t.params.Steps = []history.PlannedStep{{Step: 1, Fault: facts.Pause, Targets: t.params.Clients}}
		for _, c := range t.params.Clients {
			t.fault(facts.Pause, c, 1, func() {})
		}
	}},
	{"restarts of nodes", func(t *builder, n int) {
		for i := range n {
			t.section("c1", "k")
			t.fault(facts.Kill, t.params.Nodes[i%3], 0, func() { t.section("c2", "k") })
		}
	}},
	{"kills of clients", func(t *builder, n int) {
		t.params.Clients = histories.NumberedNames("c", n)
		for _, c := range t.params.Clients {
			t.callAcquire(c, "k")
			t.grantAcquire(c, "k")
			t.nemesisEvent(history.Invoke, facts.Kill, c, 0)
			t.nemesisEvent(history.Begin, facts.Kill, c, 0)
			t.at += 200 * microsecond
		}
	}},
	{"cuts of links", func(t *builder, n int) {
		for i := range n {
			c := t.params.Clients[i%2]
			t.callAcquire(c, "k")
			t.grantAcquire(c, "k")
			t.nemesisEvent(history.Begin, facts.Cut, c+"-n1", 0)
			t.fault(facts.Cut, c+"-n2", 0, func() { t.at += 200 * microsecond })
			t.nemesisEvent(history.End, facts.Cut, c+"-n1", 0)
			t.callAndReturn(c, history.OpRelease, history.Event{})
		}
	}},
	{"changes of a client's clock", func(t *builder, n int) {
		t.params.TTL = time.Hour
		for i := range n {
			t.emit(history.Event{Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: "c1", Local: t.params.Epoch + t.at - int64(i%7), WallClock: true})
			t.callAcquire("c1", "k")
			t.clientEvent("c1", history.OK, history.OpAcquire, history.Event{Local: t.params.Epoch + t.at, WallClock: true, ValidUntil: t.at + int64(time.Minute)})
			t.callAndReturn("c1", history.OpRelease, history.Event{})
		}
	}},
	{"jumps of a node's clock", func(t *builder, n int) {
		t.params.Steps = []history.PlannedStep{{Step: 1, Fault: facts.ClockJump, Targets: []string{"n1"}, Offset: -50 * time.Microsecond, Repeats: true}}
		for i := range n {
			c := t.params.Clients[i%2]
			t.fault(facts.ClockJump, "n1", 1, func() { t.section(c, "k") })
		}
	}},
	{"stalls", func(t *builder, n int) {
		for i := range n {
			t.section(t.params.Clients[i%2], "k")
			t.nemesisEvent(history.Begin, history.OpStall, history.Machine, 0)
			t.nemesisEvent(history.End, history.OpStall, history.Machine, 0)
		}
	}},
	{"attempts of an acquire", func(t *builder, n int) {
		t.callAcquire("c1", "k")
		for i := range n {
			token := strconv.Itoa(i)
			for _, node := range t.params.Nodes {
				t.linkEvent("c1", node, history.OpSet, history.Fail, token, "k")
			}
			t.linkEvent("c1", "n1", history.OpRelease, history.OK, token, "k")
		}
		t.grantAcquire("c1", "k")
	}},
	{"commands with one token", func(t *builder, n int) {
		t.params.Fence = "token"
		for i := range n {
			c := t.params.Clients[i%2]
			t.callAcquire(c, "k")
			t.linkEvent(c, "n1", history.OpSet, history.OK, c, "k")
			t.linkEvent(c, "n2", history.OpSet, history.OK, c, "k")
			t.clientEvent(c, history.OK, history.OpAcquire, history.Event{Token: c, ValidUntil: t.at + 80*microsecond, Fence: int64(i + 1)})
			t.linkEvent(c, "n1", history.OpRelease, history.OK, c, "k")
			t.linkEvent(c, "n2", history.OpRelease, history.OK, c, "k")
			t.callAndReturn(c, history.OpRelease, history.Event{})
		}
	}},
	{"facts of a key", func(t *builder, n int) { t.keyEvents(n, func(int) string { return "k" }) }},
	{"facts of keys", func(t *builder, n int) { t.keyEvents(n, func(i int) string { return strconv.Itoa(i) }) }},
	{"fences", func(t *builder, n int) {
		t.params.Fence = "token"
		var log []history.Event
		for i := range n {
			c := t.params.Clients[i%2]
			t.callAcquire(c, "k")
			t.linkEvent(c, "n1", history.OpSet, history.OK, t.currentSessions[c], "k")
			t.clientEvent(c, history.OK, history.OpAcquire, history.Event{Token: t.currentSessions[c], ValidUntil: t.at + 80*microsecond, Fence: int64(i + 1)})
			v := history.Event{Value: strconv.Itoa(i), Version: int64(i), Fence: int64(i + 1)}
			t.callAndReturn(c, history.OpWrite, v)
			log = append(log, t.logEntry(c, history.OpWrite, v))
			t.callAndReturn(c, history.OpRelease, history.Event{})
		}
		t.emitLog(log)
	}},
	{"attempts without a release", func(t *builder, n int) {
		for i := range n {
			c := t.params.Clients[i%2]
			t.callAcquire(c, "k")
			t.linkEvent(c, "n1", history.OpSet, history.OK, t.currentSessions[c], "k")
			t.linkEvent(c, "n2", history.OpSet, history.Fail, t.currentSessions[c], "k")
			t.clientEvent(c, history.Fail, history.OpAcquire, history.Event{})
		}
		t.section("c1", "k")
	}},
	{"keys that a client holds at the same time", func(t *builder, n int) {
		for i := range n {
			t.callAcquire("c1", strconv.Itoa(i))
			t.grantAcquire("c1", strconv.Itoa(i))
		}
		for range n {
			t.fault(facts.Pause, "c1", 0, func() {})
		}
	}},
	{"overlaps", func(t *builder, n int) {
		for i := range n {
			c := t.params.Clients[i%2]
			t.callAcquire(c, "k")
			t.grantAcquire(c, "k")
		}
	}},
	{"gaps", func(t *builder, n int) { // no client holds the lock for long, and each section has its own client
		t.params.Clients = histories.NumberedNames("c", n)
		for _, c := range t.params.Clients {
			t.section(c, "k")
			t.at += int64(time.Millisecond)
		}
	}},
}

// operations adds a session with n operations on the resource.
func (t *builder) operations(op string, n int) {
	t.callAcquire("c1", "k")
	t.grantAcquire("c1", "k")
	var log []history.Event
	for i := range n {
		event := history.Event{Version: int64(i)}
		if op == history.OpWrite {
			event.Value = strconv.Itoa(i)
		} else {
			event.Version = 0
		}
		t.callAndReturn("c1", op, event)
		log = append(log, t.logEntry("c1", op, event))
	}
	t.emitLog(log)
}

// logEntry returns the resource's log entry for a client's last operation.
func (t *builder) logEntry(client, op string, event history.Event) history.Event {
	event.Process, event.Type, event.Op, event.Cause, event.Session, event.Key, event.AppliedAt = "resource", history.OK, history.OpLog, op, t.currentSessions[client], "k", t.at
	return event
}

func (t *builder) emitLog(entries []history.Event) {
	for _, e := range entries {
		t.emit(e)
	}
}

// keyEvents adds n sections with the nodes' reports about their keys, and then another session's
// acquire with n failed attempts.
func (t *builder) keyEvents(n int, key func(i int) string) {
	t.params.ReportsKeys = true
	grant := func(c, key string) {
		t.callAcquire(c, key)
		for _, node := range t.params.Nodes[:2] {
			t.linkEvent(c, node, history.OpSet, history.OK, t.currentSessions[c], key)
			t.lifeEvent(node, key, history.KeySet, t.currentSessions[c])
		}
		t.grantAcquire(c, key)
	}
	for i := range n {
		grant("c1", key(i))
		for _, node := range t.params.Nodes[:2] {
			t.linkEvent("c1", node, history.OpRelease, history.OK, t.currentSessions["c1"], key(i))
			t.lifeEvent(node, key(i), history.KeyDeleted, "")
		}
		t.callAndReturn("c1", history.OpRelease, history.Event{Key: key(i)})
	}
	t.at += int64(time.Second)
	t.callAcquire("c2", "k")
	for i := range n {
		token := "x" + strconv.Itoa(i)
		for _, node := range t.params.Nodes {
			t.linkEvent("c2", node, history.OpSet, history.Fail, token, "k")
		}
	}
	t.clientEvent("c2", history.Fail, history.OpAcquire, history.Event{})
}
