package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible makes a text one line that a reader can see all of: what has no form of its
// own, turns the direction of writing or is not UTF-8 is written as an escape. Of more
// than most characters the rest is an ellipsis; an escape counts as the one it stands for.
func Visible(s string, most int) string {
	var b strings.Builder
	for n, i := 0, 0; i < len(s); n++ {
		if n == most {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(Escape(rune(s[i])))
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case r != '\u00a0' && (!unicode.IsPrint(r) || unicode.Is(unicode.M, r)): // a mark sits on what is before it
			b.WriteString(Escape(r))
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// Escape writes a character, or a byte that is none, by its number, as Go does.
func Escape(r rune) string {
	switch {
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// Clip cuts a text to at most so many bytes, at a character's end, and adds an ellipsis
// where anything is lost. What is not UTF-8 is cut as well.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for cut := most; cut > most-utf8.UTFMax && cut >= 0; cut-- {
		if utf8.RuneStart(s[cut]) {
			return s[:cut] + "…"
		}
	}
	return s[:most] + "…"
}

// Fit cuts a text to at most so many characters, the last of them an ellipsis.
func Fit(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	if most < 1 {
		return ""
	}
	return string([]rune(s)[:most-1]) + "…"
}

// FirstLine is the first line of a text that says anything.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// Join puts the parts that say something behind each other.
func Join(between string, parts ...string) string {
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	return strings.Join(said, between)
}
