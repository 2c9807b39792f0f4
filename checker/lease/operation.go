package lease

import (
	"math"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// leaseOp is one operation on the lease object, as the fast procedure takes it.
type leaseOp struct {
	facts.Operation
	op      string
	outcome history.Type
	call    int64 // it took effect between call and ret, if it did
	ret     int64 // never, if the outcome is unknown
	lapse   int64 // acquire and extend: the earliest true time at which the lease may lapse
	late    bool  // a release of unknown outcome that can't be what ended the hold; see handles
}

// number is the place of an operation among those of its client.
func (o *leaseOp) number() int64 { return o.Call.N }

// reader reads sessions, and widens what it reads by the error of the stamps.
type reader struct {
	ε    int64
	ops  []leaseOp        // memory that sessions share
	list bool             // whether all conflicts are kept
	gone map[string]int64 // when clients were
	any  bool             // a lease may lapse at any time: its lock tells nobody
}

// operations is a session's operations, in the order in which they were called.
// They are good until the next call.
//
// The error of the stamps widens every interval and brings every lapse forward: it
// can hide a violation, never invent one. What a client did after something else it
// did after it all the same: their order is a constraint of its own, by number, and
// moves no stamp.
func (in *reader) operations(s *facts.Session) []leaseOp {
	ops := leaseOps(s, in.ops[:0])
	in.ops = ops
	in.survived(s, ops)
	ε := in.ε
	if ε == 0 {
		return ops
	}
	for i := range ops {
		o := &ops[i]
		o.call -= ε
		if o.ret != facts.Never {
			o.ret += ε
		}
		if o.lapse != facts.Never && o.lapse != math.MinInt64 {
			o.lapse -= ε
		}
	}
	return ops
}

// survived lets a lease without a deadline lapse with its client, if the lock has a time to
// live: nobody says how long it goes on. Where the lock tells nobody, it may at any time.
func (in *reader) survived(s *facts.Session, ops []leaseOp) {
	if len(in.gone) == 0 && !in.any {
		return
	}
	for i := range ops {
		o := &ops[i]
		if in.any && o.outcome == history.OK && o.op != history.OpRelease {
			o.lapse = facts.Nothing
		}
		if o.lapse != facts.Never || o.outcome != history.OK || o.op == history.OpRelease {
			continue
		}
		if t, gone := in.gone[s.Client()]; gone {
			o.lapse = t
		}
	}
}

// mortal is when clients were gone, of a lock that ends by itself.
func mortal(r *facts.Facts) map[string]int64 {
	if r.Params.TTL == 0 {
		return nil
	}
	return r.Gone
}

// leaseOps is a session's operations with their stamps as recorded. Two kinds
// are left out, and neither judge sees them. A failed acquire says nothing, for
// Redlock may fail for no reason. Nor does an extension of unknown outcome: a
// lease lapses when its client stops believing, and an answer that the client
// never heard moves no deadline; nor is it evidence of holding, for it may never
// have taken effect.
func leaseOps(s *facts.Session, ops []leaseOp) []leaseOp {
	add := func(o facts.Operation, op string, lapse int64) {
		x := leaseOp{Operation: o, op: op, outcome: o.Outcome(), call: o.Call.T, ret: facts.Never, lapse: lapse}
		if x.outcome != history.Info {
			x.ret = o.Return.T
		}
		ops = append(ops, x)
	}
	lapse := s.Until // facts.Nothing: nobody knows what an acquire without an answer claims
	switch {
	case s.Granted():
		ops = append(ops, leaseOp{Operation: s.Acquire, op: history.OpAcquire, outcome: history.OK, call: s.Called, ret: s.Ended, lapse: lapse})
	case s.Acquire.Outcome() == history.Info:
		add(s.Acquire, history.OpAcquire, lapse)
	}
	for x := range s.Actions() {
		switch {
		case x.Call.Op == history.OpRelease:
			add(x, history.OpRelease, facts.Never)
		case x.Call.Op != history.OpExtend:
		case x.Outcome() == history.OK:
			lapse = facts.Renewed(x.Return, lapse)
			add(x, history.OpExtend, lapse)
		case x.Outcome() == history.Fail:
			add(x, history.OpExtend, facts.Never)
		}
	}
	return ops
}
