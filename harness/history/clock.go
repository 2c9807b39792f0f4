package history

import (
	"math"
	"slices"
)

// CameTrue returns the events with each ValidUntil as it came true. A client
// reckons it from what its clock shows when it gets the lock, as if that clock were
// right from then on. It stops believing at the first instant at which its clock
// shows the deadline, also if it steps back later; where clocks were turned
// (OpClock), that is another one:
//
//	clock shows     set back          deadline
//	     |-------------|\                |
//	                     \---------------|--->  later
//
// Events are in the order of time. They are not changed: without turned clocks
// they are returned as they are, otherwise they are copied.
func CameTrue(events []Event) []Event {
	var turns []Event
	var nodes []string // whose clocks no client believes in
	if len(events) > 0 && events[0].Params != nil {
		nodes = events[0].Params.Nodes
	}
	for i := range events {
		if events[i].Op == OpClock && !slices.Contains(nodes, events[i].Node) {
			turns = append(turns, events[i])
		}
	}
	if turns == nil {
		return events
	}
	out := make([]Event, len(events))
	copy(out, events)
	for i := range out {
		out[i].ValidUntil = out[i].Reached(turns)
	}
	return out
}

// Reached is ValidUntil as it came true after the turns of clocks, in the order
// of time; those of other clocks don't count.
func (e Event) Reached(turns []Event) int64 {
	if e.ValidUntil == 0 || e.Local == 0 {
		return e.ValidUntil
	}
	deadline := e.Local + e.ValidUntil - e.T // by its own clock
	at, shows, drift := e.T, e.Local, int64(0)
	for _, t := range turns {
		switch {
		case t.Node != e.Process || t.Wall != e.Wall:
		case t.T <= e.T:
			drift = t.Drift
		default:
			if due := reach(at, deadline-shows, drift); due <= t.T {
				return due
			}
			at, shows, drift = t.T, t.Local, t.Drift
			if shows >= deadline {
				return at
			}
		}
	}
	return reach(at, deadline-shows, drift)
}

// reach is when a clock that runs drift fast has gone on by span since at.
func reach(at, span, drift int64) int64 {
	if drift == 0 { // a float64 is too coarse for nanoseconds of days
		return at + span
	}
	speed := 1 + float64(drift)/1e9
	if speed <= 0 {
		return math.MaxInt64
	}
	return at + int64(math.Ceil(float64(span)/speed))
}
