package reports

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lockpick/checker"
	"lockpick/harness/history"
)

// Names of the reports in a run directory.
const (
	SequenceFile = "sequence.txt"   // the sequence diagram
	PictureFile  = "porcupine.html" // the violated history as porcupine shows it, where there is one
)

// DefaultWidth is how many characters wide a drawing is where no terminal says otherwise.
const DefaultWidth = 100

// Write writes a run's reports into its directory. It asks porcupine, so it is
// called outside any bubble of virtual time.
func Write(dir string, h *history.History, v checker.Verdict) error {
	if err := os.WriteFile(filepath.Join(dir, SequenceFile), []byte(Explain(h, v, DefaultWidth)), 0o644); err != nil {
		return fmt.Errorf("write sequence diagram: %w", err)
	}
	var page bytes.Buffer
	if shown, err := checker.Visualize(&page, h, v); err != nil || !shown {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, PictureFile), page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write porcupine's picture: %w", err)
	}
	return nil
}

// Explain draws the first violation that has a witness, or what happened around
// the first fault, without colour. Where nothing could be decided, it says why.
func Explain(h *history.History, v checker.Verdict, width int) string {
	d := Sequence(h, Shown(v))
	if v.Assumption != "" {
		d.Title = strings.TrimSuffix(d.Title, nothingShown) + "undecided"
		d.Caption = append([]string{"Nothing could be decided: " + v.Assumption + "."}, d.Caption...)
	}
	return Text(d, width, false)
}

// Shown is the result that a diagram is about: the first violated one with a
// witness, or nil.
func Shown(v checker.Verdict) *checker.Result {
	for i := range v.Results {
		if r := &v.Results[i]; r.Outcome == checker.Violated && r.Witness != nil {
			return r
		}
	}
	return nil
}
