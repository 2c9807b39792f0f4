package sequence

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockpick/reports/display"
)

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
func short(name string) string { return display.Fit(name, longestName) }

// list joins names as a sentence does, each cut short.
func list(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = short(n)
	}
	return display.List(out)
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

// grouped puts together what has the same key, in the order of its first.
func grouped[T any, K comparable](all []T, key func(T) K) [][]T {
	var out [][]T
	at := map[K]int{}
	for _, x := range all {
		k := key(x)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], x)
	}
	return out
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
