package checker

import (
	"math"
	"slices"
	"testing"

	"lockpick/harness/history"
)

// TestLeaseExhaustively goes through all cases of two sessions with an acquire
// each, up to two releases, or an extension and a release: every order of calls
// and returns, every outcome, and a lapse between any two of these instants.
// Without the tag exhaustive it compares every leaseStride-th.
func TestLeaseExhaustively(t *testing.T) {
	e := &enumeration{t: t}
	for _, ops := range leaseShapes() {
		e.shape(ops)
	}
	t.Logf("%d of %d cases compared, %d violated", e.compared, e.cases, e.violated)
	if e.violated < e.compared/10 || e.violated > e.compared*9/10 {
		t.Errorf("%d of %d are violated: the comparison is one-sided", e.violated, e.compared)
	}
}

// leaseShapes are operations without their instants.
func leaseShapes() [][]leaseOp {
	outcomes := []history.Type{history.OK, history.Fail, history.Info}
	sometimes := func(op string, owner int) [][]leaseOp {
		all := [][]leaseOp{nil}
		for _, o := range outcomes {
			all = append(all, []leaseOp{{op: op, outcome: o, owner: owner}})
		}
		return all
	}
	acquire := func(owner int, o history.Type) leaseOp {
		return leaseOp{op: history.OpAcquire, outcome: o, owner: owner}
	}
	var shapes [][]leaseOp
	for _, a := range []history.Type{history.OK, history.Info} {
		for _, r := range sometimes(history.OpRelease, 1) {
			for _, b := range []history.Type{history.OK, history.Info} {
				for _, q := range sometimes(history.OpRelease, 2) {
					shapes = append(shapes, slices.Concat([]leaseOp{acquire(1, a), acquire(2, b)}, r, q))
				}
			}
			for _, x := range outcomes[:2] {
				extend := leaseOp{op: history.OpExtend, outcome: x, owner: 1}
				shapes = append(shapes, slices.Concat([]leaseOp{acquire(1, a), acquire(2, history.OK), extend}, r))
			}
		}
	}
	return shapes
}

// enumeration gives one shape after the other all its instants.
type enumeration struct {
	t                         *testing.T
	cases, compared, violated int
	ops                       []leaseOp
}

func (e *enumeration) shape(ops []leaseOp) {
	e.ops = slices.Clone(ops)
	for i := range e.ops {
		e.ops[i].call, e.ops[i].ret = -1, never
	}
	e.place(0)
}

// place puts one call or return at the next even instant.
func (e *enumeration) place(at int64) {
	placed := true
	for i := range e.ops {
		o := &e.ops[i]
		switch {
		case o.call < 0:
			placed = false
			o.call = at
			e.place(at + 2)
			o.call = -1
		case o.ret == never && o.outcome != history.Info:
			placed = false
			o.ret = at
			e.place(at + 2)
			o.ret = never
		}
	}
	if placed {
		e.lapse(0, at)
	}
}

// lapse gives operations from the i-th on a lapse at each odd instant, and none.
func (e *enumeration) lapse(i int, end int64) {
	switch {
	case i == len(e.ops):
		e.compare()
		return
	case e.ops[i].op == history.OpRelease || e.ops[i].outcome == history.Fail:
		e.ops[i].lapse = never
		e.lapse(i+1, end)
		return
	case e.ops[i].outcome == history.Info: // an acquire; nobody knows what it claimed
		e.ops[i].lapse = math.MinInt64
		e.lapse(i+1, end)
		return
	}
	for at := int64(-1); at <= end; at += 2 {
		e.ops[i].lapse = at
		e.lapse(i+1, end)
	}
	e.ops[i].lapse = never
	e.lapse(i+1, end)
}

func (e *enumeration) compare() {
	e.cases++
	if e.cases%leaseStride != 0 {
		return
	}
	c := leaseCase{1: nil, 2: nil}
	for _, o := range e.ops {
		c[o.owner] = append(c[o.owner], o)
	}
	e.compared++
	if c.judge().worst != nil {
		e.violated++
	}
	if why := c.contradiction(); why != "" {
		e.t.Fatalf("case %d: %s:\n%s", e.cases, why, c)
	}
}
