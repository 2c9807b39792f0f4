package timeline

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// reportedLives returns the keys' lives on each node, as reported by the nodes.
func (r *run) reportedLives() map[string][][]life {
	out := map[string][][]life{}
	all := r.f.Lives()
	for _, node := range r.f.Params.Nodes {
		if out[node] != nil {
			continue // the node is listed twice
		}
		for _, key := range all.Keys {
			if intervals := all.Intervals(node, key); len(intervals) > 0 {
				out[node] = append(out[node], r.consecutiveLives(intervals))
			}
		}
	}
	return out
}

// consecutiveLives returns a key's lives on a node. It removes overlaps between lives, which arise if
// the timestamp error exceeds the gap between two lives.
func (r *run) consecutiveLives(intervals []*facts.KeyInterval) (lives []life) {
	freeAt := int64(0)
	for i, s := range intervals {
		l := r.lifeOf(s)
		if i+1 < len(intervals) {
			l.to = min(l.to, intervals[i+1].From())
		}
		l.from = max(l.from, freeAt)
		l.to = max(l.to, l.from)
		freeAt = l.to
		lives = append(lives, l)
	}
	return lives
}

func (r *run) lifeOf(s *facts.KeyInterval) life {
	l := life{key: s.Key, session: r.sessionOf(s), from: s.From(), to: s.To(), expiresAt: s.ExpiresAt(), events: []*event{s.Start}}
	if l.owner = facts.LinkClient(s.Setter()); l.session != "" {
		l.owner = r.clientOf(l.session)
	}
	if s.ExpiryEvent != s.Start {
		l.events = append(l.events, s.ExpiryEvent)
	}
	end := s.End
	if end == nil {
		return l
	}
	if l.to == end.T {
		l.events = append(l.events, end)
	}
	by := facts.LinkClient(end.Life.Sender)
	if isOwn := by != "" && by == l.owner && end.Life.Kind == history.KeyDeleted; isOwn {
		r.markReleased(&l, by, end.T)
		return l
	}
	const tick = 1e6 // nodes measure time in whole milliseconds
	if l.endedEarly = l.to < l.expiresAt-tick && by != l.owner; l.endedEarly {
		l.endText = display.DescribeEarlyEnd(end.Life.Kind, end.Life.Replacement, facts.Issuer(end))
	}
	return l
}

// markReleased records that the key was deleted by its own client.
func (r *run) markReleased(l *life, client string, at int64) {
	if l.endedEarly = r.believesAt(l.session, at); l.endedEarly {
		l.endText = client + "'s own delayed release deletes it while the client believes that it holds the lock"
	} else {
		l.endText = client + " deletes it"
	}
}

// sessionOf returns the session whose token is the key's value or one of the value's fields, or "" if
// there is none.
func (r *run) sessionOf(s *facts.KeyInterval) string {
	if name := r.owners[s.Value]; name != "" {
		return name
	}
	for _, word := range strings.FieldsFunc(s.Value, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if name := r.owners[word]; name != "" && s.HasToken(word) {
			return name
		}
	}
	return ""
}

// inferredLives infers the keys' lives on each node from the commands on the links and the node's
// faults, for nodes that don't report their keys. If the node accepts a set or an extension, the key
// exists from then on. If the node accepts a later set by another client, the earlier key was gone.
func (r *run) inferredLives() map[string][][]life {
	out := map[string][][]life{}
	for node, commands := range r.f.LockCommandsByNode() {
		byKey := map[string][]*event{}
		var keys []string
		for _, e := range commands {
			if byKey[e.Key] == nil {
				keys = append(keys, e.Key)
			}
			byKey[e.Key] = append(byKey[e.Key], e)
		}
		for _, key := range keys {
			in := inference{run: r, node: node}
			for _, e := range byKey[key] {
				in.apply(e)
			}
			in.end(noDeadline, nil, "")
			out[node] = append(out[node], in.lives)
		}
	}
	return out
}

// inference infers a key's lives on a node.
type inference struct {
	*run
	node  string
	lives []life

	current    *life  // current life; nil if there is no key
	setCommand *event // command that set the key
	renewedAt  int64  // when the key was last set or extended
	lastSeen   int64  // when the key was last known to exist
}

func (in *inference) apply(e *event) {
	ok := e.Type == history.OK
	switch {
	case ok && e.Op == history.OpSet:
		in.end(e.AppliedAt, e, fmt.Sprintf("gone when %s set its own key", facts.Sender(e)))
		in.begin(e)
	case in.current == nil:
	case ok && e.Op == history.OpExtend && e.Token == in.setCommand.Token:
		in.current.events, in.current.expiresAt = append(in.current.events, e), in.expiryOf(e.AppliedAt, e.TTL)
		in.renewedAt, in.lastSeen = e.AppliedAt, e.AppliedAt
	case ok && e.Op == history.OpRelease:
		how := "a release deleted it"
		if e.Token != in.setCommand.Token {
			how = display.DescribeEarlyEnd(history.KeyDeleted, "", facts.Sender(e))
		}
		in.lastSeen = e.AppliedAt
		in.end(e.AppliedAt, e, how)
	case e.Type == history.Fail && e.Op == history.OpSet && e.Cause == "" && e.AppliedAt < in.current.expiresAt:
		in.lastSeen = e.AppliedAt // refused, so the key existed
	}
}

func (in *inference) begin(set *event) {
	in.current = &life{key: set.Key, owner: facts.Sender(set), session: in.owners[set.Token], from: set.AppliedAt,
		expiresAt: in.expiryOf(set.AppliedAt, set.TTL), events: []*event{set}}
	if in.current.session != "" {
		in.current.owner = in.clientOf(in.current.session)
	}
	in.setCommand, in.renewedAt, in.lastSeen = set, set.AppliedAt, set.AppliedAt
}

// end ends the current life, if any. The key is certainly gone at the time at, as shown by the command
// by.
func (in *inference) end(at int64, by *event, how string) {
	l := in.current
	if l == nil {
		return
	}
	in.current = nil
	gone, why := in.latestEnd(l, at)
	l.to = min(gone, at)
	isOwn := by != nil && l.to == at && by.Op == history.OpRelease && by.Token == in.setCommand.Token
	switch {
	case isOwn:
		in.markReleased(l, facts.Sender(by), at)
	case l.to < l.expiresAt && l.to < in.run.end && gone <= at:
		l.endedEarly, l.endText = true, why
	case by != nil && l.to == at && at < l.expiresAt:
		l.endedEarly, l.endText = true, how
	}
	if by != nil && l.to == by.AppliedAt {
		l.events = append(l.events, by)
	}
	in.lives = append(in.lives, *l)
}

// expiryOf returns when a TTL that starts at the given time elapses at the node's current clock rate.
// latestEnd accounts for later changes to the clock.
func (in *inference) expiryOf(at, ttl int64) int64 {
	rate := facts.ClockAt(in.f.ClockChangesOf(in.node), at).Rate
	if ttl <= 0 || ttl > math.MaxInt64/4 || rate <= 0 {
		return noDeadline
	}
	return at + int64(float64(ttl)/rate)
}

// latestEnd returns when the key ended at the latest, and why: it expired, or a fault hit the node after
// the key was last known to exist. goneAt is when a command showed that the key was gone.
func (in *inference) latestEnd(l *life, goneAt int64) (int64, string) {
	at, why := in.endByClock(l)
	for _, f := range in.f.Faults {
		if f.Target != in.node || f.Begin == nil || f.Begin.T <= in.lastSeen || f.Begin.T >= at {
			continue
		}
		switch {
		case nemesis.WordingOf(f.Kind).State == nemesis.StateDown:
			if f.End == nil || in.f.Params.Persistence == "none" || f.End.T <= goneAt && goneAt < at {
				at, why = f.Begin.T, f.Kind+": the node loses it"
			}
		case f.Kind == history.Failover:
			at, why = f.Begin.T, display.DescribeEarlyEnd(history.KeyLost, history.Failover, "")
		}
	}
	return at, why
}

// endByClock returns when the key expires, taking changes to the node's clock into account, and which
// change made it expire earlier.
func (in *inference) endByClock(l *life) (int64, string) {
	at, why := l.expiresAt, ""
	changes := in.f.ClockChangesOf(in.node)
	for i, t := range changes {
		if t.T <= in.renewedAt || t.T <= in.lastSeen || i == 0 && !t.IsWrong() || t.T >= at || l.expiresAt == noDeadline {
			continue
		}
		jump := t.Offset - facts.ClockAt(changes, t.T-1).OffsetAt(t.T)
		if end := t.T + max(0, l.expiresAt-t.T-jump); jump > (l.expiresAt-in.renewedAt)/1000 && end < at {
			at, why = end, "its "+describeClock(t)
		}
	}
	return at, why
}

// believesAt reports whether a session's client believed at the given time that it held the lock.
func (r *run) believesAt(session string, at int64) bool {
	s := r.f.SessionByName(session)
	return s != nil && slices.ContainsFunc(slices.Collect(r.f.Windows(s)), func(x facts.Window) bool { return x.From <= at && at < x.To })
}

// maxItems limits the number of items to keep the page small and fast.
const maxItems = 16000

// setInitialView chooses what a reader sees first: for a violation, the time span of the violation and
// the items it involves, with a margin; otherwise, the whole run.
func (c *chart) setInitialView(s span, violated bool) {
	c.t.InitialView = span{0, c.t.End}
	if !violated {
		return
	}
	for _, i := range c.t.Items {
		if slices.ContainsFunc(i.Events, func(n int64) bool { return slices.Contains(c.t.Views[c.t.First].Events, n) }) {
			s[0], s[1] = min(s[0], i.From), max(s[1], min(i.To, s[1]+(s[1]-s[0])))
		}
	}
	margin := max((s[1]-s[0])/8, 5000)
	c.t.InitialView = span{max(0, s[0]-margin), min(c.t.End, s[1]+margin)}
}

// foldFarItems folds or omits items far from the span s if there are too many items.
func (c *chart) foldFarItems(s span) {
	c.t.CompleteSpan = span{0, c.t.End}
	if len(c.t.Items) <= maxItems {
		return
	}
	lo, hi := int64(0), c.t.End
	for lo < hi-1 { // find the largest margin with few enough items
		mid := (lo + hi) / 2
		if c.count(span{s[0] - mid, s[1] + mid}) <= maxItems/2 {
			lo = mid
		} else {
			hi = mid
		}
	}
	w := span{max(0, s[0]-lo), min(c.t.End, s[1]+lo)}
	c.t.CompleteSpan = w
	all := c.t.Items
	c.t.Items = make([]item, 0, maxItems)
	bucket := max(1, c.t.End/1000)
	numOmitted, numFolded := 0, 0
	for _, i := range all {
		class := c.t.Kinds[i.Kind].Class
		switch {
		case i.To >= w[0] && i.From <= w[1] || neverOmitted[class]:
			c.t.Items = append(c.t.Items, i)
		case foldableKinds[class]:
			numFolded += c.fold(i, bucket, w)
		default:
			numOmitted++
		}
	}
	c.rebuildTexts()
	c.noteOmitted(fmt.Sprintf("outside %s to %s, %d operations and writes are omitted, and %d beliefs and leases are folded; holders and faults are complete",
		display.Seconds(w[0]*1000), display.Seconds(w[1]*1000), numOmitted, numFolded))
}

var (
	neverOmitted = map[string]bool{"fault": true, "fault-try": true, "fault-at": true, "fault-no": true, "overlap": true, "paused": true,
		"down": true, "death": true, "clock": true, "damage": true, "refused": true, "lost": true, "lease-early": true}
	foldableKinds = map[string]bool{"belief": true, "lease": true}
)

func (c *chart) count(w span) (n int) {
	for _, i := range c.t.Items {
		if i.To >= w[0] && i.From <= w[1] {
			n++
		}
	}
	return n
}

// fold adds an item or merges it into the previous item if that is close, in the same row, and on the
// same side of the window. It returns the number of merged items.
func (c *chart) fold(i item, bucket int64, w span) int {
	if n := len(c.t.Items); n > 0 {
		last := &c.t.Items[n-1]
		isOutside := last.To < w[0] || last.From > w[1]
		class := c.t.Kinds[last.Kind].Class
		if isOutside && last.Row == i.Row && (class == "many" || foldableKinds[class]) && i.From-last.From < bucket && !(last.To < w[0] && i.From > w[1]) {
			last.Kind = c.kindIndex("many")
			last.To = max(last.To, i.To)
			last.Session, last.Detail = 0, 0
			last.Label++ // a count until rebuildTexts replaces it by the index of a text
			if class != "many" {
				last.Label = 2
			}
			last.Events = []int64{last.Events[0], i.Events[len(i.Events)-1]}
			return 1
		}
	}
	c.t.Items = append(c.t.Items, i)
	return 0
}

// rebuildTexts drops unused texts and turns the counts of folded items into texts.
func (c *chart) rebuildTexts() {
	old := c.t.Texts
	c.t.Texts, c.texts = []string{""}, map[string]int{"": 0}
	for k := range c.t.Items {
		i := &c.t.Items[k]
		label := fmt.Sprintf("%d times", i.Label)
		if c.t.Kinds[i.Kind].Class != "many" {
			label = old[i.Label]
		}
		i.Label, i.Detail, i.Session = c.textIndex(label), c.textIndex(old[i.Detail]), c.textIndex(old[i.Session])
	}
}
