package resource

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Kinds of damage, worded to begin a sentence.
const (
	lostUpdate   = "lost update"
	interleaving = "interleaving"
	missingWrite = "missing write"
	refusedWrite = "refused write"
)

// Log is a record together with what its resource's log shows.
type Log struct {
	*facts.Facts
	index  indexCache
	stalls spans.MeasuredSpans // host stalls

	appliedWrites    []facts.Write             // applied writes, in the order of the log
	entriesByValue   map[string]*history.Event // log entries of the applied writes, by value
	numWrites        int                       // number of writes, applied or refused
	numRefused       int                       // number of refused writes
	numOutsideBelief int                       // number of writes applied outside their session's belief
	lostUpdates      []damage                  // lost updates
}

// Read reads the resource's log in a record.
func Read(record *facts.Facts) *Log {
	r := &Log{Facts: record, entriesByValue: map[string]*history.Event{}, stalls: spans.Measure(spans.Union(spans.Stalls(record)))}
	r.index = indexCache{r: r.Facts, indexes: map[*facts.Session]*sessionIndex{}}
	for _, w := range r.Writes() {
		r.numWrites++
		if w.Type != history.OK {
			r.numRefused++
			continue
		}
		r.appliedWrites = append(r.appliedWrites, w)
		r.entriesByValue[w.Value] = w.Event
		if !workedWithinLease(r, workSpan{w.Session, facts.AppliedAt(w.Event), facts.AppliedAt(w.Event)}) {
			r.numOutsideBelief++
		}
	}
	r.lostUpdates = lostUpdates(r)
	return r
}

// workSpan is the span during which a session worked on the resource: from its read to its applied
// write.
type workSpan struct {
	session  string
	from, to int64
}

func workSpanAt(w facts.Write) workSpan {
	s := workSpan{session: w.Session, from: facts.AppliedAt(w.Event), to: facts.AppliedAt(w.Event)}
	if w.Read != nil {
		s.from = facts.AppliedAt(w.Read)
	}
	return s
}

// workedWithinLease reports whether a session did all of its work within one of its belief windows.
func workedWithinLease(r *Log, s workSpan) bool {
	owner := r.SessionByName(s.session)
	if owner == nil {
		return false
	}
	w, ok := r.index.lookup(owner).windowUntil(s.to)
	return ok && w.From <= s.from
}

// lostUpdates finds writes that overwrote another session's write without having seen it: they were
// based on version k, but applied to a later version.
func lostUpdates(r *Log) []damage {
	var damages []damage
	writesByKey := map[string]*appliedWrites{} // by key
	for _, w := range r.appliedWrites {
		earlierWrites := writesByKey[w.Key]
		if earlierWrites == nil {
			earlierWrites = &appliedWrites{}
			writesByKey[w.Key] = earlierWrites
		}
		if other, ok := earlierWrites.firstUnseen(w); ok {
			damages = append(damages, damage{
				kind: lostUpdate, class: classify(r, []workSpan{workSpanAt(other), workSpanAt(w)}), key: w.Key,
				event: w.Event, from: facts.AppliedAt(other.Event), sessions: orderedNames(r.Facts, other.Session, w.Session),
				events: []*history.Event{other.Read, other.Event, w.Read, w.Event},
				text: fmt.Sprintf("%s's write, based on version %d, was applied at %s to version %d, so what %s had written at %s is lost",
					sessionName(r.Facts, w.Session), w.Version, facts.Seconds(facts.AppliedAt(w.Event)), w.VersionBefore, sessionName(r.Facts, other.Session), facts.Seconds(facts.AppliedAt(other.Event))),
			})
		}
		earlierWrites.add(w)
	}
	return damages
}

// appliedWrites holds the applied writes of a key, ordered by version.
type appliedWrites struct {
	writes    []facts.Write
	handovers []int // indices of writes whose predecessor belongs to another session
}

func (a *appliedWrites) add(w facts.Write) {
	if n := len(a.writes); n > 0 && a.writes[n-1].Session != w.Session {
		a.handovers = append(a.handovers, n)
	}
	a.writes = append(a.writes, w)
}

// firstUnseen returns another session's first write after the version that w is based on.
func (a *appliedWrites) firstUnseen(w facts.Write) (facts.Write, bool) {
	i, _ := slices.BinarySearchFunc(a.writes, w.Version+1, func(x facts.Write, v int64) int { return cmp.Compare(x.VersionAfter, v) })
	if i < len(a.writes) && a.writes[i].Session == w.Session {
		handover, _ := slices.BinarySearch(a.handovers, i+1)
		if handover == len(a.handovers) {
			return facts.Write{}, false
		}
		i = a.handovers[handover]
	}
	if i == len(a.writes) {
		return facts.Write{}, false
	}
	return a.writes[i], true
}

// interleavings finds sessions that wrote again after another session had written.
func interleavings(r *Log) []damage {
	type sessionWrites struct {
		last  facts.Write // the session's last write
		after facts.Write // another session's first write after it, or zero
	}
	type section struct{ key, session string }
	var damages []damage
	sections := map[section]*sessionWrites{}
	lastWriter := map[string]string{} // by key: the session that wrote last
	for _, w := range r.appliedWrites {
		previous := sections[section{w.Key, lastWriter[w.Key]}]
		if previous != nil && lastWriter[w.Key] != w.Session && previous.after.Event == nil {
			previous.after = w
		}
		if s := sections[section{w.Key, w.Session}]; s != nil && lastWriter[w.Key] != w.Session {
			other := s.after
			damages = append(damages, damage{
				kind: interleaving, class: classify(r, []workSpan{workSpanAt(s.last), workSpanAt(other), workSpanAt(w)}), key: w.Key,
				event: w.Event, from: facts.AppliedAt(s.last.Event), sessions: orderedNames(r.Facts, s.last.Session, other.Session),
				events: []*history.Event{s.last.Event, other.Event, w.Event},
				text: fmt.Sprintf("%s wrote at %s between two writes of %s, at %s and %s",
					sessionName(r.Facts, other.Session), facts.Seconds(facts.AppliedAt(other.Event)), sessionName(r.Facts, w.Session), facts.Seconds(facts.AppliedAt(s.last.Event)), facts.Seconds(facts.AppliedAt(w.Event))),
			})
		}
		sections[section{w.Key, w.Session}] = &sessionWrites{last: w}
		lastWriter[w.Key] = w.Session
	}
	return damages
}

// contradictions finds writes whose answer contradicts the log.
func contradictions(r *Log) []damage {
	var damages []damage
	for s := range r.Sessions() {
		for w := range s.Calls(history.OpWrite) {
			if w.Call.Value == "" {
				continue
			}
			entry := r.entriesByValue[w.Call.Value]
			h := damage{class: verdict.Unexplained, key: s.Key(), event: w.Return, from: w.Call.T, sessions: []string{s.Name()}, events: []*history.Event{w.Call, w.Return, entry}}
			switch {
			case w.Outcome() == history.OK && entry == nil:
				h.kind, h.text = missingWrite, fmt.Sprintf("%s's write was acknowledged, but the resource's log does not contain it", s.Client())
			case w.Outcome() == history.Fail && entry != nil:
				h.class = classify(r, nil)
				h.kind, h.text = refusedWrite, fmt.Sprintf("%s's write was refused, but the resource's log contains it", s.Client())
			default:
				continue
			}
			damages = append(damages, h)
		}
	}
	return damages
}

// workSpanOf returns the span during which a session worked, according to its client's events.
func workSpanOf(s *facts.Session, w facts.Operation) workSpan {
	from := w.Call.T
	for read := range s.Calls(history.OpRead) {
		if read.Outcome() == history.OK && read.Return.T < w.Call.T {
			from = read.Return.T
		}
	}
	return workSpan{s.Name(), from, w.Return.T}
}

// stalledOverrun is the class of damage that host stalls may explain: sessions worked past their
// leases, but by no more than the host stalled in the meantime. No verdict has this class.
const stalledOverrun = "stalled-overrun"

// classify decides what to blame: the fence if there is one, the lock if all sessions worked within
// their leases, or otherwise the session that worked past its lease.
func classify(r *Log, workSpans []workSpan) string {
	if hasFence(r.Facts) {
		return verdict.FenceBroken
	}
	class := verdict.LockBroken
	for _, s := range workSpans {
		switch {
		case workedWithinLease(r, s):
		case r.overrun(s) > r.stallTime(s):
			return verdict.Overrun
		default:
			class = stalledOverrun
		}
	}
	if len(workSpans) == 0 {
		return verdict.Unexplained
	}
	return class
}

// overrun returns how long a session worked past its lease, or Never if the lease had ended before
// the work began.
func (r *Log) overrun(s workSpan) int64 {
	owner := r.SessionByName(s.session)
	if owner == nil {
		return facts.Never
	}
	w, ok := r.index.lookup(owner).windowUntil(s.from)
	if !ok || w.From > s.from {
		return facts.Never
	}
	return s.to - w.To
}

// stallTime returns how long the host stalled during a session's work.
func (r *Log) stallTime(s workSpan) int64 { return r.stalls.Share(spans.New(s.from, s.to)) }

// hasFence reports whether the resource has a fence, so that it can refuse requests.
func hasFence(r *facts.Facts) bool { return r.Params.Fence != "" && r.Params.Fence != "none" }

// sessionIndex indexes a session's operations, because the resource's log may have thousands of its
// writes.
type sessionIndex struct {
	windows  []facts.Window             // sorted by time
	writes   map[string]facts.Operation // the first write of each value
	lastRead facts.Operation            // the last read
	numReads int                        // number of reads
	claims   []claim                    // sorted by time
}

// claim is the deadline that a session has from an instant on.
type claim struct{ from, deadline int64 }

type indexCache struct {
	r           *facts.Facts
	indexes     map[*facts.Session]*sessionIndex // indexes of long sessions
	lastSession *facts.Session                   // the session of the last lookup
	lastIndex   *sessionIndex                    // its index
}

// cacheThreshold is the number of actions above which a session's index is cached. There may be
// millions of shorter sessions, but they are cheap to index.
const cacheThreshold = 16

func (cs *indexCache) lookup(s *facts.Session) *sessionIndex {
	if s == cs.lastSession {
		return cs.lastIndex
	}
	cs.lastSession, cs.lastIndex = s, cs.indexes[s]
	if cs.lastIndex == nil {
		var actions int
		if cs.lastIndex, actions = indexSession(cs.r, s); actions > cacheThreshold {
			cs.indexes[s] = cs.lastIndex
		}
	}
	return cs.lastIndex
}

// indexSession indexes a session and counts its actions.
func indexSession(r *facts.Facts, s *facts.Session) (c *sessionIndex, actions int) {
	c = &sessionIndex{windows: slices.Collect(r.Windows(s)), writes: map[string]facts.Operation{}}
	if s.Granted() {
		c.claims = append(c.claims, claim{spans.DistantPast, s.Deadline})
	}
	for x := range s.Actions() {
		actions++
		switch {
		case x.Call.Op == history.OpRead:
			c.lastRead = x
			c.numReads++
		case x.Call.Op == history.OpWrite && x.Call.Value != "":
			if _, ok := c.writes[x.Call.Value]; !ok {
				c.writes[x.Call.Value] = x
			}
		case x.Call.Op == history.OpExtend && x.Outcome() == history.OK && s.Granted():
			c.claims = append(c.claims, claim{x.Return.T, facts.ExtendedDeadline(x.Return, c.claims[len(c.claims)-1].deadline)})
		}
	}
	return c, actions
}

// windowUntil returns the first belief window that ends at or after an instant.
func (c *sessionIndex) windowUntil(at int64) (facts.Window, bool) {
	i := sort.Search(len(c.windows), func(i int) bool { return c.windows[i].To >= at })
	if i == len(c.windows) {
		return facts.Window{}, false
	}
	return c.windows[i], true
}

// deadlineAt returns a granted session's deadline as of an instant.
func (c *sessionIndex) deadlineAt(at int64) int64 {
	i := sort.Search(len(c.claims), func(i int) bool { return c.claims[i].from > at })
	return c.claims[i-1].deadline
}

// answeredBy returns the operation to which a log entry is the answer: the write of the same value,
// or the session's only read.
func (c *sessionIndex) answeredBy(e *history.Event) (found facts.Operation, ok bool) {
	if e.Cause == history.OpWrite {
		found, ok = c.writes[e.Value]
		return found, ok
	}
	return c.lastRead, c.numReads == 1
}
