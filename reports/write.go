package reports

import (
	"bytes"
	"fmt"
	"html/template"

	"lockpick/checker"
	"lockpick/harness/files"
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
	DrawingFile  = "sequence.svg"   // the same as a picture
	MermaidFile  = "sequence.mmd"   // the same for issues and summaries
	JUnitFile    = "junit.xml"      // the outcome, for CI
	EDNFile      = "history.edn"    // the history as Jepsen writes one
	TraceFile    = "trace.json"     // the run for Perfetto and chrome://tracing
	PictureFile  = "porcupine.html" // the violated history as porcupine shows it, where there is one
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
	text := sequence.Text(d, sequence.DefaultWidth, false)
	for name, content := range map[string][]byte{
		SequenceFile: []byte(text),
		DrawingFile:  sequence.SVG(d, sequence.SVGOptions{}),
		MermaidFile:  []byte(sequence.Mermaid(d)),
	} {
		if err := to.Write(name, content); err != nil {
			return fmt.Errorf("write sequence diagram: %w", err)
		}
	}
	if err := forMachines(to, r, text); err != nil {
		return err
	}
	shown, err := writePicture(to, r)
	if err != nil {
		return err
	}
	names := []string{SequenceFile, DrawingFile, MermaidFile, JUnitFile, EDNFile, TraceFile}
	if shown {
		names = append(names, PictureFile)
	}
	plots, err := figures.Of(r.History)
	if err != nil {
		return err
	}
	fragment, err := timeline.Of(r.History, r.Verdict).Fragment()
	if err != nil {
		return err
	}
	p := page.Page{Run: r, Diagram: d, Files: names,
		Picture:  template.HTML(sequence.SVG(d, sequence.SVGOptions{Embedded: true, Prefix: "sq-"})), // every text in it is escaped
		Timeline: page.Part{HTML: fragment, Style: template.CSS(timeline.Style), Script: template.JS(timeline.Script)}}
	for _, f := range plots {
		p.Figures = append(p.Figures, page.Figure{Name: f.Name, Title: f.Title, Caption: f.Caption, SVG: f.SVG})
	}
	if err := writeFigures(to, plots, ".svg", func(f figures.Figure) ([]byte, error) { return f.SVG, nil }); err != nil {
		return err
	}
	return writePage(to, p)
}

// FigureDir is where the figures lie that the page shows.
const FigureDir = "figures"

func writeFigures(to *files.Folder, plots []figures.Figure, suffix string, form func(figures.Figure) ([]byte, error)) error {
	if len(plots) == 0 {
		return nil
	}
	in, err := to.Sub(FigureDir)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	defer in.Close()
	for _, f := range plots {
		image, err := form(f)
		if err != nil {
			return err
		}
		if err := in.Write(f.Name+suffix, image); err != nil {
			return fmt.Errorf("write figures: %w", err)
		}
	}
	return nil
}

// WriteImages writes the figures as PNG, too, for papers and slides. It takes ten
// times as long as all other reports, so it is for those who ask.
func WriteImages(dir string, r outcome.Run) error {
	plots, err := figures.Of(r.History)
	if err != nil || len(plots) == 0 {
		return err
	}
	to, err := files.OpenFolder(dir)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	defer to.Close()
	return writeFigures(to, plots, ".png", figures.Figure.PNG)
}

func writePage(to *files.Folder, p page.Page) error {
	var text bytes.Buffer
	if err := page.Write(&text, p); err != nil {
		return err
	}
	if err := to.Write(PageFile, text.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// writePicture writes porcupine's picture, and reports whether there is one.
func writePicture(to *files.Folder, r outcome.Run) (bool, error) {
	var text bytes.Buffer
	if shown, err := checker.Visualize(&text, r.History, r.Verdict); err != nil || !shown {
		return false, err
	}
	if err := to.Write(PictureFile, text.Bytes()); err != nil {
		return false, fmt.Errorf("write porcupine's picture: %w", err)
	}
	return true, nil
}
