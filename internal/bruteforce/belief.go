package bruteforce

import "lockpick/harness/history"

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
