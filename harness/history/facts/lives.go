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

// KeyInterval is an interval during which a key on a node had one value, from the fact that set the
// value to the fact that ended it.
//
//	set          expiry       deleted, expired, changed, lost, reverted, …
//	 |-------------|-------------|
//	Start      ExpirySet        End
type KeyInterval struct {
	Node, Key, Value string
	Start            *history.Event // set, changed, reverted or appeared
	ExpirySet        *history.Event // the last fact that set an expiry; Start if there is no later one
	RenewedByOwner   *history.Event // the same, counting only facts by the client that set the value
	End              *history.Event // nil: the record has no end
}

// Holds reports whether the value is the token, or has it among its fields.
func (s *KeyInterval) Holds(token string) bool {
	word := func(i int) bool {
		return i >= 0 && i < len(s.Value) && (unicode.IsLetter(rune(s.Value[i])) || unicode.IsDigit(rune(s.Value[i])))
	}
	for at := 0; token != ""; at++ {
		i := strings.Index(s.Value[at:], token)
		if i < 0 {
			return false
		}
		if at += i; !word(at-1) && !word(at+len(token)) {
			return true
		}
	}
	return true
}

// SetBy reports whether the session's client set the value, with the session's token.
func (s *KeyInterval) SetBy(x *Session) bool {
	return LinkClient(s.By()) == x.Client() && x.Token() != "" && s.Holds(x.Token())
}

// By returns the issuer of the value, see history.Life.
func (s *KeyInterval) By() string { return s.Start.Life.By }

// Issuer returns who made a change that a node reports: a client, lockpick, or nobody.
func Issuer(e *history.Event) string {
	switch by := e.Life.By; by {
	case "":
		return "nobody"
	case history.Harness:
		return "lockpick"
	default:
		return LinkClient(by)
	}
}

// From returns when the value was set.
func (s *KeyInterval) From() int64 { return s.Start.T }

// To returns when the value was gone, as far as the record shows: the instant of End, or when it
// expired if no command touched the key afterwards.
func (s *KeyInterval) To() int64 {
	if s.End == nil {
		return s.ExpiresAt()
	}
	if s.End.Life.What == history.KeyExpired { // recorded only when a command touched the key
		return min(s.End.T, max(s.ExpiresAt(), s.ExpirySet.T))
	}
	return s.End.T
}

// ExpiresAt returns when the key expires if the node's clock runs correctly from ExpirySet on. This
// is T + Expires − Local, or Never if it has no expiry.
func (s *KeyInterval) ExpiresAt() int64 {
	l := s.ExpirySet.Life
	if l.Expires == 0 || s.ExpirySet.Local == 0 {
		return Never
	}
	return s.ExpirySet.T + l.Expires - s.ExpirySet.Local
}

// Lapse returns the instant at which the key expired by its node's clock, whose changes are turned. It
// is Due unless the clock was changed meanwhile, and never before the key got its expiry. If the
// changes don't match what the clock showed when the key ended, the node expires keys by another
// clock, and the result is Due. Never means that the key had no expiry.
func (s *KeyInterval) Lapse(turned []ClockChange) int64 {
	const tick = int64(time.Millisecond)
	due := s.ExpiresAt()
	if due == Never || len(turned) == 0 {
		return max(due, s.ExpirySet.T)
	}
	gain := func(e *history.Event) int64 { return e.Local - e.T - ClockAt(turned, e.T).Ahead(e.T) }
	if e := s.End; e != nil && e.Local != 0 {
		if off := gain(e) - gain(s.ExpirySet); max(off, -off) > tick+TimestampError(e)+TimestampError(s.ExpirySet) {
			return max(due, s.ExpirySet.T)
		}
	}
	var turns []history.Event
	for _, t := range turned {
		turns = append(turns, *t.Event)
	}
	given := *s.ExpirySet
	given.Process, given.Wall, given.ValidUntil = s.Node, true, due
	return max(given.DeadlineReached(turns), s.ExpirySet.T)
}

// Lifetime returns the time to live that the key got last, or Never if it has no expiry. A node
// counts it from the whole millisecond that its clock showed.
func (s *KeyInterval) Lifetime() int64 {
	if s.ExpirySet.Life.Expires == 0 || s.ExpirySet.Local == 0 {
		return Never
	}
	const tick = int64(time.Millisecond)
	return s.ExpirySet.Life.Expires - s.ExpirySet.Local/tick*tick
}

// TimestampError bounds the error of a fact's T.
func TimestampError(e *history.Event) int64 {
	if e.Life == nil || e.Life.Hi == 0 {
		return 0
	}
	return max(e.Life.Hi-e.T, e.T-e.Life.Lo)
}

// Lives holds the values of each key on each node, as the nodes reported them (history.OpLife). It
// is empty if the nodes reported nothing.
type Lives struct {
	intervals map[nodeKey][]*KeyInterval
	gaps      map[string][]*history.Event // by node
	spans     map[nodeKey]intervalBounds  // of intervals; computed when first needed
	Keys      []string                    // in the order of their first fact
}

type nodeKey struct{ node, key string }

// Lives indexes the nodes' reports when it is first called. The facts of each node are in the
// node's own order.
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
	open, seen := map[nodeKey]*KeyInterval{}, map[string]bool{}
	for _, e := range all {
		if e.Life.What == history.KeyGap {
			l.gaps[e.Process] = append(l.gaps[e.Process], e)
			continue
		}
		p := nodeKey{e.Process, e.Key}
		open[p] = l.advance(open[p], p, e)
		if !seen[e.Key] {
			seen[e.Key] = true
			l.Keys = append(l.Keys, e.Key)
		}
	}
	return l
}

// advance enters one fact, and returns the interval of the value that exists after it, or nil.
func (l *Lives) advance(now *KeyInterval, p nodeKey, e *history.Event) *KeyInterval {
	begin := func() *KeyInterval {
		s := &KeyInterval{Node: p.node, Key: p.key, Value: e.Life.Value, Start: e, ExpirySet: e, RenewedByOwner: e}
		l.intervals[p] = append(l.intervals[p], s)
		return s
	}
	switch e.Life.What {
	case history.KeyExpiry, history.KeyKept:
		if now == nil || now.Value != e.Life.Value {
			return begin() // the facts before it are missing
		}
		if e.Life.What == history.KeyExpiry {
			now.ExpirySet = e
			if owner := LinkClient(now.By()); owner == "" || LinkClient(e.Life.By) == owner {
				now.RenewedByOwner = e
			}
		}
		return now
	case history.KeyChanged, history.KeyReverted:
		if now != nil {
			now.End = e
		}
		return begin()
	case history.KeySet, history.KeyAppeared: // if there was a value, the fact that ended it is missing
		return begin()
	default:
		if now != nil {
			now.End = e
		}
		return nil
	}
}

// Intervals returns the values of a key on a node, in order.
func (l *Lives) Intervals(node, key string) []*KeyInterval { return l.intervals[nodeKey{node, key}] }

// At returns the value that a key had on a node at an instant, or nil. It uses the node's own
// report of when the key ended, even if the key's TTL was over earlier: the node's clock may have
// been wrong.
func (l *Lives) At(node, key string, at int64) *KeyInterval {
	all := l.Intervals(node, key)
	i := sort.Search(len(all), func(i int) bool { return all[i].From() > at }) - 1
	if i < 0 || all[i].End != nil && all[i].End.T < at {
		return nil
	}
	return all[i]
}

// intervalBounds holds, for each interval of a key on a node, the latest end of it and all before
// it, and the earliest start of it and all after it.
type intervalBounds struct{ maxTo, minFrom []int64 }

// During returns a contiguous part of the intervals that contains all that overlap a span.
func (l *Lives) During(node, key string, from, to int64) []*KeyInterval {
	all := l.Intervals(node, key)
	t, ok := l.spans[nodeKey{node, key}]
	if !ok {
		t = boundsOf(all)
		if l.spans == nil {
			l.spans = map[nodeKey]intervalBounds{}
		}
		l.spans[nodeKey{node, key}] = t
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

// Gap returns a gap of the node that overlaps [from, to], in which facts may be missing, or nil.
func (l *Lives) Gap(node string, from, to int64) *history.Event {
	for _, g := range l.gaps[node] {
		if g.Life.Lo <= to && g.Life.Hi >= from {
			return g
		}
	}
	return nil
}
