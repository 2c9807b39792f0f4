package suites

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

//go:embed page.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

var cardTemplate = template.Must(template.New("score").Funcs(template.FuncMap{
	"text":     func(s string) string { return display.Visible(s, longest) },
	"style":    func() template.CSS { return template.CSS(Style + pageStyle + sequence.Style) },
	"headline": CardHeadline, "basis": CardBasis, "draws": draws, "shares": shares, "rated": rated, "blame": CardBlame, "tries": CardTries, "claimed": claimed, "beside": CardBeside,
	"seenOnly": seenOnly, "measured": measured, "measures": measures, "tone": tone, "marks": outcome.Marks, "limits": func() string { return cardLimits },
	"id": func(card int, parts ...any) string {
		return fmt.Sprintf("c%d-%s", card+1, strings.Trim(fmt.Sprint(parts...), "[]"))
	},
	"part": func(c *outcome.Card, title, note string, which string) part {
		return part{c, title, note, chosen(c, which)}
	},
	"in":    func(m measure, c *outcome.Card, column string) string { return m.of(c, column) },
	"sorts": sorts, "where": where,
	"cells":  func(c *outcome.Card, r outcome.CardRow) []cell { return cellsOf(c, r) },
	"anchor": anchor, "shown": func(v cardView, p part) drawing { return drawing{p, v} },
}).Parse(pageTemplate))

// drawing is a part with the page that has its pictures.
type drawing struct {
	Part part
	View cardView
}

// part is findings under one heading.
type part struct {
	Card        *outcome.Card
	Title, Note string
	Findings    []outcome.CardFinding
}

func chosen(c *outcome.Card, which string) (out []outcome.CardFinding) {
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

func sorts(c *outcome.Card) (all []sorted) {
	for _, column := range c.Columns {
		sort, _ := outcome.SortOfColumn(column)
		if n := len(all); n > 0 && all[n-1].Sort == sort {
			all[n-1].Columns++
			continue
		}
		all = append(all, sorted{sort, 1})
	}
	return all
}

// where is the backend that a column is on.
func where(c *outcome.Card, column string) string {
	if _, beside := outcome.SortOfColumn(column); beside {
		return c.Beside
	}
	return c.Backend
}

// cell is a cell of the matrix, with where its counterexample is read.
type cell struct {
	outcome.CardCell
	Column, Words string
	Run           string // of the finding; "": there is none
}

func cellsOf(c *outcome.Card, r outcome.CardRow) (out []cell) {
	for i, x := range r.Cells {
		k := cell{CardCell: x, Column: c.Columns[i], Words: grounds(x)}
		for _, f := range c.Findings {
			if f.Column == c.Columns[i] && k.Run == "" && slices.ContainsFunc(f.Harms, func(h outcome.Harm) bool { return h.Property == r.Property }) {
				k.Run = f.Run
			}
		}
		out = append(out, k)
	}
	return out
}

// grounds are what a mark rests on, in words.
func grounds(x outcome.CardCell) string {
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
func tone(m outcome.Mark) string {
	switch m {
	case outcome.MarkFailed:
		return "harm"
	case outcome.Unconfirmed, outcome.Open:
		return "doubt"
	case outcome.Kept, outcome.KeptAlike:
		return "fine"
	case outcome.Alone, outcome.Alike:
		return "told"
	}
	return "calm"
}

// view is what the page is made of.
type cardView struct {
	*Scorecards
	Pictures map[string]sequence.Diagram
}

// Picture is the diagram of a run; "": it has none.
func (v cardView) Picture(run string) template.HTML {
	d, there := v.Pictures[run]
	if !there {
		return ""
	}
	return template.HTML(sequence.SVG(d, sequence.SVGOptions{Embedded: true, Prefix: anchor(run) + "-", Page: run + "/report.html"})) // every text in it is escaped
}

// Caption is the story of a run in sentences.
func (v cardView) Caption(run string) string { return strings.Join(v.Pictures[run].Caption, " ") }

// Page writes the book as a page that stands alone, with the diagrams of its findings' runs.
func (b *Scorecards) Page(w io.Writer, pictures map[string]sequence.Diagram) error {
	if err := cardTemplate.Execute(w, cardView{b, pictures}); err != nil {
		return fmt.Errorf("draw scorecard: %w", err)
	}
	return nil
}
