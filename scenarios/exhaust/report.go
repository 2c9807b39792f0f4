package exhaust

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// Search is a search of a scope and its result.
type Search struct {
	Scope
	Result
	Reduce             string          `json:"reduce"`
	Seconds            float64         `json:"seconds"`
	Verdict            verdict.Outcome `json:"verdict"`
	Because            string          `json:"because,omitempty"` // from the counterexample's run
	Cause              string          `json:"cause,omitempty"`
	Node               string          `json:"node,omitempty"`
	File               string          `json:"file,omitempty"`
	Dir                string          `json:"dir,omitempty"`
	Command            string          `json:"command,omitempty"`
	requiresExactTimes bool            // whether the scenario requires exact times, which only the simulation provides
	// isKnown means that the result is known in advance: Expected is the cause of the violation, or
	// "" if the property holds.
	isKnown  bool
	Expected string `json:"expected,omitempty"`
}

// KnownScopes returns searches of the scopes with known verdicts.
func KnownScopes(reduce string) (all []*Search) {
	for _, r := range knownScopes() {
		all = append(all, &Search{Scope: r.Scope, Reduce: reduce, isKnown: true, Expected: r.Cause})
	}
	return all
}

// reductions maps names to sets of reductions. ignored describes the differences between states that
// they ignore.
var reductions = map[string]struct {
	Reductions
	ignored string
}{
	"none":  {Reductions{}, "nothing"},
	"exact": {exactReductions, "identity of nodes and clients, arrival times of replies"},
	"full":  {fullReductions, "identity of nodes and clients, arrival times of replies, needless waiting, steps that can only obstruct others"},
}

// ReductionNames lists the values of Search.Reduce.
func ReductionNames() []string { return slices.Sorted(maps.Keys(reductions)) }

// Searcher searches scopes and runs the counterexamples with the real lock.
type Searcher struct {
	TimeLimit time.Duration // for one search
	MaxBytes  int           // memory limit for the states of one search
	Known     scenario.KnownNames
	Store     string
	// Run runs a scenario in the simulation. RunAndStore writes the scenario to a file, runs it in
	// the simulation, and stores the run.
	Run         func(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome
	RunAndStore func(ctx context.Context, s scenario.Scenario, seed uint64, file string, text []byte, command string) (outcome.Outcome, error)
}

// Folder is a store's folder for the scenarios found by searches.
const Folder = "exhaust"

// NotReplayedError means that a violation in the model does not occur in the simulation.
type NotReplayedError string

func (e NotReplayedError) Error() string { return string(e) }

// Search searches r's scope and stores the result in r.
func (x Searcher) Search(ctx context.Context, r *Search) error {
	searchCtx, cancel := context.WithTimeout(ctx, x.TimeLimit)
	defer cancel()
	start := time.Now()
	var counterexample scenario.Scenario
	r.Result = newModel(r.Scope, reductions[r.Reduce].Reductions).Search(searchCtx, x.MaxBytes, func(path []Step) bool {
		if !r.CanRun() {
			return true
		}
		s, err := newScenario(r.Name(), r.Scope, path, x.Known)
		counterexample = s
		return err == nil
	})
	r.Seconds = time.Since(start).Seconds()
	switch {
	case r.Counterexample != nil:
		r.Verdict = verdict.Violated
		return x.replay(ctx, r, counterexample)
	case r.Complete && r.RejectedPaths == 0:
		r.Verdict = verdict.Holds
	default:
		r.Verdict = verdict.Undecided
	}
	return nil
}

// replay runs a counterexample in the simulation, and stores the run unless the verdict is known in
// advance.
func (x Searcher) replay(ctx context.Context, r *Search, s scenario.Scenario) error {
	if !r.CanRun() {
		r.Cause = modelOnly
		return nil
	}
	o := x.Run(ctx, s, 1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	property := string(r.property())
	if j := o.JudgementOf(property); j != nil && j.Got == verdict.Violated {
		r.Cause, r.Node, r.Because = j.Cause, j.Node, j.Because
	}
	switch {
	case r.Cause == "":
		return NotReplayedError(fmt.Sprintf("%v: %s is violated in the model, but not in the simulation: %s\n%s", r.Scope, property, o.Error, caption(r.Counterexample)))
	case r.isKnown:
		return nil
	}
	s.Expect[property] = scenario.Expectation{Want: string(verdict.Violated), Cause: r.Cause, Node: r.Node}
	text, err := scenario.Write(s, fmt.Sprintf("Found by a search of all orders of messages and faults: %v.\n\n%s", r.Scope, caption(r.Counterexample)), x.Known)
	if err != nil {
		return err
	}
	r.File = filepath.Join(x.Store, Folder, r.Name()+".yaml")
	r.Command, r.requiresExactTimes = "lockpick run "+display.ShellQuote(r.File), s.Exact
	o, err = x.RunAndStore(ctx, s, 1, r.File, text, r.Command)
	r.Dir = o.Dir
	return cmp.Or(err, ctx.Err())
}

// property returns the property to violate.
func (s Scope) property() Property { return cmp.Or(s.Property, MutualExclusion) }

// Code returns the search's exit code.
func (r *Search) Code() int {
	switch {
	case r.Verdict == verdict.Undecided:
		return outcome.ExitUndecided
	case r.isKnown && r.Cause == r.Expected, !r.isKnown && r.Verdict == verdict.Holds:
		return outcome.ExitOK
	}
	return outcome.ExitUnexpected
}

// assumptions lists what must be true for the result "none" to apply.
func assumptions(scope Scope) []string {
	out := []string{
		"the clock rates of clients and nodes differ by no more than the allowed drift",
		"messages may be delayed forever, and clients and nodes may pause forever",
	}
	switch {
	case scope.Crashes == 0:
		out = append(out, "nodes do not lose data")
	case scope.Restart == RestartDelayed:
		out = append(out, "a crashed node restarts once all its keys would have expired")
	case scope.Restart == RestartAlways:
		out = append(out, "a crashed node restarts with all acknowledged data")
	}
	if scope.Fence && scope.Lock == hardenedLock && scope.Crashes > 0 {
		out = append(out, "nodes' clocks do not go back, and differ by less than the downtime of a node that lost its grant counters")
	}
	return out
}

// outcome describes the result.
func (r *Search) outcome() string {
	switch {
	case r.Verdict == verdict.Holds:
		return "none within this bound"
	case r.Verdict == verdict.Violated && r.isKnown && r.Cause == r.Expected:
		return fmt.Sprintf("violated, as expected (%s)", r.Cause)
	case r.Verdict == verdict.Violated:
		return fmt.Sprintf("VIOLATED (%s)", r.Cause)
	case !r.Complete:
		return "inconclusive: the search hit a limit"
	}
	return fmt.Sprintf("inconclusive: no times can be assigned to %s", display.Plural(r.RejectedPaths, "violation"))
}

// steps returns the number of steps in the counterexample as text, or "" if there is none.
func (r *Search) steps() string {
	if len(r.Counterexample) == 0 {
		return ""
	}
	return fmt.Sprint(len(r.Counterexample))
}

// Print prints the result of one search.
func (r *Search) Print(w io.Writer) {
	fmt.Fprintf(w, "2 clients, %v: all orders of messages, losses, pauses and expirations\n%s, %s, %.1f s, %d MB\n", r.Scope,
		display.Plural(r.States, "state"), display.Plural(r.Acquires, "acquire"), r.Seconds, (r.Bytes+1<<20-1)>>20)
	if r.Verdict == verdict.Violated {
		fmt.Fprintf(w, "%s %s in %d steps, the minimum\n\n%s\n", r.property(), display.Paint(w, display.BadText, "VIOLATED"), len(r.Counterexample), caption(r.Counterexample))
		if !r.CanRun() {
			fmt.Fprintln(w, "can't be replayed: the lock or the property exists only in the model, or a scenario can't express the steps")
			return
		}
		onServers := r.Command + " --backend process"
		if r.requiresExactTimes {
			onServers = "not possible: it requires more precise timing than real servers provide"
		}
		fmt.Fprintf(w, "replayed in the simulation with the real lock: %s\n\n    scenario:  %s\n    record:    %s\n    run again: %s\n    on redis-servers: %s\n", r.Because, r.File, r.Dir, r.Command, onServers)
		return
	}
	style := display.PlainText
	if r.Verdict == verdict.Holds {
		style = display.GoodText
	}
	fmt.Fprintf(w, "%s: %s\nassumes: %s\nignores: %s\n", r.property(), display.Paint(w, style, r.outcome()), strings.Join(assumptions(r.Scope), ";\n    "), reductions[r.Reduce].ignored)
}

// forEachProperty calls do for each property with the searches that try to violate it.
func forEachProperty(all []*Search, do func(Property, []*Search)) {
	for _, p := range Properties() {
		do(p, slices.DeleteFunc(slices.Clone(all), func(r *Search) bool { return r.property() != p }))
	}
}

// Print prints the results for scopes with known verdicts.
func Print(w io.Writer, all []*Search) {
	unexpected := 0
	forEachProperty(all, func(p Property, rows []*Search) {
		t := display.Table{{"nodes", "attempts", "options", "states", "acquires", "steps", string(p)}}
		for _, r := range rows {
			description := r.outcome()
			if r.Code() != outcome.ExitOK {
				unexpected++
				description += ", NOT AS EXPECTED"
			}
			t = append(t, []string{fmt.Sprint(r.Nodes), fmt.Sprint(r.Attempts), strings.Join(r.options(), ", "), fmt.Sprint(r.States), fmt.Sprint(r.Acquires), r.steps(), description})
		}
		fmt.Fprintf(w, "%s\n\n", strings.Join(t.Lines("", 160), "\n"))
	})
	fmt.Fprintf(w, `Two clients and one key; all orders of messages, losses, pauses and expirations.
assumes: %s
ignores: %s
Each violation was replayed in the simulation with the real lock, and the checker determined its cause.
Violations marked "in the model" can't be replayed.
%s: %d as expected
`, strings.Join(assumptions(Scope{Crashes: 1}), ";\n    "), reductions[all[0].Reduce].ignored, display.Plural(len(all), "scope"), len(all)-unexpected)
}

// Markdown prints the results as Markdown: a table for each property, then the assumptions.
func Markdown(w io.Writer, all []*Search) error {
	var b strings.Builder
	forEachProperty(all, func(p Property, rows []*Search) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(&b, "| scope | states | acquires | steps | %s |\n|---|---:|---:|---:|---|\n", p)
		for _, r := range rows {
			fmt.Fprintf(&b, "| %v | %s | %s | %s | %s |\n", r.Scope, display.GroupDigits(r.States), display.GroupDigits(r.Acquires), r.steps(), r.outcome())
		}
		b.WriteByte('\n')
	})
	b.WriteString("Assumptions:\n\n")
	var lines []string
	for _, restart := range Restarts() {
		for _, line := range assumptions(Scope{Crashes: 1, Restart: restart, Lock: hardenedLock, Fence: true}) {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
				fmt.Fprintf(&b, "- %s\n", line)
			}
		}
	}
	fmt.Fprintf(&b, "\nDifferences ignored: %s.\n", reductions[all[0].Reduce].ignored)
	_, err := io.WriteString(w, b.String())
	return err
}
