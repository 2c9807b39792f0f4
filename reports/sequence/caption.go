package sequence

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentence is one fact of the caption.
type sentence struct {
	at      int64
	subject string
	words   string // what it did
	of      bool   // the words are about something of the subject's
}

// tell adds "SUBJECT WORDS." to the caption.
func (b *builder) tell(at int64, subject, words string) {
	b.story = append(b.story, sentence{at: at, subject: subject, words: words})
}

// tellOf adds "SUBJECT's WORDS.".
func (b *builder) tellOf(at int64, subject, words string) {
	b.story = append(b.story, sentence{at: at, subject: subject, words: words, of: true})
}

// caption is the story in order of time. Who did the last thing too, is "it".
func (b *builder) caption() []string {
	slices.SortStableFunc(b.story, func(x, y sentence) int { return cmp.Compare(x.at, y.at) })
	var out []string
	before := ""
	for _, s := range b.story {
		subject := s.subject
		switch {
		case subject == before && s.of:
			subject = "its"
		case subject == before:
			subject = "it"
		case s.of:
			subject += "'s"
		}
		if s.subject == before || !b.isName(s.subject) {
			subject = capital(subject)
		}
		before = s.subject
		out = append(out, subject+" "+s.words+".")
	}
	return out
}

// isName reports whether a subject is a process, or begins with one, whose name is left as
// it is.
func (b *builder) isName(subject string) bool {
	subject, _, _ = strings.Cut(subject, " ")
	subject = strings.TrimSuffix(subject, ",")
	return slices.ContainsFunc(b.d.Lanes, func(l Lane) bool {
		return short(l.Name) == subject || slices.ContainsFunc(l.Members, func(m string) bool { return short(m) == subject })
	})
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
