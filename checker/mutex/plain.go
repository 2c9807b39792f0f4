package mutex

import (
	"container/heap"
	"fmt"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

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
