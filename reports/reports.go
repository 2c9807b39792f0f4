// Package reports writes a run's reports, for people and machines.
//
// Write adds the reports to the directory that contains the run's history. Subpackages produce the
// content, each as a pure function of the run:
//
//	sequence   the counterexample as a sequence diagram: text, SVG, Mermaid
//	timeline   all events in lanes, for a browser
//	figures    plots of measurements
//	page       report.html, which combines all of these
//	suites     reports on many runs: safety report, store index, scorecards, JUnit, GitHub
//	display    shared formatting of times, counts and untrusted text, and the color palette
//
// None of them judges the run. Drawings show the verdict's witness or, without a violation, the
// first fault.
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

// Report file names in a run directory.
const (
	PageFile      = "report.html"    // everything on one page
	SequenceFile  = "sequence.txt"   // the sequence diagram
	svgFile       = "sequence.svg"   // the sequence diagram as an image
	mermaidFile   = "sequence.mmd"   // the sequence diagram for issues and summaries
	JUnitFile     = "junit.xml"      // the outcome for CI
	ednFile       = "history.edn"    // the history in Jepsen's format
	porcupineFile = "porcupine.html" // porcupine's drawing of the history, if violated
)

// Write writes a run's reports to its directory. Don't call it inside a synctest bubble, because it
// runs porcupine.
func Write(dir string, r outcome.Run) error {
	to, err := files.OpenFolder(dir)
	if err != nil {
		return fmt.Errorf("write reports: %w", err)
	}
	defer to.Close()
	d := sequence.ForVerdict(r.History, r.Verdict)
	p := page.Page{Run: r, Diagram: d, Back: suites.BackLinks(dir),
		Picture: template.HTML(sequence.SVG(d, sequence.SVGOptions{Embedded: true, Prefix: "sq-"}))} // all text in it is escaped
	for _, f := range companionFiles(r, d) {
		var text bytes.Buffer
		if err := f.write(&text); err != nil {
			return err
		}
		if f.name == porcupineFile && text.Len() == 0 {
			continue // porcupine draws only violations
		}
		if err := to.Write(f.name, text.Bytes()); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		p.Files = append(p.Files, f.name)
	}
	fragment, err := timeline.New(r.History, r.Verdict).Fragment()
	if err != nil {
		return err
	}
	p.Timeline = page.Part{HTML: fragment, Style: template.CSS(timeline.Style), Script: template.JS(timeline.Script)}
	for _, f := range figures.FromHistory(r.History) {
		p.Figures = append(p.Figures, page.Figure{Name: f.Name, Title: f.Title, Caption: f.Caption, SVG: template.HTML(f.Inline())}) // all text in it is escaped
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

type file struct {
	name  string
	write func(io.Writer) error
}

// companionFiles returns the files to write next to the page, in the order of the page's links.
func companionFiles(r outcome.Run, d sequence.Diagram) []file {
	text := sequence.Text(d, sequence.DefaultWidth)
	o := r.Outcome
	o.Seconds, o.Dir = 0, "" // vary between executions, but the file must not
	staticFile := func(name, content string) file {
		return file{name, func(w io.Writer) error { _, err := io.WriteString(w, content); return err }}
	}
	return []file{
		staticFile(SequenceFile, text),
		staticFile(svgFile, string(sequence.SVG(d, sequence.SVGOptions{}))),
		staticFile(mermaidFile, sequence.Mermaid(d)),
		{JUnitFile, func(w io.Writer) error {
			t := &outcome.Tally{}
			t.Add(o)
			return suites.WriteJUnit(w, t, func(outcome.Outcome) string { return text })
		}},
		{ednFile, func(w io.Writer) error { return edn.Write(w, r.History) }},
		{porcupineFile, func(w io.Writer) error { _, err := checker.Visualize(w, r.History, r.Verdict); return err }},
	}
}

// FigureDir is the subdirectory of a run directory for figures.
const FigureDir = "figures"

// WriteImages writes the page's figures as separate SVG and PNG files, for papers and slides. Call it
// only on request, because it takes ten times as long as all other reports together.
func WriteImages(dir string, r outcome.Run) error {
	plots := figures.FromHistory(r.History)
	if len(plots) == 0 {
		return nil
	}
	to, err := files.OpenFolder(dir)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	defer to.Close()
	figureDir, err := to.Sub(FigureDir)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	defer figureDir.Close()
	for _, f := range plots {
		image, err := f.PNG()
		if err != nil {
			return err
		}
		if err := errors.Join(figureDir.Write(f.Name+".svg", f.SVG()), figureDir.Write(f.Name+".png", image)); err != nil {
			return fmt.Errorf("write figures: %w", err)
		}
	}
	return nil
}
