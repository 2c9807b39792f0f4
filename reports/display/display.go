// Package display is how every report writes an instant, a duration, a count, a list or a text from
// a history, and which color has which meaning, so that all reports agree.
//
// Visible is for texts that anybody may have written: it shows what a reader could not see. Clip
// cuts a text to a number of bytes, Fit to a number of characters. Times are nanoseconds of true
// time, as in a history.
//
// The colors are Okabe and Ito's, which color-blind people can tell apart
// (https://jfly.uni-koeln.de/color/), each with one meaning. A color is never the only carrier of
// its meaning: a hatch, a mark or a word says the same.
//
// explain.go has the words for why a key ended: what each change that a node reports is called by the
// page, the sequence diagram and the timeline, and the clause by which a summary gives the cause of
// a verdict. The judges' own sentences, which have instants and amounts, are in package cause: judges
// import no report.
//
// terminal.go is for those who print on a terminal: colors by meaning, lines and tables that fit it.
//
// Not here: what one format needs, such as the escapes of Markdown and XML.
package display

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockpick/checker/verdict"
)

// NoBreak is a space at which no line is broken; it stands between a number and its unit.
const NoBreak = "\u00a0"

// Seconds writes an instant to the millisecond.
func Seconds(ns int64) string { return Decimal(ns, 3) + NoBreak + "s" }

// Span writes a length of time as briefly as it can be said: a second and more to the
// millisecond, less to the microsecond, and less than a millisecond to three digits of
// microseconds.
func Span(ns int64) string {
	switch {
	case ns == 0:
		return "0" + NoBreak + "s"
	case ns > -999_500 && ns < 999_500:
		return strconv.FormatFloat(float64(ns)/1e3, 'g', 3, 64) + NoBreak + "µs"
	case ns > -1e9 && ns < 1e9:
		return brief(Decimal(ns*1000, 3)) + NoBreak + "ms"
	}
	return brief(Decimal(ns, 3)) + NoBreak + "s"
}

func brief(decimal string) string {
	return strings.TrimRight(strings.TrimRight(decimal, "0"), ".")
}

// FromTo writes a span by its ends, and where these look the same by its length.
func FromTo(from, to int64) string {
	if a, b := Seconds(from), Seconds(to); a != b {
		return "from " + a + " to " + b
	}
	if from == to {
		return "at " + Seconds(from)
	}
	return "at " + Seconds(from) + " for " + Span(to-from)
}

// Decimal writes ns in seconds, rounded to so many digits behind the point, of which
// there are 1 to 9. It counts in whole numbers, so that what is told apart to the
// nanosecond stays told apart however late it was.
func Decimal(ns int64, digits int) string {
	sign, n := "", uint64(ns)
	if ns < 0 {
		sign, n = "-", -n
	}
	unit := uint64(1)
	for range 9 - digits {
		unit *= 10
	}
	n += unit / 2
	return sign + strconv.FormatUint(n/1e9, 10) + "." + fmt.Sprintf("%09d", n%1e9)[:digits]
}

// Grouped writes a count with a comma at each thousand.
func Grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Times writes how often something happened.
func Times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return Plural(n, "time")
}

// Plural writes a count of things, of a noun that has an s for more than one.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Grouped(n) + " " + noun
}

// List joins names as a sentence does: "n1, n2 and n3".
func List(names []string) string { return verdict.List(names) }

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

// ShellWord is a word as a POSIX shell takes it.
func ShellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,%+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
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

// Okabe and Ito's colours, by what they mean here.
const (
	Alarm = "#d55e00" // vermilion: harm, a refused or foreign act, the overlap of two holders
	Lease = "#0072b2" // blue: a client believes that it holds the lock
	Stall = "#e69f00" // orange: paused, cut off, slow: a fault in force
	Fine  = "#009e73" // green: accepted, as expected
	Clock = "#cc79a7" // purple: clocks and their errors
	Other = "#56b4e9" // sky blue: a second holder, or what has no other colour
)

// What has no meaning of its own.
const (
	Paper = "#ffffff"
	Ink   = "#1b1b1b"
	Faint = "#5f5f5f"
	Line  = "#c9c9c4"
)

var colour = regexp.MustCompile(`--([a-z-]+):(#[0-9a-f]{6})`)

// ColorVariables gives the variable of CSS that each of these colours is the value of on paper
// white, as in "var(--lease)": a drawing that has them instead follows the scheme.
func ColorVariables() map[string]string {
	names := map[string]string{}
	white, _, _ := strings.Cut(ColorsCSS, "@media")
	for _, m := range colour.FindAllStringSubmatch(white, -1) {
		names[m[2]] = "var(--" + m[1] + ")"
	}
	return names
}

// ColorsCSS sets the colours as variables, for paper white and for the dark, and for
// print. A page has it once; an SVG file carries it in its own style element.
// The -ink colours are for text: they have a contrast of 4.5 or more on --paper.
const ColorsCSS = `:root{color-scheme:light dark;--paper:#ffffff;--panel:#f6f6f4;--ink:#1b1b1b;--faint:#5f5f5f;--line:#c9c9c4;
--alarm:#d55e00;--lease:#0072b2;--stall:#e69f00;--fine:#009e73;--clock:#cc79a7;--other:#56b4e9;
--alarm-ink:#a84300;--lease-ink:#005f95;--stall-ink:#7d5600;--fine-ink:#00694d;--clock-ink:#8f4470}
@media (prefers-color-scheme:dark){:root{--paper:#16181b;--panel:#1f2226;--ink:#ececec;--faint:#a5a8ac;--line:#44484d;
--alarm:#e8702a;--lease:#4aa3df;--stall:#e69f00;--fine:#2bb98d;--clock:#d992ba;--other:#7cc6ee;
--alarm-ink:#ff9659;--lease-ink:#7cc0ee;--stall-ink:#f0b840;--fine-ink:#54d0a8;--clock-ink:#e6aecd}}
@media print{:root{color-scheme:light;--paper:#ffffff;--panel:#ffffff;--ink:#000000;--faint:#444444;--line:#999999;
--alarm:#d55e00;--lease:#0072b2;--stall:#e69f00;--fine:#009e73;--clock:#cc79a7;--other:#56b4e9;
--alarm-ink:#a84300;--lease-ink:#005f95;--stall-ink:#7d5600;--fine-ink:#00694d;--clock-ink:#8f4470}}
`
