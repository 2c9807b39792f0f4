package checker

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"lockpick/harness/history"
)

// contention describes a history of any length in which a few clients contend for locks. It is used
// to measure the checker and its peers.
//
// Each client thinks, acquires a random lock, holds it and releases it. A client that finds the
// lock taken waits, and any waiting client may get the lock next. A client abandons an acquire of
// unknown outcome, which may have taken the lock until its lease lapses. If a release has an
// unknown outcome, it may have been lost, and then the lock stays taken until the lease has lapsed.
// So a lapse always follows an operation without an answer, and a mutex without expiry can explain
// the history, too.
//
// If violated is set, the history contains exactly one violation. It is late in the history and
// between two sessions whose answers are all known.
type contention struct {
	operations     int // acquires and releases, each with its call and return; one less if the last session would be incomplete
	keys           int
	unknownPercent int // percentage of acquires and of releases with unknown outcome
	violated       bool
	seed           uint64
}

const (
	contenders   = 8
	contendedTTL = int64(time.Second)
	giveUpAfter  = int64(50 * time.Millisecond) // counted from the call of an acquire without an answer
)

// history generates the history. The result is deterministic.
func (c contention) history() *history.History {
	run := &contentionRun{
		contention: c, remaining: c.operations, Rand: rand.New(rand.NewPCG(c.seed, 1)),
		locks: make([]contendedLock, c.keys),
		// The violation is in the last tenth, but early enough to fit into a short history.
		violationFrom: c.operations - max(c.operations/10, 16),
		h: &history.History{Params: history.Params{
			Schema: history.Schema, Nodes: []string{"n1", "n2", "n3", "n4", "n5"}, Quorum: 3, TTL: time.Duration(contendedTTL),
			NodeTimeout: 5 * time.Millisecond, RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond, Slack: 100 * time.Millisecond,
		}},
	}
	run.h.Events = make([]history.Event, 0, 2*c.operations+2*contenders+2)
	run.emit(0, history.Event{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: &run.h.Params})
	for i := range run.locks {
		run.locks[i].name = fmt.Sprintf("lock-%d", i+1)
	}
	for i := range run.clients {
		run.clients[i].name = fmt.Sprintf("c%d", i+1)
		run.h.Params.Clients = append(run.h.Params.Clients, run.clients[i].name)
		run.emit(0, history.Event{Process: run.clients[i].name, Type: history.Begin, Op: history.OpClient})
		run.clients[i].at = run.millis(1, 20)
	}
	at := int64(0)
	for next := run.next(); next != nil; next = run.next() {
		at = next.at
		run.step(next)
	}
	if c.violated && !run.violationDone {
		panic(fmt.Sprintf("no room for a violation in %+v", c))
	}
	run.emit(at, history.Event{Process: history.Harness, Type: history.End, Op: history.OpRun})
	return run.h
}

// contentionRun generates a history.
type contentionRun struct {
	contention
	*rand.Rand
	h             *history.History
	clients       [contenders]contender
	locks         []contendedLock
	remaining     int // operations that no client has begun or committed to
	violationFrom int // the violation is due after this many operations
	violationDone bool
}

type contendedLock struct {
	name     string
	freeTime int64 // from when on the lock is free
	holdEnd  int64 // when the holder calls release, if all of the holder's answers will be known
}

// contender is a client with its next action and the time of that action.
type contender struct {
	name       string
	stage      stage
	at         int64
	sessions   int
	session    string
	lock       *contendedLock
	answer     history.Type // answer to its release
	answerTime int64
}

type stage int

const (
	thinking stage = iota
	waiting
	unanswered // waits for an answer that will not arrive
	holding
	releasing
	finished
)

// next returns the client that acts next, or nil.
func (c *contentionRun) next() *contender {
	var first *contender
	for i := range c.clients {
		if x := &c.clients[i]; x.stage != finished && (first == nil || x.at < first.at) {
			first = x
		}
	}
	return first
}

func (c *contentionRun) step(x *contender) {
	switch x.stage {
	case thinking:
		c.acquire(x)
	case waiting:
		switch isViolation := c.violationDue() && x.lock.holdEnd > x.at; {
		case isViolation:
			c.violationDone = true
			c.grant(x, true)
		case x.at < x.lock.freeTime:
			x.at = x.lock.freeTime + c.millis(1, 20)
		default:
			c.grant(x, c.violationDue())
		}
	case unanswered:
		c.emitClientEvent(x, history.Info, history.OpAcquire, 0)
		if x.lock.freeTime <= x.at && c.IntN(2) == 0 {
			x.lock.freeTime = x.at + contendedTTL
		}
		c.think(x)
	case holding:
		c.emitClientEvent(x, history.Invoke, history.OpRelease, 0)
		x.stage, x.at = releasing, x.answerTime
	case releasing:
		c.emitClientEvent(x, x.answer, history.OpRelease, 0)
		c.think(x)
	}
}

func (c *contentionRun) acquire(x *contender) {
	if c.remaining < 2 {
		c.emit(x.at, history.Event{Process: x.name, Type: history.End, Op: history.OpClient})
		x.stage = finished
		return
	}
	c.remaining -= 2 // count the release, too: a lapse without a release is correct for a lease, but not for a mutex
	x.sessions++
	x.session = x.name + "/" + strconv.Itoa(x.sessions)
	x.lock = c.pickLock(x.at)
	c.emitClientEvent(x, history.Invoke, history.OpAcquire, 0)
	x.stage, x.at = waiting, x.at+c.millis(1, 3)
	if !c.violationDue() && c.isUnanswered() {
		x.stage, x.at = unanswered, x.at+giveUpAfter
		c.remaining++
	}
}

// pickLock returns a random lock or, if the violation is due, a lock that will stay held for a
// while.
func (c *contentionRun) pickLock(at int64) *contendedLock {
	if c.violationDue() {
		for i := range c.locks {
			if l := &c.locks[i]; l.holdEnd > at+4e6 {
				return l
			}
		}
	}
	return &c.locks[c.IntN(c.keys)]
}

// violationDue reports whether the violation is due. Until it has happened, all answers are then
// known.
func (c *contentionRun) violationDue() bool {
	return c.violated && !c.violationDone && c.operations-c.remaining >= c.violationFrom
}

// grant gives the lock to x and determines how x will release it.
func (c *contentionRun) grant(x *contender, answered bool) {
	l := x.lock
	lapse := x.at + contendedTTL
	c.emitClientEvent(x, history.OK, history.OpAcquire, lapse)
	x.stage, x.at = holding, x.at+c.millis(5, 50)
	x.answerTime = x.at + c.millis(1, 3)
	x.answer, l.holdEnd = history.OK, x.at
	freeTime := x.at + c.Int64N(x.answerTime-x.at)
	if !answered && c.isUnanswered() {
		x.answer, l.holdEnd = history.Info, 0
		if c.IntN(2) == 0 {
			freeTime = lapse
		}
	}
	l.freeTime = max(l.freeTime, freeTime)
}

func (c *contentionRun) think(x *contender) { x.stage, x.at = thinking, x.at+c.millis(1, 20) }

func (c *contentionRun) isUnanswered() bool { return c.IntN(100) < c.unknownPercent }

// millis returns a random duration between from and to milliseconds, in nanoseconds.
func (c *contentionRun) millis(from, to int64) int64 { return from*1e6 + c.Int64N((to-from)*1e6) }

func (c *contentionRun) emitClientEvent(x *contender, typ history.Type, op string, validUntil int64) {
	c.emit(x.at, history.Event{Process: x.name, Type: typ, Op: op, Key: x.lock.name, Session: x.session, ValidUntil: validUntil})
}

func (c *contentionRun) emit(at int64, e history.Event) {
	e.T, e.N = at, int64(len(c.h.Events)+1)
	c.h.Events = append(c.h.Events, e)
}
