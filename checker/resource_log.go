package checker

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/harness/history"
)

// Kinds of harm, as they begin a sentence.
const (
	lostUpdate   = "lost update"
	interleaving = "interleaving"
	missingWrite = "missing write"
	refusedWrite = "refused write"
)

// Kinds of entries in the resource's log.
const (
	entryWrite = "write"
	entryClaim = "claim" // a read that also claims, under check-and-set
)

// books is the resource's log with what follows from it.
type books struct {
	applied []write                   // in the order of apply
	reads   map[string]*history.Event // last read of a session
	values  map[string]*history.Event // entry of an applied value
	writes  int                       // applied or refused
	refused int
	outside int // applied outside the session's belief
}

// write is one applied write.
type write struct {
	*history.Event
	read    *history.Event // the read that the session had based it on; nil: not in the log
	version int64          // the version that it made
	under   int64          // the version that it was applied to
}

// stay is the time that a session worked on the resource: from its read to the apply of its write.
type stay struct {
	session  string
	from, to int64
}

func (w write) stay() stay {
	s := stay{session: w.Session, from: instant(w.Event), to: instant(w.Event)}
	if w.read != nil {
		s.from = instant(w.read)
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

// readBooks reads the log. A version is the number of writes applied to a key; a
// read that says otherwise is believed, for it is the resource that counts.
func readBooks(r *record) books {
	b := books{reads: map[string]*history.Event{}, values: map[string]*history.Event{}}
	version := map[string]int64{}
	for _, e := range r.log {
		switch {
		case e.Cause != entryWrite:
			if e.Type == history.OK {
				b.reads[e.Session] = e
				version[e.Key] = e.Version
			}
		case e.Type == history.OK:
			w := write{Event: e, read: b.reads[e.Session], under: version[e.Key]}
			version[e.Key]++
			w.version = version[e.Key]
			b.applied = append(b.applied, w)
			b.values[e.Value] = e
			b.writes++
			if !r.within(stay{e.Session, instant(e), instant(e)}) {
				b.outside++
			}
		default:
			b.writes++
			b.refused++
		}
	}
	return b
}

// within reports whether a session's stay lies in one of its belief windows.
func (r *record) within(s stay) bool {
	owner := r.named(s.session)
	if owner == nil {
		return false
	}
	for w := range r.belief(owner) {
		if w.from <= s.from && s.to <= w.to {
			return true
		}
	}
	return false
}

// lostUpdates finds writes that overwrote another session's write which they
// had not seen: based on version k, applied to a later one. A session's own
// earlier writes it knows.
func lostUpdates(r *record, b books) []harm {
	var harms []harm
	before := map[string][]write{} // by key, in the order of versions
	for _, w := range b.applied {
		if other, ok := unseen(before[w.Key], w); ok {
			harms = append(harms, harm{
				kind: lostUpdate, class: r.classify([]stay{other.stay(), w.stay()}), key: w.Key,
				at: w.Event, from: instant(other.Event), sessions: r.ordered(other.Session, w.Session),
				events: []*history.Event{other.read, other.Event, w.read, w.Event},
				text: fmt.Sprintf("%s's write, based on version %d, was applied at %s to version %d: what %s had written at %s is lost",
					r.who(w.Session), w.Version, seconds(instant(w.Event)), w.under, r.who(other.Session), seconds(instant(other.Event))),
			})
		}
		before[w.Key] = append(before[w.Key], w)
	}
	return harms
}

// unseen finds the first of the earlier writes that w, by the version it is based
// on, had not seen and that is another session's.
func unseen(earlier []write, w write) (write, bool) {
	i, _ := slices.BinarySearchFunc(earlier, w.Version+1, func(x write, v int64) int { return cmp.Compare(x.version, v) })
	for _, x := range earlier[i:] {
		if x.Session != w.Session {
			return x, true
		}
	}
	return write{}, false
}

// interleavings finds sessions that wrote, were followed by another's write, and
// wrote again.
func interleavings(r *record, b books) []harm {
	type seen struct {
		last  write // of the session
		after write // the first of another session after that; zero: none yet
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
				kind: interleaving, class: r.classify([]stay{s.last.stay(), other.stay(), w.stay()}), key: w.Key,
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
	for s := range r.sessions.all() {
		for w := range s.writes() {
			if w.call.Value == "" {
				continue
			}
			entry := b.values[w.call.Value]
			h := harm{class: Unexplained, key: s.key(), at: w.ret, from: w.call.T, sessions: []string{s.name()}, events: []*history.Event{w.call, w.ret, entry}}
			switch {
			case w.outcome() == history.OK && entry == nil:
				h.kind, h.text = missingWrite, fmt.Sprintf("%s was told that its write was applied, and the resource's log has none", s.client())
			case w.outcome() == history.Fail && entry != nil:
				h.class = r.classify(nil)
				h.kind, h.text = refusedWrite, fmt.Sprintf("%s was told that its write was refused, and the resource's log has it", s.client())
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
	x, y := r.named(a), r.named(b)
	if x != nil && y != nil && y.acquire.call.T < x.acquire.call.T {
		return []string{b, a}
	}
	return []string{a, b}
}
