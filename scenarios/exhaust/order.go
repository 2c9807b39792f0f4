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
	for _, r := range a.raises {
		t.exact(a.end, r.at, 0)
	}
	if a.late {
		t.addRound(a.start, a.pauseStart, set)
		t.atLeast(a.pauseStart, a.end, t.gap)
		t.atLeast(a.start, a.end, beliefWindow()+t.gap)
	} else {
		t.addRound(a.start, a.end, set)
	}
	if a.extends {
		t.exact(a.end, a.extendStart, t.extendDelay)
		t.addRound(a.extendStart, a.extendEnd, newRound(t.scope.Nodes, a.ext, a.extendSucceeded, a.extendLost))
		if a.extendSucceeded {
			t.atMost(a.start, a.extendEnd, beliefWindow()-t.gap)
		}
	}
	if !a.ended {
		return
	}
	if a.won {
		t.addRelease(c, a)
	}
	for _, d := range a.del {
		t.atLeast(a.releaseTime, d.at, t.gap)
	}
	if n+1 < len(t.attempts[c]) {
		wait := nodeTimeout // for the replies to the DELs
		if !a.won {
			wait += retryDelay
		}
		t.exact(a.releaseTime, t.attempts[c][n+1].start, wait)
	}
}

// addRound adds the constraints between a round's messages and the client's decision. The client
// decides when all replies have arrived or the round times out.
func (t ordering) addRound(start, end instant, r round) {
	if r.decidingNode > 0 {
		t.atMost(start, end, nodeTimeout-t.gap)
		t.exact(r.arrivals[r.decidingNode].at, end, 0)
	} else {
		t.exact(start, end, t.duration(r))
	}
	for n, d := range r.arrivals {
		t.atLeast(start, d.at, t.gap)
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
		return t.extendDelay + t.holdLength
	}
	return t.holdLength
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
			at := t.stepTimes[i]
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
					t.atLeast(crash, t.sentAt(s), t.restartTime)
					if t.scope.Restart == RestartDelayed {
						t.atLeast(crash, t.sentAt(s), downTime+t.restartTime)
					}
				}
				if k = t.keyAfter(k, s, at); s.Synced {
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
		if s.Action == lockAcquired && t.hardened() {
			t.atLeast(t.attempts[s.Client-1][s.Attempt-1].end, t.stepTimes[crash], t.gap)
		}
	}
}

// addDiskStall adds the constraints on the disk stall before a crash with fsync everysec. The stall
// prevents the changes that the crash loses from being synced.
func (t ordering) addDiskStall(crash int, previousCrash instant) {
	i := slices.IndexFunc(t.faults, func(f timedFault) bool { return f.at == t.stepTimes[crash] })
	stall, foundSync := t.faults[i].stallStart, false
	t.atLeast(stall, t.stepTimes[crash], t.gap)
	if previousCrash >= 0 {
		t.atLeast(previousCrash, stall, t.gap)
	}
	for j := crash - 1; j >= 0; j-- {
		switch s := t.path[j]; {
		case s.Node != t.path[crash].Node:
		case s.Action == nodeCrashed:
			return
		case s.Synced, s.Action == diskSynced:
			t.atLeast(t.stepTimes[j], stall, t.syncTime)
			foundSync = true
		case !foundSync:
			t.atLeast(stall, t.stepTimes[j], t.gap)
			t.atLeast(t.stepTimes[j], t.stepTimes[crash], t.syncTime) // so that the stall has an effect
		}
	}
}

// nodeKey is the key on a node and when it was set.
type nodeKey struct {
	exists  bool
	setTime instant // when it was set or extended
	setStep Step
}

// sentAt returns when the message that arrives in a step was sent.
func (t ordering) sentAt(s Step) instant {
	a := t.attempts[s.Client-1][s.Attempt-1]
	switch s.Action {
	case extendArrived:
		return a.extendStart
	case delArrived:
		return a.releaseTime
	case raiseArrived:
		return a.end
	}
	return a.start
}

// keyAfter returns the key on a node after a request. The reply shows whether the previous key
// had expired, which constrains when the request arrived.
func (t ordering) keyAfter(k nodeKey, s Step, at instant) nodeKey {
	isOwn := k.setStep.Client == s.Client && (k.setStep.Attempt == s.Attempt || t.scope.Mistake == sameValueForRetries) || t.scope.Mistake == sameValueForClients
	var expired bool
	switch {
	case s.Action == setArrived && s.Yes:
		expired = t.scope.Mistake != setWithoutNX
	case (s.Action == extendArrived || s.Action == raiseArrived) && !s.Yes:
		expired = isOwn
	case s.Action == delArrived && !s.Yes:
		return k
	}
	switch {
	case k.exists && expired:
		t.atLeast(k.setTime, at, leaseTTL+t.gap)
	case k.exists && s.Action != delArrived:
		t.atMost(k.setTime, at, leaseTTL-t.gap)
	}
	switch {
	case s.Action == setArrived && s.Yes:
		return nodeKey{true, at, s}
	case s.Action == extendArrived && s.Yes:
		k.setTime = at
	case s.Action == delArrived:
		return nodeKey{}
	}
	return k
}

// Mistakes that affect which keys a request finds, or when a client's window begins.
const (
	sameValueForRetries = "same-value-for-retries"
	sameValueForClients = "same-value-for-clients"
	setWithoutNX        = "set-without-nx"
	noElapsedCheck      = "no-elapsed-check"
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
			from = own.extendStart
		case t.scope.Mistake == noElapsedCheck:
			from = own.end
		}
		t.atMost(from, other.end, beliefWindow()-minOverlap)
		if t.hasFixedHold(c) { // it releases the lock after a fixed time, whatever the other client does
			t.atMost(own.end, other.end, t.holdTime(c)-minOverlap)
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
