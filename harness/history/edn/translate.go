package edn

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// translation turns operations into facts, in the order of the file.
type translation struct {
	events    []history.Event
	processes map[string]*process
	clients   []string // in the order of their first operation
	read      int64    // operations read
	timed     bool     // they have :time
	indexed   bool     // they have none, but :index
	keyed     bool     // they say which lock they are of
	keys      map[string]bool

	acquires int
	others   int // operations on something else
	unheld   int // releases by who held nothing
}

// process is where one of Jepsen's processes stands.
type process struct {
	open     *operation // the call that has not returned
	session  string     // of that call; "" if it belongs to none
	sessions int
	held     map[string][]string // lock: sessions that were granted and not given back, the last one last
	crashed  bool                // an outcome was unknown: Jepsen goes on under another number
}

// theLock is the name of the only lock, of which Jepsen tells none.
const theLock = "lock"

func newTranslation() *translation {
	return &translation{processes: map[string]*process{}, keys: map[string]bool{}}
}

func (t *translation) add(f form) error {
	o, err := parse(f)
	if err != nil {
		return err
	}
	t.read++
	if err := t.follow(o); err != nil {
		return fmt.Errorf("line %d: %w", o.line, err)
	}
	return nil
}

// follow books one operation.
func (t *translation) follow(o operation) error {
	at, err := t.instant(o)
	if err != nil || o.process == "" {
		return err
	}
	p := t.processes[o.process]
	if p == nil {
		p = &process{held: map[string][]string{}}
		t.processes[o.process] = p
		t.clients = append(t.clients, o.process)
		t.record(history.Event{T: at, Process: o.process, Type: history.Begin, Op: history.OpClient})
	}
	if o.kind == history.Invoke {
		return t.call(p, o, at)
	}
	return t.finished(p, o, at)
}

// instant is when an operation happened. Either all have a :time or none.
func (t *translation) instant(o operation) (int64, error) {
	if t.read == 1 {
		t.timed, t.indexed = o.time >= 0, o.time < 0 && o.index >= 0
	}
	switch {
	case t.timed != (o.time >= 0):
		return 0, fmt.Errorf("some operations have a :time and some have none, so they can't be put in order")
	case t.timed:
		return o.time, nil
	case t.indexed && o.index < 0:
		return 0, fmt.Errorf("an operation without :time or :index, while others have an :index")
	case t.indexed:
		return o.index * apart, nil
	}
	return (t.read - 1) * apart, nil
}

func (t *translation) record(e history.Event) {
	e.N = t.read
	t.events = append(t.events, e)
}

func (t *translation) call(p *process, o operation, at int64) error {
	if p.open != nil {
		return fmt.Errorf("process %s calls :%s while its :%s of line %d has not returned", number(o), o.f, p.open.f, p.open.line)
	}
	if p.crashed && o.f == history.OpAcquire {
		return fmt.Errorf("process %s acquires after an :info of its own: a process that crashed goes on under another number", number(o))
	}
	p.open, p.session = &o, ""
	if !o.isLock() {
		t.others++
		return nil
	}
	key, err := t.lock(o)
	if err != nil {
		return err
	}
	switch held := p.held[key]; {
	case o.f == history.OpAcquire:
		t.acquires++
		p.sessions++
		p.session = o.process + "/" + strconv.Itoa(p.sessions)
	case len(held) > 0 && !p.crashed:
		p.session = held[len(held)-1]
	default:
		t.unheld++
		return nil
	}
	t.record(history.Event{T: at, Process: o.process, Type: history.Invoke, Op: o.f, Key: key, Session: p.session})
	return nil
}

// finished books a return. A crashed process does nothing any more, so whatever
// it held, nobody believes in it.
func (t *translation) finished(p *process, o operation, at int64) error {
	open := p.open
	if open == nil || open.f != o.f {
		return fmt.Errorf("process %s returns from :%s, which it had not called", number(o), o.f)
	}
	p.open = nil
	if p.session != "" {
		key, _ := t.lock(*open) // it could be told when it was called
		e := history.Event{T: at, Process: o.process, Type: o.outcome(), Op: o.f, Key: key, Session: p.session}
		if !o.failure.isNil() {
			e.Cause = o.failure.String()
		}
		t.record(e)
		switch held := p.held[key]; {
		case o.kind != history.OK:
		case o.f == history.OpAcquire:
			p.held[key] = append(held, p.session)
		default:
			p.held[key] = held[:len(held)-1] // who calls release gives back the last
		}
	}
	if o.kind == history.Info && !p.crashed {
		p.crashed = true
		t.record(history.Event{T: at, Process: o.process, Type: history.End, Op: history.OpClient, Cause: "crashed: an outcome is unknown"})
	}
	return nil
}

// outcome is the type of a return. Jepsen's :fail says that a release did
// nothing, and not that the lock was not held, unless its :error does.
func (o operation) outcome() history.Type {
	if o.kind == history.Fail && o.f == history.OpRelease && !o.failure.mentions("not-held") {
		return history.Info
	}
	return o.kind
}

// lock is the name of an operation's lock: its :key, or the key of a value
// [key value] as jepsen.independent makes it, or theLock where there is only one.
func (t *translation) lock(o operation) (string, error) {
	name := o.key
	if name.isNil() && !o.value.isNil() && o.value.kind == vector && len(o.value.items) == 2 {
		name = &o.value.items[0]
	}
	if first := len(t.keys) == 0; first {
		t.keyed = !name.isNil()
	} else if t.keyed == name.isNil() {
		return "", fmt.Errorf("some operations say which lock they are of, by :key or a :value of two, and some don't")
	}
	key := theLock
	if t.keyed {
		key = name.String()
	}
	t.keys[key] = true
	return key, nil
}

func number(o operation) string { return strings.TrimPrefix(o.process, "p") }

// finish is all facts between the begin and the end of the run. An operation
// that never returned is unknown, as it is for Jepsen.
func (t *translation) finish() []history.Event {
	byTime := func(a, b history.Event) int { return cmp.Compare(a.T, b.T) }
	begin := history.Event{T: slices.MinFunc(t.events, byTime).T, Process: history.Harness, Type: history.Begin, Op: history.OpRun,
		Params: &history.Params{Schema: history.Schema, Scenario: "history.edn", Backend: "jepsen", Clients: t.clients}}
	end := history.Event{N: t.read + 1, T: slices.MaxFunc(t.events, byTime).T, Process: history.Harness, Type: history.End, Op: history.OpRun}
	return slices.Concat([]history.Event{begin}, t.events, []history.Event{end})
}

func (t *translation) notes() []string {
	notes := []string{"the history knows no leases: who acquired is believed to hold the lock until it calls release"}
	add := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	switch {
	case t.indexed:
		add("it has no :time: operations are put 1 µs apart by their :index, so spans of time mean nothing")
	case !t.timed:
		add("it has no :time and no :index: operations are put 1 µs apart as they stand in the file, so spans of time mean nothing")
	}
	if t.keyed {
		add("it is of %d locks, told apart by :key or the first of a :value of two", len(t.keys))
	}
	if t.unheld > 0 {
		add("passed over: releases by processes that held nothing, %d", t.unheld)
	}
	if t.others > 0 {
		add("passed over: operations other than acquire and release, %d", t.others)
	}
	return notes
}
