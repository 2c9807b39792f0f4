package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A summary of all columns that there can be fits a terminal of a hundred columns, one of five
// one of eighty; what fits as it is stays on one line.
func TestSummaryFits(t *testing.T) {
	columns := []string{colHolds, colViolated, colFree, colIdle, colOther, colAlone, colUndecided}
	for _, c := range []struct{ columns, width, head int }{{2, 80, 1}, {3, 80, 1}, {5, 80, 3}, {7, 100, 4}} {
		counts := map[string]int{}
		for _, col := range columns[:c.columns] {
			counts[col] = 188
		}
		lines := columnCounts{"mutual-exclusion": counts, "lease-linearizable": counts}.table().fitting(c.width).lines("", c.width)
		head := strings.Split(lines[0], "\n")
		for _, line := range slices.Concat(head, lines[1:]) {
			if utf8.RuneCountInString(line) > c.width {
				t.Errorf("%d columns: %q is wider than %d", c.columns, line, c.width)
			}
		}
		if len(head) != c.head || !strings.HasPrefix(head[len(head)-1], "property ") || len(lines) != 3 || !strings.HasSuffix(lines[1], "188") {
			t.Errorf("%d columns:\n%s", c.columns, strings.Join(lines, "\n"))
		}
	}
}
