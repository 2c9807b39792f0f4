package liveness

import "lockpick/harness/history/facts"

// conditions is a record with what its faults did to those that a lock needs.
type conditions struct {
	*facts.Facts
	down *outages
	keys lapses
}

func conditionsOf(r *facts.Facts) *conditions {
	own := ownClocks(r)
	return &conditions{Facts: r, down: outagesOf(r, own), keys: lapsesOf(r, own)}
}
