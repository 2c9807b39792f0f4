package campaign

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// simulation is the backend of runs that can be had again.
const simulation = "sim"

// Folders of a store that hold no runs of a scenario, but what campaigns leave.
const (
	huntsFolder     = "hunts"
	CorpusFolder    = "corpus"
	envelopesFolder = "envelopes"
	ShrunkFolder    = "shrunk"
)

// Folders lists them, with those of suites and scorecards.
func Folders() []string {
	return []string{suites.Folder, suites.ScoreFolder, huntsFolder, CorpusFolder, shardFolder, envelopesFolder, ShrunkFolder}
}

// MaxSeeds bounds the seeds of a campaign: a day of work for a large machine.
const MaxSeeds = 10_000_000

// ErrorKind tells errors of a campaign apart by what can be done about them.
type ErrorKind int

const (
	StoreFailed   ErrorKind = iota // the store can't be written
	CorpusFailed                   // the corpus, or a file of it, can't be read
	Taken                          // another process is at the same
	NotResumable                   // what is in the folder is of no use, or of something else
	NotMeasurable                  // a setting is out of a dimension's range
	NotRepeated                    // a minimized scenario does not show what it was made of: a bug
)

// Error is an error of a campaign.
type Error struct {
	Kind ErrorKind
	Path string // the file or folder that it is about, where it helps to remove that
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// failed is an error of that kind, or nil.
func failed(kind ErrorKind, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: kind, Err: err}
}

// Lab runs scenarios in the simulation as somebody asks for them, and keeps some in a store.
type Lab struct {
	Workers
	Known   scenario.Known
	Version string // of lockpick
	Store   string
	// Record is Minimizer's.
	Record func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, verdict.Verdict, error)
}

// Run runs a scenario, and keeps nothing.
func (l Lab) Run(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome {
	return l.Do(ctx, Job{Scenario: s, Seed: seed, Backend: simulation, Keep: KeepNone, Version: l.Version})
}

// Keep writes a scenario to a file, and runs it so that its run is in the store with its reports.
func (l Lab) Keep(ctx context.Context, s scenario.Scenario, seed uint64, file string, text []byte, command string) (outcome.Outcome, error) {
	folder := filepath.Dir(file)
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		err = files.WriteIn(folder, filepath.Base(file), text)
	}
	if err != nil {
		return outcome.Outcome{}, failed(StoreFailed, err)
	}
	return l.Do(ctx, Job{Scenario: s, Seed: seed, Backend: simulation, Store: l.Store, Keep: KeepAll, Version: l.Version, Command: command}), nil
}

// Minimizer makes scenarios small in at most so many runs; 0: as many as it takes.
func (l Lab) Minimizer(most int) Minimizer {
	return Minimizer{Known: l.Known, Workers: cap(l.Idle), Most: most, Record: l.Record, Run: func(ctx context.Context, s scenario.Scenario, seed uint64) bool {
		return l.Run(ctx, s, seed).Code == outcome.ExitOK
	}}
}

// Kept is a minimized scenario in a file.
type Kept struct {
	Minimized
	File    string       `json:"file"`
	Dir     string       `json:"dir"` // of its run
	Command string       `json:"command"`
	Try     *outcome.Try `json:"try,omitempty"` // nil: it was not tried elsewhere
}

// KeepMinimized leaves a minimized scenario in a file, and its run in the store.
func (l Lab) KeepMinimized(ctx context.Context, r Minimized, name, file string) (*Kept, error) {
	text, err := r.Write(name, l.Known)
	if err != nil {
		return nil, err
	}
	written, err := scenario.Parse(file, text, l.Known)
	if err != nil {
		return nil, err
	}
	k := &Kept{Minimized: r, File: file, Command: fmt.Sprintf("lockpick run %s --seed %d", display.ShellWord(file), r.Seed)}
	o, err := l.Keep(ctx, written[0], r.Seed, file, text, k.Command)
	if err != nil {
		return nil, err
	}
	if o.Code != outcome.ExitOK && ctx.Err() == nil {
		return nil, failed(NotRepeated, fmt.Errorf("%s does not show %s when it is run: %s", file, r.Bug, display.FirstLine(o.Error)))
	}
	k.Dir = o.Dir
	return k, ctx.Err()
}

// Print prints what a scenario shows in words, and where it is.
func (k *Kept) Print(w io.Writer) {
	fmt.Fprintf(w, "%s\n", strings.TrimRight(k.Caption(), "\n"))
	if k.Try != nil {
		fmt.Fprintln(w, suites.CardTries(k.Try))
	}
	fmt.Fprintf(w, "\n    scenario:  %s\n    record:    %s\n    run again: %s\n", k.File, k.Dir, k.Command)
}
