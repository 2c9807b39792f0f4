package reports

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lockpick/checker"
	"lockpick/harness/history/edn"
	"lockpick/reports/junit"
	"lockpick/reports/trace"
	"lockpick/scenarios/outcome"
)

// forMachines writes what other tools read of a run.
func forMachines(dir string, r outcome.Run, drawn string) error {
	o := r.Outcome
	o.Seconds = 0 // the same run gives the same file
	o.Dir = ""
	for name, write := range map[string]func(io.Writer) error{
		JUnitFile: func(w io.Writer) error {
			return junit.Write(w, []outcome.Outcome{o}, func(outcome.Outcome) string { return drawn })
		},
		EDNFile:   func(w io.Writer) error { return edn.Write(w, r.History, checker.Beliefs(r.History)) },
		TraceFile: func(w io.Writer) error { return trace.Write(w, r.History, r.Verdict) },
	} {
		if err := toFile(filepath.Join(dir, name), write); err != nil {
			return err
		}
	}
	return nil
}

// toFile writes a file by a function.
func toFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
