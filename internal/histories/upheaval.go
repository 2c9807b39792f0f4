package histories

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// upheaval makes records that nobody would plan: clients, links, nodes and all kinds of
// faults that each do what they like, mostly one thing after the other. No property
// need hold; what is found in two ways must be the same.
type upheaval struct {
	*rand.Rand
	params  history.Params
	events  []history.Event
	log     []history.Event
	at      int64
	clients map[string]*upset
	faults  []*history.Event // under way: the last of each
	keys    []string
	value   int64
}

type upset struct {
	history.Event // its call, or what it has
	n             int
	open, still   bool
}

// Upheaval makes one.
func Upheaval(seed uint64) *history.History {
	u := &upheaval{Rand: rand.New(rand.NewPCG(seed, 7)), clients: map[string]*upset{}}
	u.params = history.Params{
		Schema: history.Schema, Clients: Names("c", 1+u.IntN(4)), Nodes: Names("n", 1+u.IntN(4)), Resource: "resource",
		TTL: time.Duration(5 + u.IntN(60)), NodeTimeout: time.Duration(1 + u.IntN(4)), RetryMax: time.Duration(1 + u.IntN(6)),
		Slack: time.Duration(u.IntN(10)), Rounds: 1 + u.IntN(3), StampError: time.Duration(u.IntN(3) / 2), Epoch: 1000,
	}
	u.keys = Names("k", 1+u.IntN(2))
	u.events = []history.Event{{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: &u.params}}
	for _, c := range u.params.Clients {
		u.clients[c] = &upset{}
	}
	for i := range 4 {
		kind := []string{facts.ClockJump, facts.Pause, facts.Kill, "clock-rate"}[i]
		u.params.Steps = append(u.params.Steps, history.PlannedStep{Step: i + 1, Fault: kind, By: time.Duration(u.IntN(40) - 30)})
	}
	for range 20 + u.IntN(200) {
		switch u.IntN(8) {
		case 0:
			u.fault()
		case 1, 2:
			u.command()
		default:
			u.client(u.pick(u.params.Clients))
		}
	}
	for _, e := range append(u.log, history.Event{Process: history.Harness, Type: history.End, Op: history.OpRun}) {
		u.say(e)
	}
	for i := range u.events {
		u.events[i].N = int64(i + 1)
	}
	h, err := history.New(u.events)
	if err != nil {
		panic(err)
	}
	return h
}

func (u *upheaval) pick(all []string) string { return all[u.IntN(len(all))] }

func (u *upheaval) say(e history.Event) {
	u.at += int64(max(0, u.IntN(6)-1))
	if u.IntN(40) == 0 {
		u.at += int64(u.IntN(100))
	}
	e.T = u.at
	u.events = append(u.events, e)
}

// client lets a client call, or a call return.
func (u *upheaval) client(name string) {
	c := u.clients[name]
	if c.still && u.IntN(100) > 0 {
		return
	}
	e := c.Event
	e.Process = name
	if c.n > 0 && u.IntN(40) == 0 {
		u.say(history.Event{Process: name, Type: history.Info, Op: history.OpLost, Session: e.Session, Key: e.Key})
		return
	}
	if !c.open {
		e.Type, e.Op = history.Invoke, u.pick([]string{history.OpAcquire, history.OpExtend, history.OpRelease, history.OpWrite, history.OpRead})
		if e.Op == history.OpAcquire || c.n == 0 {
			c.n++
			e.Op, e.Session, e.Key = history.OpAcquire, fmt.Sprintf("%s/%d", name, c.n), u.pick(u.keys)
		}
		e.Value, e.Version = "", 0
		if e.Op == history.OpWrite {
			u.value++
			e.Value, e.Version = fmt.Sprint(u.value), u.value/4
		}
		c.Event, c.open = e, true
		u.say(e)
		return
	}
	e.Type = []history.Type{history.OK, history.OK, history.OK, history.Fail, history.Info}[u.IntN(5)]
	if e.Type == history.OK && (e.Op == history.OpAcquire || e.Op == history.OpExtend) && u.IntN(5) > 0 {
		e.ValidUntil, e.Local, e.Wall = u.at+int64(u.IntN(60)), u.params.Epoch+u.at, u.IntN(2) == 0
	}
	if e.Op == history.OpWrite || e.Op == history.OpRead {
		l := history.Event{Process: "resource", Type: e.Type, Op: history.OpLog, Cause: e.Op, Key: e.Key, Session: e.Session, Value: e.Value, Version: e.Version, Applied: u.at}
		u.log = append(u.log, l)
	}
	c.open = false
	u.say(e)
}

func (u *upheaval) command() {
	client, node := u.pick(u.params.Clients), u.pick(u.params.Nodes)
	c := u.clients[client]
	if c.n == 0 {
		return
	}
	e := history.Event{Process: client + "-" + node, Node: node, Op: u.pick([]string{history.OpSet, history.OpRelease, history.OpExtend}), Key: c.Key,
		Token: fmt.Sprint(client, c.n/3), Type: []history.Type{history.OK, history.Fail, history.Info}[u.IntN(3)], Sent: max(0, u.at-int64(u.IntN(6)))}
	if u.IntN(4) > 0 {
		e.Applied = e.Sent + int64(u.IntN(3))
	}
	if u.IntN(4) > 0 {
		e.Answered = max(e.Sent, e.Applied) + int64(u.IntN(2))
	}
	u.at = max(u.at, e.Answered, e.Applied)
	u.say(e)
}

// fault lets a fault begin, go on or end, or turns a clock.
func (u *upheaval) fault() {
	process := u.pick(append(u.params.Clients, u.params.Nodes...))
	if u.IntN(3) == 0 {
		u.say(history.Event{Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: process,
			Local: u.params.Epoch + u.at + int64(u.IntN(60)-30), Drift: int64(u.IntN(3)-1) * 400_000_000, Wall: u.IntN(2) == 0})
		return
	}
	step := u.IntN(5)
	e := history.Event{Process: history.Nemesis, Type: history.Invoke, Op: u.pick([]string{facts.Cut, facts.Shutdown, history.OpStall, "delay"}), Node: process, Step: step}
	if step > 0 {
		e.Op = u.params.Steps[step-1].Fault
	}
	if e.Op == facts.Cut || e.Op == "delay" {
		e.Node = u.pick(u.params.Clients) + "-" + u.pick(u.params.Nodes)
	}
	if len(u.faults) > 0 && u.IntN(3) > 0 { // one that is under way
		i := u.IntN(len(u.faults))
		e = *u.faults[i]
		e.Type = []history.Type{history.Begin, history.Begin, history.End, history.End, history.Fail}[u.IntN(5)]
		u.faults[i].Type = e.Type
	}
	if e.Op == facts.Kill && u.clients[e.Node] != nil && u.IntN(4) > 0 {
		return
	}
	u.faults = append(u.faults, &e)
	if c := u.clients[e.Node]; c != nil && !strings.HasPrefix(e.Op, "clock-") {
		c.still = e.Type == history.Begin
	}
	u.say(e)
}
