package facts

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"

	"lockpick/harness/history"
)

// KeyInterval is a time span in which a key on a node had one value. It starts with the change that
// set the value and ends with the change that removed or replaced it.
//
//	set          expiry       deleted, expired, changed, lost, reverted, …
//	 |-------------|-------------|
//	Start      ExpiryEvent      End
type KeyInterval struct {
	Node, Key, Value string
	Start            *history.Event // set, changed, reverted or appeared
	ExpiryEvent      *history.Event // last change that set the expiry; Start if there is no later one
	OwnerExpiryEvent *history.Event // last such change made by the client that set the value
	End              *history.Event // nil means no end was reported
}

// HasToken reports whether the value is the token or contains it as a separate word, such as a
// field.
func (s *KeyInterval) HasToken(token string) bool {
	isWordChar := func(i int) bool {
		return i >= 0 && i < len(s.Value) && (unicode.IsLetter(rune(s.Value[i])) || unicode.IsDigit(rune(s.Value[i])))
	}
	for at := 0; token != ""; at++ {
		i := strings.Index(s.Value[at:], token)
		if i < 0 {
			return false
		}
		if at += i; !isWordChar(at-1) && !isWordChar(at+len(token)) {
			return true
		}
	}
	return true
}

// IsSetBy reports whether session x's client set the value, using the session's token.
func (s *KeyInterval) IsSetBy(x *Session) bool {
	return LinkClient(s.Setter()) == x.Client() && x.Token() != "" && s.HasToken(x.Token())
}

// Setter returns who set the value, in the form of history.Life.Sender.
func (s *KeyInterval) Setter() string { return s.Start.Life.Sender }

// Issuer returns who sent the command that caused the change reported by e: a client, "lockpick" or
// "nobody".
func Issuer(e *history.Event) string {
	switch by := e.Life.Sender; by {
	case "":
		return "nobody"
	case history.Harness:
		return "lockpick"
	default:
		return LinkClient(by)
	}
}

func (s *KeyInterval) From() int64 { return s.Start.T }

// To returns when the value was gone, as far as is known: the time of End or, if the key expired,
// its expiry time, because an expiry is reported only when a command next accesses the key.
func (s *KeyInterval) To() int64 {
	if s.End == nil {
		return s.ExpiresAt()
	}
	if s.End.Life.Kind == history.KeyExpired { // reported when a command next accessed the key
		return min(s.End.T, max(s.ExpiresAt(), s.ExpiryEvent.T))
	}
	return s.End.T
}

// ExpiresAt returns when the key expires if the node's clock runs correctly after ExpiryEvent: at T
// + Expiry − Local. It returns Never if the key has no expiry.
func (s *KeyInterval) ExpiresAt() int64 {
	l := s.ExpiryEvent.Life
	if l.Expiry == 0 || s.ExpiryEvent.Local == 0 {
		return Never
	}
	return s.ExpiryEvent.T + l.Expiry - s.ExpiryEvent.Local
}

// ExpiredAt returns when the key expired on its node's clock, given the changes to that clock. The
// result is the same as ExpiresAt unless the clock was changed in the meantime, but never before
// the expiry was set. If the changes contradict the clock's reading when the key ended, the node
// uses another clock for expiry, and the changes are ignored. Never means that the key had no
// expiry.
func (s *KeyInterval) ExpiredAt(changes []ClockChange) int64 {
	const tick = int64(time.Millisecond)
	expiry := s.ExpiresAt()
	if expiry == Never || len(changes) == 0 {
		return max(expiry, s.ExpiryEvent.T)
	}
	gainedTime := func(e *history.Event) int64 { return e.Local - e.T - ClockAt(changes, e.T).OffsetAt(e.T) }
	if e := s.End; e != nil && e.Local != 0 {
		if difference := gainedTime(e) - gainedTime(s.ExpiryEvent); max(difference, -difference) > tick+TimestampError(e)+TimestampError(s.ExpiryEvent) {
			return max(expiry, s.ExpiryEvent.T)
		}
	}
	var events []history.Event
	for _, t := range changes {
		events = append(events, *t.Event)
	}
	expirySet := *s.ExpiryEvent
	expirySet.Process, expirySet.WallClock, expirySet.ValidUntil = s.Node, true, expiry
	return max(expirySet.ClockDeadline(events), s.ExpiryEvent.T)
}

// Lifetime returns the TTL that ExpiryEvent gave the key, or Never if the key has no expiry. The
// TTL starts at a whole millisecond of the node's clock.
func (s *KeyInterval) Lifetime() int64 {
	if s.ExpiryEvent.Life.Expiry == 0 || s.ExpiryEvent.Local == 0 {
		return Never
	}
	const tick = int64(time.Millisecond)
	return s.ExpiryEvent.Life.Expiry - s.ExpiryEvent.Local/tick*tick
}

// TimestampError returns the maximum error in an event's T.
func TimestampError(e *history.Event) int64 {
	if e.Life == nil || e.Life.MaxT == 0 {
		return 0
	}
	return max(e.Life.MaxT-e.T, e.T-e.Life.MinT)
}

// Lives contains the successive values of each key on each node, as reported by the nodes
// (history.OpLife).
type Lives struct {
	intervals map[nodeKey][]*KeyInterval
	gaps      map[string][]*history.Event // by node
	bounds    map[nodeKey]intervalBounds  // computed when first needed
	Keys      []string                    // in the order of their first changes
}

type nodeKey struct{ node, key string }

// Lives returns the nodes' reports, which it indexes when it is first called. Each node's changes
// are in the order in which the node made them (history.Life.Seq).
func (f *Facts) Lives() *Lives {
	if f.lives == nil {
		f.lives = readLives(f.lifeEvents)
	}
	return f.lives
}

func readLives(events []*history.Event) *Lives {
	l := &Lives{intervals: map[nodeKey][]*KeyInterval{}, gaps: map[string][]*history.Event{}}
	all := slices.Clone(events)
	slices.SortStableFunc(all, func(a, b *history.Event) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Life.Seq, b.Life.Seq))
	})
	current, seen := map[nodeKey]*KeyInterval{}, map[string]bool{}
	for _, e := range all {
		if e.Life.Kind == history.KeyGap {
			l.gaps[e.Process] = append(l.gaps[e.Process], e)
			continue
		}
		p := nodeKey{e.Process, e.Key}
		current[p] = l.addChange(current[p], p, e)
		if !seen[e.Key] {
			seen[e.Key] = true
			l.Keys = append(l.Keys, e.Key)
		}
	}
	return l
}

// addChange adds a change to a key, given the key's current interval or nil. It returns the key's
// new current interval, or nil if the key is gone.
func (l *Lives) addChange(current *KeyInterval, p nodeKey, e *history.Event) *KeyInterval {
	begin := func() *KeyInterval {
		s := &KeyInterval{Node: p.node, Key: p.key, Value: e.Life.Value, Start: e, ExpiryEvent: e, OwnerExpiryEvent: e}
		l.intervals[p] = append(l.intervals[p], s)
		return s
	}
	switch e.Life.Kind {
	case history.KeyExpiry, history.KeyKept:
		if current == nil || current.Value != e.Life.Value {
			return begin() // earlier changes were not reported
		}
		if e.Life.Kind == history.KeyExpiry {
			current.ExpiryEvent = e
			if owner := LinkClient(current.Setter()); owner == "" || LinkClient(e.Life.Sender) == owner {
				current.OwnerExpiryEvent = e
			}
		}
		return current
	case history.KeyChanged, history.KeyReverted:
		if current != nil {
			current.End = e
		}
		return begin()
	case history.KeySet, history.KeyAppeared: // if there was a value, its end was not reported
		return begin()
	default:
		if current != nil {
			current.End = e
		}
		return nil
	}
}

// Intervals returns a key's intervals on a node, in order.
func (l *Lives) Intervals(node, key string) []*KeyInterval { return l.intervals[nodeKey{node, key}] }

// IntervalAt returns a key's interval on a node at the given time, or nil. An interval lasts until
// the node reports its end, even if the key should have expired earlier, because the node's clock
// may have been wrong.
func (l *Lives) IntervalAt(node, key string, at int64) *KeyInterval {
	all := l.Intervals(node, key)
	i := sort.Search(len(all), func(i int) bool { return all[i].From() > at }) - 1
	if i < 0 || all[i].End != nil && all[i].End.T < at {
		return nil
	}
	return all[i]
}

// intervalBounds contains, for each of a key's intervals on a node, the latest end of this and all
// earlier intervals, and the earliest start of this and all later intervals.
type intervalBounds struct{ maxTo, minFrom []int64 }

// IntervalsBetween returns a subslice of Intervals that contains all intervals that overlap [from,
// to].
func (l *Lives) IntervalsBetween(node, key string, from, to int64) []*KeyInterval {
	all := l.Intervals(node, key)
	t, ok := l.bounds[nodeKey{node, key}]
	if !ok {
		t = boundsOf(all)
		if l.bounds == nil {
			l.bounds = map[nodeKey]intervalBounds{}
		}
		l.bounds[nodeKey{node, key}] = t
	}
	first, _ := slices.BinarySearch(t.maxTo, from)
	end, _ := slices.BinarySearch(t.minFrom, to)
	for end < len(all) && t.minFrom[end] <= to {
		end++
	}
	return all[min(first, end):end]
}

func boundsOf(intervals []*KeyInterval) intervalBounds {
	t := intervalBounds{make([]int64, len(intervals)), make([]int64, len(intervals))}
	for i, s := range intervals {
		t.maxTo[i] = s.To()
		if i > 0 {
			t.maxTo[i] = max(t.maxTo[i], t.maxTo[i-1])
		}
	}
	for i := len(intervals) - 1; i >= 0; i-- {
		t.minFrom[i] = intervals[i].From()
		if i+1 < len(intervals) {
			t.minFrom[i] = min(t.minFrom[i], t.minFrom[i+1])
		}
	}
	return t
}

// Gap returns a gap in the node's reports that overlaps [from, to], or nil.
func (l *Lives) Gap(node string, from, to int64) *history.Event {
	for _, g := range l.gaps[node] {
		if g.Life.MinT <= to && g.Life.MaxT >= from {
			return g
		}
	}
	return nil
}
