package redlock

import (
	"context"
	"fmt"
)

// request is one step on one node. Its answer is above 0 for yes, and 0 for no.
type request func(ctx context.Context, n Node) (int64, error)

// answer is what became of a request.
type answer struct {
	node  int
	value int64
	err   error
}

func (a answer) yes() bool { return a.err == nil && a.value > 0 }
func (a answer) no() bool  { return a.err == nil && a.value <= 0 }

// ask asks nodes and returns their answers in the same order, at the latest
// when the time-out of each has passed or ctx ended.
func (c *Client) ask(ctx context.Context, nodes []int, r request) []answer {
	if !c.cfg.Sequential {
		return c.round(ctx, nodes, r)
	}
	var out []answer
	for i := range nodes {
		out = append(out, c.round(ctx, nodes[i:i+1], r)...)
	}
	return out
}

// round asks nodes at once.
//
// One timer, the client's own, ends it: a driver that ignores its context can
// hold up nobody, and no two timers compete for one instant. The drivers'
// deadline comes an eighth later, to free what they hold. Answers that come
// after the end go to the channel's buffer, so that no goroutine waits for a
// reader.
func (c *Client) round(ctx context.Context, nodes []int, r request) []answer {
	out := make([]answer, len(nodes))
	for i, n := range nodes {
		out[i] = answer{node: n, err: errNoAnswer}
	}
	if ctx.Err() != nil {
		return out
	}
	timeout := c.cfg.Timeout
	nodeCtx, cancel := context.WithTimeout(ctx, timeout+timeout/8)
	defer cancel()

	type indexed struct {
		i int
		answer
	}
	answers := make(chan indexed, len(nodes))
	for i, n := range nodes {
		go func() {
			value, err := r(nodeCtx, c.cfg.Nodes[n])
			answers <- indexed{i, answer{n, value, err}}
		}()
	}
	end := c.cfg.After(timeout)
	for range nodes {
		select {
		case a := <-answers:
			out[a.i] = a.answer
		case <-end:
			return out
		case <-ctx.Done():
			return out
		}
	}
	return out
}

// tally counts answers.
type tally struct{ yes, no, all int }

func count(answers []answer) tally {
	t := tally{all: len(answers)}
	for _, a := range answers {
		switch {
		case a.yes():
			t.yes++
		case a.no():
			t.no++
		}
	}
	return t
}

// causes lists the nodes that did not say yes.
func (c *Client) causes(answers []answer) []NodeError {
	var out []NodeError
	for _, a := range answers {
		err := a.err
		if err == nil {
			err = errNo
		}
		if !a.yes() {
			out = append(out, NodeError{c.name(a.node), err})
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
