package timeline

import (
	"fmt"
	"slices"

	"lockpick/reports/display"
)

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
