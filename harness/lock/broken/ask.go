package broken

import (
	"context"
	"errors"
)

// request is one step on one node.
type request func(ctx context.Context, node int) (int64, error)

// answer is what became of a request.
type answer struct {
	node  int
	value int64
	err   error
}

func (a answer) yes() bool { return a.err == nil && a.value > 0 }
func (a answer) no() bool  { return a.err == nil && a.value <= 0 }

// votes counts answers; a node that gave none is in neither.
type votes struct{ yes, no int }

func count(answers []answer) votes {
	var v votes
	for _, a := range answers {
		switch {
		case a.yes():
			v.yes++
		case a.no():
			v.no++
		}
	}
	return v
}

var errNoAnswer = errors.New("no answer in time")

// ask asks nodes, at once or one after another, and returns their answers in the same order.
func (l *broken) ask(ctx context.Context, nodes []int, r request) []answer {
	if !l.cfg.Sequential {
		return l.round(ctx, nodes, r)
	}
	var out []answer
	for i := range nodes {
		out = append(out, l.round(ctx, nodes[i:i+1], r)...)
	}
	return out
}

// round asks nodes at once. As in the reference, one timer of the client's own
// ends it, and the drivers' deadline comes a little later.
func (l *broken) round(ctx context.Context, nodes []int, r request) []answer {
	out := make([]answer, len(nodes))
	for i, n := range nodes {
		out[i] = answer{node: n, err: errNoAnswer}
	}
	if ctx.Err() != nil || len(nodes) == 0 {
		return out
	}
	timeout := l.cfg.Timeout
	nodeCtx, cancel := context.WithTimeout(ctx, timeout+timeout/8)
	defer cancel()
	type indexed struct {
		i int
		answer
	}
	answers := make(chan indexed, len(nodes))
	for i, n := range nodes {
		go func() {
			value, err := r(nodeCtx, n)
			answers <- indexed{i, answer{n, value, err}}
		}()
	}
	end := l.cfg.After(timeout)
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
