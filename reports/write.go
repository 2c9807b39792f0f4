package reports

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"path/filepath"

	"lockpick/checker"
	"lockpick/reports/figures"
	"lockpick/reports/page"
	"lockpick/reports/sequence"
	"lockpick/reports/timeline"
	"lockpick/scenarios/outcome"
)

// Names of the reports in a run directory.
const (
	PageFile     = "report.html"    // all of it on one page
	SequenceFile = "sequence.txt"   // the sequence diagram
	JUnitFile    = "junit.xml"      // the outcome, for CI
	EDNFile      = "history.edn"    // the history as Jepsen writes one
	TraceFile    = "trace.json"     // the run for Perfetto and chrome://tracing
	PictureFile  = "porcupine.html" // the violated history as porcupine shows it, where there is one
)

// Write writes a run's reports into its directory. It asks porcupine, so it is
// called outside any bubble of virtual time.
func Write(dir string, r outcome.Run) error {
	d := sequence.Tell(r.History, r.Verdict)
	text := sequence.Text(d, sequence.DefaultWidth, false)
	if err := os.WriteFile(filepath.Join(dir, SequenceFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write sequence diagram: %w", err)
	}
	if err := forMachines(dir, r, text); err != nil {
		return err
	}
	shown, err := writePicture(dir, r)
	if err != nil {
		return err
	}
	files := []string{SequenceFile, JUnitFile, EDNFile, TraceFile}
	if shown {
		files = append(files, PictureFile)
	}
	plots, err := figures.Of(r.History)
	if err != nil {
		return err
	}
	fragment, err := timeline.Of(r.History, r.Verdict).Fragment()
	if err != nil {
		return err
	}
	p := page.Page{Run: r, Diagram: d, Files: files,
		Timeline: page.Part{HTML: fragment, Style: template.CSS(timeline.Style), Script: template.JS(timeline.Script)}}
	for _, f := range plots {
		p.Figures = append(p.Figures, page.Figure{Name: f.Name, Title: f.Title, Caption: f.Caption, SVG: f.SVG})
	}
	return writePage(dir, p)
}

func writePage(dir string, p page.Page) error {
	var text bytes.Buffer
	if err := page.Write(&text, p); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, PageFile), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// writePicture writes porcupine's picture, and reports whether there is one.
func writePicture(dir string, r outcome.Run) (bool, error) {
	var text bytes.Buffer
	if shown, err := checker.Visualize(&text, r.History, r.Verdict); err != nil || !shown {
		return false, err
	}
	if err := os.WriteFile(filepath.Join(dir, PictureFile), text.Bytes(), 0o644); err != nil {
		return false, fmt.Errorf("write porcupine's picture: %w", err)
	}
	return true, nil
}
