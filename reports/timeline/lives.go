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

// reportedLives returns the lives of keys as reported by the nodes.
func (r *run) told() map[string][][]life {
	out := map[string][][]life{}
	all := r.f.Lives()
	for _, node := range r.f.Params.Nodes {
		if out[node] != nil {
			continue // listed twice
		}
		for _, key := range all.Keys {
			if stays := all.Stays(node, key); len(stays) > 0 {
				out[node] = append(out[node], r.inTurn(stays))
			}
		}
	}
	return out
}

// consecutiveLives returns the lives of one key on one node without overlaps: the error of timestamps
// may exceed the gap between two lives.
func (r *run) inTurn(stays []*facts.Stay) (lives []life) {
	free := int64(0)
	for i, s := range stays {
		l := r.toldBy(s)
		if i+1 < len(stays) {
			l.to = min(l.to, stays[i+1].From())
		}
		l.from = max(l.from, free)
		l.to = max(l.to, l.from)
		free = l.to
		lives = append(lives, l)
	}
	return lives
}

func (r *run) toldBy(s *facts.Stay) life {
	l := life{key: s.Key, session: r.sessionOf(s), from: s.From(), to: s.To(), due: s.Due(), events: []*event{s.Put}}
	if l.owner = facts.LinkClient(s.By()); l.session != "" {
		l.owner = r.clientOf(l.session)
	}
	if s.Given != s.Put {
		l.events = append(l.events, s.Given)
	}
	end := s.End
	if end == nil {
		return l
	}
	if l.to == end.T {
		l.events = append(l.events, end)
	}
	by := facts.LinkClient(end.Life.By)
	if own := by != "" && by == l.owner && end.Life.What == history.KeyDeleted; own {
		r.released(&l, by, end.T)
		return l
	}
	const tick = 1e6 // nodes count in whole milliseconds
	if l.early = l.to < l.due-tick && by != l.owner; l.early {
		l.how = display.KeyEndedEarly(end.Life.What, end.Life.Why, facts.Doer(end))
	}
	return l
}

// markReleased records that a key was deleted by its own client.
func (r *run) released(l *life, client string, at int64) {
	if l.early = r.believes(l.session, at); l.early {
		l.how = client + "'s own delayed release deletes it while the client believes that it holds the lock"
	} else {
		l.how = client + " deletes it"
	}
}

// sessionOf returns the session whose token is the value or one of its fields; "" if there is none.
func (r *run) sessionOf(s *facts.Stay) string {
	if name := r.owners[s.Value]; name != "" {
		return name
	}
	for _, word := range strings.FieldsFunc(s.Value, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if name := r.owners[word]; name != "" && s.Holds(word) {
			return name
		}
	}
	return ""
}

// inferredLives derives the lives of keys from the commands on the links and the node's faults, for
// nodes that do not report their keys. An accepted set or extension shows that the key exists. A
// later set by another client shows that the earlier key was gone.
func (r *run) inferred() map[string][][]life {
	out := map[string][][]life{}
	for node, commands := range r.f.ByNode() {
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
				in.command(e)
			}
			in.end(never, nil, "")
			out[node] = append(out[node], in.lives)
		}
	}
	return out
}

// inference derives the lives of one key on one node from its commands.
type inference struct {
	*run
	node  string
	lives []life

	open *life  // nil if there is no key
	set  *event // the command that set it
	last int64  // when it was last set or extended
	seen int64  // when it was last known to exist
}

func (in *inference) command(e *event) {
	ok := e.Type == history.OK
	switch {
	case ok && e.Op == history.OpSet:
		in.end(e.Applied, e, fmt.Sprintf("gone when %s set its own key", facts.Sender(e)))
		in.begin(e)
	case in.open == nil:
	case ok && e.Op == history.OpExtend && e.Token == in.set.Token:
		in.open.events, in.open.due = append(in.open.events, e), in.due(e.Applied, e.TTL)
		in.last, in.seen = e.Applied, e.Applied
	case ok && e.Op == history.OpRelease:
		how := "a release deleted it"
		if e.Token != in.set.Token {
			how = display.KeyEndedEarly(history.KeyDeleted, "", facts.Sender(e))
		}
		in.seen = e.Applied
		in.end(e.Applied, e, how)
	case e.Type == history.Fail && e.Op == history.OpSet && e.Cause == "" && e.Applied < in.open.due:
		in.seen = e.Applied // refused, so the key existed
	}
}

func (in *inference) begin(set *event) {
	in.open = &life{key: set.Key, owner: facts.Sender(set), session: in.owners[set.Token], from: set.Applied,
		due: in.due(set.Applied, set.TTL), events: []*event{set}}
	if in.open.session != "" {
		in.open.owner = in.clientOf(in.open.session)
	}
	in.set, in.last, in.seen = set, set.Applied, set.Applied
}

// end ends the current life, if there is one. at is an instant at which the key is certainly gone,
// and by is the command that shows it.
func (in *inference) end(at int64, by *event, how string) {
	l := in.open
	if l == nil {
		return
	}
	in.open = nil
	gone, why := in.ends(l, at)
	l.to = min(gone, at)
	own := by != nil && l.to == at && by.Op == history.OpRelease && by.Token == in.set.Token
	switch {
	case own:
		in.released(l, facts.Sender(by), at)
	case l.to < l.due && l.to < in.run.end && gone <= at:
		l.early, l.how = true, why
	case by != nil && l.to == at && at < l.due:
		l.early, l.how = true, how
	}
	if by != nil && l.to == by.Applied {
		l.events = append(l.events, by)
	}
	in.lives = append(in.lives, *l)
}

// expiryOf returns when a time to live that began at an instant ends, at the node's current clock
// rate. latestEnd accounts for later changes of that clock.
func (in *inference) due(at, ttl int64) int64 {
	rate := facts.ClockAt(in.f.TurnsOf(in.node), at).Rate
	if ttl <= 0 || ttl > math.MaxInt64/4 || rate <= 0 {
		return never
	}
	return at + int64(float64(ttl)/rate)
}

// latestEnd returns the latest instant at which a key ended because of a fault on its node after it
// was last known to exist, and the reason. shown is when another command showed that it was gone.
func (in *inference) ends(l *life, shown int64) (int64, string) {
	at, why := in.turnedAway(l)
	for _, f := range in.f.Faults {
		if f.Target != in.node || f.Begin == nil || f.Begin.T <= in.seen || f.Begin.T >= at {
			continue
		}
		switch {
		case nemesis.ToldOf(f.Kind).State == nemesis.Down:
			if f.End == nil || in.f.Params.Persistence == "none" || f.End.T <= shown && shown < at {
				at, why = f.Begin.T, f.Kind+": the node loses it"
			}
		case f.Kind == history.Failover:
			at, why = f.Begin.T, display.KeyEndedEarly(history.KeyLost, history.Failover, "")
		}
	}
	return at, why
}

// endByClock returns when the node's clock ends a key. That is its expiry, unless the clock is
// changed.
func (in *inference) turnedAway(l *life) (int64, string) {
	at, why := l.due, ""
	turns := in.f.TurnsOf(in.node)
	for i, t := range turns {
		if t.T <= in.last || t.T <= in.seen || i == 0 && !t.Wrong() || t.T >= at || l.due == never {
			continue
		}
		jump := t.Offset - facts.ClockAt(turns, t.T-1).Ahead(t.T)
		if end := t.T + max(0, l.due-t.T-jump); jump > (l.due-in.last)/1000 && end < at {
			at, why = end, "its "+clockWords(t)
		}
	}
	return at, why
}

// believes reports whether a session believes at an instant that it holds the lock.
func (r *run) believes(session string, at int64) bool {
	s := r.f.Named(session)
	return s != nil && slices.ContainsFunc(slices.Collect(r.f.Windows(s)), func(x facts.Window) bool { return x.From <= at && at < x.To })
}

// maxItems keeps the page small and fast to draw.
const mostItems = 16000

// setInitialView chooses what a reader sees first. For a violation it is the violation's window with
// a margin, starting at the acquire of the first session involved. Otherwise it is the whole run.
func (c *chart) openAt(s span, violated bool) {
	c.t.Open = span{0, c.t.End}
	if !violated {
		return
	}
	for _, i := range c.t.Items {
		if slices.ContainsFunc(i.Events, func(n int64) bool { return slices.Contains(c.t.Views[c.t.First].Events, n) }) {
			s[0], s[1] = min(s[0], i.From), max(s[1], min(i.To, s[1]+(s[1]-s[0])))
		}
	}
	margin := max((s[1]-s[0])/8, 5000)
	c.t.Open = span{max(0, s[0]-margin), min(c.t.End, s[1]+margin)}
}

// foldFarItems folds or omits items far from the focus if there are too many.
func (c *chart) thin(s span) {
	c.t.Whole = span{0, c.t.End}
	if len(c.t.Items) <= mostItems {
		return
	}
	lo, hi := int64(0), c.t.End
	for lo < hi-1 { // find the widest margin that leaves few enough items
		mid := (lo + hi) / 2
		if c.count(span{s[0] - mid, s[1] + mid}) <= mostItems/2 {
			lo = mid
		} else {
			hi = mid
		}
	}
	w := span{max(0, s[0]-lo), min(c.t.End, s[1]+lo)}
	c.t.Whole = w
	all := c.t.Items
	c.t.Items = make([]item, 0, mostItems)
	bucket := max(1, c.t.End/1000)
	left, folded := 0, 0
	for _, i := range all {
		class := c.t.Kinds[i.Kind].Class
		switch {
		case i.To >= w[0] && i.From <= w[1] || keepAlways[class]:
			c.t.Items = append(c.t.Items, i)
		case folds[class]:
			folded += c.fold(i, bucket, w)
		default:
			left++
		}
	}
	c.retext()
	c.omit(fmt.Sprintf("outside %s to %s, %d operations and writes are omitted and %d beliefs and leases are folded; holders and faults are complete",
		display.Seconds(w[0]*1000), display.Seconds(w[1]*1000), left, folded))
}

var (
	keepAlways = map[string]bool{"fault": true, "fault-try": true, "fault-at": true, "fault-no": true, "overlap": true, "paused": true,
		"down": true, "death": true, "clock": true, "damage": true, "refused": true, "lost": true, "lease-early": true}
	folds = map[string]bool{"belief": true, "lease": true}
)

func (c *chart) count(w span) (n int) {
	for _, i := range c.t.Items {
		if i.To >= w[0] && i.From <= w[1] {
			n++
		}
	}
	return n
}

// fold merges an item into the previous one if that is close, in the same row, and also outside the
// window. It returns the number of merged items.
func (c *chart) fold(i item, bucket int64, w span) int {
	if n := len(c.t.Items); n > 0 {
		last := &c.t.Items[n-1]
		outside := last.To < w[0] || last.From > w[1]
		many := c.t.Kinds[last.Kind].Class
		if outside && last.Row == i.Row && (many == "many" || folds[many]) && i.From-last.From < bucket && !(last.To < w[0] && i.From > w[1]) {
			last.Kind = c.kind("many")
			last.To = max(last.To, i.To)
			last.Session, last.Detail = 0, 0
			last.Label++ // a count, until rebuildTexts replaces it with a text
			if many != "many" {
				last.Label = 2
			}
			last.Events = []int64{last.Events[0], i.Events[len(i.Events)-1]}
			return 1
		}
	}
	c.t.Items = append(c.t.Items, i)
	return 0
}

// rebuildTexts drops unused texts, and converts the counts of folded items to texts.
func (c *chart) retext() {
	old := c.t.Texts
	c.t.Texts, c.texts = []string{""}, map[string]int{"": 0}
	for k := range c.t.Items {
		i := &c.t.Items[k]
		label := fmt.Sprintf("%d times", i.Label)
		if c.t.Kinds[i.Kind].Class != "many" {
			label = old[i.Label]
		}
		i.Label, i.Detail, i.Session = c.text(label), c.text(old[i.Detail]), c.text(old[i.Session])
	}
}
