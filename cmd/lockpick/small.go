package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"lockpick/harness/scenario"
	"lockpick/reports/display"
	scorepage "lockpick/reports/suites"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// small is a scenario that was made small, and where it is kept.
type small struct {
	campaign.Minimized
	File    string       `json:"file"`
	Dir     string       `json:"dir"` // of its run
	Command string       `json:"command"`
	Try     *outcome.Try `json:"try,omitempty"` // nil: it was not tried elsewhere
}

// keep leaves a small scenario in a file that is named, or else in the store, and runs that
// file, so that its run is there with its reports.
func (c *crew) keep(ctx context.Context, r campaign.Minimized, name, store, file string) (*small, error) {
	text, err := r.Write(name, known())
	if err != nil {
		return nil, err
	}
	k := &small{Minimized: r, File: file}
	if file == "" {
		k.File = filepath.Join(store, shrunkFolder, name+".yaml")
	}
	written, err := scenario.Parse(k.File, text, known())
	if err != nil {
		return nil, err
	}
	k.Command = fmt.Sprintf("lockpick run %s --seed %d", quoted(k.File), r.Seed)
	o, err := c.kept(ctx, written[0], r.Seed, k.File, text, store, k.Command)
	if err != nil {
		return nil, err
	}
	if o.Code != outcome.ExitOK && ctx.Err() == nil {
		return nil, &failure{err: fmt.Errorf("%s does not show %s when it is run: %s", k.File, r.Bug, display.FirstLine(o.Error)), code: outcome.ExitBug, hint: "this is a bug in lockpick"}
	}
	k.Dir = o.Dir
	return k, ctx.Err()
}

// shrunkName is what a small scenario is called: by where it comes from and what it shows.
func shrunkName(r campaign.Minimized) string {
	l := r.Scenario.Lock
	parts := []string{strings.ReplaceAll(r.From, "/", "-")}
	switch {
	case l.Mistake != "":
		parts = append(parts, l.Mistake)
	case l.Kind != "redlock":
		parts = append(parts, l.Kind)
	}
	if r.Cause == "" {
		r.Cause = r.Property
	}
	name := strings.Join(append(parts, r.Cause), "-")
	return strings.TrimRight(name[:min(len(name), 64)], "-")
}

func (k *small) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n", strings.TrimRight(k.Caption(), "\n"))
	if k.Try != nil {
		fmt.Fprintln(w, scorepage.CardTries(k.Try))
	}
	fmt.Fprintf(w, "\n    scenario:  %s\n    record:    %s\n    run again: %s\n", k.File, k.Dir, k.Command)
}

// on runs the small scenario on another backend, until it violates the same property there.
func (k *small) on(ctx context.Context, a *app, s *stage, f *runFlags) *outcome.Try {
	t := &outcome.Try{Backend: s.Name(), State: outcome.CannotRun}
	p := []pick{{Found: scenarios.Found{Scenario: k.Scenario, From: k.File}}}
	there := &runFlags{backend: s.Name(), seed: k.Seed, seeds: 1, jobs: 1, store: f.store, patience: f.patience, expects: []string{k.Property + "=violated"}}
	fail := func(why string) *outcome.Try {
		t.Why = display.FirstLine(why)
		return t
	}
	if err := there.expect(p); err != nil {
		return fail(err.Error())
	}
	if err := there.scaleAll(p); err != nil {
		return fail(err.Error())
	}
	if lacks := s.able.missing(p[0].Scenario); len(lacks) > 0 {
		return fail(reasons(lacks))
	}
	if err := prepare(ctx, s, p, a.errs); err != nil {
		return fail(err.Error())
	}
	tried, _ := s.try(ctx, there.job(p[0], 0), k.Property)
	return &tried
}
