package checker

import (
	"math"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// leaseOp is one operation on the lease object, as both judges of
// lease-linearizable take it.
type leaseOp struct {
	operation
	op      string
	outcome history.Type
	owner   int   // the session, from 1; only porcupine needs it
	call    int64 // it took effect between call and ret, if it did
	ret     int64 // never, if the outcome is unknown
	lapse   int64 // acquire and extend: the earliest true time at which the lease may lapse
}

// operationsOf is a session's operations, in the order in which they were called.
// They are good until the next call.
//
// Equal stamps count as concurrent, but a client does one thing after the other,
// so within a session each call is put after the return before it. Then the
// error of the stamps widens every interval and brings every lapse forward: it
// can hide a violation, never invent one.
func (r *record) operationsOf(s *session) []leaseOp {
	ops := leaseOps(s, r.ops[:0])
	r.ops = ops
	ε := int64(r.Params.StampError)
	last := int64(math.MinInt64)
	for i := range ops {
		o := &ops[i]
		o.call = max(o.call, last+1)
		o.ret = max(o.ret, o.call)
		last = o.ret
		if o.ret == never {
			last = o.call
		} else {
			o.ret += ε
		}
		o.call -= ε
		if o.lapse != never && o.lapse != math.MinInt64 {
			o.lapse -= ε
		}
	}
	return ops
}

// leaseOps is a session's operations with their stamps as recorded. Two kinds
// are left out, and neither judge sees them. A failed acquire says nothing, for
// Redlock may fail for no reason. Nor does an extension of unknown outcome: a
// lease lapses when its client stops believing, and an answer that the client
// never heard moves no deadline; nor is it evidence of holding, for it may never
// have taken effect.
//
// All extensions that were granted carry the lapse of the last. The others'
// can't matter, for the session still held when the next was granted, and so the
// order of extensions outlives the error of the stamps.
func leaseOps(s *session, ops []leaseOp) []leaseOp {
	add := func(o operation, op string, lapse int64) {
		ops = append(ops, leaseOp{operation: o, op: op, outcome: o.Outcome(), call: o.Call.T, ret: o.Returned(), lapse: lapse})
	}
	lapse := int64(math.MinInt64) // nobody knows what an acquire without an answer claims
	switch s.Acquire.Outcome() {
	case history.OK:
		lapse = facts.Deadline(s.Acquire.Return, never)
		add(s.Acquire, history.OpAcquire, lapse)
	case history.Info:
		add(s.Acquire, history.OpAcquire, lapse)
	}
	extended := false
	for x := range s.Actions() {
		switch {
		case x.Call.Op == history.OpRelease:
			add(x.Operation, history.OpRelease, never)
		case x.Call.Op != history.OpExtend:
		case x.Outcome() == history.OK:
			extended = true
			lapse = facts.Deadline(x.Return, lapse)
			add(x.Operation, history.OpExtend, lapse)
		case x.Outcome() == history.Fail:
			add(x.Operation, history.OpExtend, never)
		}
	}
	if !extended {
		return ops
	}
	for i := range ops {
		if o := &ops[i]; o.op == history.OpExtend && o.outcome == history.OK {
			o.lapse = lapse
		}
	}
	return ops
}
