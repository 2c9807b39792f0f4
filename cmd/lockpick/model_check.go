package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/reports/display"
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

// reductions are the values of --reduce.
var reductions = map[string]exhaust.Reductions{"none": {}, "exact": exhaust.Exactly, "full": exhaust.Fully}

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
			f.imply(c.Flags().Changed)
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

// imply sets what a mistake or a property can't do without, unless it was said.
func (f *exhaustFlags) imply(said func(flag string) bool) {
	ofTokens := strings.HasPrefix(f.Mistake, "fence-") || f.Without == exhaust.ClockCount
	if strings.HasPrefix(f.Mistake, "extension-") && !said("extends") {
		f.Extends = 1
	}
	if ofTokens && !said("property") {
		f.property = string(exhaust.FencingOrder)
	}
	if (f.Without != "" || f.Quarantine) && !said("lock") {
		f.lock = exhaust.Hardened
	}
	if (f.Without == exhaust.Tombstones || f.Without == exhaust.Debts) && !said("property") {
		f.property = string(exhaust.LeftKeys)
	}
	if (ofTokens || f.property == string(exhaust.FencingOrder)) && !said("fence") {
		f.Fence = true
	}
}

func (a *app) exhaust(ctx context.Context, f *exhaustFlags, own bool) error {
	x, err := f.exhaustion()
	if err != nil {
		return err
	}
	rows := []*searched{{Scope: f.Scope, Reduce: f.reduce}}
	if !own {
		rows = nil
		for _, r := range exhaust.Rows() {
			rows = append(rows, &searched{Scope: r.Scope, Reduce: f.reduce, Known: true, Expected: r.Cause})
		}
	} else if err := campaign.CanWrite(f.store); err != nil {
		return noStore(err)
	}
	x.crew = crew{workers(patience, f.store).Start()}
	defer x.crew.Stop()
	if err := x.all(ctx, rows); err != nil {
		return err
	}
	for _, r := range rows {
		a.code = outcome.Worse(a.code, r.code())
	}
	switch {
	case f.json && own:
		return printJSON(a.out, rows[0])
	case f.json:
		return printJSON(a.out, rows)
	case f.markdown:
		return exhaustPage(a.out, rows)
	case own:
		rows[0].print(a.out)
	default:
		exhaustTable(a.out, rows)
	}
	return nil
}

// exhaustion is what searches.
type exhaustion struct {
	*exhaustFlags
	memory int
	crew   crew
}

// exhaustion is the search that the flags ask for.
func (f *exhaustFlags) exhaustion() (*exhaustion, error) {
	f.Restart, f.Property = exhaust.Restart(f.restart), exhaust.Property(f.property)
	if f.lock != exhaust.Locks()[0] {
		f.Lock = f.lock
	}
	if err := f.Check(); err != nil {
		return nil, usage(err, "see lockpick model-check --help"+meant(f.Mistake, exhaust.Mistakes()))
	}
	if _, ok := reductions[f.reduce]; !ok {
		return nil, usage(fmt.Errorf("--reduce %s is none of them", f.reduce), "one of none, exact, full")
	}
	if f.limit <= 0 {
		return nil, usage(fmt.Errorf("--limit %v is not positive", f.limit), "as in --limit 10m")
	}
	if f.json && f.markdown {
		return nil, usage(errors.New("--json and --markdown are two forms"), "leave one out")
	}
	memory, err := units.FromHumanSize(f.memory)
	if err != nil || memory <= 0 {
		return nil, usage(fmt.Errorf("--memory %s is no size", f.memory), "as in --memory 500MB")
	}
	return &exhaustion{exhaustFlags: f, memory: int(memory)}, nil
}

// all searches all rows, one on each processor, and runs what they find.
func (x *exhaustion) all(ctx context.Context, rows []*searched) error {
	errs := make([]error, len(rows))
	campaign.Each(ctx, runtime.NumCPU(), len(rows), func(i int) { errs[i] = x.one(ctx, rows[i]) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// searched is a scope and what came of its search.
type searched struct {
	exhaust.Scope
	exhaust.Result
	Reduce  string          `json:"reduce"`
	Seconds float64         `json:"seconds"`
	Verdict verdict.Outcome `json:"verdict"`
	Because string          `json:"because,omitempty"` // what the run of the story showed
	Cause   string          `json:"cause,omitempty"`
	Node    string          `json:"node,omitempty"`
	File    string          `json:"file,omitempty"`
	Dir     string          `json:"dir,omitempty"`
	Command string          `json:"command,omitempty"`
	exact   bool            // what was found needs instants that only the simulation has
	// Known: what comes of it is, and violated by this cause; "": it is not violated.
	Known    bool   `json:"-"`
	Expected string `json:"expected,omitempty"`
}

// one searches a scope.
func (x *exhaustion) one(ctx context.Context, r *searched) error {
	limited, end := context.WithTimeout(ctx, x.limit)
	defer end()
	begun := time.Now()
	var found scenario.Scenario
	r.Result = exhaust.New(r.Scope, reductions[x.reduce]).Search(limited, exhaust.Bounds{Bytes: x.memory}, func(path []exhaust.Step) bool {
		if !r.Runs() {
			return true
		}
		s, err := exhaust.ScenarioOf(r.Name(), r.Scope, path, known())
		found = s
		return err == nil
	})
	r.Seconds = time.Since(begun).Seconds()
	switch {
	case r.Story != nil:
		r.Verdict = verdict.Violated
		return x.replay(ctx, r, found)
	case r.Whole && r.Untimed == 0:
		r.Verdict = verdict.Holds
	default:
		r.Verdict = verdict.Undecided
	}
	return nil
}

// replay runs what was found in the simulation, and keeps it unless it is known.
func (x *exhaustion) replay(ctx context.Context, r *searched, s scenario.Scenario) error {
	if !r.Runs() {
		r.Cause = exhaust.InTheModel
		return nil
	}
	o := x.crew.run(ctx, s, 1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if j := o.Of(string(r.property())); j != nil && j.Got == verdict.Violated {
		r.Cause, r.Node, r.Because = j.Cause, j.Node, j.Because
	}
	if r.Cause == "" {
		return &failure{err: fmt.Errorf("%v: %s is violated in the model, and not where the simulation runs that: %s\n%s", r.Scope, r.property(), o.Error, exhaust.Caption(r.Story)),
			code: outcome.ExitUndecided, hint: "the instants that were chosen for these steps do not show it: try --reduce exact, or another number of nodes"}
	}
	if r.Known {
		return nil
	}
	s.Expect[string(r.property())] = scenario.Expectation{Want: string(verdict.Violated), Cause: r.Cause, Node: r.Node}
	comment := fmt.Sprintf("Found in a search of every order of messages and faults: %v.\n\n%s", r.Scope, exhaust.Caption(r.Story))
	text, err := scenario.Write(s, comment, known())
	if err != nil {
		return err
	}
	r.File = filepath.Join(x.store, exhaustFolder, r.Name()+".yaml")
	r.Command, r.exact = "lockpick run "+quoted(r.File), s.Exact
	o, err = x.crew.kept(ctx, s, 1, r.File, text, x.store, r.Command)
	r.Dir = o.Dir
	return cmp.Or(err, ctx.Err())
}

// property is what the search tried to violate.
func (r *searched) property() exhaust.Property {
	return cmp.Or(r.Property, exhaust.MutualExclusion)
}

// exhaustFolder is where scenarios stand in a store that a search found.
const exhaustFolder = "exhaust"

// code is the exit code that a search calls for.
func (r *searched) code() int {
	switch {
	case r.Verdict == verdict.Undecided:
		return outcome.ExitUndecided
	case r.Known && r.Cause == r.Expected, !r.Known && r.Verdict == verdict.Holds:
		return outcome.ExitOK
	}
	return outcome.ExitUnexpected
}

// size says what was looked at.
func (r *searched) size() string {
	return fmt.Sprintf("%s, %s", display.Plural(r.States, "state"), display.Plural(r.Acquires, "acquire"))
}

// assumptions are what "none" hangs on.
func assumptions(scope exhaust.Scope) []string {
	out := []string{
		"the clocks of clients and nodes run at rates that differ by no more than the drift allowed for",
		"messages may be late for ever, and clients and nodes may pause for ever",
	}
	switch {
	case scope.Crashes == 0:
		out = append(out, "nodes keep what they have")
	case scope.Restart == exhaust.Delayed:
		out = append(out, "a node that crashed is back when all that it granted would have expired")
	case scope.Restart == exhaust.Always:
		out = append(out, "a node that crashed is back with all that it answered for")
	}
	if scope.Fence && scope.Lock == exhaust.Hardened && scope.Crashes > 0 {
		out = append(out, "nodes' clocks do not go back, and differ by less than a node is away that forgot its counts of grants")
	}
	return out
}

// reduced names what a search did not tell apart.
func reduced(reduce string) string {
	return map[string]string{"none": "nothing", "exact": "which node, which client, when replies arrive",
		"full": "which node, which client, when replies arrive, what only waits, what only stands in others' way"}[reduce]
}

// outcome is what a search came to, in words.
func (r *searched) outcome() string {
	switch {
	case r.Verdict == verdict.Holds:
		return "none within this bound"
	case r.Verdict == verdict.Violated && r.Known && r.Cause == r.Expected:
		return fmt.Sprintf("violated, as expected (%s)", r.Cause)
	case r.Verdict == verdict.Violated:
		return fmt.Sprintf("VIOLATED (%s)", r.Cause)
	case !r.Whole:
		return "undecided: bound not reached"
	}
	return fmt.Sprintf("undecided: %s without instants", display.Plural(r.Untimed, "violation"))
}

// steps is how many it takes, or nothing.
func (r *searched) steps() string {
	if len(r.Story) == 0 {
		return ""
	}
	return fmt.Sprint(len(r.Story))
}

// print prints the search of one scope.
func (r *searched) print(w io.Writer) {
	fmt.Fprintf(w, "2 clients, %v: every order of messages, losses, pauses and expiries\n%s, %.1f s, %d MB\n", r.Scope, r.size(), r.Seconds, (r.Bytes+1<<20-1)>>20)
	switch r.Verdict {
	case verdict.Holds:
		fmt.Fprintf(w, "%s: %s\n", r.property(), painted(w, good, r.outcome()))
	case verdict.Violated:
		fmt.Fprintf(w, "%s %s in %d steps, the fewest\n\n%s\n", r.property(), painted(w, alarm, "VIOLATED"), len(r.Story), exhaust.Caption(r.Story))
		if !r.Runs() {
			fmt.Fprintln(w, "no run shows that: there is no such lock but in the model, no verdict on it, or no way to tell it to the simulation")
			return
		}
		fmt.Fprintf(w, "replayed in the simulation, with the real lock: %s\n\n    scenario:  %s\n    record:    %s\n    run again: %s\n    on redis-servers: %s\n", r.Because, r.File, r.Dir, r.Command, r.onServers())
		return
	default:
		fmt.Fprintf(w, "%s: %s\n", r.property(), r.outcome())
	}
	fmt.Fprintf(w, "assumes: %s\nnot told apart: %s\n", strings.Join(assumptions(r.Scope), ";\n    "), reduced(r.Reduce))
}

// onServers is the command that runs what was found on real servers, or why none does.
func (r *searched) onServers() string {
	if r.exact {
		return "not possible, for it takes instants that real time can't promise"
	}
	return r.Command + " --backend process"
}

// exhaustTable prints the searches of scopes whose verdicts are known.
func exhaustTable(w io.Writer, rows []*searched) {
	unlike := 0
	for _, p := range exhaust.Properties() {
		t := table{{"nodes", "attempts", "besides", "states", "acquires", "steps", string(p)}}
		for _, r := range rows {
			if r.property() != p {
				continue
			}
			what := r.outcome()
			if r.code() != outcome.ExitOK {
				unlike++
				what += ", NOT AS EXPECTED"
			}
			t = append(t, []string{fmt.Sprint(r.Nodes), fmt.Sprint(r.Attempts), r.Besides(), fmt.Sprint(r.States), fmt.Sprint(r.Acquires), r.steps(), what})
		}
		for _, line := range t.lines("", 160) {
			fmt.Fprintln(w, line)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, `Two clients and one key; every order of messages, losses, pauses and expiries.
assumes: %s
not told apart: %s
What is violated was run in the simulation with the real lock, which named the cause, but for what
is violated in the model: no run shows that.
%s: %d as expected
`, strings.Join(assumptions(exhaust.Scope{Crashes: 1}), ";\n    "), reduced(rows[0].Reduce), display.Plural(len(rows), "scope"), len(rows)-unlike)
}

// exhaustPage prints the same as parts of a page: a table of each property, and what they hang on.
func exhaustPage(w io.Writer, rows []*searched) error {
	var b strings.Builder
	for _, p := range exhaust.Properties() {
		head := fmt.Sprintf("| scope | states | acquires | steps | %s |\n|---|---:|---:|---:|---|\n", p)
		for _, r := range rows {
			if r.property() == p {
				fmt.Fprintf(&b, "%s| %v | %s | %s | %s | %s |\n", head, r.Scope, display.Grouped(r.States), display.Grouped(r.Acquires), r.steps(), r.outcome())
				head = ""
			}
		}
		if head == "" {
			b.WriteByte('\n')
		}
	}
	b.WriteString("Assumed:\n\n")
	var lines []string
	for _, restart := range exhaust.Restarts() {
		lines = append(lines, assumptions(exhaust.Scope{Crashes: 1, Restart: restart, Lock: exhaust.Hardened, Fence: true})...)
	}
	for i, line := range lines {
		if slices.Index(lines, line) == i {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	fmt.Fprintf(&b, "\nNot told apart: %s.\n", reduced(rows[0].Reduce))
	_, err := io.WriteString(w, b.String())
	return err
}
