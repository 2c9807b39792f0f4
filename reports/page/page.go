// Package page makes report.html, a run on one page that needs no network.
//
// Write turns a Page into it: the verdict, what happened, the timeline, the faults,
// the numbers and figures, the history, how to run it again, and what the run can't
// tell. A Page holds the run and what other packages have drawn of it. Its sections
// have the ids verdict, story, timeline, faults, numbers, figures, history, again and
// limits, event N is the row #eN, and a property's result is #p-PROPERTY.
//
// Each section is a file: a function from the run to plain data, which page.tmpl
// writes out. Whatever stems from a history goes through plain first, and then through
// html/template.
//
// Deliberately missing: judging, drawing, and files.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"lockpick/reports/palette"
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
	SVG                  []byte // a file of its own
}

//go:embed page.tmpl
var layout string

//go:embed page.css
var style template.CSS

//go:embed page.js
var script template.JS

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"plain": plain}).Parse(layout))

// Write writes the page. The same Page gives the same bytes.
func Write(w io.Writer, p Page) error {
	kept := keep(p)
	v := view{
		Style: template.CSS(palette.CSS) + style + sequence.Style + p.Timeline.Style, Script: script,
		Title: title(p.Run), Subject: subject(p.Run), Sentence: sentence(p.Run), Badges: badges(p.Run), Setup: setup(p.Run),
		Claim: claim(p.Run), Source: source(p.Run), Trouble: trouble(p.Run),
		Groups:  judged(p.Run, kept.rows),
		Diagram: p.Diagram, Picture: p.Picture, Text: sequence.Text(p.Diagram, sequence.DefaultWidth, false),
		Timeline: p.Timeline,
		Faults:   faults(p.Run, kept.rows),
		Numbers:  measured(p.Run), Figures: drawn(p.Figures),
		History: kept,
		Again:   again(p.Run), Files: p.Files,
		Limits: limits(p.Run, kept),
	}
	if err := pageTemplate.Execute(w, v); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// view is the page as page.tmpl reads it.
type view struct {
	Style    template.CSS
	Script   template.JS
	Title    string
	Subject  string
	Sentence string
	Badges   []badge
	Setup    []term
	Claim    string
	Source   []linked
	Trouble  []string
	Groups   []group
	Diagram  sequence.Diagram
	Picture  template.HTML
	Text     string
	Timeline Part
	Faults   faultTable
	Numbers  []number
	Figures  []plot
	History  listing
	Again    []term
	Files    []string
	Limits   []term
}

// term is a word and what belongs to it.
type term struct {
	Name, Text string
	Code       bool // the text is to be typed
}
