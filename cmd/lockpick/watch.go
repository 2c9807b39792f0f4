package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

// watchEvery is how often the files are looked at.
const watchEvery = 300 * time.Millisecond

// watch runs scenarios, and again each time that a file of theirs is saved, until it is
// interrupted. What is wrong with a file while it is edited ends nothing.
func (a *app) watch(ctx context.Context, f *runFlags, args []string) error {
	var watched []string
	for _, name := range args {
		if path, _, ok := scenarios.File(name); ok {
			watched = append(watched, path)
		}
	}
	if len(watched) == 0 {
		return usage(errors.New("--watch names no file"), "as in lockpick run --watch mine.yaml; lockpick show NAME > mine.yaml makes one")
	}
	a.tidies()
	for {
		before := saved(watched)
		if err := a.run(ctx, f, args); err != nil && ctx.Err() == nil {
			a.complain(err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.code = outcome.ExitOK // of the run that is over
		fmt.Fprintf(a.errs, "waiting for a change of %s; Ctrl-C ends\n", watched[0])
		if err := changed(ctx, watched, before); err != nil {
			return err
		}
	}
}

// stamp is what changes of a file where it is saved.
type stamp struct {
	modified time.Time
	size     int64
	gone     bool // an editor may be putting another in its place
}

func saved(paths []string) []stamp {
	var out []stamp
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			out = append(out, stamp{gone: true})
			continue
		}
		out = append(out, stamp{modified: info.ModTime(), size: info.Size()})
	}
	return out
}

// changed waits until a file is another than before, and all are there.
func changed(ctx context.Context, paths []string, before []stamp) error {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		now := saved(paths)
		if !slices.Equal(now, before) && !slices.ContainsFunc(now, func(s stamp) bool { return s.gone }) {
			return nil
		}
	}
}
