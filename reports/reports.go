// Package reports turns a run into files for people and machines.
//
// Write puts a run's reports beside its history. What they show is made by the
// packages below, each a function of the run:
//
//	sequence   the counterexample as a sequence diagram: text, SVG, Mermaid
//	timeline   all that happened, lane by lane, for a browser
//	figures    what was measured, as plots
//	page       report.html, which holds all of these
//	suites     many runs: safety report, index of a store, scorecards, JUnit, GitHub
//	display    one way to write a time, a count or a stranger's text, and one meaning a color
//
// Deliberately missing: judging. What is drawn follows the verdict's witness, and
// where nothing is violated, the first fault.
package reports

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"

	"lockpick/checker"
	"lockpick/harness/history/edn"
	"lockpick/internal/files"
	"lockpick/reports/figures"
	"lockpick/reports/page"
	"lockpick/reports/sequence"
	"lockpick/reports/suites"
	"lockpick/reports/timeline"
	"lockpick/scenarios/outcome"
)

// Names of the reports in a run directory.
const (
	PageFile     = "report.html"    // all of it on one page
	SequenceFile = "sequence.txt"   // the sequence diagram
	drawingFile  = "sequence.svg"   // the same as a picture
	mermaidFile  = "sequence.mmd"   // the same for issues and summaries
	JUnitFile    = "junit.xml"      // the outcome, for CI
	ednFile      = "history.edn"    // the history as Jepsen writes one
	pictureFile  = "porcupine.html" // the violated history as porcupine draws it, where there is one
)

// Write writes a run's reports into its directory. It asks porcupine, so it is
// called outside any bubble of virtual time.
func Write(dir string, r outcome.Run) error {
	to, err := files.OpenFolder(dir)
	if err != nil {
		return fmt.Errorf("write reports: %w", err)
	}
	defer to.Close()
	d := sequence.Tell(r.History, r.Verdict)
	p := page.Page{Run: r, Diagram: d,
		Picture: template.HTML(sequence.SVG(d, sequence.SVGOptions{Embedded: true, Prefix: "sq-"}))} // every text in it is escaped
	for _, f := range beside(r, d) {
		var text bytes.Buffer
		if err := f.write(&text); err != nil {
			return err
		}
		if f.name == pictureFile && text.Len() == 0 {
			continue // porcupine shows what is violated, and nothing else
		}
		if err := to.Write(f.name, text.Bytes()); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		p.Files = append(p.Files, f.name)
	}
	fragment, err := timeline.Of(r.History, r.Verdict).Fragment()
	if err != nil {
		return err
	}
	p.Timeline = page.Part{HTML: fragment, Style: template.CSS(timeline.Style), Script: template.JS(timeline.Script)}
	for _, f := range figures.Of(r.History) {
		p.Figures = append(p.Figures, page.Figure{Name: f.Name, Title: f.Title, Caption: f.Caption, SVG: template.HTML(f.Inline())}) // every text in it is escaped
	}
	var text bytes.Buffer
	if err := page.Write(&text, p); err != nil {
		return err
	}
	if err := to.Write(PageFile, text.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// file is one of the files beside the page.
type file struct {
	name  string
	write func(io.Writer) error
}

// beside are the files beside the page, in the order in which it links to them.
func beside(r outcome.Run, d sequence.Diagram) []file {
	text := sequence.Text(d, sequence.DefaultWidth)
	o := r.Outcome
	o.Seconds, o.Dir = 0, "" // the same run gives the same file
	as := func(name, content string) file {
		return file{name, func(w io.Writer) error { _, err := io.WriteString(w, content); return err }}
	}
	return []file{
		as(SequenceFile, text),
		as(drawingFile, string(sequence.SVG(d, sequence.SVGOptions{}))),
		as(mermaidFile, sequence.Mermaid(d)),
		{JUnitFile, func(w io.Writer) error {
			t := &outcome.Tally{}
			t.Add(o)
			return suites.WriteJUnit(w, t, func(outcome.Outcome) string { return text })
		}},
		{ednFile, func(w io.Writer) error { return edn.Write(w, r.History) }},
		{pictureFile, func(w io.Writer) error { _, err := checker.Visualize(w, r.History, r.Verdict); return err }},
	}
}

// FigureDir is where the figures lie as files.
const FigureDir = "figures"

// WriteImages writes the figures, which the page has in it, as files of their own: SVG and
// PNG, for papers and slides. It takes ten times as long as all other reports, so it is for
// those who ask.
func WriteImages(dir string, r outcome.Run) error {
	plots := figures.Of(r.History)
	if len(plots) == 0 {
		return nil
	}
	to, err := files.OpenFolder(dir)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	defer to.Close()
	in, err := to.Sub(FigureDir)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	defer in.Close()
	for _, f := range plots {
		image, err := f.PNG()
		if err != nil {
			return err
		}
		if err := errors.Join(in.Write(f.Name+".svg", f.SVG()), in.Write(f.Name+".png", image)); err != nil {
			return fmt.Errorf("write figures: %w", err)
		}
	}
	return nil
}
