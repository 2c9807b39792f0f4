package checker

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Kinds of harm, as they begin a sentence.
const (
	lostUpdate   = "lost update"
	interleaving = "interleaving"
	missingWrite = "missing write"
	refusedWrite = "refused write"
)

// books is the resource's log with what follows from it.
type books struct {
	applied []facts.Write             // in the order of apply
	values  map[string]*history.Event // entry of an applied value
	writes  int                       // applied or refused
	refused int
	outside int // applied outside the session's belief
}

// stay is the time that a session worked on the resource: from its read to the apply of its write.
type stay struct {
	session  string
	from, to int64
}

func stayAt(w facts.Write) stay {
	s := stay{session: w.Session, from: instant(w.Event), to: instant(w.Event)}
	if w.Read != nil {
		s.from = instant(w.Read)
	}
	return s
}

// instant is when a log entry was applied; for other events when they happened.
func instant(e *history.Event) int64 {
	if e.Op == history.OpLog && e.Applied > 0 {
		return e.Applied
	}
	return e.T
}

// readBooks sums up the log.
func readBooks(r *record) books {
	b := books{values: map[string]*history.Event{}}
	for _, w := range r.Writes() {
		b.writes++
		if w.Type != history.OK {
			b.refused++
			continue
		}
		b.applied = append(b.applied, w)
		b.values[w.Value] = w.Event
		if !r.within(stay{w.Session, instant(w.Event), instant(w.Event)}) {
			b.outside++
		}
	}
	return b
}

// within reports whether a session's stay lies in one of its belief windows.
func (r *record) within(s stay) bool {
	owner := r.Named(s.session)
	if owner == nil {
		return false
	}
	w, ok := r.until(owner, s.to)
	return ok && w.From <= s.from
}

// lostUpdates finds writes that overwrote another session's write which they
// had not seen: based on version k, applied to a later one. A session's own
// earlier writes it knows.
func lostUpdates(r *record, b books) []harm {
	var harms []harm
	before := map[string]*applied{} // by key
	for _, w := range b.applied {
		earlier := before[w.Key]
		if earlier == nil {
			earlier = &applied{}
			before[w.Key] = earlier
		}
		if other, ok := earlier.unseen(w); ok {
			harms = append(harms, harm{
				kind: lostUpdate, class: r.classify([]stay{stayAt(other), stayAt(w)}), key: w.Key,
				at: w.Event, from: instant(other.Event), sessions: r.ordered(other.Session, w.Session),
				events: []*history.Event{other.Read, other.Event, w.Read, w.Event},
				text: fmt.Sprintf("%s's write, based on version %d, was applied at %s to version %d: what %s had written at %s is lost",
					r.who(w.Session), w.Version, seconds(instant(w.Event)), w.Met, r.who(other.Session), seconds(instant(other.Event))),
			})
		}
		earlier.add(w)
	}
	return harms
}

// applied is the writes of a key that were, in the order of versions.
type applied struct {
	writes []facts.Write
	turns  []int // places of those of another session than the one before
}

func (a *applied) add(w facts.Write) {
	if n := len(a.writes); n > 0 && a.writes[n-1].Session != w.Session {
		a.turns = append(a.turns, n)
	}
	a.writes = append(a.writes, w)
}

// unseen finds the first of the earlier writes that w, by the version it is based
// on, had not seen and that is another session's.
func (a *applied) unseen(w facts.Write) (facts.Write, bool) {
	i, _ := slices.BinarySearchFunc(a.writes, w.Version+1, func(x facts.Write, v int64) int { return cmp.Compare(x.Made, v) })
	if i < len(a.writes) && a.writes[i].Session == w.Session {
		turn, _ := slices.BinarySearch(a.turns, i+1)
		if turn == len(a.turns) {
			return facts.Write{}, false
		}
		i = a.turns[turn]
	}
	if i == len(a.writes) {
		return facts.Write{}, false
	}
	return a.writes[i], true
}

// interleavings finds sessions that wrote, were followed by another's write, and
// wrote again.
func interleavings(r *record, b books) []harm {
	type seen struct {
		last  facts.Write // of the session
		after facts.Write // the first of another session after that; zero: none yet
	}
	type section struct{ key, session string }
	var harms []harm
	sections := map[section]*seen{}
	current := map[string]string{} // key: the session that wrote last
	for _, w := range b.applied {
		before := sections[section{w.Key, current[w.Key]}]
		if before != nil && current[w.Key] != w.Session && before.after.Event == nil {
			before.after = w
		}
		if s := sections[section{w.Key, w.Session}]; s != nil && current[w.Key] != w.Session {
			other := s.after
			harms = append(harms, harm{
				kind: interleaving, class: r.classify([]stay{stayAt(s.last), stayAt(other), stayAt(w)}), key: w.Key,
				at: w.Event, from: instant(s.last.Event), sessions: r.ordered(s.last.Session, other.Session),
				events: []*history.Event{s.last.Event, other.Event, w.Event},
				text: fmt.Sprintf("%s wrote at %s between two writes of %s, at %s and %s",
					r.who(other.Session), seconds(instant(other.Event)), r.who(w.Session), seconds(instant(s.last.Event)), seconds(instant(w.Event))),
			})
		}
		sections[section{w.Key, w.Session}] = &seen{last: w}
		current[w.Key] = w.Session
	}
	return harms
}

// contradictions finds writes of which the client was told one thing while the
// log says another.
func contradictions(r *record, b books) []harm {
	var harms []harm
	for s := range r.Sessions() {
		for w := range s.Writes() {
			if w.Call.Value == "" {
				continue
			}
			entry := b.values[w.Call.Value]
			h := harm{class: Unexplained, key: s.Key(), at: w.Return, from: w.Call.T, sessions: []string{s.Name()}, events: []*history.Event{w.Call, w.Return, entry}}
			switch {
			case w.Outcome() == history.OK && entry == nil:
				h.kind, h.text = missingWrite, fmt.Sprintf("%s was told that its write was applied, and the resource's log has none", s.Client())
			case w.Outcome() == history.Fail && entry != nil:
				h.class = r.classify(nil)
				h.kind, h.text = refusedWrite, fmt.Sprintf("%s was told that its write was refused, and the resource's log has it", s.Client())
			default:
				continue
			}
			harms = append(harms, h)
		}
	}
	return harms
}

// ordered is two sessions' names, the one that acquired first first.
func (r *record) ordered(a, b string) []string {
	x, y := r.Named(a), r.Named(b)
	if x != nil && y != nil && y.Acquire.Call.T < x.Acquire.Call.T {
		return []string{b, a}
	}
	return []string{a, b}
}
