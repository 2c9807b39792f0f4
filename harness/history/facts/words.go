package facts

import (
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// Seconds writes an instant or a span as people read it: to the millisecond,
// and finer only where nothing else would be left.
func Seconds(ns int64) string {
	for _, digits := range []int{3, 6} {
		s := strconv.FormatFloat(history.Seconds(ns), 'f', digits, 64)
		if s = strings.TrimRight(strings.TrimRight(s, "0"), "."); ns == 0 || s != "0" && s != "-0" {
			return s + " s"
		}
	}
	return strconv.FormatInt(ns, 10) + " ns"
}

// FromTo writes a span by its ends and its length, and one whose ends look the same by
// when it was and its length in microseconds.
func FromTo(from, to int64) string {
	a, b := Seconds(from), Seconds(to)
	if a != b {
		return "from " + a + " to " + b + " (" + Seconds(to-from) + ")"
	}
	return "at " + a + " for " + strconv.FormatFloat(float64(to-from)/1e3, 'g', 3, 64) + " µs"
}
