package redlock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// rounds are the rounds of a client whose nodes all are Batchers: no goroutine and no
// timer of its own for any of them.
type rounds struct {
	nodes  []Batcher
	pool   sync.Pool
	active atomic.Int32 // rounds that wait for answers
	asked  atomic.Bool  // somebody is about to flush
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
	rs.pool.New = func() any { return &gathering{home: rs, done: make(chan struct{}, 1)} }
	return rs
}

// gathering is the Collector of one round's answers. It is used again when the last
// of them has come, though its owner may have gone on before.
type gathering struct {
	home     *rounds
	requests []Request
	done     chan struct{}

	mu      sync.Mutex
	answers []Answer
	open    int  // answers that are to come, and one more for the owner
	over    bool // the owner was woken, or has gone
}

// ask asks nodes by their indices for the step of r, and returns their answers in the
// same order when all have come or ctx ended.
func (rs *rounds) ask(ctx context.Context, nodes []int, r Request) []Answer {
	g := rs.pool.Get().(*gathering)
	g.answers, g.requests = slices.Grow(g.answers[:0], len(nodes)), slices.Grow(g.requests[:0], len(nodes))
	g.open, g.over, r.To = len(nodes)+1, len(nodes) == 0, g
	for i, node := range nodes {
		r.Node = i
		g.requests = append(g.requests, r)
		g.answers = append(g.answers, Answer{Node: node, Err: errNoAnswer})
	}
	active := rs.active.Add(1)
	for i, node := range nodes {
		rs.nodes[node].Submit(&g.requests[i])
	}
	rs.flush(active == 1)
	if len(nodes) > 0 {
		select {
		case <-g.done:
		case <-ctx.Done():
		}
	}
	rs.active.Add(-1)
	return g.leave()
}

// Answered implements Collector.
func (g *gathering) Answered(r *Request, value int64, err error) {
	g.mu.Lock()
	a := &g.answers[r.Node]
	a.Value, a.Err = value, err
	g.open--
	if g.open == 1 && !g.over {
		g.over = true
		g.done <- struct{}{}
	}
	free := g.open == 0
	g.mu.Unlock()
	if free {
		g.home.pool.Put(g)
	}
}

// leave is the owner's: it takes the answers that there are.
func (g *gathering) leave() []Answer {
	g.mu.Lock()
	g.over = true
	select {
	case <-g.done: // both came at once, the last answer and the end of ctx
	default:
	}
	out := slices.Clone(g.answers)
	g.open--
	free := g.open == 0
	g.mu.Unlock()
	if free {
		g.home.pool.Put(g)
	}
	return out
}

// flush sends what was submitted to all nodes. A caller who is alone does it by himself.
// Of several, one goroutine does it for all who can run now, so that batches grow with
// load.
func (rs *rounds) flush(alone bool) {
	if alone {
		rs.send()
	} else if !rs.asked.Swap(true) {
		go func() {
			runtime.Gosched()
			rs.asked.Store(false)
			rs.send()
		}()
	}
}

func (rs *rounds) send() {
	for _, n := range rs.nodes {
		n.Flush()
	}
}
