package sequence

import (
	"cmp"
	"slices"
)

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
