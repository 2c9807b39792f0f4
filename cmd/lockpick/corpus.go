package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// familiar is a scenario of the corpus: one that violated something once.
type familiar struct {
	campaign.Bug
	file    string
	shows   bool // it still does
	command string
}

// seeded is the end of a name in the corpus whose scenario is run with another seed than 1.
var seeded = regexp.MustCompile(`-seed-([0-9]+)$`)

// corpusName is what a small scenario is called in the corpus: by its lock and what it shows.
func corpusName(r campaign.Minimized) string {
	l := r.Scenario.Lock
	name := strings.Join([]string{cmp.Or(l.Mistake, l.Kind), r.Property, cmp.Or(r.Cause, "violated")}, "-")
	end := ""
	if r.Seed != 1 {
		end = fmt.Sprintf("-seed-%d", r.Seed)
	}
	return clipped(name, 64-len(end)) + end
}

// clipped is a name of at most so many characters, which no other is clipped to.
func clipped(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return fmt.Sprintf("%s-%x", strings.TrimRight(name[:most-9], "-"), sha256.Sum256([]byte(name)))[:most]
}

// corpus runs the scenarios of the corpus that are of the same lock, before anything else.
func (x *hunter) corpus(ctx context.Context) error {
	dir, err := files.OpenFolder(x.flags.corpus)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return usage(fmt.Errorf("open corpus: %w", err), "name another folder with --corpus")
	}
	defer dir.Close()
	entries, err := dir.Entries()
	if err != nil {
		return usage(fmt.Errorf("open corpus: %w", err), "name another folder with --corpus")
	}
	shown := 0
	for _, e := range entries {
		base, isYAML := strings.CutSuffix(e.Name(), ".yaml")
		if !isYAML || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(x.flags.corpus, e.Name())
		text, err := dir.Read(e.Name(), scenario.MaxFile)
		if err != nil {
			return usage(fmt.Errorf("read corpus: %w", err), "remove it, or name another folder with --corpus")
		}
		all, err := scenario.Parse(path, text, known())
		if err != nil {
			return usage(err, "")
		}
		if !x.sameLock(all[0].Lock) {
			continue
		}
		seed := uint64(1)
		if m := seeded.FindStringSubmatch(base); m != nil {
			seed, _ = strconv.ParseUint(m[1], 10, 64)
		}
		o := x.crew.run(ctx, all[0], seed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		k := familiar{file: path, shows: o.Code == outcome.ExitOK, command: fmt.Sprintf("lockpick run %s --seed %d", quoted(path), seed)}
		for property, e := range all[0].Expect {
			if e.Want == "violated" && e.Follows == "" {
				k.Bug = campaign.Bug{Property: property, Cause: e.Cause}
			}
		}
		if x.old = append(x.old, k); k.shows {
			shown++
		} else {
			fmt.Fprintf(x.errs, "corpus: %s shows nothing any more: %s\n", path, display.FirstLine(cmp.Or(o.Error, strings.Join(summary(o), "; "))))
		}
	}
	if len(x.old) > 0 {
		fmt.Fprintf(x.errs, "corpus: %d of %d show what they did\n", shown, len(x.old))
	}
	return nil
}

// sameLock says whether a scenario of the corpus is about a lock that is hunted.
func (x *hunter) sameLock(l lock.Settings) bool {
	return slices.ContainsFunc(x.picks, func(p pick) bool {
		return l.Kind == p.Lock.Kind && l.Mistake == p.Lock.Mistake && maps.Equal(l.Options, p.Lock.Options)
	})
}

// recognise settles a find that the corpus has.
func (x *hunter) recognise(f *campaign.FuzzFind) {
	for _, k := range x.old {
		if k.Bug == f.Bug && k.shows {
			f.Known, f.File, f.Command = true, k.file, k.command
		}
	}
}
