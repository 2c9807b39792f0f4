package scenario

import (
	"maps"
	"slices"
	"time"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// MinTimeout is the shortest node timeout that scaling makes. On a busy machine
// a real Redis that is well may wait tens of milliseconds for a processor; a
// shorter bound would take it for dead and measure the machine.
const MinTimeout = 50 * time.Millisecond

// MinDownAfter is likewise the shortest time that scaling gives a master to answer
// its sentinels. To reach one that they have just promoted may take them half of it,
// and a busy machine some of the rest.
const MinDownAfter = time.Second

// Scaled returns a deep copy in which every duration is multiplied by f, so
// that a scenario of minutes runs in seconds of real time. The node timeout is
// not made shorter than MinTimeout, unless it was shorter from the start, and the
// patience of sentinels not shorter than MinDownAfter.
func (s Scenario) Scaled(f float64) Scenario {
	by := func(d time.Duration) time.Duration { return time.Duration(float64(d) * f) }
	byRange := func(r client.Range) client.Range { return client.Range{Min: by(r.Min), Max: by(r.Max)} }

	l := &s.Lock
	l.Timeout = max(by(l.Timeout), min(l.Timeout, MinTimeout))
	l.TTL, l.RetryMin, l.RetryMax = by(l.TTL).Round(time.Millisecond), by(l.RetryMin), by(l.RetryMax) // Redis counts in milliseconds
	s.Topology.DownAfter = max(by(s.Topology.DownAfter), min(s.Topology.DownAfter, MinDownAfter))
	w := &s.Workload
	w.Think, w.Hold, w.Prepare, w.For, w.Extend = byRange(w.Think), byRange(w.Hold), byRange(w.Prepare), by(w.For), by(w.Extend)
	s.Limit, s.Limits.Hold = by(s.Limit), by(s.Limits.Hold)

	s.Tags = slices.Clone(s.Tags)
	s.Expect = maps.Clone(s.Expect)
	s.Clients = slices.Clone(s.Clients)
	for i := range s.Clients {
		c := &s.Clients[i]
		c.Delay, c.Reach = by(c.Delay), slices.Clone(c.Reach)
		c.Start = copied(c.Start, func(e *nemesis.Event) { e.After = by(e.After) })
		c.Think = copied(c.Think, func(r *client.Range) { *r = byRange(*r) })
		c.Hold = copied(c.Hold, func(r *client.Range) { *r = byRange(*r) })
		c.Cycles = copied(c.Cycles, nil)
	}
	s.Random = copied(s.Random, func(r *nemesis.Random) {
		for _, span := range []*nemesis.Span{&r.Every, &r.Lasts} {
			*span = nemesis.Span{Min: by(span.Min), Max: by(span.Max)}
		}
		r.Faults, r.Modes, r.Shapes = slices.Clone(r.Faults), slices.Clone(r.Modes), slices.Clone(r.Shapes)
	})
	s.Plan = slices.Clone(s.Plan)
	for i := range s.Plan {
		t, fault := &s.Plan[i].When, &s.Plan[i].Fault
		t.Before = by(t.Before)
		t.At = copied(t.At, func(d *time.Duration) { *d = by(*d) })
		t.Event = copied(t.Event, func(e *nemesis.Event) { e.After = by(e.After) })
		t.Point, t.Message = copied(t.Point, nil), copied(t.Message, nil)
		fault.Targets = slices.Clone(fault.Targets)
		fault.For = copied(fault.For, func(d *time.Duration) { *d = by(*d) })
		fault.Until = copied(fault.Until, func(e *nemesis.Event) { e.After = by(e.After) })
		fault.Timer = copied(fault.Timer, func(t *nemesis.Timer) { t.Step = by(t.Step) })
		fault.By = by(fault.By)
		for _, r := range []*nemesis.Span{&fault.Delay, &fault.Every, &fault.Lasts} {
			*r = nemesis.Span{Min: by(r.Min), Max: by(r.Max)}
		}
	}
	return s
}

// copied returns a changed copy of what p points to, or nil for nil.
func copied[T any](p *T, change func(*T)) *T {
	if p == nil {
		return nil
	}
	c := *p
	if change != nil {
		change(&c)
	}
	return &c
}
