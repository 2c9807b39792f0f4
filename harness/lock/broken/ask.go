package broken

import "context"

// votes counts answers; a node that gave none is in neither.
type votes struct{ yes, no int }

// request is one step on one node.
type request func(ctx context.Context, node int) (bool, error)

// ask asks all nodes, at once or one after another.
func (l *broken) ask(ctx context.Context, r request) votes {
	var v votes
	if !l.cfg.Sequential {
		l.round(ctx, 0, len(l.clients), r, &v)
		return v
	}
	for i := range l.clients {
		l.round(ctx, i, i+1, r, &v)
	}
	return v
}

// round asks the nodes in [from, to) at once. As in the reference, one timer of
// the client's own ends it, and the drivers' deadline comes a little later.
func (l *broken) round(ctx context.Context, from, to int, r request, v *votes) {
	if ctx.Err() != nil {
		return
	}
	timeout := l.cfg.Timeout
	nodeCtx, cancel := context.WithTimeout(ctx, timeout+timeout/8)
	defer cancel()
	type answer struct {
		yes bool
		err error
	}
	answers := make(chan answer, to-from)
	for node := from; node < to; node++ {
		go func() {
			yes, err := r(nodeCtx, node)
			answers <- answer{yes, err}
		}()
	}
	end := l.cfg.After(timeout)
	for range to - from {
		select {
		case a := <-answers:
			switch {
			case a.err != nil:
			case a.yes:
				v.yes++
			default:
				v.no++
			}
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}
