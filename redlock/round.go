package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Answer is what became of a request to one node.
type Answer struct {
	Node  int // its index
	Value int64
	Err   error
}

// Yes says whether the request took effect, No whether it did not; of a node that
// gave no answer neither is known.
func (a Answer) Yes() bool { return a.Err == nil && a.Value > 0 }
func (a Answer) No() bool  { return a.Err == nil && a.Value <= 0 }

// ask asks nodes by their indices for the step of r.
func (c *Client) ask(ctx context.Context, nodes []int, r Request) []Answer {
	if c.rounds != nil && ctx.Err() == nil {
		b := c.rounds.ask(nodes, nil, r, c.cfg.Now().Add(c.cfg.Timeout))
		defer b.leave()
		return b.until(patience{Context: ctx}, all, nil)
	}
	return c.cfg.Ask(ctx, nodes, func(ctx context.Context, node int) (int64, error) { return r.on(ctx, c.cfg.Nodes[node]) })
}

// Ask asks nodes by their indices and returns their answers in the same order, at
// the latest when the time-out of each has passed or ctx ended. It is for those
// who build another lock on Redlock's rounds. c has to have its defaults.
func (c Config) Ask(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []Answer {
	if !c.Sequential {
		return c.round(ctx, nodes, request)
	}
	var out []Answer
	for i := range nodes {
		out = append(out, c.round(ctx, nodes[i:i+1], request)...)
	}
	return out
}

// round asks nodes at once.
//
// One timer, the client's own, ends it: a driver that ignores its context can
// hold up nobody, and no two timers compete for one instant. The drivers'
// deadline comes an eighth later, to free what they hold. Whoever asks is woken
// once, by the last answer or the end; answers that come later go nowhere.
func (c Config) round(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []Answer {
	out := make([]Answer, len(nodes))
	for i, n := range nodes {
		out[i] = Answer{Node: n, Err: errNoAnswer}
	}
	if ctx.Err() != nil || len(nodes) == 0 {
		return out
	}
	nodeCtx, cancel := context.WithTimeout(ctx, c.Timeout+c.Timeout/8)
	defer cancel()

	var mu sync.Mutex // guards the answers, and how many are left
	left, all := len(nodes), make(chan struct{})
	for i, n := range nodes {
		go func() {
			deepen(i)
			value, err := request(nodeCtx, n)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil { // else what drivers say of it is no answer
				out[i].Value, out[i].Err = value, err
			}
			if left--; left == 0 {
				close(all)
			}
		}()
	}
	select {
	case <-all:
		return out
	case <-c.After(c.Timeout):
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(out)
}

// deep is what go-redis needs of a stack, nearly.
const deep = 7000

// deepen has a new goroutine's stack grow while there is nothing on it to be moved. A driver would
// double it twice in the midst of its work: that took a tenth of the processor's time of a
// simulated run with go-redis.
//
//go:noinline
func deepen(i int) byte {
	var room [deep]byte
	return room[i]
}

// Tally counts answers; a node that gave none is in All only.
type Tally struct{ Yes, No, All int }

// Count counts answers.
func Count(answers []Answer) Tally {
	t := Tally{All: len(answers)}
	for _, a := range answers {
		switch {
		case a.Yes():
			t.Yes++
		case a.No():
			t.No++
		}
	}
	return t
}

// causes lists the nodes that did not say yes.
func (c *Client) causes(answers []Answer) []NodeError {
	var out []NodeError
	for _, a := range answers {
		err := a.Err
		if err == nil {
			err = errNo
		}
		if !a.Yes() {
			out = append(out, NodeError{c.name(a.Node), err})
		}
	}
	return out
}

func (c *Client) name(node int) string {
	if s, ok := c.cfg.Nodes[node].(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("node %d", node+1)
}
