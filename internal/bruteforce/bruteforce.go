// Package bruteforce judges small histories by trying everything: each order in which one
// lease lock could have given the answers, and each instant at which two
// clients could have believed. It is slow, and too dumb to be wrong in the
// same way as the judges that it is compared with.
//
// It reads raw events, and shares no line with the checker, with the facts that the
// checker reads or with what the checker asks porcupine: it may import package history and
// nothing else, which the table of the house holds.
//
// Deliberately missing: faults, clocks that are turned and everything else that random
// histories don't have; and any use outside tests.
package bruteforce

import (
	"math"
	"strings"

	"lockpick/harness/history"
)

// Instants that are none.
const (
	never   = math.MaxInt64
	nothing = math.MinInt64
)

// operation is one call with what came of it.
type operation struct {
	op, session string
	client      int
	outcome     history.Type
	call, ret   int64 // ret is never where nobody knows what came of it
	claims      int64 // the deadline that it returned; 0: none
	returned    int64 // the stamp of its return
	turn        int   // of its client's operations with an answer, how many came before
}

// state is how far one order has come.
type state struct {
	turns   [4]int // by client: operations with an answer that have taken effect
	taken   uint64 // operations without one that have, by place
	session string // who holds; "": nobody
	until   int64  // the deadline that it goes by
	now     int64
}

// trial is one key's operations, and the states from which no order comes to an end.
type trial struct {
	ops   []operation
	turns [4]int
	ε     int64
	loose bool // who holds may lose it at any time
	dead  map[state]bool
}

// Lease reports whether one lease lock a key could have given the answers in a history of
// four clients at most, with 64 operations on a key at most. Each operation takes effect at one instant
// between its call and its return, give or take the error of the stamps, or at any later
// one, or never, where it had no answer; those of one client in their order:
//
//	acquire ok    nobody held, and its session does from then on
//	extend ok     its session held, and its deadline is another
//	release ok    its session held, and nobody does
//	not held      its session did not hold
//
// Who holds may lose it at any instant from the deadline that the client goes by; of a lock
// that tells nothing, at any instant.
func Lease(h *history.History) bool {
	for _, key := range keys(h) {
		t := &trial{ε: int64(h.Params.StampError), loose: h.Params.Untold, dead: map[state]bool{}}
		t.read(h, key)
		if !t.goes(state{until: nothing, now: nothing}) {
			return false
		}
	}
	return true
}

func keys(h *history.History) []string {
	var all []string
	seen := map[string]bool{}
	for _, e := range h.Events {
		if e.Op == history.OpAcquire && e.Type == history.Invoke && !seen[e.Key] {
			seen[e.Key] = true
			all = append(all, e.Key)
		}
	}
	return all
}

// lose lets all that the session was promised so far end.
func (t *trial) lose(e history.Event) {
	granted := false
	for i := range t.ops {
		o := &t.ops[i]
		if o.session != e.Session || o.op == history.OpRelease || o.outcome != history.OK {
			continue
		}
		if at := max(e.T, 1); o.claims > at || o.claims == 0 && (!granted || o.op == history.OpAcquire) { // 0 is no claim
			o.claims = at
		}
		granted = true
	}
}

// survived lets what has no deadline end with its client.
func (t *trial) survived(gone map[string]int64) {
	granted := map[string]bool{}
	for i := range t.ops {
		o := &t.ops[i]
		if o.op == history.OpRelease || o.outcome != history.OK {
			continue
		}
		if at, dead := gone[strings.Split(o.session, "/")[0]]; dead && o.claims == 0 && (!granted[o.session] || o.op == history.OpAcquire) {
			o.claims = max(at, 1)
		}
		granted[o.session] = true
	}
}

// read collects a key's operations as they stand in the record.
func (t *trial) read(h *history.History, key string) {
	of := map[string]int{}   // clients
	open := map[string]int{} // by client: the place of the operation under way
	gone := map[string]int64{}
	if h.Params.TTL > 0 {
		defer func() { t.survived(gone) }()
	}
	for _, e := range h.Events {
		if e.Op == history.OpLost {
			t.lose(e)
		}
		for _, client := range h.Params.Clients {
			left := e.Process == history.Nemesis && e.Node == client || e.Op == history.OpClient && e.Type == history.End && e.Process == client
			if _, had := gone[client]; left && !had {
				gone[client] = e.T
			}
		}
		if e.Op != history.OpAcquire && e.Op != history.OpExtend && e.Op != history.OpRelease || e.Key != key {
			continue
		}
		if e.Type == history.Invoke {
			if _, ok := of[e.Process]; !ok {
				of[e.Process] = len(of)
			}
			open[e.Process] = len(t.ops)
			t.ops = append(t.ops, operation{op: e.Op, session: e.Session, client: of[e.Process], outcome: history.Info, call: e.T - t.ε, ret: never})
			continue
		}
		o := &t.ops[open[e.Process]]
		if o.outcome, o.claims, o.returned = e.Type, e.ValidUntil, e.T; e.Type != history.Info {
			o.ret = e.T + t.ε
		}
	}
	var telling []operation
	for _, o := range t.ops {
		if o.op == history.OpAcquire && o.outcome == history.Fail || o.op == history.OpExtend && o.outcome == history.Info {
			continue // it may fail for no reason; nobody goes by a deadline that was not heard
		}
		o.turn = t.turns[o.client]
		if o.outcome != history.Info {
			t.turns[o.client]++
		}
		telling = append(telling, o)
	}
	t.ops = telling
}

// goes reports whether some order of what is left gives the answers.
func (t *trial) goes(s state) bool {
	if s.turns == t.turns {
		return true
	}
	if t.dead[s] {
		return false
	}
	for i, o := range t.ops {
		if o.outcome == history.Info && (s.taken&(1<<i) != 0 || s.turns[o.client] < o.turn) || o.outcome != history.Info && s.turns[o.client] != o.turn {
			continue
		}
		next := s
		if next.now = max(s.now, o.call); next.now > o.ret || !o.fits(&next) {
			continue
		}
		if t.loose {
			next.until = nothing
		}
		if o.outcome == history.Info {
			next.taken |= 1 << i
		} else {
			next.turns[o.client]++
		}
		if t.goes(next) {
			return true
		}
	}
	if s.session != "" && s.until != never {
		free := s
		if free.session = ""; s.until != nothing {
			free.now = max(s.now, s.until-t.ε)
		}
		free.until = nothing
		if t.goes(free) {
			return true
		}
	}
	t.dead[s] = true
	return false
}

// fits makes of a state what an operation makes of it, and reports whether it can be.
func (o *operation) fits(s *state) bool {
	mine := s.session == o.session
	switch {
	case o.outcome == history.Fail:
		return !mine
	case o.op == history.OpAcquire:
		if s.session != "" {
			return false
		}
		s.session, s.until = o.session, o.claims
		if o.outcome == history.Info {
			s.until = nothing // nobody knows what it claimed
		} else if o.claims == 0 {
			s.until = never
		}
		return true
	case o.op == history.OpRelease:
		s.session, s.until = "", nothing
		return mine
	}
	switch { // an extension
	case o.claims == 0 && s.until == nothing:
		s.until = never
	case o.claims == 0:
	case o.claims < o.returned: // when it came back it was over
		s.until = min(s.until, o.returned)
	default:
		s.until = o.claims
	}
	return mine
}

// Overlaps is what two clients or more believed at once.
type Overlaps struct {
	Incidents  int   // connected components of beliefs that overlap
	From, To   int64 // the longest overlap, of equals the earliest
	DoubleHold int64 // time in which a lock was believed in twice or more
}

// belief is a span in which a session was certainly believed in.
type belief struct {
	session  string
	from, to int64
	open     bool // it outlasts the record
}

// MutualExclusion finds overlaps in a history of one key whose events all fall on beats,
// by asking of each session and each instant between two beats whether it was believed in.
func MutualExclusion(h *history.History, beat int64) Overlaps {
	end := h.Events[len(h.Events)-1].T
	ε := int64(h.Params.StampError)
	var all []belief
	for _, s := range sessions(h) {
		from := int64(-1)
		for at := int64(0); at <= end; at += beat {
			is := Believes(h, s, at+beat/2)
			if is && from < 0 {
				from = at
			}
			if from >= 0 && (!is || at == end) {
				if b := (belief{s, from + ε, at - ε, is && ε == 0}); b.from < b.to || b.from == b.to && b.open {
					all = append(all, b)
				}
				from = -1
			}
		}
	}
	return compare(all, end, beat)
}

func sessions(h *history.History) []string {
	var all []string
	for _, e := range h.Events {
		if e.Op == history.OpAcquire && e.Type == history.Invoke {
			all = append(all, e.Session)
		}
	}
	return all
}

// Believes replays one session's events up to an instant.
func Believes(h *history.History, session string, at int64) bool {
	client := ""
	until := int64(nothing)
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
			return false // it was killed, or ended
		case e.Session != session || e.Process != client:
		case e.Op == history.OpRelease:
			return false
		case e.Op == history.OpAcquire && e.Type == history.OK:
			if until = e.ValidUntil; until == 0 {
				until = never
			}
		case e.Op == history.OpLost:
			until = min(until, e.T)
		case e.Op != history.OpExtend:
		case e.Type == history.Fail:
			until = min(until, e.T)
		case e.Type == history.OK && e.ValidUntil == 0 && until == nothing:
			until = never
		case e.Type == history.OK && e.ValidUntil != 0 && e.ValidUntil < e.T:
			until = min(until, e.T)
		case e.Type == history.OK && e.ValidUntil != 0:
			until = e.ValidUntil
		}
	}
	return at < until
}

func compare(all []belief, end, beat int64) Overlaps {
	o := Overlaps{From: -1, To: -1}
	component := make([]int, len(all))
	for i := range all {
		component[i] = i
	}
	hit := map[int]bool{}
	for i, a := range all {
		for j, b := range all {
			from, to := max(a.from, b.from), min(a.to, b.to)
			if i == j || a.session == b.session || from > to || from == to && !(a.open && b.open) {
				continue
			}
			if o.From < 0 || to-from > o.To-o.From || to-from == o.To-o.From && from < o.From {
				o.From, o.To = from, to
			}
			hit[i] = true
			old := component[j]
			for k, c := range component {
				if c == old {
					component[k] = component[i]
				}
			}
		}
	}
	roots := map[int]bool{}
	for i := range hit {
		roots[component[i]] = true
	}
	if o.Incidents = len(roots); o.Incidents == 0 {
		return Overlaps{}
	}
	for at := int64(0); at < end; at += beat {
		n := 0
		for _, b := range all {
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
