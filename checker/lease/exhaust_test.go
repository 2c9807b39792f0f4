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
	t.Logf("%d of %d cases compared, %d violated", e.compared, e.cases, e.violated)
	if e.violated < e.compared/10 || e.violated > e.compared*9/10 {
		t.Errorf("%d of %d cases are violated; the comparison is one-sided", e.violated, e.compared)
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
	sometimes := func(session string) [][]shapeOp {
		all := [][]shapeOp{nil}
		for _, o := range outcomes {
			all = append(all, []shapeOp{{session, history.OpRelease, o}})
		}
		return all
	}
	acquire := func(session string, o history.Type) shapeOp { return shapeOp{session, history.OpAcquire, o} }
	var shapes []shape
	for _, a := range []history.Type{history.OK, history.Info} {
		for _, r := range sometimes("1") {
			for _, b := range []history.Type{history.OK, history.Info} {
				for _, q := range sometimes("2") {
					one, two := append([]shapeOp{acquire("1", a)}, r...), append([]shapeOp{acquire("2", b)}, q...)
					shapes = append(shapes, shape{[][]shapeOp{one, two}, true})
					for _, all := range singleClientOrders(one, two) {
						shapes = append(shapes, shape{[][]shapeOp{all}, true})
					}
				}
			}
			for _, x := range outcomes[:2] {
				one := append([]shapeOp{acquire("1", a), {"1", history.OpExtend, x}}, r...)
				shapes = append(shapes, shape{[][]shapeOp{one, {acquire("2", history.OK)}}, false})
			}
		}
	}
	return shapes
}

// singleClientOrders returns the orders in which one client can perform the operations of two
// sessions.
func singleClientOrders(one, two []shapeOp) [][]shapeOp {
	all := [][]shapeOp{slices.Concat(one, two)}
	if len(one) > 1 {
		all = append(all, slices.Concat(one[:1], two, one[1:]), slices.Concat(one[:1], two[:1], one[1:], two[1:]))
	}
	return all
}

// enumeration enumerates all instants of each shape.
type enumeration struct {
	t                         *testing.T
	stride                    int
	cases, compared, violated int
	current                   shape
	events                    []history.Event
}

func (e *enumeration) shape(s shape) {
	e.current = s
	e.place(make([]int, len(s.clients)), 2)
}

// placeNext puts each client's next call or return at the instant at, or at the next instant.
func (e *enumeration) place(done []int, at int64) {
	placed := true
	for c, ops := range e.current.clients {
		if done[c] == 2*len(ops) {
			continue
		}
		placed = false
		o := ops[done[c]/2]
		v := history.Event{Process: fmt.Sprint("c", c+1), Type: history.Invoke, Op: o.op, Session: o.session, Key: "k"}
		if done[c]%2 == 1 {
			v.Type = o.outcome
		}
		done[c]++
		for _, v.T = range []int64{at, at + 2} {
			if v.T == at && (!e.current.equalInstants || len(e.events) == 0) {
				continue
			}
			e.events = append(e.events, v)
			e.place(done, v.T)
			e.events = e.events[:len(e.events)-1]
		}
		done[c]--
	}
	if placed {
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
	e.cases++
	if e.cases%e.stride != 0 {
		return
	}
	h := &history.History{Params: history.Params{Clients: []string{"c1", "c2"}[:len(e.current.clients)]}, Events: slices.Clone(e.events)}
	for i := range h.Events {
		h.Events[i].N = int64(i + 1)
	}
	e.compared++
	if judgeLease(h).k.worst != nil {
		e.violated++
	}
	judged := againstBruteForce
	if e.compared%porcupineStride == 0 {
		judged = contradiction
	}
	if why := judged(h); why != "" {
		e.t.Fatalf("case %d: %s:\n%s", e.cases, why, histories.Lines(h))
	}
}
