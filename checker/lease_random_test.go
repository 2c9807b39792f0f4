package checker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"lockpick/harness/history"
)

// contradiction says where porcupine or the certificate contradicts the fast
// procedure: about the whole, and about the sessions of the witness alone.
func (c leaseCase) contradiction() string {
	k := c.judge()
	if k.worst == nil {
		if why := k.uncertified(); why != "" {
			return "said to hold, but " + why
		}
		if c.linearizable() != porcupine.Ok {
			return "said to hold, and porcupine says no"
		}
		return ""
	}
	if c.linearizable() != porcupine.Illegal {
		return fmt.Sprintf("said to be violated (%s), and porcupine says yes", k.worst.kind)
	}
	alone := leaseCase{}
	for _, s := range k.worst.sessions {
		for n, of := range c {
			if s.Name() == fmt.Sprint(n) {
				alone[n] = of
			}
		}
	}
	if alone.linearizable() != porcupine.Illegal {
		return fmt.Sprintf("said to be violated (%s), and porcupine says yes to the witness", k.worst.kind)
	}
	return ""
}

func (c leaseCase) linearizable() porcupine.CheckResult {
	var ops []porcupine.Operation
	for n := 1; n <= 9; n++ {
		ops = putLeaseOps(ops, n, c[n])
	}
	return porcupine.CheckOperationsTimeout(leaseModel, ops, 0)
}

// TestLeaseAgainstPorcupine compares the two judges over random operations of
// two to four sessions, of every outcome, at few instants so that many coincide.
func TestLeaseAgainstPorcupine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	const cases = randomLeases
	seen := map[string]int{}
	for i := range cases {
		c := randomLease(rnd)
		if why := c.contradiction(); why != "" {
			t.Fatalf("case %d: %s:\n%s", i, why, c)
		}
		kind := ""
		if k := c.judge(); k.worst != nil {
			kind = k.worst.kind
		}
		seen[kind]++
	}
	for _, kind := range []string{"", Overlap, Buried, Phantom, DoubleRelease, HeldBefore, HeldAfter, LostEarly} {
		if seen[kind] < cases/500 {
			t.Errorf("only %d of %d cases are %q: the comparison is one-sided", seen[kind], cases, kind)
		}
	}
	t.Logf("%v", seen)
}

// randomLease is a key that does as it likes. Half of the sessions are in the
// order of a sequential client, so that not everything is absurd.
func randomLease(rnd *rand.Rand) leaseCase {
	c := leaseCase{}
	span := 6 + rnd.IntN(20)
	for n := 1; n <= 2+rnd.IntN(3); n++ {
		at, inOrder := int64(rnd.IntN(span)), rnd.IntN(8) > 0
		add := func(op string, outcome history.Type, lapse int64) {
			o := leaseOp{op: op, outcome: outcome, lapse: lapse}
			if !inOrder {
				at = int64(rnd.IntN(span))
			}
			o.call = at + int64(rnd.IntN(3))
			o.ret = o.call + int64(rnd.IntN(4))
			at = o.ret + 1
			if outcome == history.Info {
				o.ret = never
			}
			c[n] = append(c[n], o)
		}
		lapse := func() int64 {
			if rnd.IntN(12) == 0 {
				return never
			}
			return at + int64(rnd.IntN(14)-3)
		}
		outcome := func() history.Type {
			return []history.Type{history.OK, history.OK, history.OK, history.Fail, history.Info}[rnd.IntN(5)]
		}
		c[n] = nil
		switch got := rnd.IntN(20); {
		case got == 0: // it failed, and is left out
		case got < 4:
			add(history.OpAcquire, history.Info, math.MinInt64)
		default:
			add(history.OpAcquire, history.OK, lapse())
		}
		for rnd.IntN(3) == 0 {
			if o := outcome(); o != history.Info {
				add(history.OpExtend, o, lapse())
			}
		}
		for range []int{0, 1, 1, 1, 1, 2}[rnd.IntN(6)] {
			add(history.OpRelease, outcome(), never)
		}
	}
	return c
}

func (c leaseCase) String() string {
	var all string
	for n := 1; n <= len(c); n++ {
		for _, o := range c[n] {
			all += fmt.Sprintf("%d %s %s %d-%d lapse %d\n", n, o.op, o.outcome, o.call, o.ret, o.lapse)
		}
	}
	return all
}
