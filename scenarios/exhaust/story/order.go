package story

import (
	"time"

	"lockpick/scenarios/exhaust"
)

// order says what of the path lies how far apart.
func (t *telling) order() {
	for c := range t.attempts {
		for n, a := range t.attempts[c] {
			t.course(c, n, a)
		}
	}
	t.nodes()
	t.both()
}

// course is the order of one attempt: a round ends when its time is up, for some answer is always
// missing.
func (t *telling) course(c, n int, a *attempt) {
	t.round(a.start, a.end, a.set)
	switch {
	case a.late:
		t.least(a.start, a.pause, 2*gap)
		t.most(a.start, a.pause, timeout-gap)
		for _, d := range a.set {
			if d.inTime {
				t.least(d.at, a.pause, gap)
			}
		}
		t.least(a.start, a.end, window()+gap)
	default:
		t.exact(a.start, a.end, timeout)
	}
	if a.extends {
		t.exact(a.end, a.extend, t.after)
		t.exact(a.extend, a.extended, timeout)
		t.round(a.extend, a.extended, a.ext)
		if a.longer {
			t.most(a.start, a.extended, window()-gap)
		}
	}
	if !a.ended {
		return
	}
	if a.won {
		t.exact(a.end, a.release, t.held(c))
	}
	for _, d := range a.del {
		t.least(a.release, d.at, gap)
	}
	if n+1 < len(t.attempts[c]) {
		wait := timeout // for the DELs' answers
		if !a.won {
			wait += retry
		}
		t.exact(a.release, t.attempts[c][n+1].start, wait)
	}
}

// round is the order of messages and the client's decision.
func (t *telling) round(begin, end instant, all map[int]delivery) {
	for _, d := range all {
		t.least(begin, d.at, gap)
		if d.inTime {
			t.least(d.at, end, gap)
		} else {
			t.least(end, d.at, gap)
		}
	}
}

// held is how long a client holds a lock that it releases.
func (t *telling) held(c int) time.Duration {
	for _, a := range t.attempts[c] {
		if a.extends {
			return t.after + timeout + t.section
		}
	}
	return t.section
}

// nodes is the order of what each node sees, and the ends of its keys.
func (t *telling) nodes() {
	for n := 1; n <= t.scope.Nodes; n++ {
		var last, crash instant = -1, -1
		k := keyed{set: -1}
		for i, s := range t.path {
			if s.Node != n {
				continue
			}
			at := t.when[i]
			if last >= 0 {
				t.least(last, at, gap)
			}
			last = at
			switch s.Action {
			case exhaust.Crashed:
				crash = at
				k = t.crashed(k)
			case exhaust.Jumped:
				k.set = -1
			case exhaust.Set, exhaust.Extend, exhaust.Del:
				if crash >= 0 { // it reset the connections: what comes later was sent later
					t.least(crash, t.sent(s), gap)
					if t.scope.Restart == exhaust.Delayed {
						t.least(crash, t.sent(s), away+gap)
					}
				}
				k = t.asked(k, s, at)
			}
		}
	}
}

// away is how long a node stays down that comes back delayed.
const away = ttl + time.Second

// keyed is the key of a node.
type keyed struct {
	set   instant // when it was set, or extended; < 0: there is none
	owner exhaust.Step
}

func (t *telling) crashed(k keyed) keyed {
	if t.scope.Restart != exhaust.Always {
		k.set = -1
	}
	return k
}

// sent is when a message was.
func (t *telling) sent(s exhaust.Step) instant {
	a := t.attempts[s.Client-1][s.Attempt-1]
	switch s.Action {
	case exhaust.Extend:
		return a.extend
	case exhaust.Del:
		return a.release
	}
	return a.start
}

// asked is what a request tells of a node's key: that it is still there, or has expired.
func (t *telling) asked(k keyed, s exhaust.Step, at instant) keyed {
	own := k.set >= 0 && k.owner.Client == s.Client && (k.owner.Attempt == s.Attempt || t.scope.Mistake == sameForRetries)
	own = own || t.scope.Mistake == sameForClients
	expired := func() {
		if k.set >= 0 {
			t.least(k.set, at, ttl+gap)
		}
	}
	alive := func() {
		if k.set >= 0 {
			t.most(k.set, at, ttl-gap)
		}
	}
	switch {
	case s.Action == exhaust.Set && s.Yes:
		if t.scope.Mistake != withoutNX {
			expired()
		}
		return keyed{at, s}
	case s.Action == exhaust.Set:
		alive()
	case s.Action == exhaust.Extend && s.Yes:
		alive()
		k.set = at
	case s.Action == exhaust.Extend && own:
		expired()
	case s.Action == exhaust.Del && s.Yes:
		return keyed{set: -1}
	}
	return k
}

// Mistakes by which keys are to be read otherwise.
const (
	sameForRetries = "same-value-for-retries"
	sameForClients = "same-value-for-clients"
	withoutNX      = "set-without-nx"
	noElapsed      = "no-elapsed-check"
)

// both says that each client believes when the other takes the lock, and some time after it.
func (t *telling) both() {
	for c := range t.attempts {
		own, other := t.last(c), t.last(1-c)
		from := own.start
		switch {
		case own.longer:
			from = own.extend
		case t.scope.Mistake == noElapsed:
			from = own.end
		}
		t.most(from, other.end, window()-overlap)
		if t.fixed(c) { // it releases after its section, whatever the other does
			t.most(own.end, other.end, t.held(c)-overlap)
		}
	}
}

// last is the attempt by which a client believes in the end.
func (t *telling) last(c int) *attempt { return t.attempts[c][len(t.attempts[c])-1] }

// fixed says whether a client's section is as long as that of an earlier hold of its.
func (t *telling) fixed(c int) bool {
	for _, a := range t.attempts[c] {
		if a.won && a.ended {
			return true
		}
	}
	return false
}
