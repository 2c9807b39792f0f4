package redlock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// rounds asks the nodes of a client that all are Batchers: there is no goroutine and no
// timer for any request.
type rounds struct {
	nodes   []Batcher
	grants  []bool       // by node: it is a Granter
	used    sync.Pool    // ballots that nobody uses
	waiting atomic.Int32 // callers who wait for answers
	flushes atomic.Bool  // somebody is about to flush
}

// newRounds returns nil unless all nodes are Batchers.
func newRounds(nodes []Node) *rounds {
	rs := &rounds{}
	for _, n := range nodes {
		b, ok := n.(Batcher)
		if !ok {
			return nil
		}
		_, grants := n.(Granter)
		rs.nodes, rs.grants = append(rs.nodes, b), append(rs.grants, grants)
	}
	return rs
}

// ask submits r to nodes, and has it sent.
func (rs *rounds) ask(nodes []int, work *sync.WaitGroup, r Request, deadline time.Time) *ballot {
	b, _ := rs.used.Get().(*ballot)
	if b == nil {
		b = &ballot{rounds: rs}
	}
	b.begin(nodes, work)
	r.Deadline, r.To = deadline, b
	for i, n := range nodes {
		v := &b.votes[i]
		v.request = r
		v.request.Op, v.request.Node = r.Op.to(rs.grants[n], r.Terms), i
		rs.nodes[n].Submit(&v.request)
	}
	rs.flush()
	return b
}

// put keeps b for another time, without what it refers to.
func (rs *rounds) put(b *ballot) {
	clear(b.votes)
	b.work, b.follow, b.quorum = nil, nil, 0
	rs.used.Put(b)
}

// to is what a Batcher is asked for in place of o. What it does in order needs no tombstones,
// so that the plain steps do where nothing is to be counted and nobody is in quarantine.
func (o Op) to(granter bool, t Terms) Op {
	switch {
	case o == OpAbandon:
		return OpRelease
	case o != OpGrant || granter && (t.Fence || t.Quarantine > 0):
		return o
	case t.Fence:
		return OpSetFenced
	}
	return OpSet
}

// flush sends what was submitted to all nodes. A caller who is alone does it by himself.
// Of several, one goroutine does it for all who can run now, so that batches grow with
// load.
func (rs *rounds) flush() {
	if rs.waiting.Load() == 0 {
		rs.send()
	} else if !rs.flushes.Swap(true) {
		go func() {
			runtime.Gosched()
			rs.flushes.Store(false)
			rs.send()
		}()
	}
}

func (rs *rounds) send() {
	for _, n := range rs.nodes {
		n.Flush()
	}
}
