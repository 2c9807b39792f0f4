package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/harness"
	"lockpick/reports/display"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// shardHead returns the header of the shard's file.
func (r *report) head(chosen []pick) (campaign.ShardHead, error) {
	f := r.flags
	k, n, err := campaign.ParseShard(f.shard)
	if err != nil {
		return campaign.ShardHead{}, usageError(fmt.Errorf("--shard: %w", err), fmt.Sprintf("use K/N with N at most %d, as in --shard 3/8 or --shard $SLURM_ARRAY_TASK_ID/8; see lockpick help shards", campaign.MaxShards))
	}
	return campaign.ShardHead{Shard: k, Shards: n, Version: version(), Backend: f.backend, Seed: f.seed, Seeds: f.seeds,
		Command: r.suite.Command, Named: f.named, Sets: f.sets, Skipped: r.skipped, Scenarios: chosen}, nil
}

// runShard runs a shard and records its outcomes, which only merge evaluates: the exit code does not
// depend on them.
func (r *report) record(ctx context.Context, b harness.Backend, chosen []pick) error {
	f := r.flags
	h, err := r.head(chosen)
	if err != nil {
		return err
	}
	r.total, r.suite.Counts = h.Runs(), map[string]int{}
	r.live = &display.Progress{W: r.errs, Mu: &r.mu, Started: r.started, Text: r.progress}
	stop := r.live.Start()
	job := func(j int) campaign.Job { i := h.Run(j); return f.job(chosen[i/f.seeds], i%f.seeds) }
	path, err := campaign.WriteShard(f.store, h, func(done func(int, outcome.Outcome)) error {
		f.each(ctx, ctx, b, r.total, job, func(j int, o outcome.Outcome) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ended++
			r.suite.Counts[o.State()]++
			done(j, o)
		})
		return ctx.Err()
	})
	stop()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(r.errs, "interrupted after %d of %d runs: the shard was not recorded\n", r.ended, r.total)
		return ctx.Err()
	case err != nil:
		return storeError(err)
	}
	if err := suites.Index(f.store); err != nil {
		return storeError(err)
	}
	fmt.Fprintf(r.out, "shard %d of %d: %d of %d runs on %s: %s\nrecorded: %s\n", h.Shard, h.Shards, r.ended, len(chosen)*f.seeds, f.backend,
		strings.Join(outcome.DescribeCounts(r.suite.Counts), ", "), path)
	return nil
}

func mergeCmd(a *app) *cobra.Command {
	f := &runFlags{}
	missing := false
	c := &cobra.Command{
		Use:   "merge DIR…",
		Short: "combine the results of a sharded run",
		Long: `Combine the shards that "lockpick run --shard" recorded. DIR is a store, a folder of
stores, or a shard's file. The output and the exit code are the same as if one machine
had made all runs.

Shards of different sweeps or versions, duplicate shards and truncated files are errors
(64). So are missing shards (2).`,
		Example: `  lockpick merge results
  lockpick merge --json store-1 store-2
  sbatch --array=$(lockpick merge --missing results) sweep.sh`,
		RunE: func(c *cobra.Command, args []string) error { return a.mergeShards(c.Context(), f, missing, args) },
	}
	fs := c.Flags()
	fs.BoolVar(&missing, "missing", false, "print only the numbers of the missing shards, as in 3,7")
	storeFlag(c, &f.store, "the combined suite")
	outcomeFlags(c, f)
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print a line for every run or scenario, not only for unexpected ones")
	return c
}

func (a *app) mergeShards(ctx context.Context, f *runFlags, missing bool, from []string) error {
	s, err := campaign.ReadShards(ctx, from...)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return usageError(fmt.Errorf("merge: %w", err), "name stores or shard files of a single sweep; see lockpick help shards")
	case missing:
		_, err := fmt.Fprint(a.out, shardList(s.Missing()))
		return err
	}
	return a.merge(ctx, f, s)
}

// shardList formats shard numbers for a job scheduler, one line as in 3,7, or "" if there are none.
func shardList(ks []int) string {
	if len(ks) == 0 {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ks), "[]"), " ", ",") + "\n"
}

// merge reports a sweep as if this process had made its runs.
func (a *app) merge(ctx context.Context, f *runFlags, s *campaign.Sweep) error {
	if ks := s.Missing(); len(ks) > 0 {
		return &failure{err: fmt.Errorf("merge: %d of %d shards are missing: %s", len(ks), s.Shards, strings.TrimSpace(shardList(ks))), code: outcome.ExitUndecided,
			hint: fmt.Sprintf("run them, as in %s --shard %d/%d", s.Command, ks[0], s.Shards)}
	}
	if err := f.checkVerbosity(); err != nil {
		return err
	}
	if err := campaign.CanWrite(f.store); err != nil {
		return storeError(err)
	}
	ci, err := newCI(f.junit)
	if err != nil {
		return err
	}
	f.backend, f.seed, f.seeds, f.sets, f.named = s.Backend, s.Seed, s.Seeds, s.Sets, s.Named
	r := newReport(a, f, ci, s.Scenarios, nil)
	r.total, r.skipped, r.suite.Command, r.suite.Version = s.Total(), s.Skipped, s.Command, s.Version
	r.compared = campaign.VariantComparer{Scenarios: s.Scenarios, Seeds: s.Seeds}
	if err := s.Each(ctx, r.done); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return usageError(fmt.Errorf("merge: %w", err), "run that shard again")
	}
	return r.finish(ctx)
}

// rerunExamples repeats the simulated runs that the suite names as examples, to store them and their
// reports: the same seed gives the same run. Runs on other backends are stored already.
func (r *report) rerunExamples(ctx context.Context, chosen []pick) {
	if r.flags.seeds == 1 || r.flags.backend != simulation {
		return
	}
	var jobs []campaign.Job
	for _, c := range r.suite.Scenarios {
		i := slices.IndexFunc(chosen, func(p pick) bool { return p.ID() == c.ID() })
		for _, seed := range c.Examples() {
			j := r.flags.job(chosen[i], int(seed-r.flags.seed))
			j.Keep = campaign.KeepAll
			if r.flags.reports != reportsNone {
				j.Reports = campaign.KeepAll
			}
			jobs = append(jobs, j)
		}
	}
	r.mu.Lock()
	r.examplesTotal, r.ci.exampleDirs = len(jobs), map[string]string{}
	r.mu.Unlock()
	workers(r.flags.patience, r.flags.store).Run(ctx, len(jobs), func(i int) campaign.Job { return jobs[i] }, func(_ int, o outcome.Outcome) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.examplesStored++
		r.suite.SetRunDir(o)
		r.ci.exampleDirs[o.Command] = o.Dir
	})
}
