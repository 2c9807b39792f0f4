package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/checker/mutex"
	"lockpick/docker"
	"lockpick/harness/lock/exec"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/sequence"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// badRecord is what to do about what can't be judged.
const badRecord = "name a run directory of the store, a history.jsonl, or a history.edn of Jepsen's; see lockpick help files"

// stored is what a run.json may name: also the lock of an adapter, of which it says all that a
// judge must know.
func stored() scenario.Known {
	k := known()
	if !slices.Contains(k.Locks, exec.Name) {
		k.Locks = append(k.Locks, exec.Name)
	}
	return k
}

// runnable says why a stored run can't be run again.
func runnable(m *scenario.Manifest) error {
	if m.Scenario.Lock.Kind == exec.Name {
		return usage(errors.New("its lock was that of an adapter, and no stored run names a program"), "run it again: "+m.Command)
	}
	if m.StopAtViolation {
		return usage(errors.New("it was stopped at its violation, and runs are no longer stopped there"),
			"run it to its end: "+strings.ReplaceAll(m.Command, " --stop-at-violation", ""))
	}
	return nil
}

// holdsRuns refuses a scenario's folder of a store, where one of the runs in it was meant.
func holdsRuns(path string) error {
	latest := filepath.Join(path, "latest")
	if campaign.IsRun(path) || !campaign.IsRun(latest) {
		return nil
	}
	return usage(fmt.Errorf("%s holds runs, and is none", path), "name one of them, as in "+latest)
}

func (a *app) open(path string) (campaign.Stored, error) {
	if err := holdsRuns(path); err != nil {
		return campaign.Stored{}, err
	}
	s, err := campaign.OpenStored(path, stored())
	if err != nil {
		return s, usage(err, badRecord)
	}
	if s.History.Cut != "" {
		fmt.Fprintf(a.errs, "note: the record is cut short: %s; judged up to there\n", s.History.Cut)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(a.errs, "note: %s\n", n)
	}
	return s, nil
}

func checkCmd(a *app) *cobra.Command {
	var asJSON bool
	theirs := &foreign{}
	c := &cobra.Command{Use: "check DIR|FILE", Short: "judge a stored run again", Args: oneArg,
		Long: `Judge a run directory or a bare history.jsonl, compressed or not, again. Where the scenario is known,
what it expected decides the exit code; else a violation is 1.

A FILE that ends in .edn is taken for a history of Jepsen's, of a lock with
operations :acquire and :release. Its order decides where stamps are equal. What
was called and has no answer, or :info, may have happened or not. --model says what
the lock is:

  mutex        Knossos' mutex. It is held or free. An acquire takes it where it is
               free, a release frees it where it is held, whoever calls either.
               What failed did not happen.
  owner-mutex  The same, but only the process that holds it may release it, and it
               may not acquire it again before.
  handle       A process that is granted the lock has a handle, and believes that
               it holds until it calls its release or crashes. A release that
               failed with :not-held in its :error says that the handle did not
               hold then; another failure says nothing. A release without a handle
               is passed over. Two that believe at one instant are a violation,
               and so are answers that no such lock gives.
  lease        The same, but it may lapse: with --ttl 10s it does 10 s after its
               acquire was called, or later. Without, nobody knows when, and what
               was held is known by answers only: a release that is ok shows it.

The default is handle, and lease with --ttl. For the other models a lease that
lapsed makes a second holder. What else lockpick checks, and such a history does not
tell of, is undecided.`,
		Example: `  lockpick check store/baseline/latest
  lockpick check history.edn --model mutex              another lock's history, from Jepsen
  lockpick check history.edn --ttl 10s                  of a lock with leases of 10 s`,
		RunE: func(c *cobra.Command, args []string) error {
			isTheirs, err := theirs.meant(c, args[0])
			if err != nil {
				return err
			}
			if isTheirs {
				return theirs.check(a, args[0], asJSON)
			}
			s, err := a.open(args[0])
			if err != nil {
				return err
			}
			v := checker.Check(s.History)
			return a.told(v, campaign.JudgeStored(s, v), asJSON)
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print the verdict as JSON")
	theirs.flags(c)
	return c
}

// told prints a verdict, and what was expected decides the exit code.
func (a *app) told(v checker.Verdict, js []outcome.Judgement, asJSON bool) error {
	a.code = outcome.Worse(a.code, outcome.CodeOf(js))
	if v.Disagreement != "" {
		a.code = outcome.ExitBug
	}
	if asJSON {
		return printJSON(a.out, v)
	}
	a.printVerdict(v, js)
	return nil
}

// secondly is what the second judge says of the whole record.
var secondly = map[checker.Outcome]string{
	checker.Holds:     "one lease lock could have given these answers",
	checker.Violated:  "no lease lock could have given these answers",
	checker.Undecided: "not asked, or the record is too long for its search",
}

func (a *app) printVerdict(v checker.Verdict, js []outcome.Judgement) {
	live := false
	for _, t := range folded(js) {
		for _, j := range t.js {
			if !live && checker.Liveness(j.Property) {
				fmt.Fprintln(a.out, "liveness, where the faults allow it:")
				live = true
			}
			fmt.Fprintln(a.out, j)
		}
		fmt.Fprintf(a.out, "    %s\n", t.because)
		for _, j := range t.js {
			if r := v.Result(j.Property); r != nil && r.Witness != nil {
				fmt.Fprintf(a.out, "    witness: events %v\n", r.Witness.Events)
			}
		}
	}
	if !slices.Contains(mutex.Models(), v.Model) {
		fmt.Fprintf(a.out, "second judge (porcupine): %s\n", secondly[v.Second])
	}
	if v.Disagreement != "" {
		fmt.Fprintf(a.errs, "error: the two judges disagree: %s\n", v.Disagreement)
	}
}

func explainCmd(a *app) *cobra.Command {
	theirs := &foreign{}
	c := &cobra.Command{Use: "explain DIR|FILE", Short: "draw a counterexample as a sequence diagram in the terminal", Args: oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := theirs.open(a, c, args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.out, sequence.Text(sequence.Tell(s.History, theirs.verdict(s.History)), width(a.out)))
			return err
		}}
	theirs.flags(c)
	return c
}

func replayCmd(a *app) *cobra.Command {
	return &cobra.Command{Use: "replay DIR", Short: "run a stored run again; in the simulation, compare the histories byte by byte", Args: oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.open(args[0])
			if err != nil {
				return err
			}
			if s.Manifest == nil {
				return usage(errors.New("a bare history can't be run again"), "name the run directory: it holds run.json")
			}
			if err := runnable(s.Manifest); err != nil {
				return err
			}
			a.tidies() // a probe tries what a run has
			return a.replay(c.Context(), s)
		}}
}

func (a *app) replay(ctx context.Context, s campaign.Stored) (err error) {
	m := s.Manifest
	b, err := backend(m.Backend, docker.Config{})
	if err != nil {
		return err
	}
	if c, ok := b.(io.Closer); ok { // it keeps something for another run
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	if lacks := probe(ctx, b).missing(m.Scenario); len(lacks) > 0 {
		return unable(fmt.Errorf("%s can't run this here: %s", b.Name(), reasons(lacks)), lacks[0].Remedy)
	}
	if err := prepare(ctx, b, []pick{{Found: scenarios.Found{Scenario: m.Scenario}}}, a.errs); err != nil {
		return err
	}
	dir, err := proc.MakeDir(os.TempDir())
	if err != nil {
		return unable(fmt.Errorf("make a place for the run: %w", err), files.Remedy(err, files.TempDirHint))
	}
	defer os.RemoveAll(dir)
	j := campaign.Job{Scenario: m.Scenario, Seed: m.Seed, Backend: m.Backend, Store: dir, Keep: campaign.KeepAll, Version: version(), Command: m.Command}
	if m.Backend == simulation {
		return a.replaySim(ctx, s, j)
	}
	o := campaign.Execute(ctx, b, j)
	if o.Error != "" {
		return unable(errors.New(o.Error), cmp.Or(o.Hint, "see lockpick doctor"))
	}
	a.code = outcome.Worse(a.code, o.Code)
	a.printVerdict(o.Verdict, o.Judgements)
	return nil
}

func (a *app) replaySim(ctx context.Context, s campaign.Stored, j campaign.Job) (err error) {
	workers(patience, os.TempDir()).Run(ctx, 1, func(int) campaign.Job { return j }, func(_ int, o outcome.Outcome) {
		if o.Error != "" {
			err = &failure{err: errors.New(o.Error), code: o.Code, hint: cmp.Or(o.Hint, "see lockpick help exit-codes")}
			return
		}
		var again []byte
		if again, err = campaign.Facts(o.Dir); err == nil {
			err = a.compare(s, again)
		}
	})
	return err
}

// compare holds a replayed history against the stored one, which may have lost its end.
func (a *app) compare(s campaign.Stored, again []byte) error {
	before, err := campaign.Facts(s.Dir)
	if err != nil {
		return usage(fmt.Errorf("read history: %w", err), "name a run directory")
	}
	if bytes.Equal(before, again) {
		fmt.Fprintf(a.out, "the same history again, byte for byte: %d events\n", len(s.History.Events))
		return nil
	}
	if bytes.HasPrefix(again, before) && !s.History.Ended() {
		a.code = outcome.Worse(a.code, outcome.ExitUndecided)
		fmt.Fprintf(a.out, "undecided: the same for all %d stored lines; the record ends there\n", bytes.Count(before, []byte("\n")))
		return nil
	}
	old, now := bytes.Split(before, []byte("\n")), bytes.Split(again, []byte("\n"))
	n := 0
	for n < min(len(old), len(now)) && bytes.Equal(old[n], now[n]) {
		n++
	}
	a.code = outcome.Worse(a.code, outcome.ExitUnexpected)
	fmt.Fprintf(a.out, "the histories differ from line %d on:\n  stored: %s\n  again:  %s\n", n+1, line(old, n), line(now, n))
	if s.Manifest.Version != version() {
		fmt.Fprintf(a.out, "the run was made by lockpick %s, this is %s\n", s.Manifest.Version, version())
	}
	return nil
}

func line(lines [][]byte, n int) string {
	if n < len(lines) {
		if len(lines[n]) == 0 {
			return "(the end)"
		}
		return string(lines[n][:min(len(lines[n]), 500)])
	}
	return "(no more lines)"
}
