package sequence

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// seconds writes an instant to the millisecond.
func seconds(ns int64) string { return decimal(ns, 3) + noBreak + "s" }

// noBreak is a space at which no line is broken.
const noBreak = "\u00a0"

// span writes a length of time as briefly as it can be said to the millisecond.
func span(ns int64) string {
	if ns > 0 && ns < 1e6 {
		return fmt.Sprintf("%.3g", float64(ns)/1e6) + noBreak + "ms"
	}
	s := decimal(ns, 3)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	return s + noBreak + "s"
}

// decimal writes ns in seconds, rounded to so many digits behind the point.
func decimal(ns int64, digits int) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -max(ns, -math.MaxInt64)
	}
	unit := int64(1)
	for range 9 - digits {
		unit *= 10
	}
	ns = plus(ns, unit/2)
	frac := fmt.Sprintf("%09d", ns%1e9)
	return sign + strconv.FormatInt(ns/1e9, 10) + "." + frac[:digits]
}

// minus is a - b, and the nearest number where that can't be said.
func minus(a, b int64) int64 {
	d := a - b
	switch {
	case a >= 0 && b < 0 && d < 0:
		return math.MaxInt64
	case a < 0 && b > 0 && d >= 0:
		return math.MinInt64
	}
	return d
}

// plus is a + b likewise.
func plus(a, b int64) int64 {
	if b == math.MinInt64 {
		return math.MinInt64
	}
	return minus(a, -b)
}

const longestName = 24

// short cuts a name, so that one name can't crowd out the sentence about it.
func short(name string) string { return clip(name, longestName) }

// clip cuts s to at most n characters, the last of them an ellipsis.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}

// list joins names as a sentence does.
func list(names []string) string {
	short := make([]string, len(names))
	for i, n := range names {
		short[i] = clip(n, longestName)
	}
	if len(short) < 2 {
		return strings.Join(short, "")
	}
	last := len(short) - 1
	return strings.Join(short[:last], ", ") + " and " + short[last]
}

// nodeRange names nodes briefly, in their order: "n1–n5", "n1 n2", "n1 n2 n4 n5".
func nodeRange(nodes []string) string {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b string) int {
		pa, na, _ := numbered(a)
		pb, nb, _ := numbered(b)
		return cmp.Or(cmp.Compare(pa, pb), cmp.Compare(na, nb), cmp.Compare(a, b))
	})
	var parts []string
	for i := 0; i < len(nodes); {
		j := i
		for j+1 < len(nodes) && follows(nodes[j], nodes[j+1]) {
			j++
		}
		switch {
		case j-i >= 2:
			parts = append(parts, short(nodes[i])+"–"+short(nodes[j]))
		default:
			for _, n := range nodes[i : j+1] {
				parts = append(parts, short(n))
			}
		}
		i = j + 1
	}
	return strings.Join(parts, " ")
}

// follows reports whether b is a's name with the next number.
func follows(a, b string) bool {
	pa, na, oka := numbered(a)
	pb, nb, okb := numbered(b)
	return oka && okb && pa == pb && nb == na+1
}

func numbered(name string) (prefix string, n int, ok bool) {
	prefix = strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(prefix):])
	return prefix, n, err == nil
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// unique returns the names in their first order, each once.
func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
