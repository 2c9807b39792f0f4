package reports

import (
	"bytes"
	"fmt"
	"io"

	"lockpick/harness/files"
	"lockpick/harness/history/edn"
	"lockpick/reports/junit"
	"lockpick/reports/trace"
	"lockpick/scenarios/outcome"
)

// forMachines writes what other tools read of a run.
func forMachines(to *files.Folder, r outcome.Run, drawn string) error {
	o := r.Outcome
	o.Seconds = 0 // the same run gives the same file
	o.Dir = ""
	for name, write := range map[string]func(io.Writer) error{
		JUnitFile: func(w io.Writer) error {
			return junit.Write(w, []outcome.Outcome{o}, func(outcome.Outcome) string { return drawn })
		},
		EDNFile:   func(w io.Writer) error { return edn.Write(w, r.History) },
		TraceFile: func(w io.Writer) error { return trace.Write(w, r.History, r.Verdict) },
	} {
		if err := toFile(to, name, write); err != nil {
			return err
		}
	}
	return nil
}

// toFile writes a file by a function.
func toFile(to *files.Folder, name string, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	if err := to.Write(name, text.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
