// Package bruteforce checks small histories exhaustively. It tries every order in which a lease
// lock could have given the recorded answers, and every instant at which two clients could have
// believed that they held the lock. It is slow, but too simple to have the same bugs as the checks
// it is compared with.
//
// It reads raw events, and shares no code with the checker, the facts that the checker reads, or
// the model that the checker gives to porcupine. It may import only package history, which the
// import table in the house test enforces.
//
// Deliberately missing: faults, clock changes and everything else that does not occur in random
// histories. The package is for tests only.
package bruteforce

import (
	"math"
	"strings"

	"lockpick/harness/history"
)

// Special instants: noEnd means that there is no end, and unknownTime that nothing is known yet.
const (
	noEnd       = math.MaxInt64
	unknownTime = math.MinInt64
)

// operation is one call and its outcome.
type operation struct {
	op, session string
	client      int
	outcome     history.Type
	start, end  int64 // when it may take effect; end is noEnd if the outcome is unknown
	deadline    int64 // returned deadline, or 0
	returnTime  int64 // time of the return event
	index       int   // number of the client's earlier answered operations
}

// state is the lock's state after some operations have taken effect in some order.
type state struct {
	numDone    [4]int // by client: number of answered operations that have taken effect
	appliedSet uint64 // bit set of unanswered operations that have taken effect
	session    string // the holder; "": free
	until      int64  // the holder's deadline
	now        int64
}

// search contains the operations on one key, and the states from which no order can be completed.
type search struct {
	ops         []operation
	numAnswered [4]int // by client: number of answered operations
	ε           int64
	mayLose     bool // a holder may lose the lock at any time
	deadEnds    map[state]bool
}

// IsLeaseHistory reports whether lease locks, one per key, could have given the answers in a
// history. The history must have at most four clients and 64 operations per key. An answered
// operation takes effect at one instant between its call and its return, give or take the stamp
// error. An unanswered operation takes effect at any later instant or never. A client's operations
// take effect in order:
//
//	acquire ok    the lock was free, and the session holds it from then on
//	extend ok     the session held it, and gets a new deadline
//	release ok    the session held it, and it becomes free
//	not held      the session did not hold it
//
// A holder may lose the lock at any instant from its client's deadline on, or at any instant at all
// if the lock does not notify clients of losses.
func IsLeaseHistory(h *history.History) bool {
	for _, key := range keys(h) {
		t := &search{ε: int64(h.Params.StampError), mayLose: h.Params.NoLossNotice, deadEnds: map[state]bool{}}
		t.read(h, key)
		if !t.canComplete(state{until: unknownTime, now: unknownTime}) {
			return false
		}
	}
	return true
}

func keys(h *history.History) []string {
	var out []string
	seen := map[string]bool{}
	for _, e := range h.Events {
		if e.Op == history.OpAcquire && e.Type == history.Invoke && !seen[e.Key] {
			seen[e.Key] = true
			out = append(out, e.Key)
		}
	}
	return out
}

// loseLeases ends the leases that the event's session has been granted so far.
func (t *search) loseLeases(e history.Event) {
	granted := false
	for i := range t.ops {
		o := &t.ops[i]
		if o.session != e.Session || o.op == history.OpRelease || o.outcome != history.OK {
			continue
		}
		if at := max(e.T, 1); o.deadline > at || o.deadline == 0 && (!granted || o.op == history.OpAcquire) { // 0 means no deadline
			o.deadline = at
		}
		granted = true
	}
}

// endWithClient ends holds without deadlines when their clients die.
func (t *search) endWithClient(deathTimes map[string]int64) {
	granted := map[string]bool{}
	for i := range t.ops {
		o := &t.ops[i]
		if o.op == history.OpRelease || o.outcome != history.OK {
			continue
		}
		if at, dead := deathTimes[strings.Split(o.session, "/")[0]]; dead && o.deadline == 0 && (!granted[o.session] || o.op == history.OpAcquire) {
			o.deadline = max(at, 1)
		}
		granted[o.session] = true
	}
}

// read collects a key's operations from the events.
func (t *search) read(h *history.History, key string) {
	clients := map[string]int{}
	pending := map[string]int{} // by client: index of the pending operation
	deathTimes := map[string]int64{}
	if h.Params.TTL > 0 {
		defer func() { t.endWithClient(deathTimes) }()
	}
	for _, e := range h.Events {
		if e.Op == history.OpLost {
			t.loseLeases(e)
		}
		for _, client := range h.Params.Clients {
			isEnd := e.Process == history.Nemesis && e.Node == client || e.Op == history.OpClient && e.Type == history.End && e.Process == client
			if _, known := deathTimes[client]; isEnd && !known {
				deathTimes[client] = e.T
			}
		}
		if e.Op != history.OpAcquire && e.Op != history.OpExtend && e.Op != history.OpRelease || e.Key != key {
			continue
		}
		if e.Type == history.Invoke {
			if _, ok := clients[e.Process]; !ok {
				clients[e.Process] = len(clients)
			}
			pending[e.Process] = len(t.ops)
			t.ops = append(t.ops, operation{op: e.Op, session: e.Session, client: clients[e.Process], outcome: history.Info, start: e.T - t.ε, end: noEnd})
			continue
		}
		o := &t.ops[pending[e.Process]]
		if o.outcome, o.deadline, o.returnTime = e.Type, e.ValidUntil, e.T; e.Type != history.Info {
			o.end = e.T + t.ε
		}
	}
	var relevant []operation
	for _, o := range t.ops {
		if o.op == history.OpAcquire && o.outcome == history.Fail || o.op == history.OpExtend && o.outcome == history.Info {
			continue // an acquire may fail without a reason, and a client does not use a deadline that it did not receive
		}
		o.index = t.numAnswered[o.client]
		if o.outcome != history.Info {
			t.numAnswered[o.client]++
		}
		relevant = append(relevant, o)
	}
	t.ops = relevant
}

// canComplete reports whether some order of the remaining operations gives the recorded answers.
func (t *search) canComplete(s state) bool {
	if s.numDone == t.numAnswered {
		return true
	}
	if t.deadEnds[s] {
		return false
	}
	for i, o := range t.ops {
		if o.outcome == history.Info && (s.appliedSet&(1<<i) != 0 || s.numDone[o.client] < o.index) || o.outcome != history.Info && s.numDone[o.client] != o.index {
			continue
		}
		next := s
		if next.now = max(s.now, o.start); next.now > o.end || !o.apply(&next) {
			continue
		}
		if t.mayLose {
			next.until = unknownTime
		}
		if o.outcome == history.Info {
			next.appliedSet |= 1 << i
		} else {
			next.numDone[o.client]++
		}
		if t.canComplete(next) {
			return true
		}
	}
	if s.session != "" && s.until != noEnd {
		freeState := s
		if freeState.session = ""; s.until != unknownTime {
			freeState.now = max(s.now, s.until-t.ε)
		}
		freeState.until = unknownTime
		if t.canComplete(freeState) {
			return true
		}
	}
	t.deadEnds[s] = true
	return false
}

// apply applies an operation to a state, and reports whether the operation is possible there.
func (o *operation) apply(s *state) bool {
	isHolder := s.session == o.session
	switch {
	case o.outcome == history.Fail:
		return !isHolder
	case o.op == history.OpAcquire:
		if s.session != "" {
			return false
		}
		s.session, s.until = o.session, o.deadline
		if o.outcome == history.Info {
			s.until = unknownTime // its deadline is unknown
		} else if o.deadline == 0 {
			s.until = noEnd
		}
		return true
	case o.op == history.OpRelease:
		s.session, s.until = "", unknownTime
		return isHolder
	}
	switch { // an extension
	case o.deadline == 0 && s.until == unknownTime:
		s.until = noEnd
	case o.deadline == 0:
	case o.deadline < o.returnTime: // it had already expired when the call returned
		s.until = min(s.until, o.returnTime)
	default:
		s.until = o.deadline
	}
	return isHolder
}

// Overlaps describes when two or more clients believed that they held the lock.
type Overlaps struct {
	Incidents  int   // number of connected components of overlapping beliefs
	From, To   int64 // the longest overlap; the earliest one if several are equally long
	DoubleHold int64 // total time with two or more beliefs
}

// belief is a span during which a session certainly believed that it held the lock.
type belief struct {
	session  string
	from, to int64
	open     bool // it continues beyond the end of the history
}

// FindOverlaps finds the overlaps in a history of one key. All times must be multiples of beat. For
// each session and each instant between two beats, it checks whether the session believed that it
// held the lock.
func FindOverlaps(h *history.History, beat int64) Overlaps {
	end := h.Events[len(h.Events)-1].T
	ε := int64(h.Params.StampError)
	var beliefs []belief
	for _, s := range sessions(h) {
		from := int64(-1)
		for at := int64(0); at <= end; at += beat {
			believed := BelievedHolder(h, s, at+beat/2)
			if believed && from < 0 {
				from = at
			}
			if from >= 0 && (!believed || at == end) {
				if b := (belief{s, from + ε, at - ε, believed && ε == 0}); b.from < b.to || b.from == b.to && b.open {
					beliefs = append(beliefs, b)
				}
				from = -1
			}
		}
	}
	return overlapsOf(beliefs, end, beat)
}

func sessions(h *history.History) []string {
	var out []string
	for _, e := range h.Events {
		if e.Op == history.OpAcquire && e.Type == history.Invoke {
			out = append(out, e.Session)
		}
	}
	return out
}

// BelievedHolder reports whether a session believed at an instant that it held the lock. It replays
// the session's events.
func BelievedHolder(h *history.History, session string, at int64) bool {
	client := ""
	until := int64(unknownTime)
	for _, e := range h.Events {
		if e.Session == session && e.Op == history.OpAcquire {
			client = e.Process
		}
	}
	for _, e := range h.Events {
		switch {
		case e.T > at:
			return at < until
		case e.Process == history.Nemesis && e.Node == client, e.Op == history.OpClient && e.Type == history.End && e.Process == client:
			return false // the client was killed or ended
		case e.Session != session || e.Process != client:
		case e.Op == history.OpRelease:
			return false
		case e.Op == history.OpAcquire && e.Type == history.OK:
			if until = e.ValidUntil; until == 0 {
				until = noEnd
			}
		case e.Op == history.OpLost:
			until = min(until, e.T)
		case e.Op != history.OpExtend:
		case e.Type == history.Fail:
			until = min(until, e.T)
		case e.Type == history.OK && e.ValidUntil == 0 && until == unknownTime:
			until = noEnd
		case e.Type == history.OK && e.ValidUntil != 0 && e.ValidUntil < e.T:
			until = min(until, e.T)
		case e.Type == history.OK && e.ValidUntil != 0:
			until = e.ValidUntil
		}
	}
	return at < until
}

func overlapsOf(beliefs []belief, end, beat int64) Overlaps {
	o := Overlaps{From: -1, To: -1}
	component := make([]int, len(beliefs))
	for i := range beliefs {
		component[i] = i
	}
	overlapping := map[int]bool{}
	for i, a := range beliefs {
		for j, b := range beliefs {
			from, to := max(a.from, b.from), min(a.to, b.to)
			if i == j || a.session == b.session || from > to || from == to && !(a.open && b.open) {
				continue
			}
			if o.From < 0 || to-from > o.To-o.From || to-from == o.To-o.From && from < o.From {
				o.From, o.To = from, to
			}
			overlapping[i] = true
			oldComponent := component[j]
			for k, c := range component {
				if c == oldComponent {
					component[k] = component[i]
				}
			}
		}
	}
	roots := map[int]bool{}
	for i := range overlapping {
		roots[component[i]] = true
	}
	if o.Incidents = len(roots); o.Incidents == 0 {
		return Overlaps{}
	}
	for at := int64(0); at < end; at += beat {
		n := 0
		for _, b := range beliefs {
			if b.from <= at && at < b.to {
				n++
			}
		}
		if n > 1 {
			o.DoubleHold += beat
		}
	}
	return o
}
