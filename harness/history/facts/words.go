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
