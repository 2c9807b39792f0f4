package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/internal/files"
	"lockpick/reports"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

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
				s, err := theirs.open(a, c, path)
				if err != nil {
					return err
				}
				return a.reportRun(s, theirs.verdict(s.History))
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

// reportRun writes the reports of a stored run anew, by a verdict.
func (a *app) reportRun(s campaign.Stored, v checker.Verdict) error {
	dir, err := draw(s, v, true)
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
	_, err = draw(s, checker.Check(s.History), false)
	return err
}

// draw draws the reports of a stored run, with images or without, and says where.
func draw(s campaign.Stored, v checker.Verdict, images bool) (dir string, err error) {
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
	r := outcome.Run{Manifest: s.Manifest, History: s.History, Verdict: v, Outcome: rejudged(s, v)}
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

// rejudged is what comes of a stored run now, with what only its outcome.json knows:
// the tries before it.
func rejudged(s campaign.Stored, v checker.Verdict) outcome.Outcome {
	p := s.History.Params
	o := outcome.Outcome{Schema: 1, Scenario: p.Scenario, Backend: p.Backend, Seed: p.Seed, Verdict: v, Judgements: campaign.JudgeStored(s, v)}
	if p.Variant != "" {
		o.Scenario += "/" + p.Variant
	}
	if n := len(s.History.Events); n > 0 {
		o.Events, o.Virtual = n, history.Seconds(s.History.Events[n-1].T)
	}
	before, err := campaign.ReadOutcome(s.Dir)
	if err == nil { // a run that was interrupted has none
		o.Retried, o.Command, o.Error, o.Stopped, o.Numbers = before.Retried, before.Command, before.Error, before.Stopped, before.Numbers
		o.Seconds = before.Seconds
	}
	if s.Manifest != nil {
		o.Command = cmp.Or(o.Command, s.Manifest.Command)
	}
	o.Code, o.NothingExpected = outcome.CodeOf(o.Judgements), outcome.NoExpectation(o.Judgements)
	if before.Error != "" {
		o.Code = outcome.Worse(o.Code, before.Code)
	}
	if v.Disagreement != "" {
		o.Code = outcome.ExitBug
	}
	return o
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
