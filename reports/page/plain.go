package page

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockpick/harness/history"
)

// How much is shown of one text: a sentence, and a name in a sentence or a cell.
const (
	longestText = 600
	longestCell = 300
	longestName = 60
)

// plain makes a text from a history one that can be read on a page: what has no
// form, turns the writing direction or is no UTF-8 is written as an escape, and it
// is cut where it is too long. html/template does the rest.
func plain(s string) string { return cut(s, longestText) }

// name is plain for a name.
func name(s string) string { return cut(s, longestName) }

func cut(s string, most int) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); {
		if n == most {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case r != ' ' && r != '\u00a0' && (!unicode.IsPrint(r) || unicode.Is(unicode.M, r)):
			b.WriteString(escaped(r))
		default:
			b.WriteRune(r)
		}
		i += size
		n++
	}
	return b.String()
}

func escaped(r rune) string {
	switch {
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// seconds writes an instant to the millisecond.
func seconds(ns int64) string { return decimal(ns, 3) + "\u00a0s" }

// span writes a length of time as briefly as it can be said.
func span(ns int64) string {
	switch {
	case ns > -1e6 && ns < 1e6 && ns != 0:
		return strconv.FormatFloat(float64(ns)/1e6, 'g', 3, 64) + "\u00a0ms"
	case ns > -1e9 && ns < 1e9:
		return strings.TrimSuffix(decimal(ns*1000, 3), ".000") + "\u00a0ms"
	}
	return strings.TrimRight(strings.TrimRight(decimal(ns, 3), "0"), ".") + "\u00a0s"
}

func decimal(ns int64, digits int) string {
	return strconv.FormatFloat(history.Seconds(ns), 'f', digits, 64)
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return grouped(n) + " " + noun
}

// grouped writes a count with a mark at each thousand.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// list joins names as a sentence does.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// full begins with a capital, unless that would change a name, and ends with a full
// stop.
func full(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	word, _, _ := strings.Cut(s, " ")
	if !strings.ContainsFunc(strings.TrimRight(word, ",:;"), func(r rune) bool { return r < 'a' || r > 'z' }) {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}
