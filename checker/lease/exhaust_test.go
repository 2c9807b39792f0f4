package lease

import (
	"fmt"
	"slices"
	"testing"

	"lockpick/harness/history"
	"lockpick/internal/histories"
)

// TestLeaseExhaustively enumerates all cases of two sessions with one or two clients. Each session
// has an acquire, and there are up to two releases, or an extension and a release. The cases cover
// every order of calls and returns, each at the same instant as the previous one or later, every
// outcome, and a lapse between any two of these instants. Cases with an extension contain no equal
// instants. Without the build tag exhaustive, the test compares every leaseStride-th case, and with
// -short every shortStride-th.
func TestLeaseExhaustively(t *testing.T) {
	e := &enumeration{t: t, stride: leaseStride}
	if testing.Short() {
		e.stride = shortStride
	}
	for _, s := range leaseShapes() {
		e.shape(s)
	}
	t.Logf("%d of %d cases compared, %d violated", e.numCompared, e.numCases, e.numViolated)
	if e.numViolated < e.numCompared/10 || e.numViolated > e.numCompared*9/10 {
		t.Errorf("%d of %d cases are violated; the comparison is one-sided", e.numViolated, e.numCompared)
	}
}

// shape lists each client's operations in order, without instants.
type shape struct {
	clients       [][]shapeOp
	equalInstants bool
}

type shapeOp struct {
	session, op string
	outcome     history.Type
}

func leaseShapes() []shape {
	outcomes := []history.Type{history.OK, history.Fail, history.Info}
	optionalRelease := func(session string) [][]shapeOp {
		all := [][]shapeOp{nil}
		for _, o := range outcomes {
			all = append(all, []shapeOp{{session, history.OpRelease, o}})
		}
		return all
	}
	acquire := func(session string, o history.Type) shapeOp { return shapeOp{session, history.OpAcquire, o} }
	var shapes []shape
	for _, a := range []history.Type{history.OK, history.Info} {
		for _, r := range optionalRelease("1") {
			for _, b := range []history.Type{history.OK, history.Info} {
				for _, q := range optionalRelease("2") {
					firstOps, secondOps := append([]shapeOp{acquire("1", a)}, r...), append([]shapeOp{acquire("2", b)}, q...)
					shapes = append(shapes, shape{[][]shapeOp{firstOps, secondOps}, true})
					for _, all := range singleClientOrders(firstOps, secondOps) {
						shapes = append(shapes, shape{[][]shapeOp{all}, true})
					}
				}
			}
			for _, x := range outcomes[:2] {
				firstOps := append([]shapeOp{acquire("1", a), {"1", history.OpExtend, x}}, r...)
				shapes = append(shapes, shape{[][]shapeOp{firstOps, {acquire("2", history.OK)}}, false})
			}
		}
	}
	return shapes
}

// singleClientOrders returns the orders in which one client can perform the operations of two
// sessions.
func singleClientOrders(firstOps, secondOps []shapeOp) [][]shapeOp {
	all := [][]shapeOp{slices.Concat(firstOps, secondOps)}
	if len(firstOps) > 1 {
		all = append(all, slices.Concat(firstOps[:1], secondOps, firstOps[1:]), slices.Concat(firstOps[:1], secondOps[:1], firstOps[1:], secondOps[1:]))
	}
	return all
}

// enumeration enumerates all instants of each shape.
type enumeration struct {
	t                                  *testing.T
	stride                             int
	numCases, numCompared, numViolated int
	currentShape                       shape
	events                             []history.Event
}

func (e *enumeration) shape(s shape) {
	e.currentShape = s
	e.placeNext(make([]int, len(s.clients)), 2)
}

// placeNext puts each client's next call or return at the instant at, or at the next instant.
func (e *enumeration) placeNext(done []int, at int64) {
	allPlaced := true
	for c, ops := range e.currentShape.clients {
		if done[c] == 2*len(ops) {
			continue
		}
		allPlaced = false
		o := ops[done[c]/2]
		v := history.Event{Process: fmt.Sprint("c", c+1), Type: history.Invoke, Op: o.op, Session: o.session, Key: "k"}
		if done[c]%2 == 1 {
			v.Type = o.outcome
		}
		done[c]++
		for _, v.T = range []int64{at, at + 2} {
			if v.T == at && (!e.currentShape.equalInstants || len(e.events) == 0) {
				continue
			}
			e.events = append(e.events, v)
			e.placeNext(done, v.T)
			e.events = e.events[:len(e.events)-1]
		}
		done[c]--
	}
	if allPlaced {
		e.lapse(0, at)
	}
}

// lapse tries a lapse at each odd instant, and no lapse at all, for each return from the i-th event
// on.
func (e *enumeration) lapse(i int, end int64) {
	if i == len(e.events) {
		e.compare()
		return
	}
	v := &e.events[i]
	if v.Type != history.OK || v.Op == history.OpRelease {
		e.lapse(i+1, end)
		return
	}
	for v.ValidUntil = 1; v.ValidUntil <= end+1; v.ValidUntil += 2 {
		e.lapse(i+1, end)
		v = &e.events[i]
	}
	v.ValidUntil = 0
	e.lapse(i+1, end)
}

func (e *enumeration) compare() {
	e.numCases++
	if e.numCases%e.stride != 0 {
		return
	}
	h := &history.History{Params: history.Params{Clients: []string{"c1", "c2"}[:len(e.currentShape.clients)]}, Events: slices.Clone(e.events)}
	for i := range h.Events {
		h.Events[i].N = int64(i + 1)
	}
	e.numCompared++
	if judgeLease(h).k.worstConflict != nil {
		e.numViolated++
	}
	compareWith := bruteForceContradiction
	if e.numCompared%porcupineStride == 0 {
		compareWith = contradiction
	}
	if reason := compareWith(h); reason != "" {
		e.t.Fatalf("case %d: %s:\n%s", e.numCases, reason, histories.FormatLines(h))
	}
}
