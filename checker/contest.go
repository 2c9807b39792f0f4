package checker

import (
	"iter"
	"slices"
)

// contest is one lock and those who want it. There may be millions of sessions,
// so what lists them is made when it is first asked for.
type contest struct {
	lock *lock
	name string
	wire *wire // nil: the links saw nothing of it

	listed  []*session            // memo of calls, where there are several locks
	granted []*session            // memo of grants
	passed  []int                 // memo of grantAfter: of each grant, the next to another client
	waited  *callers              // memo of callers
	asked   *asking               // memo of asking
	clients map[string][]*session // memo of of
	names   []string              // of these clients, in the order of their first call
	tenures []tenancy             // memo of tenancies
	kept    map[string][]interval // by node: keys that faults left there
	ready   map[string][]interval // by client: memo of majority
	noticed map[string][]interval // by client: memo of available
}

// contests is the locks of a record, in the order of first use.
func (r *record) contests() []*contest {
	if r.contested != nil {
		return r.contested
	}
	wires := r.Wires()
	byKey := map[string]*contest{}
	for _, l := range r.Locks {
		c := &contest{lock: l, name: l.Name, wire: wires[l.Name], ready: map[string][]interval{}, noticed: map[string][]interval{}}
		c.kept = r.kept(c.wire)
		byKey[c.name] = c
		r.contested = append(r.contested, c)
	}
	if len(byKey) < 2 {
		return r.contested
	}
	var last *contest
	for s := range r.Sessions() {
		if last == nil || last.name != s.Key() {
			last = byKey[s.Key()]
		}
		last.listed = append(last.listed, s)
	}
	return r.contested
}

// calls is a lock's sessions in the order of their call.
func (r *record) calls(c *contest) iter.Seq[*session] {
	if len(r.contested) == 1 {
		return r.Sessions()
	}
	return slices.Values(c.listed)
}

// grants is those that got the lock, in the order in which their acquires returned.
func (c *contest) grants() []*session {
	if c.granted == nil {
		for s := range c.lock.Sessions() {
			if s.Granted() {
				c.granted = append(c.granted, s)
			}
		}
	}
	return c.granted
}

// of is the sessions of each client, in the order of their call.
func (r *record) of(c *contest) map[string][]*session {
	if c.clients == nil {
		c.clients = map[string][]*session{}
		for s := range r.calls(c) {
			if _, ok := c.clients[s.Client()]; !ok {
				c.names = append(c.names, s.Client())
			}
			c.clients[s.Client()] = append(c.clients[s.Client()], s)
		}
	}
	return c.clients
}

// outliving is one client's sessions whose acquire had not returned at an instant.
func outliving(sessions []*session, at int64) []*session {
	return sessions[firstOf(sessions, func(s *session) bool { return s.Acquire.Ended() > at }):]
}

// grantAfter is the first grant after an instant to anybody but one client, or nil.
func (c *contest) grantAfter(at int64, but string) *session {
	grants := c.grants()
	if c.passed == nil {
		c.passed = make([]int, len(grants))
		for i := len(grants) - 1; i >= 0; i-- {
			c.passed[i] = i + 1
			if i+1 < len(grants) && grants[i+1].Client() == grants[i].Client() {
				c.passed[i] = c.passed[i+1]
			}
		}
	}
	i := firstOf(grants, func(s *session) bool { return s.Acquire.Return.T > at })
	if i < len(grants) && grants[i].Client() == but {
		i = c.passed[i]
	}
	if i == len(grants) {
		return nil
	}
	return grants[i]
}

// asking is when a lock's acquires were called and ended, each in the order of time.
type asking struct{ calls, ends []int64 }

// called and ended are how many were by an instant.
func (a *asking) called(at int64) int { return upTo(a.calls, at) }
func (a *asking) ended(at int64) int  { return upTo(a.ends, at) }

func (r *record) asking(c *contest) *asking {
	if c.asked == nil {
		c.asked = &asking{}
		for s := range r.calls(c) {
			c.asked.calls = append(c.asked.calls, s.Acquire.Call.T)
			c.asked.ends = append(c.asked.ends, s.Acquire.Ended())
		}
		slices.Sort(c.asked.calls)
		slices.Sort(c.asked.ends)
	}
	return c.asked
}

// firstOf is the place of the first session of which something holds that holds of
// all behind it.
func firstOf(sessions []*session, holds func(*session) bool) int {
	i, _ := slices.BinarySearchFunc(sessions, true, func(s *session, _ bool) int {
		if holds(s) {
			return 1
		}
		return -1
	})
	return i
}

// wait is where a session's client was trying to acquire.
func (r *record) wait(s *session) interval {
	if s.Acquire.Return != nil {
		return interval{s.Acquire.Call.T, s.Acquire.Return.T}
	}
	to := r.End
	if t, ok := r.Gone[s.Client()]; ok {
		to = min(to, t)
	}
	return interval{s.Acquire.Call.T, to}
}

// waits is where a client was trying to acquire a lock, as far as it has to do
// with a span. Who calls again within a retry delay of a failure has not stopped
// trying.
func (r *record) waits(c *contest, client string, in interval) []interval {
	var spans []interval
	for _, s := range outliving(r.of(c)[client], in.from) {
		if s.Acquire.Call.T >= in.to {
			break
		}
		spans = append(spans, r.wait(s))
	}
	return joined(spans, int64(r.Params.RetryMax))
}
