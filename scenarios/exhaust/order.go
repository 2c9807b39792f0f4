package exhaust

import (
	"slices"
	"time"
)

// addAll adds all constraints on the path's times.
func (t ordering) addAll() {
	for c := range t.attempts {
		for n, a := range t.attempts[c] {
			t.addAttempt(c, n, a)
		}
	}
	t.addNodes()
	switch t.scope.Property {
	case resourceSafety:
		t.addResource()
	case fencingOrder:
		t.addAttemptStarts()
	default:
		t.addOverlap()
	}
}

func (t ordering) addAttempt(c, n int, a *attempt) {
	set := t.acquireRound(a)
	for _, r := range a.raised {
		t.exact(a.end, r.at, 0)
	}
	if a.late {
		t.addRound(a.start, a.pause, set)
		t.atLeast(a.pause, a.end, t.gap)
		t.atLeast(a.start, a.end, beliefWindow()+t.gap)
	} else {
		t.addRound(a.start, a.end, set)
	}
	if a.extends {
		t.exact(a.end, a.extend, t.extendAfter)
		t.addRound(a.extend, a.extended, newRound(t.scope.Nodes, a.ext, a.extendSucceeded, a.extendLost))
		if a.extendSucceeded {
			t.atMost(a.start, a.extended, beliefWindow()-t.gap)
		}
	}
	if !a.ended {
		return
	}
	if a.won {
		t.addRelease(c, a)
	}
	for _, d := range a.del {
		t.atLeast(a.release, d.at, t.gap)
	}
	if n+1 < len(t.attempts[c]) {
		wait := nodeTimeout // for the replies to the DELs
		if !a.won {
			wait += retry
		}
		t.exact(a.release, t.attempts[c][n+1].start, wait)
	}
}

// addRound adds the constraints between a round's messages and the client's decision. The client
// decides when all replies have arrived or the round times out.
func (t ordering) addRound(begin, end instant, r round) {
	if r.decidingNode > 0 {
		t.atMost(begin, end, nodeTimeout-t.gap)
		t.exact(r.arrivals[r.decidingNode].at, end, 0)
	} else {
		t.exact(begin, end, t.duration(r))
	}
	for n, d := range r.arrivals {
		t.atLeast(begin, d.at, t.gap)
		if n == r.decidingNode {
			continue
		}
		if d.inTime {
			t.atLeast(d.at, end, t.gap)
		} else {
			t.atLeast(end, d.at, t.gap)
		}
	}
}

// holdTime returns how long a client works before it releases the lock.
func (t *timedPath) holdTime(c int) time.Duration {
	if t.extends(c) {
		return t.extendAfter + t.section
	}
	return t.section
}

// extends reports whether a client extends the lock in the path. Such a client extends every hold
// that it releases.
func (t *timedPath) extends(c int) bool {
	return slices.ContainsFunc(t.attempts[c], func(a *attempt) bool { return a.extends })
}

// addNodes adds the constraints on each node's messages and the expiry of its keys.
func (t ordering) addNodes() {
	for n := 1; n <= t.scope.Nodes; n++ {
		var last, crash instant = -1, -1
		var k, disk nodeKey
		for i, s := range t.path {
			if s.Node != n {
				continue
			}
			at := t.when[i]
			if last >= 0 {
				t.atLeast(last, at, t.gap)
			}
			last = at
			switch s.Action {
			case nodeCrashed:
				t.addCrash(i)
				switch t.scope.Restart {
				case RestartAlways:
				case restartEverySec:
					t.addDiskStall(i, crash)
					k = disk
				default:
					k = nodeKey{}
				}
				crash = at
			case clockJumped:
				k = nodeKey{}
			case diskSynced:
				disk = k
			case setArrived, extendArrived, delArrived, raiseArrived:
				if crash >= 0 { // the crash reset all connections, so messages that arrive later were sent after it
					t.atLeast(crash, t.sentAt(s), t.back)
					if t.scope.Restart == RestartDelayed {
						t.atLeast(crash, t.sentAt(s), downTime+t.back)
					}
				}
				if k = t.afterRequest(k, s, at); s.Synced {
					disk = k
				}
			}
		}
	}
}

// downTime is how long a crashed node stays down with RestartDelayed.
const downTime = leaseTTL + time.Second

// addCrash makes a crash happen after the acquires that precede it in the path, because the hardened
// lock would notice that it lost the connection to a node that voted.
func (t ordering) addCrash(crash int) {
	for _, s := range t.path[:crash] {
		if s.Action == acquired && t.hardened() {
			t.atLeast(t.attempts[s.Client-1][s.Attempt-1].end, t.when[crash], t.gap)
		}
	}
}

// addDiskStall adds the constraints on the disk stall before a crash with fsync everysec. The stall
// prevents the changes that the crash loses from being synced.
func (t ordering) addDiskStall(crash int, before instant) {
	i := slices.IndexFunc(t.faults, func(f timedFault) bool { return f.at == t.when[crash] })
	stall, taken := t.faults[i].stall, false
	t.atLeast(stall, t.when[crash], t.gap)
	if before >= 0 {
		t.atLeast(before, stall, t.gap)
	}
	for j := crash - 1; j >= 0; j-- {
		switch s := t.path[j]; {
		case s.Node != t.path[crash].Node:
		case s.Action == nodeCrashed:
			return
		case s.Synced, s.Action == diskSynced:
			t.atLeast(t.when[j], stall, t.sync)
			taken = true
		case !taken:
			t.atLeast(stall, t.when[j], t.gap)
			t.atLeast(t.when[j], t.when[crash], t.sync) // so that the stall has an effect
		}
	}
}

// nodeKey is the key on a node and when it was set.
type nodeKey struct {
	there bool
	set   instant // when it was set or extended
	owner Step
}

// sentAt returns when the message that arrives in a step was sent.
func (t ordering) sentAt(s Step) instant {
	a := t.attempts[s.Client-1][s.Attempt-1]
	switch s.Action {
	case extendArrived:
		return a.extend
	case delArrived:
		return a.release
	case raiseArrived:
		return a.end
	}
	return a.start
}

// keyAfter returns the key on a node after a request. The reply shows whether the previous key
// had expired, which constrains when the request arrived.
func (t ordering) afterRequest(k nodeKey, s Step, at instant) nodeKey {
	own := k.owner.Client == s.Client && (k.owner.Attempt == s.Attempt || t.scope.Mistake == sameForRetries) || t.scope.Mistake == sameForClients
	var expired bool
	switch {
	case s.Action == setArrived && s.Yes:
		expired = t.scope.Mistake != withoutNX
	case (s.Action == extendArrived || s.Action == raiseArrived) && !s.Yes:
		expired = own
	case s.Action == delArrived && !s.Yes:
		return k
	}
	switch {
	case k.there && expired:
		t.atLeast(k.set, at, leaseTTL+t.gap)
	case k.there && s.Action != delArrived:
		t.atMost(k.set, at, leaseTTL-t.gap)
	}
	switch {
	case s.Action == setArrived && s.Yes:
		return nodeKey{true, at, s}
	case s.Action == extendArrived && s.Yes:
		k.set = at
	case s.Action == delArrived:
		return nodeKey{}
	}
	return k
}

// Mistakes that affect which keys a request finds, or when a client's window begins.
const (
	sameForRetries = "same-value-for-retries"
	sameForClients = "same-value-for-clients"
	withoutNX      = "set-without-nx"
	noElapsed      = "no-elapsed-check"
)

// endsInOverlap reports whether both clients consider themselves the holder at the end of the path.
func (t *timedPath) endsInOverlap() bool {
	return t.scope.Property == "" || t.scope.Property == MutualExclusion
}

// addOverlap makes each client consider itself the holder when the other one acquires the lock, and
// for at least minOverlap after that.
func (t ordering) addOverlap() {
	for c := range t.attempts {
		own, other := t.lastAttempt(c), t.lastAttempt(1-c)
		from := own.start
		switch {
		case own.extendSucceeded:
			from = own.extend
		case t.scope.Mistake == noElapsed:
			from = own.end
		}
		t.atMost(from, other.end, beliefWindow()-overlap)
		if t.hasFixedHold(c) { // it releases the lock after a fixed time, whatever the other client does
			t.atMost(own.end, other.end, t.holdTime(c)-overlap)
		}
	}
}

func (t *timedPath) lastAttempt(c int) *attempt { return t.attempts[c][len(t.attempts[c])-1] }

// hasFixedHold reports whether the length of a client's holds is fixed, because an earlier hold has
// ended or the path does not end in an overlap.
func (t *timedPath) hasFixedHold(c int) bool {
	if !t.endsInOverlap() {
		return true
	}
	for _, a := range t.attempts[c] {
		if a.won && a.ended {
			return true
		}
	}
	return false
}
