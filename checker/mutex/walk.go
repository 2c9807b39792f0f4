package mutex

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// judge is told of the calls and returns of one lock in the order of time. Of what
// failed it hears nothing, and what has no outcome does not return.
type judge interface {
	called(o *facts.Operation)
	returned(o *facts.Operation) *clash // nil: it can be explained
}

// walk tells a judge of operations until one can't be explained.
func walk(ops []facts.Operation, j judge) *clash {
	type step struct {
		at      int64
		o       *facts.Operation
		returns bool
	}
	steps := make([]step, 0, 2*len(ops))
	for i := range ops {
		o := &ops[i]
		if o.Outcome() == history.Fail {
			continue
		}
		steps = append(steps, step{o.Call.T, o, false})
		if o.Outcome() == history.OK {
			steps = append(steps, step{o.Return.T, o, true})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for _, s := range steps {
		if !s.returns {
			j.called(s.o)
		} else if c := j.returned(s.o); c != nil {
			return c
		}
	}
	return nil
}

func acquires(o facts.Operation) bool { return o.Call.Op == history.OpAcquire }

// named is an operation as a sentence names it: by whom, and where it is in the file.
func named(o *facts.Operation) string {
	n := fmt.Sprint("operation ", o.Call.N)
	if o.Return != nil {
		n = fmt.Sprintf("operations %d and %d", o.Call.N, o.Return.N)
	}
	return fmt.Sprintf("%s's %s (%s)", o.Call.Process, o.Call.Op, n)
}
