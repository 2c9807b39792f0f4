package campaign

// The edges. In each, t is counted from the start of the holder's attempt. Up to the grant it may
// take a new connection, so that its request is applied after one to three ways and answered
// after four. The lease ends at TTL - margin, where margin is drift·TTL + 2 ms; the
// holder's key ends a TTL after it was applied, by the clock of its node, in whole
// milliseconds. The other client has the lock when its answer is back after the first of its
// attempts that finds the key gone.

// tick is what Redis counts expiry in.
const tick = 0.001

func (s EnvelopeSetting) low() float64  { return s.OneWay.Min.Seconds() }
func (s EnvelopeSetting) high() float64 { return s.OneWay.Max.Seconds() }

// gap is the longest time between two attempts of the other client: it hears that the first one
// failed, gives back what it got, waits, and asks again.
func (s EnvelopeSetting) gap() float64 { return s.Retry.Max.Seconds() + 4*s.high() }

func nowhere(EnvelopeSetting) *EnvelopeEdge { return nil }

func exact(n int, formula string) *EnvelopeEdge {
	return &EnvelopeEdge{Sum: float64(n), Safe: float64(n) - 0.5, Certain: float64(n), Formula: formula}
}

// jump: the key ends at applied + TTL - v, and two have the lock if the other's answer is back
// before the lease ends: v > margin + applied + wait + answer.
func jump(s EnvelopeSetting) *EnvelopeEdge {
	return &EnvelopeEdge{Sum: s.margin(), Formula: "drift·TTL + 2 ms",
		Safe: s.margin() + 2*s.low() - tick, Certain: s.margin() + s.gap() + 4*s.high() + tick}
}

// drift: the key ends at applied + TTL/v, and two have the lock if that and the answer come
// before the lease ends.
func drift(s EnvelopeSetting) *EnvelopeEdge {
	return &EnvelopeEdge{Sum: s.ttl() / s.lease(), Formula: "TTL ÷ (TTL − drift·TTL − 2 ms)",
		Safe: s.ttl() / (s.lease() - 2*s.low() + tick), Certain: s.ttl() / (s.lease() - s.gap() - 4*s.high() - tick)}
}

// restart: the node is back, empty, at granted + after + v. One that was away answers attempts
// late, and takes a new connection. The specification asks for a TTL; what is left of the lease suffices.
func restart(s EnvelopeSetting) *EnvelopeEdge {
	left := s.lease() - after.Seconds()
	return &EnvelopeEdge{Sum: left, Formula: "TTL − drift·TTL − 2 ms − the lock's age at the crash",
		Safe: left - 3*s.low(), Certain: left - s.gap() - s.Timeout.Seconds() - 7*s.high()}
}

// forgotten is restart of a node that is away for a moment, and loses its power later.
func forgotten(s EnvelopeSetting) *EnvelopeEdge {
	left := s.lease() - gone.Seconds()
	return &EnvelopeEdge{Sum: left, Formula: "TTL − drift·TTL − 2 ms − the outage",
		Safe: left - 3*s.low(), Certain: left - s.gap() - s.Timeout.Seconds() - 7*s.high()}
}

// lateWrite: the holder has looked at its lease by 8 ways, and writes at once when it goes on. That
// is harm if the next one has read by then: it acquires when the key has ended, and reads over a
// connection that may be new.
func lateWrite(s EnvelopeSetting) *EnvelopeEdge {
	if s.Fence {
		return nil
	}
	return &EnvelopeEdge{Sum: s.ttl(), Formula: "TTL", Safe: s.ttl() - 9*s.high() - tick, Certain: s.ttl() + s.gap() + 8*s.high() + tick}
}

// delayedWrite is lateWrite, but the holder is there when its lease ends, and gives the lock back.
func delayedWrite(s EnvelopeSetting) *EnvelopeEdge {
	if s.Fence {
		return nil
	}
	return &EnvelopeEdge{Sum: s.lease(), Formula: "TTL − drift·TTL − 2 ms", Safe: s.lease() - 9*s.high(), Certain: s.lease() + s.gap() + 8*s.high()}
}

// unsynced: everysec syncs what was written a second after the last sync, at the next of Redis's
// ticks, ten a second, and the disk takes its time (Redis documentation, "Redis persistence": you
// may lose one second of data).
func unsynced(s EnvelopeSetting) *EnvelopeEdge {
	return &EnvelopeEdge{Sum: 1, Formula: "a second", Safe: 1.11, Certain: 1 - after.Seconds() - 8*s.high()}
}
