package scenario

import (
	"fmt"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Error says what is wrong in a scenario file, and where.
type Error struct {
	File   string // as the caller named it; "--set" for an override
	Field  string // of a run.json, instead of a line: scenario.clients[0].name
	Line   int    // from 1
	Column int    // from 1, in characters
	Text   string // the line
	What   string // what is wrong
	Hint   string // what to do about it, or what is allowed
}

// Error renders the position, the line with a caret under the place, and the hint:
//
//	gc-pause.yaml:7:14: unknown lock kind "redlok"
//	    lock: {kind: redlok}
//	                 ^
//	hint: did you mean redlock? Known: broken, redlock
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Field == "":
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	case e.File == "":
		fmt.Fprintf(&b, "%s: ", e.Field)
	default:
		fmt.Fprintf(&b, "%s: %s: ", e.File, e.Field)
	}
	b.WriteString(e.What)
	if text, caret := excerpt(e.Text, e.Column); strings.TrimSpace(text) != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", text, caret)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "\nhint: %s", e.Hint)
	}
	return b.String()
}

// excerptWidth is how much of a long line is shown around the place.
const excerptWidth = 100

// excerpt returns the part of a line that is worth showing, and the blanks that
// bring a caret under its column-th character.
func excerpt(line string, column int) (text, blanks string) {
	all := []rune(line)
	at := min(max(column-1, 0), len(all))
	from := 0
	if len(all) > excerptWidth {
		from = max(0, at-excerptWidth/2)
	}
	shown := all[from:min(len(all), from+excerptWidth)]
	var t, b strings.Builder
	for i, r := range shown {
		if !unicode.IsPrint(r) && r != '\t' {
			r = '\uFFFD'
		}
		t.WriteRune(r)
		switch {
		case from+i >= at:
		case r == '\t':
			b.WriteByte('\t')
		default:
			b.WriteByte(' ')
		}
	}
	return strings.TrimRightFunc(t.String(), unicode.IsSpace), b.String()
}

// problem is an error whose place is a node, or a path into the tree (which
// document.locate resolves). The reader returns problems, the document makes
// Errors of them.
type problem struct {
	node *yaml.Node
	path string
	what string
	hint string
}

func (p *problem) Error() string { return p.what }

func bad(n *yaml.Node, hint, what string, args ...any) error {
	return &problem{node: n, what: fmt.Sprintf(what, args...), hint: hint}
}

func badAt(path, hint, what string, args ...any) error {
	return &problem{path: path, what: fmt.Sprintf(what, args...), hint: hint}
}

// quote shows a piece of the file in a message; long ones are cut.
func quote(s string) string { return fmt.Sprintf("%q", clip(s, 40)) }

func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// suggest is a hint for a word that isn't one of those allowed.
func suggest(given, label string, allowed []string) string {
	all := label + ": " + strings.Join(allowed, ", ")
	if len(allowed) == 0 {
		all = label + ": none"
	}
	if near := Nearest(strings.ToLower(given), allowed); near != "" {
		return "did you mean " + near + "? " + strings.ToUpper(all[:1]) + all[1:]
	}
	return all
}

// Nearest is the name that a word was probably meant to be: one that takes a typing mistake, or
// as many as a third of its letters; "": none is.
func Nearest(word string, names []string) string {
	const longest = 40
	if len(word) > longest {
		return ""
	}
	best, fewest := "", 1+max(1, len(word)/3)
	for _, n := range names {
		if d := distance(word, n); d < fewest {
			best, fewest = n, d
		}
	}
	return best
}

// distance is how many letters have to be put in, taken out or changed, or two neighbours
// swapped, to make one word of the other.
func distance(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
