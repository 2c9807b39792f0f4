package redlock

import (
	"runtime"
	"sync/atomic"
	"time"
)

// rounds asks the nodes of a client that all are Batchers: there is no goroutine and no
// timer for any request.
type rounds struct {
	nodes   []Batcher
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
		rs.nodes = append(rs.nodes, b)
	}
	return rs
}

// ask submits what request gives for each node, and has it sent.
func (rs *rounds) ask(b *ballot, nodes []int, deadline time.Time, request func(node int) Request) {
	b.rounds, b.requests = rs, make([]Request, len(nodes))
	if b.work != nil {
		b.work.Add(len(nodes))
	}
	for i, n := range nodes {
		r := &b.requests[i]
		*r = request(n)
		r.Deadline, r.Node, r.To = deadline, i, b
		rs.nodes[n].Submit(r)
	}
	rs.flush()
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
