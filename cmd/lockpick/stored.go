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

	"lockpick/checker/verdict"
	"lockpick/docker"
	"lockpick/harness/lock/exec"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/reports/suites"
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
	return a.opened(campaign.OpenStored(path, stored()))
}

// opened says what is to know of a run before anything else.
func (a *app) opened(s campaign.Stored, err error) (campaign.Stored, error) {
	if err != nil {
		return s, usage(err, badRecord)
	}
	if s.History != nil && s.History.Cut != "" {
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
			s, err := theirs.open(a, c, args[0], false)
			if err != nil {
				return err
			}
			v, js := s.Judge()
			if s.Model.Name != "" && !asJSON {
				fmt.Fprintf(a.out, "model %v\n", s.Model)
			}
			return a.told(v, js, asJSON)
		}}
	jsonFlag(c, &asJSON, "the verdict")
	theirs.flags(c)
	return c
}

// told prints a verdict, and what was expected decides the exit code.
func (a *app) told(v verdict.Verdict, js []outcome.Judgement, asJSON bool) error {
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

func (a *app) printVerdict(v verdict.Verdict, js []outcome.Judgement) {
	suites.PrintVerdict(a.out, v, js, (campaign.Model{Name: v.Model}).Holders())
	if v.Disagreement != "" {
		fmt.Fprintf(a.errs, "error: the two judges disagree: %s\n", v.Disagreement)
	}
}

func explainCmd(a *app) *cobra.Command {
	theirs := &foreign{}
	c := &cobra.Command{Use: "explain DIR|FILE", Short: "draw a counterexample as a sequence diagram in the terminal", Args: oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := theirs.open(a, c, args[0], true)
			if err != nil {
				return err
			}
			v, _ := s.Judge()
			_, err = fmt.Fprint(a.out, sequence.Text(sequence.Tell(s.History, v), display.Width(a.out)))
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
	if lacks := campaign.Probe(ctx, b).Missing(m.Scenario, kinds.All); len(lacks) > 0 {
		return unable(fmt.Errorf("%s can't run this here: %s", b.Name(), campaign.Reasons(lacks)), lacks[0].Remedy)
	}
	if err := prepare(ctx, b, []scenario.Scenario{m.Scenario}, a.errs); err != nil {
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

// again is the command that runs a scenario again, for a POSIX shell.
func (f *runFlags) again(p pick, seed uint64) string {
	return fmt.Sprintf("lockpick run %s --seed %d", quoted(p.Exact()), seed) + f.overrides()
}

// overrides are the flags that change what is run, as they were given.
func (f *runFlags) overrides() string {
	s := f.selection()
	return overrides(&s, f.client, f.image)
}

// commandOf is the command that runs a pick of a selection again.
func commandOf(s *campaign.Selection, p pick, seed uint64) string {
	return fmt.Sprintf("lockpick run %s --seed %d", quoted(p.Exact()), seed) + overrides(s, "", "")
}

func overrides(f *campaign.Selection, client, image string) (c string) {
	if f.Backend != simulation {
		c += " --backend " + f.Backend
	}
	if client != "" {
		c += " --client-binary " + quoted(client)
	}
	if f.Scale > 0 {
		c += fmt.Sprintf(" --scale %g", f.Scale)
	}
	switch {
	case f.Adapter != "":
		c += " --adapter " + quoted(f.Adapter)
		if image != "" {
			c += " --adapter-image " + quoted(image)
		}
		for _, s := range f.Options() { // a kind's stand in --lock
			c += " --set " + quoted(s)
		}
	case f.Lock != "":
		c += " --lock " + quoted(f.Lock)
	}
	for _, s := range f.Sets {
		c += " --set " + quoted(s)
	}
	for _, e := range f.Expects {
		c += " --expect " + quoted(e)
	}
	return c
}

// quoted is a word as a shell takes it.
func quoted(s string) string { return display.ShellWord(s) }

func reportCmd(a *app) *cobra.Command {
	theirs := &foreign{}
	c := &cobra.Command{Use: "report [DIR|FILE]", Short: "regenerate the reports of a run or a suite (the latest suite if none is named)",
		Long: `Draw reports again, and print the path of the page to look at.

Of a run directory, or a bare history.jsonl: it is judged again, and all its reports
are written anew; those of a bare FILE go to the folder FILE.report. The exit code
says whether they could be drawn; lockpick check judges, and its help says what --model
and --ttl are for.

Of a suite's directory, or of the latest suite: suite.html and suite.md, from the
outcomes that stand in the suite's outcome.json. Nothing is judged anew.`,
		Example: `  lockpick report store/gc-pause-after-acquire/latest
  lockpick report history.jsonl
  lockpick report
  lockpick report store/suites/latest`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("%s takes at most one argument, got %d", c.CommandPath(), len(args)), "see "+c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			path := ""
			if len(args) > 0 {
				path = args[0]
			}
			if _, err := theirs.meant(c, path); err != nil {
				return err
			}
			if path != "" && isRun(path) {
				s, err := theirs.open(a, c, path, true)
				if err != nil {
					return err
				}
				return a.reportRun(s)
			}
			return a.reportSuite(path)
		}}
	theirs.flags(c)
	return c
}

// isRun reports whether a path is a run's rather than a suite's: a file, or a
// directory with a history or a manifest.
func isRun(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return err == nil
	}
	return campaign.IsRun(path)
}

// reportRun judges a stored run, and writes its reports anew.
func (a *app) reportRun(s campaign.Stored) error {
	dir, err := draw(s, true)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, filepath.Join(dir, reports.PageFile))
	return nil
}

// mostOpened is the longest run whose reports are drawn when somebody opens its page, in
// events: twice the longest of the catalogue, which takes seconds.
const mostOpened = 50_000

// drawStored draws a run for somebody who has opened its page, and says nothing else.
func drawStored(dir string) error {
	s, err := campaign.OpenStored(dir, stored())
	if err != nil {
		return err
	}
	if n := len(s.History.Events); n > mostOpened {
		return fmt.Errorf("it has %d events, and at most %d are drawn while you wait; run lockpick report %s", n, mostOpened, quoted(dir))
	}
	_, err = draw(s, false)
	return err
}

// draw draws the reports of a stored run, with images or without, and says where.
func draw(s campaign.Stored, images bool) (dir string, err error) {
	dir = s.Dir
	if s.Manifest == nil { // there may be a history.edn beside it that is not ours
		dir += ".report"
		beside, err := files.MakeFolder(dir)
		if err != nil {
			return "", unwritable(err, "copy the history to where one may write")
		}
		beside.Close()
	}
	if err := files.Unfinished.SweepTree(dir, func(path string) bool { return path == reports.FigureDir }); err != nil {
		return "", unable(err, "remove it by hand, or copy the history to where one may write")
	}
	r := s.Run()
	if err = reports.Write(dir, r); err == nil && images {
		err = reports.WriteImages(dir, r)
	}
	if err != nil {
		return "", unwritable(err, "make room there, or copy the history to where one may write")
	}
	return dir, nil
}

// unwritable is an error in writing reports: where something stands in the way that
// leads elsewhere, the directory is wrong, not the machine.
func unwritable(err error, hint string) error {
	if _, ok := errors.AsType[*files.Unfit](err); ok {
		return usage(err, "remove it, if it is not yours")
	}
	return unable(err, hint)
}

// reportSuite draws a suite again from its outcome.json, without judging its runs
// anew; dir is "" for the latest of the store. To judge a run again is check's.
func (a *app) reportSuite(dir string) error {
	store := defaultStore()
	if dir == "" {
		stored := suites.Stored(store)
		if len(stored) == 0 {
			return usage(fmt.Errorf("find the latest suite: there is none in %s", store),
				"run several scenarios first, name a run's directory, or set LOCKPICK_STORE")
		}
		dir = stored[0]
	}
	if err := holdsRuns(dir); err != nil {
		return err
	}
	s, err := suites.Draw(dir)
	if err != nil {
		return usage(err, "name a directory of a store's suites, as in "+filepath.Join(store, suites.Folder, "latest"))
	}
	_, err = fmt.Fprintf(a.out, "%s\nreport: %s (drawn from stored outcomes)\n", s.Headline(), filepath.Join(dir, suites.PageFile))
	return errors.Join(err, suites.Index(s.Store))
}

// foreign is how a history of Jepsen's is judged.
type foreign struct{ campaign.Model }

func (f *foreign) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.Name, "model", "", "what the lock of FILE.edn is taken for: "+strings.Join(campaign.Models(), ", ")+"\n(default: handle, and lease with --ttl)")
	c.Flags().DurationVar(&f.TTL, "ttl", 0, "how long a lease of FILE.edn lasts from the call of its acquire")
}

// meant sees that what was asked for has a meaning for the file. What isn't there, or is a
// directory, is no history of Jepsen's, as for campaign.OpenStored.
func (f *foreign) meant(c *cobra.Command, path string) (theirs bool, err error) {
	info, err := os.Stat(path)
	theirs = err == nil && !info.IsDir() && filepath.Ext(path) == ".edn"
	asked := c.Flags().Changed("ttl")
	switch {
	case c.Flags().Changed("model"):
	case asked:
		f.Name = campaign.Lease
	default:
		f.Name = campaign.Handle
	}
	switch {
	case !slices.Contains(campaign.Models(), f.Name):
		return theirs, usage(fmt.Errorf("there is no model %q", f.Name), "one of "+strings.Join(campaign.Models(), ", ")+"; see lockpick check --help")
	case asked && f.TTL <= 0:
		return theirs, usage(fmt.Errorf("--ttl %v is no time for a lease to last", f.TTL), "give what the lock was told, such as --ttl 10s")
	case asked && f.Name != campaign.Lease:
		return theirs, usage(fmt.Errorf("--ttl with --model %s, which knows no leases", f.Name), "leave out one of them, or take --model lease")
	case !theirs && (err == nil || path == "") && (asked || c.Flags().Changed("model")):
		return theirs, usage(errors.New("--model and --ttl are for a history.edn of Jepsen's"), "leave them out: a record of ours says how long its leases last")
	}
	return theirs, nil
}

// open reads a run of ours, or a history of Jepsen's by the model: if it is to be drawn, one in
// which somebody believes that he holds.
func (f *foreign) open(a *app, c *cobra.Command, path string, drawn bool) (s campaign.Stored, err error) {
	isTheirs, err := f.meant(c, path)
	switch {
	case err != nil:
		return s, err
	case !isTheirs:
		return a.open(path)
	case drawn && !f.Holders():
		return s, usage(fmt.Errorf("--model %s knows no holders that could be drawn", f.Name), "take "+campaign.Handle+" or "+campaign.Lease+"; lockpick check judges by "+f.Name)
	}
	return a.opened(campaign.OpenForeign(path, f.Model))
}
