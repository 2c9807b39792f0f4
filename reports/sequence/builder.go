package sequence

import (
	"cmp"
	"slices"
)

type builder struct {
	f       *course
	scene   *scene
	lanes   *lanes
	sheet   *sheet
	caption caption
}

func (b *builder) diagram() Diagram {
	d := Diagram{
		Title: b.scene.headline(), Summary: b.scene.summary(), Caption: b.caption.sentences(b.lanes), Omitted: b.scene.omitted(),
		Lanes: b.lanes.all, Arrows: b.sheet.arrows, Bars: b.sheet.bars, Notes: b.sheet.notes, Bands: b.sheet.bands,
	}
	if stop := b.f.Stop; stop != nil {
		d.Stop = &stopped{Why: stop.Cause, Events: numbers(stop)}
	}
	return d
}

// sheet takes the marks between and on the lanes. It cuts off what lies outside of its span.
type sheet struct {
	from, to int64
	slow     int64 // how long a message is in flight if that is worth telling
	facts    int   // of the arrows so far

	arrows []arrow
	bars   []bar
	notes  []note
	bands  []band
}

// message adds an arrow of the latest fact.
func (sh *sheet) message(a arrow) {
	a.Fact = sh.facts
	if a.Lost {
		a.Arrived = a.Sent
	}
	a.Arrived = max(a.Arrived, a.Sent)
	a.Slow = minus(a.Arrived, a.Sent) > sh.slow
	sh.arrows = append(sh.arrows, a)
}

func (sh *sheet) note(n note) {
	if sh.from <= n.At && n.At <= sh.to {
		sh.notes = append(sh.notes, n)
	}
}

func (sh *sheet) bar(lane int, state state, from, to int64, events ...*event) {
	from, to = max(from, sh.from), min(to, plus(sh.to, 1))
	if from < to {
		sh.bars = append(sh.bars, bar{Lane: lane, State: state, From: from, To: to, Events: numbers(events...)})
	}
}

func (sh *sheet) band(from, to int64, label string, events []int64) {
	sh.bands = append(sh.bands, band{From: from, To: min(to, plus(sh.to, 1)), Label: label, Events: events})
}

// caption is the story that a diagram tells, in no order yet.
type caption []sentence

// sentence is one fact of the caption.
type sentence struct {
	at      int64
	subject string
	words   string // what it did
	of      bool   // the words are about something of the subject's
}

// tell adds "SUBJECT WORDS." to the caption.
func (c *caption) tell(at int64, subject, words string) {
	*c = append(*c, sentence{at: at, subject: subject, words: words})
}

// tellOf adds "SUBJECT's WORDS.".
func (c *caption) tellOf(at int64, subject, words string) {
	*c = append(*c, sentence{at: at, subject: subject, words: words, of: true})
}

// sentences is the story in order of time. Who did the last thing too, is "it".
func (c caption) sentences(on *lanes) []string {
	slices.SortStableFunc(c, func(x, y sentence) int { return cmp.Compare(x.at, y.at) })
	var out []string
	before := ""
	for _, s := range c {
		subject := s.subject
		switch {
		case subject == before && s.of:
			subject = "its"
		case subject == before:
			subject = "it"
		case s.of:
			subject += "'s"
		}
		if s.subject == before || !on.named(s.subject) {
			subject = capital(subject)
		}
		before = s.subject
		out = append(out, subject+" "+s.words+".")
	}
	return out
}
