// Package mutex judges the answers of a lock that has no leases, as other people's
// histories tell of them: could one mutex have given them?
//
// Check is asked by one of two models. Both have one state for each lock, and an
// operation changes it at one instant between its call and its return:
//
//	Mutex        acquire: free → held            release: held → free, whoever calls it
//	OwnerMutex   acquire: free → held by p       release: held by p → free, by p alone
//
// Mutex is Knossos' model of that name. OwnerMutex is not re-entrant: an acquire of the
// process that holds waits for its release, like anybody's. What failed did not happen.
// What has no outcome happened at some instant after its call, or never. Nothing lapses:
// a lease that was lost is a second holder here, and package checker judges those.
//
// A walk goes through the calls and returns of one lock in the order of time and
// tells a judge of each. Both decide exactly, in
// O(n log n), so no second judge is asked. A violation is found at the first return that
// can't be explained: what was recorded before it can be.
//
// Deliberately missing: handles, deadlines, and what else Check of package checker judges.
package mutex

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Names of the models, and of the property of each: that one such lock could have given
// these answers.
const (
	Mutex      = "mutex"
	OwnerMutex = "owner-mutex"
)

// Models lists them.
func Models() []string { return []string{Mutex, OwnerMutex} }

// Check judges operations by a model. They are in the order of calls, no two events
// have one instant, and a process does one thing after the other, and nothing after an
// operation without an outcome.
func Check(model string, ops []facts.Operation) verdict.Verdict {
	res := verdict.Result{Property: model, Outcome: verdict.Holds}
	v := verdict.Verdict{Schema: verdict.Schema, Model: model, Second: verdict.Undecided}
	locks, names := byLock(ops)
	granted := 0
	for _, name := range names {
		for _, o := range locks[name] {
			if o.Outcome() == history.OK {
				res.Occasions++
			}
			if acquires(o) && o.Outcome() == history.OK {
				granted++
			}
		}
		c := walk(locks[name], newJudge(model))
		if c == nil {
			continue
		}
		res.Incidents++
		if w := c.witness(name); res.Witness == nil || w.To < res.Witness.To {
			res.Outcome, res.Because, res.Witness = verdict.Violated, c.because, w
		}
	}
	switch {
	case res.Outcome == verdict.Violated:
	case granted == 0:
		v.Assumption = "nobody acquired a lock"
		res.Outcome, res.Because = verdict.Undecided, "the run is vacuous: "+v.Assumption
	default:
		res.Because = fmt.Sprintf("one %s could have given these answers, %d of them ok", model, res.Occasions)
	}
	v.Results = []verdict.Result{res}
	return v
}

func newJudge(model string) judge {
	if model == OwnerMutex {
		return &owner{}
	}
	return &plain{}
}

// byLock tells operations apart by their lock, in the order of first calls.
func byLock(ops []facts.Operation) (locks map[string][]facts.Operation, names []string) {
	locks = map[string][]facts.Operation{}
	for _, o := range ops {
		of, ok := locks[o.Call.Key]
		if !ok {
			names = append(names, o.Call.Key)
		}
		locks[o.Call.Key] = append(of, o)
	}
	return locks, names
}

// clash is an answer that can't be explained.
type clash struct {
	because string            // one sentence
	ops     []facts.Operation // what it takes to see that, the unexplained one last
}

// witness is the events that prove it, all of one lock.
func (c *clash) witness(lock string) *verdict.Witness {
	w := &verdict.Witness{Key: lock}
	var events []*history.Event
	for _, o := range c.ops {
		if !slices.Contains(w.Sessions, o.Call.Process) {
			w.Sessions = append(w.Sessions, o.Call.Process)
		}
		events = append(events, o.Call, o.Return)
	}
	w.Events = verdict.Numbered(events)
	first := slices.MinFunc(c.ops, func(a, b facts.Operation) int { return verdict.ByTime(a.Call, b.Call) })
	w.From, w.To = first.Call.T, c.ops[len(c.ops)-1].Return.T
	return w
}

// owner judges by OwnerMutex. A process does one thing after the other, so from the
// return of its acquire to the call of its next release it must have held, and nobody
// else may have. Conversely, where these spans are disjoint, holding exactly them explains
// every answer:
//
//	p0   acquire |==============| release
//	p1                acquire  - - - - |====| release     must begin after p0's has ended
//
// An acquire without an outcome is the last thing that its process does, and need never
// have happened. A release without one may have happened at once.
type owner struct {
	holder *facts.Operation            // the acquire that must hold now, or nil
	left   map[string]*facts.Operation // each process's release that ended its last hold
	stray  map[*facts.Operation]*clash // releases that were called by who did not hold
}

func (w *owner) called(o *facts.Operation) {
	p := o.Call.Process
	switch {
	case acquires(*o):
	case w.holder != nil && w.holder.Call.Process == p:
		w.holder = nil
		if w.left == nil {
			w.left = map[string]*facts.Operation{}
		}
		w.left[p] = o
	case o.Outcome() == history.OK:
		if w.stray == nil {
			w.stray = map[*facts.Operation]*clash{}
		}
		w.stray[o] = w.unheld(o)
	}
}

func (w *owner) returned(o *facts.Operation) *clash {
	switch {
	case !acquires(*o):
		return w.stray[o]
	case w.holder == nil:
		w.holder = o
		return nil
	}
	who := "it"
	if w.holder.Call.Process != o.Call.Process {
		who = w.holder.Call.Process
	}
	return &clash{ops: []facts.Operation{*w.holder, *o}, because: fmt.Sprintf("%s returned ok at %s, and %s held %s since %s: %s had not called release by then",
		named(o), facts.Seconds(o.Return.T), who, o.Call.Key, named(w.holder), who)}
}

// unheld tells of a release by a process that did not hold.
func (w *owner) unheld(o *facts.Operation) *clash {
	c := &clash{ops: []facts.Operation{*o}}
	why := "it had not acquired it"
	if before := w.left[o.Call.Process]; before != nil {
		c.ops = []facts.Operation{*before, *o}
		why = "it had given it back by " + named(before)
	}
	c.because = fmt.Sprintf("%s returned ok at %s, and it did not hold %s: %s", named(o), facts.Seconds(o.Return.T), o.Call.Key, why)
	return c
}

// plain judges by Mutex. In any order that explains the answers, acquires and releases
// take turns. It gives each operation its turn as late as it can: when it returns. Is it the
// other kind's turn then, an operation of that kind comes first that has been called
// and has had none, and of these the one that returns first, for it is the one that
// could wait least. Where there is none, nothing explains the answer.
//
// This misses no order that there is. What had its turn earlier than it must, had it with
// a neighbour of the other kind; both may as well be kept, for whichever of them is needed
// later is still there, and the state is the same without the pair.
type plain struct {
	last    *facts.Operation // the last that had its turn; nil: none, and the lock is free
	had     map[*facts.Operation]bool
	waiting [2]queue // that were called and had no turn yet: releases, acquires
}

func (p *plain) called(o *facts.Operation) {
	heap.Push(&p.waiting[kind(o)], o)
}

func (p *plain) returned(o *facts.Operation) *clash {
	if p.had[o] {
		delete(p.had, o)
		return nil
	}
	if p.held() == acquires(*o) { // it is the other kind's turn
		other := p.waiting[1-kind(o)].take(o.Return.T)
		if other == nil {
			return p.clash(o)
		}
		if p.had == nil {
			p.had = map[*facts.Operation]bool{}
		}
		p.had[other] = true
	}
	p.last = o
	return nil
}

func (p *plain) held() bool { return p.last != nil && acquires(*p.last) }

func (p *plain) clash(o *facts.Operation) *clash {
	c := &clash{ops: []facts.Operation{*o}}
	since := "from the beginning"
	if p.last != nil {
		c.ops = []facts.Operation{*p.last, *o}
		since = "since " + named(p.last)
	}
	state, other := "free", history.OpAcquire
	if p.held() {
		state, other = "held", history.OpRelease
	}
	c.because = fmt.Sprintf("%s returned ok at %s, and %s was %s %s: no %s that had been called by then is left to come between",
		named(o), facts.Seconds(o.Return.T), o.Call.Key, state, since, other)
	return c
}

func kind(o *facts.Operation) int {
	if acquires(*o) {
		return 1
	}
	return 0
}

// queue is operations, the one that returns first in front.
type queue []*facts.Operation

// take takes the one in front of those that have not returned by an instant, or nil.
func (q *queue) take(now int64) *facts.Operation {
	for q.Len() > 0 {
		if o := heap.Pop(q).(*facts.Operation); o.Returned() > now {
			return o
		}
	}
	return nil
}

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].Returned() < q[j].Returned() }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(o any)        { *q = append(*q, o.(*facts.Operation)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// judge is told of the calls and returns of one lock in the order of time. Of what
// failed it hears nothing, and what has no outcome does not return.
type judge interface {
	called(o *facts.Operation)
	returned(o *facts.Operation) *clash // nil: it can be explained
}

// walk tells a judge of operations until one can't be explained.
func walk(ops []facts.Operation, j judge) *clash {
	type step struct {
		at      int64
		o       *facts.Operation
		returns bool
	}
	steps := make([]step, 0, 2*len(ops))
	for i := range ops {
		o := &ops[i]
		if o.Outcome() == history.Fail {
			continue
		}
		steps = append(steps, step{o.Call.T, o, false})
		if o.Outcome() == history.OK {
			steps = append(steps, step{o.Return.T, o, true})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for _, s := range steps {
		if !s.returns {
			j.called(s.o)
		} else if c := j.returned(s.o); c != nil {
			return c
		}
	}
	return nil
}

func acquires(o facts.Operation) bool { return o.Call.Op == history.OpAcquire }

// named is an operation as a sentence names it: by whom, and where it is in the file.
func named(o *facts.Operation) string {
	n := fmt.Sprint("operation ", o.Call.N)
	if o.Return != nil {
		n = fmt.Sprintf("operations %d and %d", o.Call.N, o.Return.N)
	}
	return fmt.Sprintf("%s's %s (%s)", o.Call.Process, o.Call.Op, n)
}
