package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/reports/display"
	"lockpick/scenarios/exhaust"
	"lockpick/scenarios/outcome"
)

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
	case r.Verdict == checker.Holds:
		return "none within this bound"
	case r.Verdict == checker.Violated && r.Known && r.Cause == r.Expected:
		return fmt.Sprintf("violated, as expected (%s)", r.Cause)
	case r.Verdict == checker.Violated:
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
	case checker.Holds:
		fmt.Fprintf(w, "%s: %s\n", r.property(), painted(w, good, r.outcome()))
	case checker.Violated:
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
