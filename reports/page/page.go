// Package page makes report.html, a run on one page that needs no network.
//
// Write turns a Page into it: the verdict, what happened, the timeline, the faults,
// the numbers and figures, the history, how to run it again, and what the run can't
// tell. A Page holds the run and what other packages have drawn of it. Its sections
// have the ids verdict, story, properties, timeline, faults, numbers, figures, history, again and
// limits, event N is the row #eN, and a property's result is #p-PROPERTY.
//
// Each section is a file: a function from the run to plain data, which page.tmpl
// asks for and writes out. Whatever stems from a history goes through plain first, and then through
// html/template.
//
// Deliberately missing: judging, drawing, and files.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

// Page is what report.html shows.
type Page struct {
	Run      outcome.Run
	Diagram  sequence.Diagram
	Picture  template.HTML // the diagram as an svg element; "": its text is all there is
	Timeline Part          // its HTML is "" where there is none
	Figures  []Figure
	Files    []string // names of the files beside the page that it links to
}

// Part is a piece of a page that another package made.
type Part struct {
	HTML   template.HTML
	Style  template.CSS
	Script template.JS // runs at the end of the page
}

// Figure is a plot.
type Figure struct {
	Name, Title, Caption string
	SVG                  template.HTML // an svg element
}

//go:embed page.tmpl
var layout string

//go:embed page.css
var style template.CSS

//go:embed page.js
var script template.JS

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"plain": plain, "title": title, "subject": subject, "where": where,
	"lede": lede, "states": states, "tone": tone, "badges": badges, "setup": setup, "claim": claim, "source": source, "trouble": trouble, "judged": judged,
	"faults": faults, "measured": measured, "again": again, "limits": limits}).Parse(layout))

// Write writes the page. The same Page gives the same bytes.
func Write(w io.Writer, p Page) error {
	if err := pageTemplate.Execute(w, struct {
		Page
		Style   template.CSS
		Script  template.JS
		Text    string
		History listing
	}{p, template.CSS(display.ColorsCSS) + style + sequence.Style + p.Timeline.Style, script, sequence.Text(p.Diagram, sequence.DefaultWidth), keep(p.Run, p.Diagram)}); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
