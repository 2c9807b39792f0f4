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
func (r *report) shardHead(picks []pick) (campaign.ShardHeader, error) {
	f := r.flags
	k, n, err := campaign.ParseShard(f.shard)
	if err != nil {
		return campaign.ShardHeader{}, usageError(fmt.Errorf("--shard: %w", err), fmt.Sprintf("use K/N with N at most %d, as in --shard 3/8 or --shard $SLURM_ARRAY_TASK_ID/8; see lockpick help shards", campaign.MaxShards))
	}
	return campaign.ShardHeader{Shard: k, Shards: n, Version: version(), Backend: f.backend, Seed: f.seed, Seeds: f.seeds,
		Command: r.suite.Command, Named: f.named, Overrides: f.settings, Skipped: r.skippedOutcomes, Scenarios: picks}, nil
}

// runShard runs a shard and records its outcomes, which only merge evaluates: the exit code does not
// depend on them.
func (r *report) runShard(ctx context.Context, b harness.Backend, picks []pick) error {
	f := r.flags
	h, err := r.shardHead(picks)
	if err != nil {
		return err
	}
	r.numRuns, r.suite.Counts = h.Runs(), map[string]int{}
	r.progress = &display.Progress{W: r.errOut, Mu: &r.mu, StartTime: r.startTime, Text: r.progressText}
	stop := r.progress.Start()
	job := func(j int) campaign.Job { i := h.RunIndex(j); return f.job(picks[i/f.seeds], i%f.seeds) }
	path, err := campaign.WriteShard(f.store, h, func(done func(int, outcome.Outcome)) error {
		f.runJobs(ctx, ctx, b, r.numRuns, job, func(j int, o outcome.Outcome) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.numEnded++
			r.suite.Counts[o.State()]++
			done(j, o)
		})
		return ctx.Err()
	})
	stop()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(r.errOut, "interrupted after %d of %d runs: the shard was not recorded\n", r.numEnded, r.numRuns)
		return ctx.Err()
	case err != nil:
		return storeError(err)
	}
	if err := suites.Index(f.store); err != nil {
		return storeError(err)
	}
	fmt.Fprintf(r.out, "shard %d of %d: %d of %d runs on %s: %s\nrecorded: %s\n", h.Shard, h.Shards, r.numEnded, len(picks)*f.seeds, f.backend,
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
	addStoreFlag(c, &f.store, "the combined suite")
	addOutcomeFlags(c, f)
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print a line for every run or scenario, not only for unexpected ones")
	return c
}

func (a *app) mergeShards(ctx context.Context, f *runFlags, missing bool, paths []string) error {
	s, err := campaign.ReadShards(ctx, paths...)
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
func shardList(shards []int) string {
	if len(shards) == 0 {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shards), "[]"), " ", ",") + "\n"
}

// merge reports a sweep as if this process had made its runs.
func (a *app) merge(ctx context.Context, f *runFlags, s *campaign.Sweep) error {
	if missingShards := s.Missing(); len(missingShards) > 0 {
		return &failure{err: fmt.Errorf("merge: %d of %d shards are missing: %s", len(missingShards), s.Shards, strings.TrimSpace(shardList(missingShards))), code: outcome.ExitUndecided,
			hint: fmt.Sprintf("run them, as in %s --shard %d/%d", s.Command, missingShards[0], s.Shards)}
	}
	if err := f.checkVerbosity(); err != nil {
		return err
	}
	if err := campaign.CanWrite(f.store); err != nil {
		return storeError(err)
	}
	ci, err := newCI(f.junitFile)
	if err != nil {
		return err
	}
	f.backend, f.seed, f.seeds, f.settings, f.named = s.Backend, s.Seed, s.Seeds, s.Overrides, s.Named
	r := newReport(a, f, ci, s.Scenarios, nil)
	r.numRuns, r.skippedOutcomes, r.suite.Command, r.suite.Version = s.Total(), s.Skipped, s.Command, s.Version
	r.comparer = campaign.VariantComparer{Scenarios: s.Scenarios, Seeds: s.Seeds}
	if err := s.Each(ctx, r.addOutcome); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return usageError(fmt.Errorf("merge: %w", err), "run that shard again")
	}
	return r.finish(ctx)
}

// rerunExamples repeats the simulated runs that the suite names as examples, to store them and their
// reports: the same seed gives the same run. Runs on other backends are stored already.
func (r *report) rerunExamples(ctx context.Context, picks []pick) {
	if r.flags.seeds == 1 || r.flags.backend != simulation {
		return
	}
	var jobs []campaign.Job
	for _, c := range r.suite.Scenarios {
		i := slices.IndexFunc(picks, func(p pick) bool { return p.ID() == c.ID() })
		for _, seed := range c.Examples() {
			j := r.flags.job(picks[i], int(seed-r.flags.seed))
			j.Keep = campaign.KeepAll
			if r.flags.reportMode != reportsNone {
				j.Reports = campaign.KeepAll
			}
			jobs = append(jobs, j)
		}
	}
	r.mu.Lock()
	r.numExamples, r.ci.exampleDirs = len(jobs), map[string]string{}
	r.mu.Unlock()
	newWorkerPool(r.flags.timeout, r.flags.store).Run(ctx, len(jobs), func(i int) campaign.Job { return jobs[i] }, func(_ int, o outcome.Outcome) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.numStoredExamples++
		r.suite.SetRunDir(o)
		r.ci.exampleDirs[o.Command] = o.Dir
	})
}
