package timeline

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/words"
)

type event = history.Event

// builder makes a Timeline lane by lane.
type builder struct {
	f         *facts.Facts
	end       int64 // of the run's own time, ns
	beliefs   []facts.Belief
	bySession map[string][]facts.Belief
	owners    map[string]string // token: session

	t     Timeline
	kinds map[string]int
	texts map[string]int
	y     int
}

func newBuilder(h *history.History) *builder {
	f := facts.Read(h)
	b := &builder{f: f, beliefs: f.Beliefs(), bySession: map[string][]facts.Belief{}, owners: map[string]string{},
		kinds: map[string]int{}, texts: map[string]int{"": 0}}
	b.t.Texts = []string{""}
	b.t.Lanes, b.t.Rows, b.t.Lines, b.t.Kinds, b.t.Items, b.t.Views = []Lane{}, []Row{}, []Line{}, []Kind{}, []Item{}, []View{}
	for _, x := range b.beliefs {
		b.bySession[x.Session] = append(b.bySession[x.Session], x)
	}
	for s := range f.Sessions() {
		if token := s.Token(); token != "" {
			b.owners[token] = s.Name()
		}
	}
	for i := range f.Events {
		e := &f.Events[i]
		if e.Op != history.OpLog {
			b.end = max(b.end, e.T)
		}
		if e == f.Stop {
			break
		}
	}
	b.end = max(b.end, 1000)
	b.t.End = micros(b.end)
	return b
}

// lane begins a lane below those that are there.
func (b *builder) lane(name string, role Role) {
	if len(b.t.Lanes) > 0 {
		b.y += laneGap
	}
	b.t.Lanes = append(b.t.Lanes, Lane{Name: short(name), Role: role, Y: b.y})
}

const laneGap = 6

// row adds a row of a height to the last lane.
func (b *builder) row(h int) int {
	b.t.Rows = append(b.t.Rows, Row{Lane: len(b.t.Lanes) - 1, Y: b.y, H: h})
	b.y += h
	b.closeLane()
	return len(b.t.Rows) - 1
}

// cover adds a row behind the rows of the last lane, which are there.
func (b *builder) cover() int {
	l := len(b.t.Lanes) - 1
	b.t.Rows = append(b.t.Rows, Row{Lane: l, Y: b.t.Lanes[l].Y, H: b.t.Lanes[l].H, Cover: true})
	return len(b.t.Rows) - 1
}

func (b *builder) closeLane() {
	l := &b.t.Lanes[len(b.t.Lanes)-1]
	l.H = b.y - l.Y
	b.t.Height = b.y
}

// put adds an item. Instants are the history's.
func (b *builder) put(row int, class string, from, to int64, s said, events ...*event) {
	from = min(max(from, 0), b.end)
	to = min(max(to, from), b.end)
	var numbers []int64
	for _, e := range events {
		if e != nil {
			numbers = append(numbers, e.N)
		}
	}
	b.add(Item{Row: row, Kind: b.kind(class), From: micros(from), To: micros(to),
		Label: b.text(s.label), Detail: b.text(s.detail), Session: b.text(s.session), Events: numbers})
}

// said is the texts of an item.
type said struct{ label, detail, session string }

func (b *builder) add(i Item) {
	slices.Sort(i.Events)
	i.Events = slices.Compact(i.Events)
	if len(i.Events) > 0 {
		b.t.Items = append(b.t.Items, i)
	}
}

func (b *builder) kind(class string) int {
	i, ok := b.kinds[class]
	if !ok {
		i = len(b.t.Kinds)
		b.kinds[class] = i
		k := looks[class]
		k.Class = class
		b.t.Kinds = append(b.t.Kinds, k)
	}
	return i
}

// first is the names that get lanes; of how many others there are the page tells.
func (b *builder) first(names []string, most int, noun string) []string {
	if len(names) <= most {
		return names
	}
	b.omit(words.Plural(len(names)-most, "more "+noun))
	return names[:most]
}

func (b *builder) text(s string) int {
	s = words.Visible(s, longestText)
	i, ok := b.texts[s]
	if !ok {
		i = len(b.t.Texts)
		b.texts[s] = i
		b.t.Texts = append(b.t.Texts, s)
	}
	return i
}

// finish orders what was put, and folds it where it is too much.
func (b *builder) finish() {
	slices.SortStableFunc(b.t.Items, func(x, y Item) int {
		return cmp.Or(cmp.Compare(x.Row, y.Row), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	b.openAt()
	b.thin()
}

// clientOf is a session's client; of one that is not in the record, what its name begins with.
func (b *builder) clientOf(session string) string {
	if s := b.f.Named(session); s != nil {
		return s.Client()
	}
	for i := len(session) - 1; i > 0; i-- {
		if session[i] == '/' {
			return session[:i]
		}
	}
	return session
}
