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
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/exhaust"
	"lockpick/scenarios/outcome"
)

// exhaustFlags are the flags of exhaust.
type exhaustFlags struct {
	exhaust.Scope
	restart, property, reduce, memory, lock string
	limit                                   time.Duration
	store                                   string
	json, markdown                          bool
}

func exhaustCmd(a *app) *cobra.Command {
	f := &exhaustFlags{}
	c := &cobra.Command{
		Use:   "model-check",
		Short: "model-check Redlock exhaustively in a small scope",
		Long: `Search every order of messages, losses, pauses, expiries and faults for two clients that
hold the lock at once: Redlock as a model of explicit states, in a scope of a few nodes and
attempts. A model is not the code; tests hold the one to the other, the client case by case,
the nodes request by request.

--lock hardened is the lock that redlock.New makes, with tombstones, debts and counts of grants that
begin at the node's clock; --quarantine and --without say what it has besides, or has not, and
mean this lock. Unless --property is given, what is looked for is what they break: left-keys without
tombstones or debts, fencing-order without counts from the clock or with a mistake of tokens.

--property names another thing to look for: resource-safety is a write that is applied over
one that its client had not seen, fencing-order a fencing token that is not above that of a
lock which was given before, left-keys a key that stays on a node of an attempt that is over. With
--fence the lock gives tokens and the resource goes by them.

What is found is the shortest way there. It is written as a scenario file, which the simulation
runs with the real lock; what that shows is printed. The file can be run on real servers, too.

"none within this bound" says that nothing is to be found in this scope under these
assumptions, and no more than that. The exit code is 0 then, 1 where the property is
violated, and 2 where --limit or --memory ended the search.

Without options it searches the scopes whose verdicts are known, and exit code 1 says that one
came out otherwise.`,
		Example: `  lockpick model-check
  lockpick model-check --nodes 3 --attempts 2 --crashes 1 --restart delayed
  lockpick model-check --mistake same-value-for-retries
  lockpick model-check --property resource-safety --fence --attempts 1`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			own := false
			for _, name := range []string{"nodes", "attempts", "extends", "crashes", "restart", "jumps", "mistake", "lock", "without", "quarantine", "fence", "property", "reduce"} {
				own = own || c.Flags().Changed(name)
			}
			if c.Flags().Changed("restart") && f.Crashes == 0 {
				return usage(errors.New("--restart is what comes after a crash, and there is none"), "add --crashes 1")
			}
			if f.lock != exhaust.Locks()[0] {
				f.Lock = f.lock
			}
			f.Restart, f.Property = exhaust.Restart(f.restart), exhaust.Property(f.property)
			f.Imply(c.Flags().Changed)
			return a.exhaust(c.Context(), f, own)
		},
	}
	f.flags(c)
	c.RegisterFlagCompletionFunc("lock", completes(false, exhaust.Locks))
	c.RegisterFlagCompletionFunc("property", completes(false, func() (out []string) {
		for _, p := range exhaust.Properties() {
			out = append(out, string(p))
		}
		return out
	}))
	return c
}

// flags declares them.
func (f *exhaustFlags) flags(c *cobra.Command) {
	fs := c.Flags()
	fs.IntVar(&f.Nodes, "nodes", 3, fmt.Sprintf("nodes, at most %d", exhaust.MaxNodes))
	fs.IntVar(&f.Attempts, "attempts", 2, fmt.Sprintf("attempts of each client, at most %d", exhaust.MaxAttempts))
	fs.IntVar(&f.Extends, "extends", 0, "extensions of each hold, at most 1")
	fs.IntVar(&f.Crashes, "crashes", 0, fmt.Sprintf("crashes of nodes, at most %d", exhaust.MaxFaults))
	fs.StringVar(&f.restart, "restart", string(exhaust.Forgets), "what a node comes back with: none (nothing, at once), delayed (nothing, after a TTL), everysec or always")
	fs.IntVar(&f.Jumps, "jumps", 0, fmt.Sprintf("clock faults of nodes, each of which makes a key vanish, at most %d", exhaust.MaxFaults))
	fs.StringVar(&f.Mistake, "mistake", "", "a mistake in the lock: "+strings.Join(exhaust.Mistakes(), ", "))
	fs.StringVar(&f.lock, "lock", exhaust.Locks()[0], "the specification's lock, or the one that redlock.New makes: "+strings.Join(exhaust.Locks(), ", "))
	fs.StringVar(&f.Without, "without", "", "a part that is left out of lock hardened: "+strings.Join(exhaust.Parts(), ", "))
	fs.BoolVar(&f.Quarantine, "quarantine", false, "with lock hardened: a node that crashed gives no vote until what it lost would have expired")
	fs.BoolVar(&f.Fence, "fence", false, "the lock gives fencing tokens, and the resource refuses one below the highest it has seen")
	fs.StringVar(&f.property, "property", string(exhaust.MutualExclusion), fmt.Sprintf("what is to be violated: one of %q", exhaust.Properties()))
	fs.StringVar(&f.reduce, "reduce", "full", "states that are not told apart: none, exact (by names and replies) or full")
	fs.DurationVar(&f.limit, "limit", time.Minute, "give up a search after this time")
	fs.StringVar(&f.memory, "memory", "1GB", "give up a search whose states take more")
	storeFlag(c, &f.store, "the scenario that is found, and its run")
	jsonFlag(c, &f.json, "the result")
	fs.BoolVar(&f.markdown, "markdown", false, "print the result as parts of a page")
}

func (a *app) exhaust(ctx context.Context, f *exhaustFlags, own bool) error {
	memory, err := f.check()
	if err != nil {
		return err
	}
	searches := exhaust.KnownScopes(f.reduce)
	if own {
		searches = []*exhaust.Search{{Scope: f.Scope, Reduce: f.reduce}}
		if err := campaign.CanWrite(f.store); err != nil {
			return noStore(err)
		}
	}
	c := newCrew(patience, f.store)
	defer c.Stop()
	x := exhaust.Searcher{Limit: f.limit, Bytes: memory, Known: known(), Store: f.store, Run: c.Run,
		Keep: func(ctx context.Context, s scenario.Scenario, seed uint64, file string, text []byte, command string) (outcome.Outcome, error) {
			o, err := c.Save(ctx, s, seed, file, text, f.store, command)
			if err != nil {
				err = noStore(err)
			}
			return o, err
		}}
	errs := make([]error, len(searches))
	campaign.Each(ctx, runtime.NumCPU(), len(searches), func(i int) { errs[i] = x.Search(ctx, searches[i]) })
	if err := cmp.Or(ctx.Err(), errors.Join(errs...)); err != nil {
		return err
	}
	for _, s := range searches {
		a.code = outcome.Worse(a.code, s.Code())
	}
	switch {
	case f.json && own:
		return printJSON(a.out, searches[0])
	case f.json:
		return printJSON(a.out, searches)
	case f.markdown:
		return exhaust.Markdown(a.out, searches)
	case own:
		searches[0].Print(a.out)
	default:
		exhaust.Print(a.out, searches)
	}
	return nil
}

// check refuses flags that make no sense, and returns how much memory a search may take.
func (f *exhaustFlags) check() (memory int, err error) {
	bytes, err := units.FromHumanSize(f.memory)
	switch wrong := f.Check(); {
	case wrong != nil:
		return 0, usage(wrong, "see lockpick model-check --help"+meant(f.Mistake, exhaust.Mistakes()))
	case !slices.Contains(exhaust.ReductionNames(), f.reduce):
		return 0, usage(fmt.Errorf("--reduce %s is none of them", f.reduce), "one of none, exact, full")
	case f.limit <= 0:
		return 0, usage(fmt.Errorf("--limit %v is not positive", f.limit), "as in --limit 10m")
	case f.json && f.markdown:
		return 0, usage(errors.New("--json and --markdown are two forms"), "leave one out")
	case err != nil || bytes <= 0:
		return 0, usage(fmt.Errorf("--memory %s is no size", f.memory), "as in --memory 500MB")
	}
	return int(bytes), nil
}
