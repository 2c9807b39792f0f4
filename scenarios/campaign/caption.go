package campaign

import (
	"cmp"
	"fmt"
	"strings"

	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// Write makes a scenario file of the result, which expects the bug. Its name has to be one
// that a scenario may have.
func (r Minimized) Write(name string, known scenario.Known) ([]byte, error) {
	s := r.Scenario
	s.Name = name
	s.Claim = r.claim()
	s.Source = fmt.Sprintf("lockpick minimize, from %s with seed %d", r.From, r.Given)
	return scenario.Write(s, r.Caption(), known)
}

// claim is one sentence about what is shown.
func (r Minimized) claim() string {
	by := "without any fault"
	if n := r.After.Steps; n > 0 {
		by = "by " + display.Plural(n, "fault")
	}
	return fmt.Sprintf("The lock %s violates %s, %s.", r.lock(), r.Bug, by)
}

func (r Minimized) lock() string {
	l := r.Scenario.Lock
	name := l.Kind
	if l.Mistake != "" {
		name += " " + l.Mistake
	}
	return name
}

// Caption tells in plain words what happens, what the scenario was made of, and how to run it.
func (r Minimized) Caption() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, of the lock %s, %s on %s:\n", r.Bug, r.lock(), display.Plural(r.After.Clients, "client"), display.Plural(r.After.Nodes, "node"))
	for _, st := range r.Scenario.Plan {
		fmt.Fprintf(&b, "  %s\n", DescribeStep(st))
	}
	if len(r.Scenario.Plan) == 0 {
		fmt.Fprintf(&b, "  nothing goes wrong\n")
	}
	fmt.Fprintf(&b, "\nMade small from %s, seed %d: %s.\n", r.From, r.Given, r.Sum())
	again := "To see it: lockpick run FILE"
	if r.Seed != 1 {
		again += fmt.Sprintf(" --seed %d", r.Seed)
	}
	b.WriteString(again + "\n")
	return b.String()
}

// Sum is what shrinking came to, in one line.
func (r Minimized) Sum() string {
	parts := []string{fmt.Sprintf("%s -> %d", display.Plural(r.Before.Steps, "step"), r.After.Steps)}
	for _, x := range []struct {
		was, is int
		what    string
	}{{r.Before.Clients, r.After.Clients, "client"}, {r.Before.Nodes, r.After.Nodes, "node"}, {r.Before.Keys, r.After.Keys, "key"}} {
		if x.was != x.is {
			parts = append(parts, fmt.Sprintf("%s -> %d", display.Plural(x.was, x.what), x.is))
		}
	}
	parts = append(parts, display.Plural(r.Runs, "run"), fmt.Sprintf("shows with %d of %d seeds", r.Shows, r.Others))
	if !r.Whole {
		parts = append(parts, "more runs might make it smaller")
	}
	return strings.Join(parts, ", ")
}

// Tell is a step in plain words: "at 3s: n2 is killed (for 10ms)".
func DescribeStep(st nemesis.Step) string {
	targets := display.List(st.Fault.Targets)
	told := nemesis.ToldOf(st.Fault.Kind)
	began := cmp.Or(told.Began, "{targets}: {kind}")
	whom := "all"
	if len(st.Fault.Targets) > 0 {
		whom = targets
	}
	text := strings.NewReplacer("{targets}", whom, "{client} is cut off from {targets}", "the links "+whom+" are cut",
		"{client} and {targets} hear each other", "the ends of "+whom+" hear each other",
		"{client} and {targets} lose", "the ends of "+whom+" lose",
		"{message}", "it", "{saw}", "", "{kind}", st.Fault.Kind).Replace(began)
	text = st.When.String() + ": " + text
	if d := st.Fault.Details(); d != "" {
		text += " (" + d + ")"
	}
	if st.Drawn {
		text += ", or not"
	}
	return text
}
