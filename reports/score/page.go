package score

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"lockpick/reports/sequence"
	"lockpick/reports/suites"
	"lockpick/reports/words"
	"lockpick/scenarios/score"
)

//go:embed page.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

var page = template.Must(template.New("score").Funcs(template.FuncMap{
	"text":     func(s string) string { return words.Visible(s, longest) },
	"style":    func() template.CSS { return template.CSS(suites.Style + pageStyle + sequence.Style) },
	"headline": Headline, "basis": Basis, "draws": draws, "shares": shares, "rated": rated, "blame": Blame, "tries": Tries, "claimed": claimed, "beside": Beside,
	"seenOnly": seenOnly, "measured": measured, "measures": measures, "tone": tone, "marks": score.Marks, "limits": func() string { return Limits },
	"id": func(card int, parts ...any) string {
		return fmt.Sprintf("c%d-%s", card+1, strings.Trim(fmt.Sprint(parts...), "[]"))
	},
	"part": func(c *score.Card, title, note string, which string) part {
		return part{c, title, note, chosen(c, which)}
	},
	"in":    func(m measure, c *score.Card, column string) string { return m.of(c, column) },
	"sorts": sorts, "where": where,
	"cells":  func(c *score.Card, r score.Row) []cell { return cellsOf(c, r) },
	"anchor": anchor, "shown": func(v view, p part) drawing { return drawing{p, v} },
}).Parse(pageTemplate))

// drawing is a part with the page that has its pictures.
type drawing struct {
	Part part
	View view
}

// part is findings under one heading.
type part struct {
	Card        *score.Card
	Title, Note string
	Findings    []score.Finding
}

func chosen(c *score.Card, which string) (out []score.Finding) {
	for _, f := range c.Findings {
		if (which == "held" && f.Held && f.Confirmed()) || (which == "simulated" && f.Held && !f.Confirmed()) || (which == "alone" && !f.Held) {
			out = append(out, f)
		}
	}
	return out
}

// anchor is the id of a run's finding on the page.
func anchor(run string) string { return strings.NewReplacer("/", "-", "+", "-").Replace(run) }

// sorted is columns next to each other that are about one sort of failures.
type sorted struct {
	Sort    string
	Columns int
}

func sorts(c *score.Card) (all []sorted) {
	for _, column := range c.Columns {
		sort, _ := score.SortOf(column)
		if n := len(all); n > 0 && all[n-1].Sort == sort {
			all[n-1].Columns++
			continue
		}
		all = append(all, sorted{sort, 1})
	}
	return all
}

// where is the backend that a column is on.
func where(c *score.Card, column string) string {
	if _, beside := score.SortOf(column); beside {
		return c.Beside
	}
	return c.Backend
}

// cell is a cell of the matrix, with where its counterexample is read.
type cell struct {
	score.Cell
	Column, Words string
	Run           string // of the finding; "": there is none
}

func cellsOf(c *score.Card, r score.Row) (out []cell) {
	for i, x := range r.Cells {
		k := cell{Cell: x, Column: c.Columns[i], Words: grounds(x)}
		for _, f := range c.Findings {
			if f.Column == c.Columns[i] && k.Run == "" && slices.ContainsFunc(f.Harms, func(h score.Harm) bool { return h.Property == r.Property }) {
				k.Run = f.Run
			}
		}
		out = append(out, k)
	}
	return out
}

// grounds are what a mark rests on, in words.
func grounds(x score.Cell) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{x.Failed - x.Unconfirmed, "violated, must hold"}, {x.Unconfirmed, "violated, and not confirmed"}, {x.Alone, "violated, own lock keeps it"},
		{x.Kept, "held, as it must"}, {x.Alike, "violated as with the own lock"}, {x.Open, "undecided"}, {x.Free, "held"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if x.Why != "" {
		parts = append(parts, x.Why)
	}
	if len(parts) == 0 {
		return "not exercised"
	}
	return strings.Join(parts, ", ")
}

// tone is the class of a mark.
func tone(m score.Mark) string {
	switch m {
	case score.Failed:
		return "harm"
	case score.Unconfirmed, score.Open:
		return "doubt"
	case score.Kept, score.KeptAlike:
		return "fine"
	case score.Alone, score.Alike:
		return "told"
	}
	return "calm"
}

// view is what the page is made of.
type view struct {
	*Book
	Pictures map[string]sequence.Diagram
}

// Picture is the diagram of a run; "": it has none.
func (v view) Picture(run string) template.HTML {
	d, there := v.Pictures[run]
	if !there {
		return ""
	}
	return template.HTML(sequence.SVG(d, sequence.SVGOptions{Embedded: true, Prefix: anchor(run) + "-", Page: run + "/report.html"})) // every text in it is escaped
}

// Caption is the story of a run in sentences.
func (v view) Caption(run string) string { return strings.Join(v.Pictures[run].Caption, " ") }

// Page writes the book as a page that stands alone, with the diagrams of its findings' runs.
func (b *Book) Page(w io.Writer, pictures map[string]sequence.Diagram) error {
	if err := page.Execute(w, view{b, pictures}); err != nil {
		return fmt.Errorf("draw scorecard: %w", err)
	}
	return nil
}
