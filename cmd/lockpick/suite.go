package main

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"lockpick/checker"
	"lockpick/reports"
	"lockpick/reports/suites"
)

// suiteOf announces what is going to be run, so that what does not come of it is
// told, too.
func (f *runFlags) suiteOf(chosen []pick, names []string, started time.Time) *suites.Suite {
	s := &suites.Suite{Backend: f.backend, Seed: f.seed, Seeds: f.seeds, Started: started.UTC(), Command: f.all(names), Version: version(),
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Sets: f.sets, Store: f.store}
	for _, p := range chosen {
		c := &suites.Scenario{Name: p.Name, Variant: p.Variant, Claim: p.Claim, Source: p.Source, Tags: p.Tags}
		for _, property := range checker.Properties() {
			if e, ok := p.Expect[property]; ok && e.Follows == "" {
				c.Expect = append(c.Expect, property+" "+e.String())
			}
		}
		s.Scenarios = append(s.Scenarios, c)
	}
	return s
}

// all is the command that runs the whole suite again.
func (f *runFlags) all(names []string) string {
	c := "lockpick run"
	for _, n := range names {
		c += " " + quoted(n)
	}
	for _, t := range f.tags {
		c += " --tag " + quoted(t)
	}
	c += fmt.Sprintf(" --seed %d", f.seed)
	if f.seeds > 1 {
		c += fmt.Sprintf(" --seeds %d", f.seeds)
	}
	return c + f.overrides()
}

// keep writes the suite, if it is one, and the index of the store.
func (r *report) keep(interrupted bool) error {
	s := r.suite
	if len(s.Scenarios) > 1 || s.Seeds > 1 {
		s.Seconds, s.Code, s.Planned, s.Interrupted = time.Since(r.started).Seconds(), r.code, r.total, interrupted
		for _, o := range r.skipped {
			s.Add(o)
		}
		dir, err := suites.Write(s, suites.File{Name: reports.JUnitFile, Write: r.ci.junit.Write})
		if err != nil {
			return noStore(err)
		}
		r.page = dir + "/" + suites.PageFile
	} else if r.dir != "" {
		r.page = r.dir + "/" + reports.PageFile
	}
	if err := suites.Index(r.flags.store); err != nil {
		return noStore(err)
	}
	if r.flags.most == 0 {
		return nil
	}
	return gc(io.Discard, r.flags.store, suites.Bound{Newest: r.flags.most}, false)
}
