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
	"lockpick/reports"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

func (a *app) reportCmd() *cobra.Command {
	return &cobra.Command{Use: "report DIR|FILE", Short: "draw a stored run's reports again, for people and machines",
		Long: `Judge a run directory again and write its reports anew; those of a bare FILE go to the
folder FILE.report. It prints the path of report.html, a page for a browser that needs no
network. The exit code says whether it could be drawn; lockpick check judges.`,
		Example: `  lockpick report store/gc-pause-after-acquire/latest
  lockpick report history.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(errors.New("report draws one run"), "name a run directory of the store, such as store/baseline/latest, or a history.jsonl")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.open(args[0])
			if err != nil {
				return err
			}
			v := checker.Check(s.History)
			dir := s.Dir
			if s.Manifest == nil { // there may be a history.edn beside it that is not ours
				dir += ".report"
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return unable(err, "copy the history to where one may write")
				}
			}
			r := outcome.Run{Manifest: s.Manifest, History: s.History, Verdict: v, Outcome: rejudged(s, v)}
			if err := reports.Write(dir, r); err != nil {
				return unable(err, "make room there, or copy the history to where one may write")
			}
			fmt.Fprintln(a.out, filepath.Join(dir, reports.PageFile))
			return nil
		}}
}

// rejudged is what comes of a stored run now, with what only its outcome.json knows:
// the tries before it.
func rejudged(s suite.Stored, v checker.Verdict) outcome.Outcome {
	p := s.History.Params
	o := outcome.Outcome{Schema: 1, Scenario: p.Scenario, Backend: p.Backend, Seed: p.Seed, Verdict: v, Judgements: suite.JudgeStored(s, v)}
	if p.Variant != "" {
		o.Scenario += "/" + p.Variant
	}
	if n := len(s.History.Events); n > 0 {
		o.Events, o.Virtual = n, history.Seconds(s.History.Events[n-1].T)
	}
	before, err := suite.ReadOutcome(s.Dir)
	if err == nil { // a run that was interrupted has none
		o.Retried, o.Command, o.Error, o.Stopped, o.Numbers = before.Retried, before.Command, before.Error, before.Stopped, before.Numbers
		o.Seconds = before.Seconds
	}
	if s.Manifest != nil {
		o.Command = cmp.Or(o.Command, s.Manifest.Command)
	}
	o.Code = outcome.CodeOf(o.Judgements)
	if before.Error != "" {
		o.Code = outcome.Worse(o.Code, before.Code)
	}
	if v.Disagreement != "" {
		o.Code = outcome.ExitBug
	}
	return o
}
