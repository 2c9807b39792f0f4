// Package display formats times, durations, counts, lists and untrusted text, and defines a color
// palette, so that all reports look alike.
//
// Sanitize makes text from any source safe to show. TruncateBytes and Truncate shorten text to a
// number of bytes or characters. Times are nanoseconds of true time, as in a history.
//
// The palette is Okabe and Ito's, which color-blind people can distinguish
// (https://jfly.uni-koeln.de/color/). Each color has one meaning, which a hatch, a mark or a word
// always repeats.
//
// explain.go describes key changes for the page, the sequence diagram and the timeline, and explains
// the cause of a verdict in a summary. The checker cannot import report packages, so its own
// sentences, with exact times and amounts, are in package cause.
//
// terminal.go formats terminal output: colors by meaning, and lines and tables that fit the width.
//
// Escaping for a particular format, such as Markdown or XML, is left to that format's package.
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

// NoBreak is a no-break space, for use between a number and its unit.
const NoBreak = "\u00a0"

// Seconds formats a time in seconds, rounded to the millisecond.
func Seconds(ns int64) string { return Decimal(ns, 3) + NoBreak + "s" }

// Duration formats a duration. It rounds a second or more to the millisecond, a millisecond or more to
// the microsecond, and anything shorter to three significant digits in microseconds.
func Duration(ns int64) string {
	switch {
	case ns == 0:
		return "0" + NoBreak + "s"
	case ns > -999_500 && ns < 999_500:
		return strconv.FormatFloat(float64(ns)/1e3, 'g', 3, 64) + NoBreak + "µs"
	case ns > -1e9 && ns < 1e9:
		return trimZeros(Decimal(ns*1000, 3)) + NoBreak + "ms"
	}
	return trimZeros(Decimal(ns, 3)) + NoBreak + "s"
}

func trimZeros(decimal string) string {
	return strings.TrimRight(strings.TrimRight(decimal, "0"), ".")
}

// Interval formats an interval by its start and end or, if both look the same, by its start and
// duration.
func Interval(from, to int64) string {
	if a, b := Seconds(from), Seconds(to); a != b {
		return "from " + a + " to " + b
	}
	if from == to {
		return "at " + Seconds(from)
	}
	return "at " + Seconds(from) + " for " + Duration(to-from)
}

// Decimal converts ns to seconds, rounded to 1 to 9 decimal places. It uses integer arithmetic, so
// that times a nanosecond apart remain distinct even if they are large.
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

// GroupDigits formats a count with a comma between each group of three digits.
func GroupDigits(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Times formats how often something happened: "once", "twice", "3 times".
func Times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return Plural(n, "time")
}

// Plural formats a count with a noun, which must form its plural by adding an s.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return GroupDigits(n) + " " + noun
}

// List joins names for use in a sentence: "n1, n2 and n3".
func List(names []string) string { return verdict.JoinNames(names) }

// Sanitize returns s as a single line with nothing invisible in it. It escapes unprintable
// characters, combining marks, changes of writing direction and invalid UTF-8. If s has more than
// limit characters, Sanitize truncates it and adds an ellipsis; an escape counts as one character.
func Sanitize(s string, limit int) string {
	var b strings.Builder
	for n, i := 0, 0; i < len(s); n++ {
		if n == limit {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(Escape(rune(s[i])))
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case r != '\u00a0' && (!unicode.IsPrint(r) || unicode.Is(unicode.M, r)): // combining marks change the character before them
			b.WriteString(Escape(r))
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// Escape returns the Go escape sequence for a character or an invalid byte.
func Escape(r rune) string {
	switch {
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// TruncateBytes shortens s to at most limit bytes, without splitting a character, and then adds an
// ellipsis. It may split invalid UTF-8 anywhere.
func TruncateBytes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for cut := limit; cut > limit-utf8.UTFMax && cut >= 0; cut-- {
		if utf8.RuneStart(s[cut]) {
			return s[:cut] + "…"
		}
	}
	return s[:limit] + "…"
}

// Truncate shortens s to at most limit characters, including the ellipsis.
func Truncate(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	if limit < 1 {
		return ""
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// FirstLine returns the first nonblank line of s.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// ShellQuote quotes a word for a POSIX shell.
func ShellQuote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,%+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Join joins the nonempty parts with the separator.
func Join(separator string, parts ...string) string {
	var nonEmpty []string
	for _, p := range parts {
		if p != "" {
			nonEmpty = append(nonEmpty, p)
		}
	}
	return strings.Join(nonEmpty, separator)
}

// Okabe and Ito's colors, named for what they mean in reports.
const (
	AlarmColor   = "#d55e00" // vermilion: damage, a refused or foreign operation, two holders at once
	LeaseColor   = "#0072b2" // blue: a client believes it holds the lock
	FaultColor   = "#e69f00" // orange: an active fault, such as a pause or a cut link
	SuccessColor = "#009e73" // green: accepted, as expected
	ClockColor   = "#cc79a7" // purple: clocks and clock errors
	OtherColor   = "#56b4e9" // sky blue: a second holder, or anything without another color
)

// Neutral colors.
const (
	PaperColor = "#ffffff"
	InkColor   = "#1b1b1b"
	FaintColor = "#5f5f5f"
	LineColor  = "#c9c9c4"
)

var colorVariable = regexp.MustCompile(`--([a-z-]+):(#[0-9a-f]{6})`)

// ColorVariables maps each color of the light scheme to a reference to its CSS variable, such as
// "var(--lease)". Drawings use the variables to follow the reader's color scheme.
func ColorVariables() map[string]string {
	names := map[string]string{}
	lightScheme, _, _ := strings.Cut(ColorsCSS, "@media")
	for _, m := range colorVariable.FindAllStringSubmatch(lightScheme, -1) {
		names[m[2]] = "var(--" + m[1] + ")"
	}
	return names
}

// ColorsCSS defines the colors as CSS variables for the light scheme, the dark scheme and print. A
// page includes it once, and an SVG file includes it in its own style element. The -ink colors are
// for text: their contrast with --paper is at least 4.5.
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

// Sentence adds a period and capitalizes the first word unless it may be a name.
func Sentence(s string) string {
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
