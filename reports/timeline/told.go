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

// told is the lives of keys as the nodes told them.
func (r *run) told() map[string][][]life {
	out := map[string][][]life{}
	all := r.f.Lives()
	for _, node := range r.f.Params.Nodes {
		if out[node] != nil {
			continue // it is named twice
		}
		for _, key := range all.Keys {
			if stays := all.Stays(node, key); len(stays) > 0 {
				out[node] = append(out[node], r.inTurn(stays))
			}
		}
	}
	return out
}

// inTurn is the lives of one key on one node, one after the other: stamps may be wrong by
// more than the key was gone in between.
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
	const tick = 1e6 // a node counts whole milliseconds
	if l.early = l.to < l.due-tick && by != l.owner; l.early {
		l.how = display.KeyEndedEarly(end.Life.What, end.Life.Why, facts.Doer(end))
	}
	return l
}

// released says that a key was deleted by its own client.
func (r *run) released(l *life, client string, at int64) {
	if l.early = r.believes(l.session, at); l.early {
		l.how = client + "'s own release deletes it late, while it believes that it holds the lock"
	} else {
		l.how = client + " deletes it"
	}
}

// sessionOf is the session whose token a value is, or has among its fields; "": nobody's.
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

// inferred is the lives of keys by what the links saw and what befell the node, for want of
// the node's own word: a set or an extension that was accepted says that the key is there,
// one of somebody else's that it was gone.
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

// inference is one key on one node while its commands are read.
type inference struct {
	*run
	node  string
	lives []life

	open *life  // nil: there is no key
	set  *event // that set it
	last int64  // when it was set or extended for the last time
	seen int64  // when it was there for the last time
}

func (in *inference) command(e *event) {
	ok := e.Type == history.OK
	switch {
	case ok && e.Op == history.OpSet:
		in.end(e.Applied, e, fmt.Sprintf("gone when %s set its own", facts.Sender(e)))
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
		in.seen = e.Applied // refused, so it was there
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

// end ends the life that there is, if there is one, at an instant by which the key is
// surely gone, and by a command that shows it.
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

// due is when a time to live that began at an instant is over as the node's
// clock runs then; what happens to that clock later, ends tells.
func (in *inference) due(at, ttl int64) int64 {
	rate := facts.ClockAt(in.f.TurnsOf(in.node), at).Rate
	if ttl <= 0 || ttl > math.MaxInt64/4 || rate <= 0 {
		return never
	}
	return at + int64(float64(ttl)/rate)
}

// ends is when a key is gone at the latest by what befell its node after it was last seen
// there, and by what; shown is when another command showed that it was gone.
func (in *inference) ends(l *life, shown int64) (int64, string) {
	at, why := in.turnedAway(l)
	for _, f := range in.f.Faults {
		if f.Target != in.node || f.Begin == nil || f.Begin.T <= in.seen || f.Begin.T >= at {
			continue
		}
		switch {
		case nemesis.ToldOf(f.Kind).State == nemesis.Down:
			if f.End == nil || in.f.Params.Persistence == "none" || f.End.T <= shown && shown < at {
				at, why = f.Begin.T, f.Kind+": the node forgets it"
			}
		case f.Kind == history.Failover:
			at, why = f.Begin.T, display.KeyEndedEarly(history.KeyLost, history.Failover, "")
		}
	}
	return at, why
}

// turnedAway is when the node's clock ends a key, which is when it is due unless somebody
// turns that clock.
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

// believes reports whether a session is believed in at an instant.
func (r *run) believes(session string, at int64) bool {
	s := r.f.Named(session)
	return s != nil && slices.ContainsFunc(slices.Collect(r.f.Windows(s)), func(x facts.Window) bool { return x.From <= at && at < x.To })
}

// Of so many items the page stays small, and is drawn at once.
const mostItems = 16000

// openAt chooses what a reader sees first: the window of the first violation with
// a margin, from the acquire of the first session that it is about; else the whole.
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

// thin folds and leaves out what lies far from what the page is about, where there
// is too much.
func (c *chart) thin(s span) {
	c.t.Whole = span{0, c.t.End}
	if len(c.t.Items) <= mostItems {
		return
	}
	lo, hi := int64(0), c.t.End
	for lo < hi-1 { // the widest margin with which few enough items are left
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
	c.omit(fmt.Sprintf("outside of %s to %s, %d operations and writes are left out and %d beliefs and leases are folded where they follow closely; holders and faults are whole",
		display.Seconds(w[0]*1000), display.Seconds(w[1]*1000), left, folded))
}

var (
	keepAlways = map[string]bool{"fault": true, "fault-try": true, "fault-at": true, "fault-no": true, "overlap": true, "paused": true,
		"down": true, "death": true, "clock": true, "harm": true, "refused": true, "lost": true, "lease-early": true}
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

// fold adds an item to the one before it if that is near, in the same row, and
// outside of the window too.
func (c *chart) fold(i item, bucket int64, w span) int {
	if n := len(c.t.Items); n > 0 {
		last := &c.t.Items[n-1]
		outside := last.To < w[0] || last.From > w[1]
		many := c.t.Kinds[last.Kind].Class
		if outside && last.Row == i.Row && (many == "many" || folds[many]) && i.From-last.From < bucket && !(last.To < w[0] && i.From > w[1]) {
			last.Kind = c.kind("many")
			last.To = max(last.To, i.To)
			last.Session, last.Detail = 0, 0
			last.Label++ // counts, until it is a text
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

// retext forgets the texts of what is not drawn, and makes texts of the counts.
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
