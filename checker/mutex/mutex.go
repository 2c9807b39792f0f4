// Package mutex checks histories of locks without leases, such as Jepsen's: could a single mutex
// have produced these results?
//
// Check supports two models. In both, each lock has one state, which an operation changes
// atomically at some instant between its call and its return:
//
//	Mutex        acquire: free → held            release: held → free, whoever calls it
//	OwnerMutex   acquire: free → held by p       release: held by p → free, by p alone
//
// Mutex is Knossos' model of that name. OwnerMutex is not re-entrant: an acquire by the holder
// waits for the holder's own release. Failed operations did not happen. Operations without an
// outcome happened at some instant after their call, or never. There are no leases: if a lease
// expires and is granted again, that looks like a second holder. Package checker judges locks with
// leases.
//
// The judges receive the calls and returns of one lock in chronological order. Both are exact and
// take O(n log n) time, so there is no second judge. They report a violation at the first return
// that no order of operations can explain.
//
// Package checker deals with handles, deadlines and all other properties.
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

// Names of the models. Each is also the name of the property that the model checks: a single such
// lock could have produced these results.
const (
	Mutex      = "mutex"
	OwnerMutex = "owner-mutex"
)

// Models returns the names of all models.
func Models() []string { return []string{Mutex, OwnerMutex} }

// Check checks operations against a model. The operations must be ordered by their calls, and no
// two events may share an instant. Each process must be sequential and stop after an operation
// without an outcome.
func Check(model string, ops []facts.Operation) verdict.Verdict {
	res := verdict.Result{Property: model, Outcome: verdict.Holds}
	v := verdict.Verdict{Schema: verdict.Schema, Model: model, Second: verdict.Undecided}
	locks, names := byLock(ops)
	numGranted := 0
	for _, name := range names {
		for _, o := range locks[name] {
			if o.Outcome() == history.OK {
				res.Occasions++
			}
			if isAcquire(o) && o.Outcome() == history.OK {
				numGranted++
			}
		}
		c := walk(locks[name], newJudge(model))
		if c == nil {
			continue
		}
		res.Incidents++
		if w := c.witness(name); res.Witness == nil || w.To < res.Witness.To {
			res.Outcome, res.Because, res.Witness = verdict.Violated, c.reason, w
		}
	}
	switch {
	case res.Outcome == verdict.Violated:
	case numGranted == 0:
		v.Assumption = "nobody acquired a lock"
		res.Outcome, res.Because = verdict.Undecided, "the run is vacuous: "+v.Assumption
	default:
		res.Because = fmt.Sprintf("a single %s could have produced these results, %d of them ok", model, res.Occasions)
	}
	v.Results = []verdict.Result{res}
	return v
}

func newJudge(model string) judge {
	if model == OwnerMutex {
		return &ownerJudge{}
	}
	return &mutexJudge{}
}

// byLock groups operations by lock and returns the locks' names in the order of their first calls.
func byLock(ops []facts.Operation) (locks map[string][]facts.Operation, names []string) {
	locks = map[string][]facts.Operation{}
	for _, o := range ops {
		operations, ok := locks[o.Call.Key]
		if !ok {
			names = append(names, o.Call.Key)
		}
		locks[o.Call.Key] = append(operations, o)
	}
	return locks, names
}

// contradiction is a result that no order of operations explains.
type contradiction struct {
	reason string            // one sentence
	ops    []facts.Operation // the operations that prove it, ending with the unexplained one
}

// witness returns the witness of the violation.
func (c *contradiction) witness(lock string) *verdict.Witness {
	w := &verdict.Witness{Key: lock}
	var events []*history.Event
	for _, o := range c.ops {
		if !slices.Contains(w.Sessions, o.Call.Process) {
			w.Sessions = append(w.Sessions, o.Call.Process)
		}
		events = append(events, o.Call, o.Return)
	}
	w.Events = verdict.EventNumbers(events)
	first := slices.MinFunc(c.ops, func(a, b facts.Operation) int { return verdict.ByTime(a.Call, b.Call) })
	w.From, w.To = first.Call.T, c.ops[len(c.ops)-1].Return.T
	return w
}

// ownerJudge judges by OwnerMutex. Processes are sequential, so a process must have held the lock
// from the return of its acquire to the call of its next release, and no other process may have
// held it in that span. Conversely, if these spans are disjoint, they explain every result:
//
//	p0   acquire |==============| release
//	p1                acquire  - - - - |====| release     must begin after p0's has ended
//
// An acquire without an outcome is the last operation of its process, and need not have happened. A
// release without an outcome may have happened at once.
type ownerJudge struct {
	holder        *facts.Operation                    // the acquire that must hold the lock now, or nil
	lastRelease   map[string]*facts.Operation         // the release that ended each process's last hold
	strayReleases map[*facts.Operation]*contradiction // releases by processes that did not hold the lock
}

func (w *ownerJudge) observeCall(o *facts.Operation) {
	p := o.Call.Process
	switch {
	case isAcquire(*o):
	case w.holder != nil && w.holder.Call.Process == p:
		w.holder = nil
		if w.lastRelease == nil {
			w.lastRelease = map[string]*facts.Operation{}
		}
		w.lastRelease[p] = o
	case o.Outcome() == history.OK:
		if w.strayReleases == nil {
			w.strayReleases = map[*facts.Operation]*contradiction{}
		}
		w.strayReleases[o] = w.unheldRelease(o)
	}
}

func (w *ownerJudge) observeReturn(o *facts.Operation) *contradiction {
	switch {
	case !isAcquire(*o):
		return w.strayReleases[o]
	case w.holder == nil:
		w.holder = o
		return nil
	}
	holderName := "it"
	if w.holder.Call.Process != o.Call.Process {
		holderName = w.holder.Call.Process
	}
	return &contradiction{ops: []facts.Operation{*w.holder, *o}, reason: fmt.Sprintf("%s returned ok at %s, but %s held %s since %s and had not called release by then",
		describeOperation(o), facts.Seconds(o.Return.T), holderName, o.Call.Key, describeOperation(w.holder))}
}

func (w *ownerJudge) unheldRelease(o *facts.Operation) *contradiction {
	c := &contradiction{ops: []facts.Operation{*o}}
	reason := "it had not acquired it"
	if earlier := w.lastRelease[o.Call.Process]; earlier != nil {
		c.ops = []facts.Operation{*earlier, *o}
		reason = "it had released it by " + describeOperation(earlier)
	}
	c.reason = fmt.Sprintf("%s returned ok at %s, but it did not hold %s: %s", describeOperation(o), facts.Seconds(o.Return.T), o.Call.Key, reason)
	return c
}

// mutexJudge judges by Mutex. In every order that explains the results, acquires and releases
// alternate. The judge places each operation as late as possible: at its return. If an operation of
// the other kind must come first, it picks the pending one that returns first, because that one can
// be postponed least. If none is pending, no order explains the result.
//
// This finds an order whenever there is one. Suppose an order places an operation earlier than
// necessary. Then it has a neighbor of the other kind, and the state is the same without that pair,
// so both can be placed later.
type mutexJudge struct {
	lastOperation *facts.Operation // the last operation placed; nil if there is none and the lock is free
	placed        map[*facts.Operation]bool
	pending       [2]queue // called but not placed yet: releases and acquires
}

func (p *mutexJudge) observeCall(o *facts.Operation) {
	heap.Push(&p.pending[kind(o)], o)
}

func (p *mutexJudge) observeReturn(o *facts.Operation) *contradiction {
	if p.placed[o] {
		delete(p.placed, o)
		return nil
	}
	if p.isHeld() == isAcquire(*o) { // the other kind must come first
		other := p.pending[1-kind(o)].popPending(o.Return.T)
		if other == nil {
			return p.contradict(o)
		}
		if p.placed == nil {
			p.placed = map[*facts.Operation]bool{}
		}
		p.placed[other] = true
	}
	p.lastOperation = o
	return nil
}

func (p *mutexJudge) isHeld() bool { return p.lastOperation != nil && isAcquire(*p.lastOperation) }

func (p *mutexJudge) contradict(o *facts.Operation) *contradiction {
	c := &contradiction{ops: []facts.Operation{*o}}
	sinceText := "from the beginning"
	if p.lastOperation != nil {
		c.ops = []facts.Operation{*p.lastOperation, *o}
		sinceText = "since " + describeOperation(p.lastOperation)
	}
	state, other := "free", history.OpAcquire
	if p.isHeld() {
		state, other = "held", history.OpRelease
	}
	c.reason = fmt.Sprintf("%s returned ok at %s, but %s was %s %s, and no %s called by then could have come in between",
		describeOperation(o), facts.Seconds(o.Return.T), o.Call.Key, state, sinceText, other)
	return c
}

func kind(o *facts.Operation) int {
	if isAcquire(*o) {
		return 1
	}
	return 0
}

// queue is a heap of operations ordered by their returns.
type queue []*facts.Operation

// popPending removes and returns the operation that returns next. It drops operations that have
// already returned, and returns nil if none is pending.
func (q *queue) popPending(now int64) *facts.Operation {
	for q.Len() > 0 {
		if o := heap.Pop(q).(*facts.Operation); o.OutcomeAt() > now {
			return o
		}
	}
	return nil
}

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].OutcomeAt() < q[j].OutcomeAt() }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(o any)        { *q = append(*q, o.(*facts.Operation)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// judge receives the calls and returns of one lock in chronological order, without failed
// operations. Operations without an outcome never return.
type judge interface {
	observeCall(o *facts.Operation)
	observeReturn(o *facts.Operation) *contradiction // nil if the result can be explained
}

// walk passes operations to a judge until one contradicts the model.
func walk(ops []facts.Operation, j judge) *contradiction {
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
			j.observeCall(s.o)
		} else if c := j.observeReturn(s.o); c != nil {
			return c
		}
	}
	return nil
}

func isAcquire(o facts.Operation) bool { return o.Call.Op == history.OpAcquire }

// describeOperation names an operation by its process and its position in the file.
func describeOperation(o *facts.Operation) string {
	n := fmt.Sprint("operation ", o.Call.N)
	if o.Return != nil {
		n = fmt.Sprintf("operations %d and %d", o.Call.N, o.Return.N)
	}
	return fmt.Sprintf("%s's %s (%s)", o.Call.Process, o.Call.Op, n)
}
