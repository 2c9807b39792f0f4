// Package mutex judges the answers of a lock that has no leases, as other people's
// histories tell of them: could one mutex have given them?
//
// Check is asked by one of two models. Both have one state for each lock, and an
// operation changes it at one instant between its call and its return:
//
//	Mutex        acquire: free → held            release: held → free, whoever calls it
//	OwnerMutex   acquire: free → held by p       release: held by p → free, by p alone
//
// Mutex is Knossos' model of that name. OwnerMutex is not re-entrant: an acquire of the
// process that holds waits for its release, like anybody's. What failed did not happen.
// What has no outcome happened at some instant after its call, or never. Nothing lapses:
// a lease that was lost is a second holder here, and package checker judges those.
//
// A walk (walk.go) goes through the calls and returns of one lock in the order of time and
// tells a judge of each; plain.go and owner.go are the judges. Both decide exactly, in
// O(n log n), so no second judge is asked. A violation is found at the first return that
// can't be explained: what was recorded before it can be.
//
// Deliberately missing: handles, deadlines, and what else Check of package checker judges.
package mutex

import (
	"fmt"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Names of the models, and of the property of each: that one such lock could have given
// these answers.
const (
	Mutex      = "mutex"
	OwnerMutex = "owner-mutex"
)

// Models lists them.
func Models() []string { return []string{Mutex, OwnerMutex} }

// Check judges operations by a model. They are in the order of calls, no two events
// have one instant, and a process does one thing after the other, and nothing after an
// operation without an outcome.
func Check(model string, ops []facts.Operation) verdict.Verdict {
	res := verdict.Result{Property: model, Outcome: verdict.Holds}
	v := verdict.Verdict{Schema: verdict.Schema, Model: model, Second: verdict.Undecided}
	locks, names := byLock(ops)
	granted := 0
	for _, name := range names {
		for _, o := range locks[name] {
			if o.Outcome() == history.OK {
				res.Occasions++
			}
			if acquires(o) && o.Outcome() == history.OK {
				granted++
			}
		}
		c := walk(locks[name], newJudge(model))
		if c == nil {
			continue
		}
		res.Incidents++
		if w := c.witness(name); res.Witness == nil || w.To < res.Witness.To {
			res.Outcome, res.Because, res.Witness = verdict.Violated, c.because, w
		}
	}
	switch {
	case res.Outcome == verdict.Violated:
	case granted == 0:
		v.Assumption = "nobody acquired a lock"
		res.Outcome, res.Because = verdict.Undecided, "the run is vacuous: "+v.Assumption
	default:
		res.Because = fmt.Sprintf("one %s could have given these answers, %d of them ok", model, res.Occasions)
	}
	v.Results = []verdict.Result{res}
	return v
}

func newJudge(model string) judge {
	if model == OwnerMutex {
		return &owner{}
	}
	return &plain{}
}

// byLock tells operations apart by their lock, in the order of first calls.
func byLock(ops []facts.Operation) (locks map[string][]facts.Operation, names []string) {
	locks = map[string][]facts.Operation{}
	for _, o := range ops {
		of, ok := locks[o.Call.Key]
		if !ok {
			names = append(names, o.Call.Key)
		}
		locks[o.Call.Key] = append(of, o)
	}
	return locks, names
}

// clash is an answer that can't be explained.
type clash struct {
	because string            // one sentence
	ops     []facts.Operation // what it takes to see that, the unexplained one last
}

// witness is the events that prove it, all of one lock.
func (c *clash) witness(lock string) *verdict.Witness {
	w := &verdict.Witness{Key: lock}
	var events []*history.Event
	for _, o := range c.ops {
		if !slices.Contains(w.Sessions, o.Call.Process) {
			w.Sessions = append(w.Sessions, o.Call.Process)
		}
		events = append(events, o.Call, o.Return)
	}
	w.Events = verdict.Numbered(events)
	first := slices.MinFunc(c.ops, func(a, b facts.Operation) int { return verdict.ByTime(a.Call, b.Call) })
	w.From, w.To = first.Call.T, c.ops[len(c.ops)-1].Return.T
	return w
}
