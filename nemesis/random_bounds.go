package nemesis

import (
	"time"
)

// Bounds of what is drawn where nothing keeps a fault within the assumptions.
const (
	mostRate  = 2 // a clock runs at most so much faster or slower
	leastRate = 1.0 / mostRate
)

// clockShare is the share of the margin that one clock may use up within the
// assumptions. One that goes forward after it was back goes twice as far in a TTL,
// and a client's may do the opposite of a node's: four times the share are left.
const clockShare = 0.2

// leastSlew is how long it takes to slew a clock by a millisecond.
const leastSlew = 2 * time.Second

// slews says whether a clock that is slewed stays within the assumptions.
func (d *drawing) slews() bool { return slewRate*float64(d.TTL) <= clockShare*float64(d.Margin) }

// lapse is how long a node stays away that forgets. A lock that it has granted may be
// believed in for a TTL, and it may have granted until it fell; the margin covers
// what its clock may be wrong by. Source: Redis documentation, "Distributed Locks
// with Redis", performance, crash recovery and fsync: delayed restarts.
func (d *drawing) lapse() time.Duration { return d.TTL + 2*d.Margin + d.TTL/20 }

// mostOffset is how far clocks differ that nobody has set for long.
const mostOffset = 24 * time.Hour

// offsets are the nodes' clocks that are ahead from the outset, for good: before the
// clients begin there is no key that would lapse by it. Ahead is enough, for only
// what lies between two clocks could matter.
func (d *drawing) offsets(s style) []drawn {
	if d.Begin == 0 || d.chance(s.Word, "offsets") < 0.5 {
		return nil
	}
	var out []drawn
	for i, node := range d.some(d.Nodes, s.Word, "ahead") {
		at := time.Duration(i) // each at an instant of its own
		by := d.logarithmic(Span{time.Millisecond, mostOffset}, s.Word, "ahead by", node)
		out = append(out, drawn{at, Step{When: Trigger{At: &at}, Fault: Fault{Kind: s.Kind.Name, Targets: []string{node}, By: by}, Drawn: true}})
	}
	return out
}

// lag is for how long a replica has heard nothing of its master when it takes its
// place: in half of the failovers, 0 in the others.
func (d *drawing) lag(s style, k string, at time.Duration) time.Duration {
	if s.Kind.Name != failover.Name || d.chance(s.Word, "lags", k) < 0.5 {
		return 0
	}
	return min(at-d.Begin, d.logarithmic(Span{d.TTL / 10, 2 * d.TTL}, s.Word, "lag", k))
}

// behind cuts the replica off before its failover, and mends what is left of the link
// in time.
func (d *drawing) behind(failover Step, at, lag time.Duration) Step {
	link := LinkName(failover.Fault.Targets[0], Replica)
	lasts := lag + (d.over-at-lag)/2
	return Step{When: Trigger{At: &at}, Fault: Fault{Kind: cut.Name, Mode: CutHold, Targets: []string{link}, For: &lasts}, Drawn: true}
}
