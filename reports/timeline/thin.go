package timeline

import (
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/reports/words"
)

// Of so many items the page stays small, and is drawn at once.
const (
	mostItems = 16000
	mostViews = 50
)

// views lists what is violated.
func (b *builder) views(v checker.Verdict) {
	for _, r := range v.Results {
		if r.Outcome != checker.Violated || r.Witness == nil {
			continue
		}
		w := r.Witness
		from, to := min(max(w.From, 0), b.end), min(max(w.To, w.From, 0), b.end)
		b.t.Views = append(b.t.Views, View{Property: short(r.Property), Because: words.Visible(r.Because, longestText),
			From: micros(from), To: micros(to), Events: slices.Clone(w.Events)})
	}
}

// focus is the span that the page is about: of the first violation, or of the first fault.
func (b *builder) focus() (Span, bool) {
	if len(b.t.Views) > 0 {
		return Span{b.t.Views[0].From, b.t.Views[0].To}, true
	}
	for _, g := range b.faultGroups() {
		from, _ := b.spanOf(g)
		return Span{micros(from), micros(from)}, false
	}
	return Span{}, false
}

// openAt chooses what a reader sees first: the window of the first violation with
// a margin, from the acquire of the first session that it is about; else the whole.
func (b *builder) openAt() {
	b.t.Open = Span{0, b.t.End}
	s, violated := b.focus()
	if !violated {
		return
	}
	for _, i := range b.t.Items {
		if slices.ContainsFunc(i.Events, func(n int64) bool { return slices.Contains(b.t.Views[0].Events, n) }) {
			s[0], s[1] = min(s[0], i.From), max(s[1], min(i.To, s[1]+(s[1]-s[0])))
		}
	}
	margin := max((s[1]-s[0])/8, 5000)
	b.t.Open = Span{max(0, s[0]-margin), min(b.t.End, s[1]+margin)}
}

// omit says what is not drawn.
func (b *builder) omit(what string) {
	if b.t.Omitted != "" {
		b.t.Omitted += "; "
	}
	b.t.Omitted += what
}

// thin folds and leaves out what lies far from what the page is about, where there
// is too much.
func (b *builder) thin() {
	b.t.Whole = Span{0, b.t.End}
	if len(b.t.Items) <= mostItems {
		return
	}
	s, _ := b.focus()
	lo, hi := int64(0), b.t.End
	for lo < hi-1 { // the widest margin with which few enough items are left
		mid := (lo + hi) / 2
		if b.count(Span{s[0] - mid, s[1] + mid}) <= mostItems/2 {
			lo = mid
		} else {
			hi = mid
		}
	}
	w := Span{max(0, s[0]-lo), min(b.t.End, s[1]+lo)}
	b.t.Whole = w
	all := b.t.Items
	b.t.Items = make([]Item, 0, mostItems)
	bucket := max(1, b.t.End/1000)
	left, folded := 0, 0
	for _, i := range all {
		class := b.t.Kinds[i.Kind].Class
		switch {
		case i.To >= w[0] && i.From <= w[1] || keepAlways[class]:
			b.t.Items = append(b.t.Items, i)
		case folds[class]:
			folded += b.fold(i, bucket, w)
		default:
			left++
		}
	}
	b.countFolds()
	b.retext()
	b.omit(fmt.Sprintf("outside of %s to %s, %d operations and writes are left out and %d beliefs and leases are folded where they follow closely; holders and faults are whole",
		words.Seconds(w[0]*1000), words.Seconds(w[1]*1000), left, folded))
}

var (
	keepAlways = map[string]bool{"fault": true, "fault-try": true, "fault-at": true, "fault-no": true, "overlap": true, "paused": true,
		"down": true, "death": true, "clock": true, "harm": true, "refused": true, "lost": true, "lease-early": true}
	folds = map[string]bool{"belief": true, "lease": true}
)

func (b *builder) count(w Span) (n int) {
	for _, i := range b.t.Items {
		if i.To >= w[0] && i.From <= w[1] {
			n++
		}
	}
	return n
}

// fold adds an item to the one before it if that is near, in the same row, and
// outside of the window too.
func (b *builder) fold(i Item, bucket int64, w Span) int {
	if n := len(b.t.Items); n > 0 {
		last := &b.t.Items[n-1]
		outside := last.To < w[0] || last.From > w[1]
		many := b.t.Kinds[last.Kind].Class
		if outside && last.Row == i.Row && (many == "many" || folds[many]) && i.From-last.From < bucket && !(last.To < w[0] && i.From > w[1]) {
			last.Kind = b.kind("many")
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
	b.t.Items = append(b.t.Items, i)
	return 0
}

// countFolds makes texts of the counts.
func (b *builder) countFolds() {
	for k := range b.t.Items {
		if i := &b.t.Items[k]; b.t.Kinds[i.Kind].Class == "many" {
			i.Label = b.text(fmt.Sprintf("%d times", i.Label))
		}
	}
}

// retext forgets the texts of what is not drawn.
func (b *builder) retext() {
	old := b.t.Texts
	b.t.Texts, b.texts = []string{""}, map[string]int{"": 0}
	for k := range b.t.Items {
		i := &b.t.Items[k]
		i.Label, i.Detail, i.Session = b.text(old[i.Label]), b.text(old[i.Detail]), b.text(old[i.Session])
	}
}
