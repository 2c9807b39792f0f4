package lease

import (
	"cmp"
	"iter"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// handles is what the order of one client's operations says of its sessions of one
// lock, where it uses a handle after it has begun another session. Of two sessions one
// was over when the other began: if it is shown to hold by one, then by the other and
// again by the first, it must have held both. And a release of unknown outcome that it
// called when it was shown to hold by another handle can't have ended the hold before.
type handles struct {
	passed map[*facts.Session]sign // what showed that the session was over
	mixed  map[*facts.Session]*conflict
}

// sign is an operation that shows that its session held.
type sign struct {
	op leaseOp
	by *facts.Session
}

// handlesOf is made of the sessions of one lock.
func handlesOf(ss iter.Seq[*facts.Session], operations func(*facts.Session) []leaseOp) *handles {
	h := &handles{passed: map[*facts.Session]sign{}, mixed: map[*facts.Session]*conflict{}}
	clients := map[string][]sign{}
	for s := range ss {
		if s.Acquire.Outcome() == history.Fail {
			continue // it is a conflict by itself if it is shown to hold
		}
		for _, o := range operations(s) {
			if o.outcome == history.OK {
				clients[s.Client()] = append(clients[s.Client()], sign{o, s})
				if o.op == history.OpRelease {
					break // what shows that it held afterwards is a conflict by itself, too
				}
			}
		}
	}
	for _, all := range clients {
		slices.SortFunc(all, func(a, b sign) int { return cmp.Compare(a.op.number(), b.op.number()) })
		last := map[*facts.Session]leaseOp{}
		for i, x := range all {
			if before, ok := last[x.by]; ok && all[i-1].by != x.by && h.mixed[x.by] == nil {
				between := all[i-1]
				h.mixed[x.by] = &conflict{kind: verdict.Overlap, sessions: []*facts.Session{x.by, between.by},
					ops: []leaseOp{before, between.op, x.op}, From: between.op.call, To: between.op.ret}
			}
			last[x.by] = x.op
			if i > 0 && all[i-1].by != x.by && h.passed[all[i-1].by].by == nil {
				h.passed[all[i-1].by] = x
			}
		}
	}
	return h
}

// mark marks the releases that can't have ended a session's hold.
func (h *handles) mark(s *facts.Session, ops []leaseOp) []leaseOp {
	x := h.passed[s]
	for i := range ops {
		o := &ops[i]
		o.late = x.by != nil && o.op == history.OpRelease && o.outcome == history.Info && o.number() > x.op.number()
	}
	return ops
}

// explain adds to a conflict the session by which a release of its sessions came too late.
func (h *handles) explain(c *conflict, operations func(*facts.Session) []leaseOp) {
	for _, s := range slices.Clone(c.sessions) {
		if x := h.passed[s]; x.by != nil && !slices.Contains(c.sessions, x.by) && slices.ContainsFunc(operations(s), func(o leaseOp) bool { return o.late }) {
			c.sessions, c.ops = append(c.sessions, x.by), append(c.ops, x.op)
		}
	}
}
