package page

import (
	"strings"

	"lockpick/reports/display"
)

// How much is shown of one text: a sentence, and a name in a sentence or a cell.
const (
	longestText = 600
	longestCell = 300
	longestName = 60
)

// plain makes a text from a history one that can be read on a page.
// html/template does the rest.
func plain(s string) string { return display.Visible(s, longestText) }

// name is plain for a name.
func name(s string) string { return display.Visible(s, longestName) }

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

// term is a word and what belongs to it.
type term struct {
	Name, Text string
	Code       bool // the text is to be typed
}

// ref is an event that is linked to, where the page has its row.
type ref struct {
	N   int64
	Row bool
}

func refs(ns []int64, rows map[int64]bool) []ref {
	var out []ref
	for _, n := range ns {
		out = append(out, ref{N: n, Row: rows[n]})
	}
	return out
}
