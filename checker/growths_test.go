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
	{"clients", func(t *teller, n int) {
		t.params.Clients = histories.Names("c", n)
		for _, c := range t.params.Clients {
			t.section(c, "k")
		}
	}},
	{"clients that wait at the same time", func(t *teller, n int) {
		t.params.Clients = histories.Names("c", n)
		for _, c := range t.params.Clients {
			t.asks(c, "k")
		}
		for i := range n { // the last client first
			c := t.params.Clients[n-1-i]
			t.gets(c, "k")
			t.both(c, history.OpRelease, history.Event{})
		}
	}},
	{"clients without an answer", func(t *teller, n int) {
		t.params.Clients = histories.Names("c", n)
		t.section("c1", "k")
		for _, c := range t.params.Clients {
			t.asks(c, "k")
		}
	}},
	{"sections", func(t *teller, n int) {
		for i := range n {
			t.section(t.params.Clients[i%2], "k")
		}
	}},
	{"sections of one client", func(t *teller, n int) {
		for range n {
			t.section("c1", "k")
		}
	}},
	{"failures", func(t *teller, n int) {
		t.params.TTL = time.Hour
		for i := range n {
			c := t.params.Clients[i/(n/2+1)]
			t.asks(c, "k")
			t.does(c, history.Fail, history.OpAcquire, history.Event{})
			t.section(c, "k")
		}
	}},
	{"keys", func(t *teller, n int) {
		for i := range n {
			t.section(t.params.Clients[i%2], fmt.Sprintf("k%d", 1_000_000-i))
		}
	}},
	{"writes of a session", func(t *teller, n int) {
		t.worked(history.OpWrite, n)
	}},
	{"reads of a session", func(t *teller, n int) {
		t.worked(history.OpRead, n)
	}},
	{"writes of two sessions", func(t *teller, n int) {
		for _, c := range t.params.Clients {
			t.asks(c, "k")
			t.gets(c, "k")
		}
		var log []history.Event
		for i := range n {
			c := t.params.Clients[i%2]
			v := history.Event{Value: strconv.Itoa(i), Version: int64(i), Fence: int64(i%2 + 1)}
			t.both(c, history.OpWrite, v)
			log = append(log, t.entry(c, history.OpWrite, v))
		}
		t.log(log)
	}},
	{"stale writes of a session", func(t *teller, n int) {
		t.params.TTL, t.params.Fence = time.Hour, "none"
		t.section("c1", "k")
		t.asks("c1", "k")
		t.gets("c1", "k")
		var log []history.Event
		for i := range n {
			v := history.Event{Value: strconv.Itoa(i), Version: 0}
			t.both("c1", history.OpWrite, v)
			log = append(log, t.entry("c1", history.OpWrite, v))
		}
		t.log(log)
	}},
	{"refused writes of a session", func(t *teller, n int) {
		t.params.Fence = "token"
		for _, c := range t.params.Clients {
			t.asks(c, "k")
			t.gets(c, "k")
		}
		log := []history.Event{t.entry("c2", history.OpWrite, history.Event{Value: "first", Fence: 2})}
		for i := range n {
			v := history.Event{Value: strconv.Itoa(i), Version: 1, Fence: 1}
			t.does("c1", history.Invoke, history.OpWrite, v)
			t.does("c1", history.Fail, history.OpWrite, v)
			e := t.entry("c1", history.OpWrite, v)
			e.Type = history.Fail
			log = append(log, e)
			if i%2 == 0 {
				t.both("c1", history.OpExtend, history.Event{ValidUntil: t.at + 80*microsecond})
			}
		}
		t.log(log)
	}},
	{"extensions of a session", func(t *teller, n int) {
		t.asks("c1", "k")
		t.gets("c1", "k")
		for range n {
			t.does("c1", history.Invoke, history.OpExtend, history.Event{})
			t.does("c1", history.OK, history.OpExtend, history.Event{ValidUntil: t.at + 80*microsecond})
		}
	}},
	{"writes and extensions of a session", func(t *teller, n int) {
		t.asks("c1", "k")
		t.gets("c1", "k")
		var log []history.Event
		for i := range n {
			t.does("c1", history.Invoke, history.OpExtend, history.Event{})
			t.does("c1", history.OK, history.OpExtend, history.Event{ValidUntil: t.at + microsecond})
			v := history.Event{Value: strconv.Itoa(i), Version: int64(i)}
			t.both("c1", history.OpWrite, v)
			log = append(log, t.entry("c1", history.OpWrite, v))
		}
		t.log(log)
	}},
	{"releases of a session", func(t *teller, n int) {
		t.asks("c1", "k")
		t.gets("c1", "k")
		for i := range n {
			t.does("c1", history.Invoke, history.OpRelease, history.Event{})
			t.does("c1", history.Info, history.OpRelease, history.Event{})
			t.asked("c1", "n1", history.OpSet, history.Fail, "t"+strconv.Itoa(i), "k")
		}
	}},
	{"pauses", func(t *teller, n int) {
		for i := range n {
			c := t.params.Clients[i%2]
			t.asks(c, "k")
			t.gets(c, "k")
			t.fault(facts.Pause, c, 0, func() { t.at += 200 * microsecond })
			t.both(c, history.OpRelease, history.Event{})
		}
	}},
	{"pauses of a waiting client", func(t *teller, n int) {
		t.asks("c2", "k")
		for range n {
			t.section("c1", "k")
			t.fault(facts.Pause, "c2", 0, func() { t.section("c1", "k") })
		}
	}},
	{"nested pauses", func(t *teller, n int) {
		t.section("c1", "k")
		for range n {
			t.nemesis(history.Invoke, facts.Pause, "c2", 0)
			t.nemesis(history.Begin, facts.Pause, "c2", 0)
		}
		for range n {
			t.nemesis(history.End, facts.Pause, "c2", 0)
		}
	}},
	{"steps", func(t *teller, n int) {
		n = n / 8
		for i := range n {
			c := t.params.Clients[i%2]
			t.params.Steps = append(t.params.Steps, history.PlannedStep{Step: i + 1, Fault: facts.Pause, Targets: []string{c}, Proof: &history.Proof{Use: []string{history.UseClient}}})
			t.asks(c, "k")
			t.gets(c, "k")
			t.fault(facts.Pause, c, i+1, func() {})
			t.both(c, history.OpRelease, history.Event{})
		}
	}},
	{"steps that hit nodes", func(t *teller, n int) {
		n = n / 8
		for i := range n {
			node := t.params.Nodes[i%3]
			t.params.Steps = append(t.params.Steps, history.PlannedStep{Step: i + 1, Fault: "slow-disk", Targets: []string{node}, Proof: &history.Proof{Use: []string{history.UseNode}}})
			t.fault("slow-disk", node, i+1, func() {
				t.asks("c1", "k")
				t.asked("c1", node, history.OpSet, history.OK, t.last["c1"], "k")
				t.gets("c1", "k")
				t.both("c1", history.OpRelease, history.Event{})
				t.asked("c1", node, history.OpRelease, history.OK, t.last["c1"], "k")
			})
		}
	}},
	{"targets of a step", func(t *teller, n int) {
		t.params.Clients = histories.Names("c", n)
		t.section("c1", "k")
		t.params.Steps = []history.PlannedStep{{Step: 1, Fault: facts.Pause, Targets: t.params.Clients}}
		for _, c := range t.params.Clients {
			t.fault(facts.Pause, c, 1, func() {})
		}
	}},
	{"restarts of nodes", func(t *teller, n int) {
		for i := range n {
			t.section("c1", "k")
			t.fault(facts.Kill, t.params.Nodes[i%3], 0, func() { t.section("c2", "k") })
		}
	}},
	{"kills of clients", func(t *teller, n int) {
		t.params.Clients = histories.Names("c", n)
		for _, c := range t.params.Clients {
			t.asks(c, "k")
			t.gets(c, "k")
			t.nemesis(history.Invoke, facts.Kill, c, 0)
			t.nemesis(history.Begin, facts.Kill, c, 0)
			t.at += 200 * microsecond
		}
	}},
	{"cuts of links", func(t *teller, n int) {
		for i := range n {
			c := t.params.Clients[i%2]
			t.asks(c, "k")
			t.gets(c, "k")
			t.nemesis(history.Begin, facts.Cut, c+"-n1", 0)
			t.fault(facts.Cut, c+"-n2", 0, func() { t.at += 200 * microsecond })
			t.nemesis(history.End, facts.Cut, c+"-n1", 0)
			t.both(c, history.OpRelease, history.Event{})
		}
	}},
	{"changes of a client's clock", func(t *teller, n int) {
		t.params.TTL = time.Hour
		for i := range n {
			t.say(history.Event{Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: "c1", Local: t.params.Epoch + t.at - int64(i%7), Wall: true})
			t.asks("c1", "k")
			t.does("c1", history.OK, history.OpAcquire, history.Event{Local: t.params.Epoch + t.at, Wall: true, ValidUntil: t.at + int64(time.Minute)})
			t.both("c1", history.OpRelease, history.Event{})
		}
	}},
	{"jumps of a node's clock", func(t *teller, n int) {
		t.params.Steps = []history.PlannedStep{{Step: 1, Fault: facts.ClockJump, Targets: []string{"n1"}, By: -50 * time.Microsecond, Every: true}}
		for i := range n {
			c := t.params.Clients[i%2]
			t.fault(facts.ClockJump, "n1", 1, func() { t.section(c, "k") })
		}
	}},
	{"stalls", func(t *teller, n int) {
		for i := range n {
			t.section(t.params.Clients[i%2], "k")
			t.nemesis(history.Begin, history.OpStall, history.Machine, 0)
			t.nemesis(history.End, history.OpStall, history.Machine, 0)
		}
	}},
	{"attempts of an acquire", func(t *teller, n int) {
		t.asks("c1", "k")
		for i := range n {
			token := strconv.Itoa(i)
			for _, node := range t.params.Nodes {
				t.asked("c1", node, history.OpSet, history.Fail, token, "k")
			}
			t.asked("c1", "n1", history.OpRelease, history.OK, token, "k")
		}
		t.gets("c1", "k")
	}},
	{"commands with one token", func(t *teller, n int) {
		t.params.Fence = "token"
		for i := range n {
			c := t.params.Clients[i%2]
			t.asks(c, "k")
			t.asked(c, "n1", history.OpSet, history.OK, c, "k")
			t.asked(c, "n2", history.OpSet, history.OK, c, "k")
			t.does(c, history.OK, history.OpAcquire, history.Event{Token: c, ValidUntil: t.at + 80*microsecond, Fence: int64(i + 1)})
			t.asked(c, "n1", history.OpRelease, history.OK, c, "k")
			t.asked(c, "n2", history.OpRelease, history.OK, c, "k")
			t.both(c, history.OpRelease, history.Event{})
		}
	}},
	{"facts of a key", func(t *teller, n int) { t.lived(n, func(int) string { return "k" }) }},
	{"facts of keys", func(t *teller, n int) { t.lived(n, func(i int) string { return strconv.Itoa(i) }) }},
	{"fences", func(t *teller, n int) {
		t.params.Fence = "token"
		var log []history.Event
		for i := range n {
			c := t.params.Clients[i%2]
			t.asks(c, "k")
			t.asked(c, "n1", history.OpSet, history.OK, t.last[c], "k")
			t.does(c, history.OK, history.OpAcquire, history.Event{Token: t.last[c], ValidUntil: t.at + 80*microsecond, Fence: int64(i + 1)})
			v := history.Event{Value: strconv.Itoa(i), Version: int64(i), Fence: int64(i + 1)}
			t.both(c, history.OpWrite, v)
			log = append(log, t.entry(c, history.OpWrite, v))
			t.both(c, history.OpRelease, history.Event{})
		}
		t.log(log)
	}},
	{"attempts without a release", func(t *teller, n int) {
		for i := range n {
			c := t.params.Clients[i%2]
			t.asks(c, "k")
			t.asked(c, "n1", history.OpSet, history.OK, t.last[c], "k")
			t.asked(c, "n2", history.OpSet, history.Fail, t.last[c], "k")
			t.does(c, history.Fail, history.OpAcquire, history.Event{})
		}
		t.section("c1", "k")
	}},
	{"keys that a client holds at the same time", func(t *teller, n int) {
		for i := range n {
			t.asks("c1", strconv.Itoa(i))
			t.gets("c1", strconv.Itoa(i))
		}
		for range n {
			t.fault(facts.Pause, "c1", 0, func() {})
		}
	}},
	{"overlaps", func(t *teller, n int) {
		for i := range n {
			c := t.params.Clients[i%2]
			t.asks(c, "k")
			t.gets(c, "k")
		}
	}},
	{"gaps", func(t *teller, n int) { // no client holds the lock for long, and each section has its own client
		t.params.Clients = histories.Names("c", n)
		for _, c := range t.params.Clients {
			t.section(c, "k")
			t.at += int64(time.Millisecond)
		}
	}},
}

// operations adds a session with n operations on the resource.
func (t *teller) worked(op string, n int) {
	t.asks("c1", "k")
	t.gets("c1", "k")
	var log []history.Event
	for i := range n {
		of := history.Event{Version: int64(i)}
		if op == history.OpWrite {
			of.Value = strconv.Itoa(i)
		} else {
			of.Version = 0
		}
		t.both("c1", op, of)
		log = append(log, t.entry("c1", op, of))
	}
	t.log(log)
}

// logEntry returns the resource's log entry for a client's last operation.
func (t *teller) entry(client, op string, of history.Event) history.Event {
	of.Process, of.Type, of.Op, of.Cause, of.Session, of.Key, of.Applied = "resource", history.OK, history.OpLog, op, t.last[client], "k", t.at
	return of
}

func (t *teller) log(entries []history.Event) {
	for _, e := range entries {
		t.say(e)
	}
}

// keyEvents adds n sections with the nodes' reports about their keys, and then an acquire of another
// session with n failed attempts.
func (t *teller) lived(n int, key func(i int) string) {
	t.params.Life = true
	grant := func(c, key string) {
		t.asks(c, key)
		for _, node := range t.params.Nodes[:2] {
			t.asked(c, node, history.OpSet, history.OK, t.last[c], key)
			t.told(node, key, history.KeySet, t.last[c])
		}
		t.gets(c, key)
	}
	for i := range n {
		grant("c1", key(i))
		for _, node := range t.params.Nodes[:2] {
			t.asked("c1", node, history.OpRelease, history.OK, t.last["c1"], key(i))
			t.told(node, key(i), history.KeyDeleted, "")
		}
		t.both("c1", history.OpRelease, history.Event{Key: key(i)})
	}
	t.at += int64(time.Second)
	t.asks("c2", "k")
	for i := range n {
		token := "x" + strconv.Itoa(i)
		for _, node := range t.params.Nodes {
			t.asked("c2", node, history.OpSet, history.Fail, token, "k")
		}
	}
	t.does("c2", history.Fail, history.OpAcquire, history.Event{})
}
