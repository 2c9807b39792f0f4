package exhaust

import (
	"slices"
	"time"
)

// order adds the constraints between all steps of the path.
func (t limits) order() {
	for c := range t.attempts {
		for n, a := range t.attempts[c] {
			t.course(c, n, a)
		}
	}
	t.nodes()
	switch t.scope.Property {
	case resourceSafety:
		t.resource()
	case fencingOrder:
		t.later()
	default:
		t.overlaps()
	}
}

// attemptOrder adds the constraints of one attempt.
func (t limits) course(c, n int, a *attempt) {
	set := t.asked(a)
	for _, r := range a.raised {
		t.exact(a.end, r.at, 0)
	}
	if a.late {
		t.round(a.start, a.pause, set)
		t.least(a.pause, a.end, t.gap)
		t.least(a.start, a.end, beliefWindow()+t.gap)
	} else {
		t.round(a.start, a.end, set)
	}
	if a.extends {
		t.exact(a.end, a.extend, t.after)
		t.round(a.extend, a.extended, roundState(t.scope.Nodes, a.ext, a.longer, a.lost))
		if a.longer {
			t.most(a.start, a.extended, beliefWindow()-t.gap)
		}
	}
	if !a.ended {
		return
	}
	if a.won {
		t.works(c, a)
	}
	for _, d := range a.del {
		t.least(a.release, d.at, t.gap)
	}
	if n+1 < len(t.attempts[c]) {
		wait := nodeTimeout // for the replies to the DELs
		if !a.won {
			wait += retry
		}
		t.exact(a.release, t.attempts[c][n+1].start, wait)
	}
}

// roundOrder adds the constraints between the messages of a round and the client's decision, which falls
// at the timeout or when all replies have arrived.
func (t limits) round(begin, end instant, r round) {
	if r.decides > 0 {
		t.most(begin, end, nodeTimeout-t.gap)
		t.exact(r.all[r.decides].at, end, 0)
	} else {
		t.exact(begin, end, t.lasts(r))
	}
	for n, d := range r.all {
		t.least(begin, d.at, t.gap)
		if n == r.decides {
			continue
		}
		if d.inTime {
			t.least(d.at, end, t.gap)
		} else {
			t.least(end, d.at, t.gap)
		}
	}
}

// holdTime returns how long a client works in a hold that it releases.
func (t *telling) held(c int) time.Duration {
	if t.extends(c) {
		return t.after + t.section
	}
	return t.section
}

// extends reports whether a client extends its lock in the path. It then does so in each hold that it
// releases.
func (t *telling) extends(c int) bool {
	return slices.ContainsFunc(t.attempts[c], func(a *attempt) bool { return a.extends })
}

// nodes adds the constraints between the messages at each node, and on the expiry of its keys.
func (t limits) nodes() {
	for n := 1; n <= t.scope.Nodes; n++ {
		var last, crash instant = -1, -1
		var k, disk keyed
		for i, s := range t.path {
			if s.Node != n {
				continue
			}
			at := t.when[i]
			if last >= 0 {
				t.least(last, at, t.gap)
			}
			last = at
			switch s.Action {
			case crashed:
				t.decided(i)
				switch t.scope.Restart {
				case Always:
				case everySec:
					t.unsynced(i, crash)
					k = disk
				default:
					k = keyed{}
				}
				crash = at
			case jumped:
				k = keyed{}
			case synced:
				disk = k
			case set, extend, del, Raise:
				if crash >= 0 { // the crash reset the connections, so later messages were sent after it
					t.least(crash, t.sent(s), t.back)
					if t.scope.Restart == Delayed {
						t.least(crash, t.sent(s), away+t.back)
					}
				}
				if k = t.told(k, s, at); s.Synced {
					disk = k
				}
			}
		}
	}
}

// downTime is how long a node with a delayed restart stays down.
const away = leaseTTL + time.Second

// afterGrants puts a crash after the locks granted before it, for a lock that notices the lost connection to
// a node that voted.
func (t limits) decided(crash int) {
	for _, s := range t.path[:crash] {
		if s.Action == acquired && t.hardened() {
			t.least(t.attempts[s.Client-1][s.Attempt-1].end, t.when[crash], t.gap)
		}
	}
}

// unsynced adds the constraints on the disk stall before a crash with fsync everysec: nothing that the crash loses
// was synced since the stall began.
func (t limits) unsynced(crash int, before instant) {
	i := slices.IndexFunc(t.faults, func(f faulty) bool { return f.at == t.when[crash] })
	stall, taken := t.faults[i].stall, false
	t.least(stall, t.when[crash], t.gap)
	if before >= 0 {
		t.least(before, stall, t.gap)
	}
	for j := crash - 1; j >= 0; j-- {
		switch s := t.path[j]; {
		case s.Node != t.path[crash].Node:
		case s.Action == crashed:
			return
		case s.Synced, s.Action == synced:
			t.least(t.when[j], stall, t.sync)
			taken = true
		case !taken:
			t.least(stall, t.when[j], t.gap)
			t.least(t.when[j], t.when[crash], t.sync) // so that the stall has an effect
		}
	}
}

// nodeKey is the key of a node.
type keyed struct {
	there bool
	set   instant // when it was set or extended
	owner Step
}

// sentAt returns when a message was sent.
func (t limits) sent(s Step) instant {
	a := t.attempts[s.Client-1][s.Attempt-1]
	switch s.Action {
	case extend:
		return a.extend
	case del:
		return a.release
	case Raise:
		return a.end
	}
	return a.start
}

// afterRequest returns a node's key after a request. The reply shows whether the key still existed or had
// expired, which constrains the request's time.
func (t limits) told(k keyed, s Step, at instant) keyed {
	own := k.owner.Client == s.Client && (k.owner.Attempt == s.Attempt || t.scope.Mistake == sameForRetries) || t.scope.Mistake == sameForClients
	var expired bool
	switch {
	case s.Action == set && s.Yes:
		expired = t.scope.Mistake != withoutNX
	case (s.Action == extend || s.Action == Raise) && !s.Yes:
		expired = own
	case s.Action == del && !s.Yes:
		return k
	}
	switch {
	case k.there && expired:
		t.least(k.set, at, leaseTTL+t.gap)
	case k.there && s.Action != del:
		t.most(k.set, at, leaseTTL-t.gap)
	}
	switch {
	case s.Action == set && s.Yes:
		return keyed{true, at, s}
	case s.Action == extend && s.Yes:
		k.set = at
	case s.Action == del:
		return keyed{}
	}
	return k
}

// Mistakes that change which keys a request may find, or when a window begins.
const (
	sameForRetries = "same-value-for-retries"
	sameForClients = "same-value-for-clients"
	withoutNX      = "set-without-nx"
	noElapsed      = "no-elapsed-check"
)

// endsInOverlap reports whether the story ends with both clients believing that they hold the lock.
func (t *telling) both() bool {
	return t.scope.Property == "" || t.scope.Property == MutualExclusion
}

// overlaps requires that each client believes when the other acquires, and for some time after it.
func (t limits) overlaps() {
	for c := range t.attempts {
		own, other := t.last(c), t.last(1-c)
		from := own.start
		switch {
		case own.longer:
			from = own.extend
		case t.scope.Mistake == noElapsed:
			from = own.end
		}
		t.most(from, other.end, beliefWindow()-overlap)
		if t.fixed(c) { // it releases after its section, independently of the other client
			t.most(own.end, other.end, t.held(c)-overlap)
		}
	}
}

// last returns the attempt by which a client believes at the end.
func (t *telling) last(c int) *attempt { return t.attempts[c][len(t.attempts[c])-1] }

// hasFixedHold reports whether the length of a client's section is already determined: by an earlier hold, or
// because the story does not end in an overlap.
func (t *telling) fixed(c int) bool {
	if !t.both() {
		return true
	}
	for _, a := range t.attempts[c] {
		if a.won && a.ended {
			return true
		}
	}
	return false
}
