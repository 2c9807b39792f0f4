package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"lockpick/checker"
	"lockpick/harness/files"
	"lockpick/harness/history"
	"lockpick/harness/owned"
	"lockpick/reports"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

// reportRun judges a stored run again and writes its reports anew.
func (a *app) reportRun(path string) error {
	s, err := a.open(path)
	if err != nil {
		return err
	}
	v := checker.Check(s.History)
	dir := s.Dir
	if s.Manifest == nil { // there may be a history.edn beside it that is not ours
		dir += ".report"
		beside, err := files.MakeFolder(dir)
		if err != nil {
			return unwritable(err, "copy the history to where one may write")
		}
		beside.Close()
	}
	if _, err := owned.Unfinished.SweepTree(dir, func(path string) bool { return path == reports.FigureDir }); err != nil {
		return unable(err, "remove it by hand, or copy the history to where one may write")
	}
	r := outcome.Run{Manifest: s.Manifest, History: s.History, Verdict: v, Outcome: rejudged(s, v)}
	if err := reports.Write(dir, r); err != nil {
		return unwritable(err, "make room there, or copy the history to where one may write")
	}
	if err := reports.WriteImages(dir, r); err != nil {
		return unwritable(err, "make room there, or copy the history to where one may write")
	}
	fmt.Fprintln(a.out, filepath.Join(dir, reports.PageFile))
	return nil
}

// unwritable is an error in writing reports: where something stands in the way that
// leads elsewhere, the directory is wrong, not the machine.
func unwritable(err error, hint string) error {
	var unfit *files.Unfit
	if errors.As(err, &unfit) {
		return usage(err, "remove it, if it is not yours")
	}
	return unable(err, hint)
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
