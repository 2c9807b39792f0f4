package reports

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"lockpick/checker"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

// Names of the reports in a run directory.
const (
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
	var page bytes.Buffer
	if shown, err := checker.Visualize(&page, r.History, r.Verdict); err != nil || !shown {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, PictureFile), page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write porcupine's picture: %w", err)
	}
	return nil
}
