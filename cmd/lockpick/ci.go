package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"lockpick/internal/files"
	"lockpick/reports"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// ci collects outcomes and writes them for CI systems. In a sweep, it discards outcomes that it will
// not write.
type ci struct {
	junitFile   string
	summaryFile string // $GITHUB_STEP_SUMMARY
	annotate    bool
	tally       outcome.Tally
	junit       bytes.Buffer      // the JUnit file
	exampleDirs map[string]string // directories of the stored example runs, by command
}

// newCI reads the CI system's settings from the environment. It creates the JUnit file, so that an
// unwritable path is reported before any run.
func newCI(junitFile string) (*ci, error) {
	c := &ci{junitFile: junitFile, summaryFile: os.Getenv("GITHUB_STEP_SUMMARY"), annotate: os.Getenv("GITHUB_ACTIONS") == "true"}
	if junitFile == "" {
		return c, nil
	}
	f, err := files.OpenOutput(junitFile, 0)
	if err != nil {
		return nil, usageError(fmt.Errorf("write junit file: %w", err), "name a writable file with --junit")
	}
	return c, f.Close()
}

// render creates the text of the JUnit file. It must be called before runs that the text quotes are
// removed from the store.
func (c *ci) render() error {
	return suites.WriteJUnit(&c.junit, &c.tally, sequenceText)
}

// finish writes the JUnit file, GitHub's job summary, and GitHub's annotations. GitHub's runner
// reads annotations from stdout and stderr, so they go to stderr, apart from the results.
func (c *ci) finish(to io.Writer) error {
	var errs []error
	if c.junitFile != "" {
		errs = append(errs, writeTo(c.junitFile, os.O_TRUNC, func(w io.Writer) error {
			if _, err := w.Write(c.junit.Bytes()); err != nil {
				return fmt.Errorf("write junit file: %w", err)
			}
			return nil
		}))
	}
	if c.summaryFile != "" {
		errs = append(errs, writeTo(c.summaryFile, os.O_APPEND, func(w io.Writer) error { return suites.GitHubSummary(w, &c.tally, c.storedDiagram) }))
	}
	if c.annotate {
		if o, ok := to.(*output); ok {
			to = commandOutput{o}
		}
		errs = append(errs, suites.GitHubAnnotations(to, &c.tally))
	}
	if err := errors.Join(errs...); err != nil {
		return backendError(err, "free disk space, or name another file; the runs are in the store")
	}
	return nil
}

func writeTo(path string, flags int, write func(io.Writer) error) error {
	f, err := files.OpenOutput(path, flags)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return errors.Join(write(f), f.Close())
}

// sequenceText returns a run's stored text diagram.
func sequenceText(o outcome.Outcome) string { return readStored(o, reports.SequenceFile) }

// storedDiagram returns the stored diagram of a run, or of its example run: Mermaid if there is any,
// otherwise text.
func (c *ci) storedDiagram(o outcome.Outcome) string {
	if o.Dir == "" {
		o.Dir = c.exampleDirs[o.Command]
	}
	return cmp.Or(readStored(o, "sequence.mmd"), sequenceText(o))
}

// maxDiagramBytes exceeds the size of any diagram that lockpick writes.
const maxDiagramBytes = 64 << 20

func readStored(o outcome.Outcome, name string) string {
	if o.Dir == "" {
		return ""
	}
	text, err := files.ReadIn(o.Dir, name, maxDiagramBytes)
	if err != nil { // reports are complete without a diagram
		return ""
	}
	return string(text)
}
