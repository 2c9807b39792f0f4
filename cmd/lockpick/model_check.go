package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"lockpick/harness/scenario"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/exhaust"
	"lockpick/scenarios/outcome"
)

type modelCheckFlags struct {
	exhaust.Scope
	restart, property, reduction, memory, lock string
	timeLimit                                  time.Duration
	store                                      string
	json, markdown                             bool
}

func modelCheckCmd(a *app) *cobra.Command {
	f := &modelCheckFlags{}
	c := &cobra.Command{
		Use:   "model-check",
		Short: "model-check Redlock exhaustively in a small scope",
		Long: `Search every order of messages, losses, pauses, expiries and faults for two clients that
hold the lock at once. The search explores an explicit-state model of Redlock with a few nodes
and attempts. The model is not the code; tests compare the two, case by case for the client
and request by request for the nodes.

--lock hardened is the lock that redlock.New creates, with tombstones, debts and grant counts
that start at the node's clock. --quarantine adds a part to it and --without removes one; both
imply --lock hardened. Unless --property is given, the search looks for the violation that the
missing part or the mistake can cause: left-keys without tombstones or debts, fencing-order
without counts from the clock or with a mistake in tokens.

--property selects the violation to look for. resource-safety: a write overwrites a version
that its client has not read. fencing-order: a fencing token is not above every earlier
grant's token. left-keys: an attempt that has ended leaves a key on a node. With --fence the
lock issues tokens and the resource enforces them.

The result is the shortest path to a violation. It is written as a scenario file, which the
simulation runs with the real lock to confirm it. The file can be run on real servers, too.

"none within this bound" means only that this scope contains no violation under these
assumptions. The exit code is then 0. It is 1 if the property is violated, and 2 if --limit or
--memory ended the search.

Without options it searches the scopes with known results, and exits with 1 if a result differs.`,
		Example: `  lockpick model-check
  lockpick model-check --nodes 3 --attempts 2 --crashes 1 --restart delayed
  lockpick model-check --mistake same-value-for-retries
  lockpick model-check --property resource-safety --fence --attempts 1`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			isCustom := false
			for _, name := range []string{"nodes", "attempts", "extends", "crashes", "restart", "jumps", "mistake", "lock", "without", "quarantine", "fence", "property", "reduce"} {
				isCustom = isCustom || c.Flags().Changed(name)
			}
			if c.Flags().Changed("restart") && f.Crashes == 0 {
				return usageError(errors.New("--restart has no effect without a crash"), "add --crashes 1")
			}
			if f.lock != exhaust.Locks()[0] {
				f.Lock = f.lock
			}
			f.Restart, f.Property = exhaust.Restart(f.restart), exhaust.Property(f.property)
			f.SetImplied(c.Flags().Changed)
			return a.modelCheck(c.Context(), f, isCustom)
		},
	}
	f.addFlags(c)
	c.RegisterFlagCompletionFunc("lock", completer(false, exhaust.Locks))
	c.RegisterFlagCompletionFunc("property", completer(false, func() (out []string) {
		for _, p := range exhaust.Properties() {
			out = append(out, string(p))
		}
		return out
	}))
	return c
}

func (f *modelCheckFlags) addFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.IntVar(&f.Nodes, "nodes", 3, fmt.Sprintf("number of nodes, at most %d", exhaust.MaxNodes))
	fs.IntVar(&f.Attempts, "attempts", 2, fmt.Sprintf("attempts per client, at most %d", exhaust.MaxAttempts))
	fs.IntVar(&f.Extensions, "extends", 0, "extensions per hold, at most 1")
	fs.IntVar(&f.Crashes, "crashes", 0, fmt.Sprintf("node crashes, at most %d", exhaust.MaxFaults))
	fs.StringVar(&f.restart, "restart", string(exhaust.RestartEmpty), "state of a node after a restart: none (empty, at once), delayed (empty, after a TTL), everysec\nor always (as that fsync policy keeps it)")
	fs.IntVar(&f.Jumps, "jumps", 0, fmt.Sprintf("clock jumps of nodes, at most %d; each one makes a key expire early", exhaust.MaxFaults))
	fs.StringVar(&f.Mistake, "mistake", "", "mistake planted in the lock: "+strings.Join(exhaust.Mistakes(), ", "))
	fs.StringVar(&f.lock, "lock", exhaust.Locks()[0], "the specification's lock, or redlock.New's lock: "+strings.Join(exhaust.Locks(), ", "))
	fs.StringVar(&f.OmittedPart, "without", "", "part to leave out of lock hardened: "+strings.Join(exhaust.Parts(), ", "))
	fs.BoolVar(&f.Quarantine, "quarantine", false, "with lock hardened: a crashed node does not vote until the keys it lost would have expired")
	fs.BoolVar(&f.Fence, "fence", false, "the lock issues fencing tokens, and the resource refuses tokens below the highest it has seen")
	fs.StringVar(&f.property, "property", string(exhaust.MutualExclusion), fmt.Sprintf("violation to look for: one of %q", exhaust.Properties()))
	fs.StringVar(&f.reduction, "reduce", "full", "how to merge equivalent states: none, exact (by names and replies) or full")
	fs.DurationVar(&f.timeLimit, "limit", time.Minute, "stop a search after this time")
	fs.StringVar(&f.memory, "memory", "1GB", "stop a search whose states need more memory")
	addStoreFlag(c, &f.store, "the scenario of a violation, and its run")
	addJSONFlag(c, &f.json, "the result")
	fs.BoolVar(&f.markdown, "markdown", false, "print the result as Markdown")
}

func (a *app) modelCheck(ctx context.Context, f *modelCheckFlags, isCustom bool) error {
	memory, err := f.validate()
	if err != nil {
		return err
	}
	searches := exhaust.KnownScopes(f.reduction)
	if isCustom {
		searches = []*exhaust.Search{{Scope: f.Scope, Reduce: f.reduction}}
		if err := campaign.CanWrite(f.store); err != nil {
			return storeError(err)
		}
	}
	runner := newSimRunner(defaultTimeout, f.store)
	defer runner.Stop()
	searcher := exhaust.Searcher{TimeLimit: f.timeLimit, MaxBytes: memory, Known: knownNames(), Store: f.store, Run: runner.Run,
		RunAndStore: func(ctx context.Context, s scenario.Scenario, seed uint64, file string, text []byte, command string) (outcome.Outcome, error) {
			o, err := runner.Save(ctx, s, seed, file, text, f.store, command)
			if err != nil {
				err = storeError(err)
			}
			return o, err
		}}
	errs := make([]error, len(searches))
	campaign.Each(ctx, runtime.NumCPU(), len(searches), func(i int) { errs[i] = searcher.Search(ctx, searches[i]) })
	if err := cmp.Or(ctx.Err(), errors.Join(errs...)); err != nil {
		return err
	}
	for _, s := range searches {
		a.code = outcome.WorseCode(a.code, s.Code())
	}
	if isCustom {
		if err := suites.Index(f.store); err != nil {
			return storeError(err)
		}
	}
	switch {
	case f.json && isCustom:
		return printJSON(a.out, searches[0])
	case f.json:
		return printJSON(a.out, searches)
	case f.markdown:
		return exhaust.Markdown(a.out, searches)
	case isCustom:
		searches[0].Print(a.out)
	default:
		exhaust.Print(a.out, searches)
	}
	return nil
}

// validate validates the flags and returns the memory limit in bytes.
func (f *modelCheckFlags) validate() (memory int, err error) {
	bytes, err := units.FromHumanSize(f.memory)
	switch scopeErr := f.Check(); {
	case scopeErr != nil:
		return 0, usageError(scopeErr, "see lockpick model-check --help"+suggestion(f.Mistake, exhaust.Mistakes()))
	case !slices.Contains(exhaust.ReductionNames(), f.reduction):
		return 0, usageError(fmt.Errorf("invalid --reduce %q", f.reduction), "use one of none, exact, full")
	case f.timeLimit <= 0:
		return 0, usageError(fmt.Errorf("--limit %v is not positive", f.timeLimit), "as in --limit 10m")
	case f.json && f.markdown:
		return 0, usageError(errors.New("--json and --markdown contradict each other"), "leave one of them out")
	case err != nil || bytes <= 0:
		return 0, usageError(fmt.Errorf("invalid --memory %q", f.memory), "as in --memory 500MB")
	}
	return int(bytes), nil
}
