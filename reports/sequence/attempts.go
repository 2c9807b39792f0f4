package sequence

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// attempt is one round of asking the nodes for the lock: one command for each node asked.
type attempt []*event

// votes lists the nodes whose yes had come back by an instant.
func (a attempt) votes(by int64) []string {
	var out []string
	for _, e := range a {
		if e.Type == history.OK && e.Answered != 0 && e.Answered <= by && !slices.Contains(out, e.Node) {
			out = append(out, e.Node)
		}
	}
	return out
}

// of returns the command to a node, or nil.
func (a attempt) of(node string) *event {
	if i := slices.IndexFunc(a, func(e *event) bool { return e.Node == node }); i >= 0 {
		return a[i]
	}
	return nil
}

func (a attempt) refused() bool {
	return slices.ContainsFunc(a, func(e *event) bool { return e.Type == history.Fail })
}

// readAttempts takes the rounds of each acquire, as far as they were sent before it returned.
func (f *course) readAttempts() {
	for _, w := range f.Wires() {
		for _, a := range w.Attempts {
			until := min(a.Session.Ended, f.last)
			asked := slices.DeleteFunc(slices.Clone(a.Asked), func(e *event) bool { return e.Sent > until })
			all := f.attempts[a.Session]
			n := len(all) - 1
			switch {
			case len(asked) == 0:
			case n >= 0 && all[n][0].Token == a.Token && !slices.ContainsFunc(asked, func(e *event) bool { return all[n].of(e.Node) != nil }):
				all[n] = append(all[n], asked...) // sent late: nobody is asked twice in one round
			default:
				f.attempts[a.Session] = append(all, asked)
			}
		}
	}
}

// winning is the round that got the lock, nil if the wire was not recorded.
func (f *course) winning(s *session) attempt {
	rounds := f.attempts[s.Session]
	if !s.Granted() || len(rounds) == 0 {
		return nil
	}
	return rounds[len(rounds)-1]
}

// start is when the winning round of a session began.
func (f *course) start(s *session) int64 {
	if w := f.winning(s); w != nil {
		return w[0].Sent
	}
	return s.Acquire.Call.T
}

// everyNode stands for a request that no link recorded: all nodes, at once.
func (f *course) everyNode(e *event, at int64) []*event {
	var out []*event
	for _, n := range append(f.nodes(), "")[:max(len(f.nodes()), 1)] {
		c := *e
		c.Node, c.Sent, c.Applied, c.Type = n, at, at, history.Info
		out = append(out, &c)
	}
	return out
}

// futile is what one client tried in vain before a session.
type futile struct {
	rounds      int
	from, to    int64
	taken, mute bool // some node said no; no node answered at all
	events      []*event
}

// futile counts what the session's client tried from an instant on until the
// session's own winning round, in this session and in those before it that failed.
func (f *course) futile(s *session, from int64) futile {
	w := futile{from: never, mute: true}
	for _, prev := range f.sessions {
		if prev.Client() != s.Client() || prev.Key() != s.Key() || prev.Granted() && prev != s {
			continue
		}
		if prev.Acquire.Call.T > s.Acquire.Call.T || prev.Acquire.Ended() < from {
			continue
		}
		rounds := f.attempts[prev.Session]
		if prev == s && s.Granted() && len(rounds) > 0 {
			rounds = rounds[:len(rounds)-1]
		}
		if len(rounds) == 0 && prev != s { // its wire was not recorded
			w.add(max(prev.Acquire.Call.T, from), prev.Acquire.Call)
			w.taken, w.mute = true, false
		}
		for _, a := range rounds {
			if a[0].Sent < from {
				continue
			}
			w.add(a[0].Sent, a[0])
			w.taken = w.taken || a.refused()
			w.mute = w.mute && !slices.ContainsFunc(a, func(e *event) bool { return e.Answered != 0 })
		}
	}
	return w
}

func (w *futile) add(at int64, e *event) {
	w.rounds++
	w.from, w.to = min(w.from, at), max(w.to, at)
	w.events = append(w.events, e)
}

func (w *futile) because() string {
	switch {
	case w.taken:
		return "taken"
	case w.mute:
		return "no answer"
	}
	return "no majority"
}

// deletion is a key that one session's client believed in and a release took away.
type deletion struct {
	release *event
	victim  *session
}

// deletions finds the keys of the sessions that releases deleted while the
// session's client still believed that it held the lock, in the order of time.
func (f *course) deletions(sessions []*session) []deletion {
	if f.Params.Life {
		return f.toldDeletions(sessions)
	}
	type owner struct {
		s     *session
		since int64
	}
	set := map[*event]*session{}
	for _, s := range sessions {
		for _, e := range f.winning(s) {
			set[e] = s
		}
	}
	applied := slices.Clone(f.wires)
	slices.SortStableFunc(applied, func(a, b *event) int { return cmp.Compare(a.Applied, b.Applied) })
	owners := map[[2]string]owner{}
	var out []deletion
	for _, e := range applied {
		if e.Type != history.OK || e.Applied == 0 {
			continue
		}
		at := [2]string{e.Node, e.Key}
		switch e.Op {
		case history.OpSet:
			owners[at] = owner{set[e], e.Applied}
		case history.OpRelease:
			if o := owners[at]; o.s != nil && e.Applied < o.s.until {
				out = append(out, deletion{e, o.s})
			}
			delete(owners, at)
		}
	}
	return out
}

// toldDeletions finds the same as deletions by what the nodes told.
func (f *course) toldDeletions(sessions []*session) []deletion {
	var out []deletion
	for _, s := range sessions {
		if s.Token() == "" {
			continue
		}
		for _, node := range f.Params.Nodes {
			for _, stay := range f.Lives().Stays(node, s.Key()) {
				e := stay.End
				if e == nil || e.Life.What != history.KeyDeleted || facts.LinkClient(stay.By()) != s.Client() || !stay.Holds(s.Token()) || e.T < s.begin || e.T >= s.until {
					continue
				}
				if release := f.ReleaseOf(e); release != nil {
					out = append(out, deletion{release, s})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b deletion) int { return cmp.Compare(a.release.Applied, b.release.Applied) })
	return out
}
