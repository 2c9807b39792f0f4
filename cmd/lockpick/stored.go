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

const badRecordHint = "name a run directory of the store, a history.jsonl, or a history.edn from Jepsen; see lockpick help files"

// storedNames returns the names that a run.json may refer to. They include an adapter's lock: to
// check the run, no adapter is needed.
func storedNames() scenario.KnownNames {
	k := knownNames()
	if !slices.Contains(k.Locks, exec.Name) {
		k.Locks = append(k.Locks, exec.Name)
	}
	return k
}

func checkReplayable(m *scenario.Manifest) error {
	if m.Scenario.Lock.Kind == exec.Name {
		return usageError(errors.New("its lock ran in an adapter, and a stored run can't start programs"), "run it again: "+m.Command)
	}
	if m.StopAtViolation {
		return usageError(errors.New("it was stopped at its violation, which this version of lockpick doesn't support"),
			"run it to the end: "+strings.ReplaceAll(m.Command, " --stop-at-violation", ""))
	}
	return nil
}

// rejectRunFolder returns an error if path is a scenario's folder in a store instead of one of its
// runs.
func rejectRunFolder(path string) error {
	latest := filepath.Join(path, "latest")
	if campaign.IsRun(path) || !campaign.IsRun(latest) {
		return nil
	}
	return usageError(fmt.Errorf("%s is a folder of runs, not a run", path), "name one of them, as in "+latest)
}

func (a *app) openRun(path string) (campaign.StoredRun, error) {
	if err := rejectRunFolder(path); err != nil {
		return campaign.StoredRun{}, err
	}
	return a.printNotes(campaign.OpenStored(path, storedNames()))
}

// printNotes prints notes about a run that has been opened, before any result.
func (a *app) printNotes(s campaign.StoredRun, err error) (campaign.StoredRun, error) {
	if err != nil {
		return s, usageError(err, badRecordHint)
	}
	if s.History != nil && s.History.Truncation != "" {
		fmt.Fprintf(a.errOut, "note: the record is truncated: %s; checked up to that point\n", s.History.Truncation)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(a.errOut, "note: %s\n", n)
	}
	return s, nil
}

func checkCmd(a *app) *cobra.Command {
	var asJSON bool
	model := &jepsenModel{}
	c := &cobra.Command{Use: "check DIR|FILE", Short: "check a stored run or a history again", Args: oneArg,
		Long: `Check a run directory or a history.jsonl, compressed or not, again. If the scenario is
known, its expectations determine the exit code; otherwise the exit code is 1 if a
property is violated.

A FILE that ends in .edn is read as a history from Jepsen, of a lock with the
operations :acquire and :release. The order in the file breaks ties between equal
timestamps. A call without an answer, or answered with :info, may or may not have
taken effect. --model selects the model of the lock:

  mutex        Knossos' mutex. It is held or free. An acquire takes a free lock, and a
               release frees a held one, whichever process calls it. Failed operations
               did not happen.
  owner-mutex  The same, but only the holder can release the lock, and it can't acquire
               the lock again until then.
  handle       A process that is granted the lock gets a handle and believes that it
               holds the lock until it calls release or crashes. A release that fails
               with :not-held in its :error means that the handle no longer held the
               lock; other failures mean nothing. A release without a handle is
               ignored. It is a violation if two processes believe so at the same
               instant, or if no such lock could have given the answers.
  lease        The same, but the lease may expire: with --ttl 10s, at least 10 s after its
               acquire was called. Without --ttl the TTL is unknown, and only answers
               show that the lock was held, such as a release with :ok.

The default is handle, or lease with --ttl. In the other models an expired lease looks
like a second holder. Properties about which the history has no data are inconclusive.`,
		Example: `  lockpick check store/baseline/latest
  lockpick check history.edn --model mutex              a history from Jepsen
  lockpick check history.edn --ttl 10s                  a lock with leases of 10 s`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := model.open(a, c, args[0], false)
			if err != nil {
				return err
			}
			v, js := s.Judge()
			if s.Model.Name != "" && !asJSON {
				fmt.Fprintf(a.out, "model %v\n", s.Model)
			}
			return a.printResult(v, js, asJSON)
		}}
	addJSONFlag(c, &asJSON, "the verdict")
	model.addFlags(c)
	return c
}

// printResult prints a verdict and sets the exit code that follows from the judgements.
func (a *app) printResult(v verdict.Verdict, js []outcome.Judgement, asJSON bool) error {
	a.code = outcome.WorseCode(a.code, outcome.CodeOf(js))
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
	suites.PrintVerdict(a.out, v, js, (campaign.Model{Name: v.Model}).HasHandles())
	if v.Disagreement != "" {
		fmt.Fprintf(a.errOut, "error: the two checkers disagree: %s\n", v.Disagreement)
	}
}

func explainCmd(a *app) *cobra.Command {
	model := &jepsenModel{}
	c := &cobra.Command{Use: "explain DIR|FILE", Short: "draw a counterexample as a sequence diagram in the terminal", Args: oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := model.open(a, c, args[0], true)
			if err != nil {
				return err
			}
			v, _ := s.Judge()
			_, err = fmt.Fprint(a.out, sequence.Text(sequence.ForVerdict(s.History, v), display.Width(a.out)))
			return err
		}}
	model.addFlags(c)
	return c
}

func replayCmd(a *app) *cobra.Command {
	return &cobra.Command{Use: "replay DIR", Short: "rerun a stored run; in the simulation, compare the histories byte by byte", Args: oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.openRun(args[0])
			if err != nil {
				return err
			}
			if s.Manifest == nil {
				return usageError(errors.New("a history alone can't be rerun"), "name the run directory, which contains run.json")
			}
			if err := checkReplayable(s.Manifest); err != nil {
				return err
			}
			a.waitForCleanup() // probing creates processes and containers, as a run does
			return a.replay(c.Context(), s)
		}}
}

func (a *app) replay(ctx context.Context, s campaign.StoredRun) (err error) {
	m := s.Manifest
	b, err := backend(m.Backend, docker.Config{})
	if err != nil {
		return err
	}
	if c, ok := b.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	if missing := campaign.Probe(ctx, b).Missing(m.Scenario, kinds.All); len(missing) > 0 {
		return backendError(fmt.Errorf("%s can't run this here: %s", b.Name(), campaign.MissingReasons(missing)), missing[0].Remedy)
	}
	if err := prepare(ctx, b, []scenario.Scenario{m.Scenario}, a.errOut); err != nil {
		return err
	}
	dir, err := proc.MakeDir(os.TempDir())
	if err != nil {
		return backendError(fmt.Errorf("create a directory for the run: %w", err), files.Remedy(err, files.TempDirHint))
	}
	defer os.RemoveAll(dir)
	j := campaign.Job{Scenario: m.Scenario, Seed: m.Seed, Backend: m.Backend, Store: dir, Keep: campaign.KeepAll, Version: version(), Command: m.Command}
	if m.Backend == simulation {
		return a.replaySim(ctx, s, j)
	}
	o := campaign.Execute(ctx, b, j)
	if o.Error != "" {
		return backendError(errors.New(o.Error), cmp.Or(o.Hint, "see lockpick doctor"))
	}
	a.code = outcome.WorseCode(a.code, o.Code)
	a.printVerdict(o.Verdict, o.Judgements)
	return nil
}

func (a *app) replaySim(ctx context.Context, s campaign.StoredRun, j campaign.Job) (err error) {
	newWorkerPool(defaultTimeout, os.TempDir()).Run(ctx, 1, func(int) campaign.Job { return j }, func(_ int, o outcome.Outcome) {
		if o.Error != "" {
			err = &failure{err: errors.New(o.Error), code: o.Code, hint: cmp.Or(o.Hint, "see lockpick help exit-codes")}
			return
		}
		var replayed []byte
		if replayed, err = campaign.HistoryText(o.Dir); err == nil {
			err = a.compareHistories(s, replayed)
		}
	})
	return err
}

// compareHistories compares a replayed history with the stored one, which may be truncated.
func (a *app) compareHistories(s campaign.StoredRun, replayedText []byte) error {
	storedText, err := campaign.HistoryText(s.Dir)
	if err != nil {
		return usageError(fmt.Errorf("read history: %w", err), "name a run directory")
	}
	if bytes.Equal(storedText, replayedText) {
		fmt.Fprintf(a.out, "the same history, byte for byte: %d events\n", len(s.History.Events))
		return nil
	}
	if bytes.HasPrefix(replayedText, storedText) && !s.History.HasEnd() {
		a.code = outcome.WorseCode(a.code, outcome.ExitUndecided)
		fmt.Fprintf(a.out, "inconclusive: all %d stored lines are the same, but the record is truncated\n", bytes.Count(storedText, []byte("\n")))
		return nil
	}
	storedLines, replayedLines := bytes.Split(storedText, []byte("\n")), bytes.Split(replayedText, []byte("\n"))
	n := 0
	for n < min(len(storedLines), len(replayedLines)) && bytes.Equal(storedLines[n], replayedLines[n]) {
		n++
	}
	a.code = outcome.WorseCode(a.code, outcome.ExitUnexpected)
	fmt.Fprintf(a.out, "the histories differ from line %d on:\n  stored:   %s\n  replayed: %s\n", n+1, lineAt(storedLines, n), lineAt(replayedLines, n))
	if s.Manifest.Version != version() {
		fmt.Fprintf(a.out, "lockpick %s made the stored run, and this is lockpick %s\n", s.Manifest.Version, version())
	}
	return nil
}

func lineAt(lines [][]byte, n int) string {
	if n < len(lines) {
		if len(lines[n]) == 0 {
			return "(the end)"
		}
		return string(lines[n][:min(len(lines[n]), 500)])
	}
	return "(no more lines)"
}

// rerunCommand returns the command that reruns a scenario, quoted for a POSIX shell.
func (f *runFlags) rerunCommand(p pick, seed uint64) string {
	return fmt.Sprintf("lockpick run %s --seed %d", quote(p.ExactName()), seed) + f.overrideFlags()
}

// overrideFlags returns the flags that set the backend, the lock, the settings and the expectations,
// as the user gave them.
func (f *runFlags) overrideFlags() string {
	s := f.selection()
	return overrideFlags(&s, f.clientBinary, f.adapterImage)
}

// pickCommand returns the command that reruns one scenario of a selection.
func pickCommand(s *campaign.Selection, p pick, seed uint64) string {
	return fmt.Sprintf("lockpick run %s --seed %d", quote(p.ExactName()), seed) + overrideFlags(s, "", "")
}

func overrideFlags(f *campaign.Selection, client, image string) (c string) {
	if f.Backend != simulation {
		c += " --backend " + f.Backend
	}
	if client != "" {
		c += " --client-binary " + quote(client)
	}
	if f.Scale > 0 {
		c += fmt.Sprintf(" --scale %g", f.Scale)
	}
	switch {
	case f.Adapter != "":
		c += " --adapter " + quote(f.Adapter)
		if image != "" {
			c += " --adapter-image " + quote(image)
		}
		for _, s := range f.Options() { // options of a kind are part of --lock
			c += " --set " + quote(s)
		}
	case f.Lock != "":
		c += " --lock " + quote(f.Lock)
	}
	if f.Nodes > 0 {
		c += fmt.Sprintf(" --nodes %d", f.Nodes)
	}
	for _, s := range f.Overrides {
		c += " --set " + quote(s)
	}
	for _, e := range f.Expectations {
		c += " --expect " + quote(e)
	}
	return c
}

func quote(s string) string { return display.ShellQuote(s) }

func reportCmd(a *app) *cobra.Command {
	model := &jepsenModel{}
	c := &cobra.Command{Use: "report [DIR|FILE]", Short: "regenerate the reports of a run or a suite (the latest suite if none is named)",
		Long: `Regenerate reports and print the path of the page.

For a run directory or a history.jsonl, check it again and rewrite all its reports. The
reports of a single FILE go to the folder FILE.report. The exit code only says whether
the reports could be written; that of lockpick check gives the verdict. lockpick check
--help explains --model and --ttl.

For a suite's directory, or the latest suite, rewrite suite.html and suite.md from the
outcomes in the suite's outcome.json. The runs are not checked again.`,
		Example: `  lockpick report store/gc-pause-after-acquire/latest
  lockpick report history.jsonl
  lockpick report
  lockpick report store/suites/latest`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(fmt.Errorf("%s takes at most one argument, got %d", c.CommandPath(), len(args)), "see "+c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			path := ""
			if len(args) > 0 {
				path = args[0]
			}
			if _, err := model.resolveModel(c, path); err != nil {
				return err
			}
			if path != "" && isRun(path) {
				s, err := model.open(a, c, path, true)
				if err != nil {
					return err
				}
				return a.reportRun(s)
			}
			return a.reportSuite(path)
		}}
	model.addFlags(c)
	return c
}

// isRun reports whether path is a run and not a suite: a file, or a directory with a history or a
// manifest.
func isRun(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return err == nil
	}
	return campaign.IsRun(path)
}

// reportRun rewrites the reports of a stored run.
func (a *app) reportRun(s campaign.StoredRun) error {
	dir, err := renderReports(s, true)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, filepath.Join(dir, reports.PageFile))
	return nil
}

// maxRenderedEvents limits the size of runs whose reports serve renders. It is twice the number of events
// in the catalog's longest run, which takes seconds to render.
const maxRenderedEvents = 50_000

// renderStored renders a run's reports when a browser requests the page, without printing anything.
func renderStored(dir string) error {
	s, err := campaign.OpenStored(dir, storedNames())
	if err != nil {
		return err
	}
	if n := len(s.History.Events); n > maxRenderedEvents {
		return fmt.Errorf("the run has %d events, too many to render its reports on request (the limit is %d); run lockpick report %s", n, maxRenderedEvents, quote(dir))
	}
	_, err = renderReports(s, false)
	return err
}

// renderReports writes a stored run's reports, with or without images, and returns their folder.
func renderReports(s campaign.StoredRun, images bool) (dir string, err error) {
	dir = s.Dir
	if s.Manifest == nil { // a single file: don't overwrite files next to it, such as history.edn
		dir += ".report"
		folder, err := files.MakeFolder(dir)
		if err != nil {
			return "", writeError(err, "copy the history to a writable folder")
		}
		folder.Close()
	}
	if err := files.Unfinished.SweepTree(dir, func(path string) bool { return path == reports.FigureDir }); err != nil {
		return "", backendError(err, "remove it by hand, or copy the history to a writable folder")
	}
	r := s.Run()
	if err = reports.Write(dir, r); err == nil && images {
		err = reports.WriteImages(dir, r)
	}
	if err != nil {
		return "", writeError(err, "free disk space, or copy the history to a writable folder")
	}
	return dir, nil
}

// writeError adds a hint to an error that occurred while writing reports. A link or device in a
// file's place is a usage error: the directory is at fault, not the machine.
func writeError(err error, hint string) error {
	if _, ok := errors.AsType[*files.InvalidFileError](err); ok {
		return usageError(err, "if you did not create this link or special file, remove it")
	}
	return backendError(err, hint)
}

// reportSuite redraws a suite from its outcome.json without checking its runs. If dir is "", it
// redraws the latest suite in the store.
func (a *app) reportSuite(dir string) error {
	store := defaultStore()
	if dir == "" {
		dirs := suites.SuiteDirs(store)
		if len(dirs) == 0 {
			return usageError(fmt.Errorf("no suite in %s", store),
				"run several scenarios first, name a run directory, or set LOCKPICK_STORE")
		}
		dir = dirs[0]
	}
	if err := rejectRunFolder(dir); err != nil {
		return err
	}
	s, err := suites.Rerender(dir)
	if err != nil {
		return usageError(err, "name the directory of a suite, as in "+filepath.Join(store, suites.Folder, "latest"))
	}
	_, err = fmt.Fprintf(a.out, "%s\nreport: %s (rendered from stored outcomes)\n", s.Headline(), filepath.Join(dir, suites.PageFile))
	return errors.Join(err, suites.Index(s.Store))
}

// jepsenModel is the model for checking a history from Jepsen, as set by flags.
type jepsenModel struct{ campaign.Model }

func (f *jepsenModel) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.Name, "model", "", "model of the lock in FILE.edn: "+strings.Join(campaign.Models(), ", ")+"\n(default: handle, or lease with --ttl)")
	c.Flags().DurationVar(&f.TTL, "ttl", 0, "length of a lease in FILE.edn, from the call of its acquire")
}

// resolveModel sets the default model and rejects flags that don't apply to path. It reports whether
// path is a history from Jepsen. A directory or missing file is not, as for campaign.OpenStored.
func (f *jepsenModel) resolveModel(c *cobra.Command, path string) (jepsen bool, err error) {
	info, err := os.Stat(path)
	jepsen = err == nil && !info.IsDir() && filepath.Ext(path) == ".edn"
	ttlGiven := c.Flags().Changed("ttl")
	switch {
	case c.Flags().Changed("model"):
	case ttlGiven:
		f.Name = campaign.Lease
	default:
		f.Name = campaign.Handle
	}
	switch {
	case !slices.Contains(campaign.Models(), f.Name):
		return jepsen, usageError(fmt.Errorf("unknown model %q", f.Name), "use one of "+strings.Join(campaign.Models(), ", ")+"; see lockpick check --help")
	case ttlGiven && f.TTL <= 0:
		return jepsen, usageError(fmt.Errorf("--ttl %v is not positive", f.TTL), "use the TTL of the lock, as in --ttl 10s")
	case ttlGiven && f.Name != campaign.Lease:
		return jepsen, usageError(fmt.Errorf("--ttl doesn't apply to --model %s, which has no leases", f.Name), "leave out one of them, or use --model lease")
	case !jepsen && (err == nil || path == "") && (ttlGiven || c.Flags().Changed("model")):
		return jepsen, usageError(errors.New("--model and --ttl apply only to a history.edn from Jepsen"), "leave them out: lockpick's own histories contain the TTL")
	}
	return jepsen, nil
}

// open reads a stored run, or a history from Jepsen under the model. If forDrawing is set, the model
// must have holders.
func (f *jepsenModel) open(a *app, c *cobra.Command, path string, forDrawing bool) (s campaign.StoredRun, err error) {
	jepsen, err := f.resolveModel(c, path)
	switch {
	case err != nil:
		return s, err
	case !jepsen:
		return a.openRun(path)
	case forDrawing && !f.HasHandles():
		return s, usageError(fmt.Errorf("--model %s has no holders to draw", f.Name), "use "+campaign.Handle+" or "+campaign.Lease+"; lockpick check supports "+f.Name)
	}
	return a.printNotes(campaign.OpenJepsen(path, f.Model))
}
