package checker

import (
	"sync"

	"lockpick/checker/lease"
	"lockpick/checker/liveness"
	"lockpick/checker/resource"
	"lockpick/checker/second"
	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// record is the facts of a history with what is found of them for more than one property
// or number: the functions find it when they are first called.
type record struct {
	*facts.Facts
	beliefs *spans.Beliefs
	second  second.Judge

	lease    func() lease.Finding
	liveness func() *liveness.Run
	log      func() *resource.Log
}

func newRecord(h *history.History) *record {
	r := facts.Read(h)
	beliefs := spans.NewBeliefs(r)
	return &record{
		Facts: r, beliefs: beliefs, second: second.New(r),
		lease:    sync.OnceValue(func() lease.Finding { return lease.Judge(r, beliefs) }),
		liveness: sync.OnceValue(func() *liveness.Run { return liveness.Read(r, beliefs) }),
		log:      sync.OnceValue(func() *resource.Log { return resource.Read(r) }),
	}
}
