package second

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Limits of the search, which is exponential in unknown outcomes.
const (
	operations = 60 // of one key, at most
	Unknown    = 8  // of these without an outcome
)

// Question is one operation as porcupine is asked about it. The translation is its own,
// and shares nothing with that of the fast procedure.
type Question struct {
	Owner   int // the session, from 1
	Op      string
	Outcome history.Type
	Call    int64
	Return  int64  // Never, if the outcome is unknown
	Until   int64  // the earliest true time at which the lease may lapse
	client  string // whose operations are in the order of their numbers,
	before  int    // and how many with an answer come before this one
}

// questions translates sessions for porcupine. It reports false where that is too much
// for its search.
func questions(r *facts.Facts, ss iter.Seq[*facts.Session]) (all []porcupine.Operation, few bool) {
	owner, unknown := 0, 0
	for s := range ss {
		owner++
		for _, o := range questionsOf(r, s, owner) {
			if all = append(all, o); o.Input.(Question).Outcome == history.Info {
				unknown++
			}
		}
		if len(all) > operations || unknown > Unknown {
			return nil, false
		}
	}
	inTurn(all)
	return all, true
}

// inTurn puts operations in the order of their numbers, which they bear as ClientId until
// then, and counts for each what its client did before it.
func inTurn(all []porcupine.Operation) {
	slices.SortFunc(all, func(a, b porcupine.Operation) int { return cmp.Compare(a.ClientId, b.ClientId) })
	answered := map[string]int{}
	for i := range all {
		q := all[i].Input.(Question)
		q.before = answered[q.client]
		if q.Outcome != history.Info {
			answered[q.client]++
		}
		all[i].Input, all[i].ClientId = q, i
	}
}

// questionsOf is one session's. A failed acquire says nothing, nor does an extension of
// unknown outcome.
func questionsOf(r *facts.Facts, s *facts.Session, owner int) (all []porcupine.Operation) {
	ε := int64(r.Params.StampError)
	until := int64(math.MinInt64)
	ask := func(o facts.Operation) {
		q := Question{Owner: owner, Op: o.Call.Op, Outcome: history.Info, Call: o.Call.T - ε, Return: facts.Never, Until: facts.Never, client: s.Client()}
		if o.Return != nil && o.Return.Type != history.Info {
			q.Outcome, q.Return = o.Return.Type, o.Return.T+ε
		}
		switch {
		case q.Op == history.OpRelease, q.Op == history.OpExtend && q.Outcome == history.Fail:
		case q.Op != history.OpAcquire && q.Op != history.OpExtend, q.Op == history.OpAcquire && q.Outcome == history.Fail, q.Op == history.OpExtend && q.Outcome == history.Info:
			return
		case q.Outcome == history.OK:
			switch claims := o.Return.ValidUntil; {
			case claims == 0 && until == math.MinInt64:
				until = facts.Never
				if t, gone := r.Gone[s.Client()]; gone && r.Params.TTL > 0 { // nobody says how long it goes on without its client
					until = t
				}
			case claims == 0:
			case claims < o.Return.T && q.Op == history.OpExtend:
				until = min(until, o.Return.T)
			default:
				until = claims
			}
			if q.Until = until; r.Params.Untold { // it may lapse at any time
				q.Until = math.MinInt64
			}
		default:
			q.Until = until
		}
		if q.Until != facts.Never && q.Until != math.MinInt64 {
			q.Until -= ε
		}
		all = append(all, porcupine.Operation{ClientId: int(o.Call.N), Input: q, Call: q.Call, Return: q.Return, Metadata: q.client})
	}
	ask(s.Acquire)
	for a := range s.Actions() {
		ask(a)
	}
	return all
}
