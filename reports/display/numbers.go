package display

import (
	"fmt"
	"strconv"
	"strings"
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
func List(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
