package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/checker"
	"lockpick/reports/display"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// finish prints what was found, and settles the exit code.
func (x *hunter) finish(ctx context.Context) error {
	if err := suites.Index(x.flags.store); err != nil {
		return noStore(err)
	}
	slices.SortFunc(x.Finds, func(a, b *campaign.FuzzFind) int {
		at := func(f *campaign.FuzzFind) int { return slices.Index(checker.Properties(), f.Property) }
		held := func(f *campaign.FuzzFind) int {
			if f.Held {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(held(a), held(b)), cmp.Compare(at(a), at(b)), cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Cause, b.Cause))
	})
	if slices.ContainsFunc(x.Finds, func(f *campaign.FuzzFind) bool { return f.Held }) {
		x.code = outcome.Worse(x.code, outcome.ExitUnexpected)
	}
	if x.Failed > 0 {
		x.code = outcome.Worse(x.code, outcome.ExitBackend)
	}
	if x.flags.json {
		if err := printJSON(x.out, x.Fuzz); err != nil {
			return err
		}
	} else {
		x.print()
	}
	if ctx.Err() != nil {
		fmt.Fprintf(x.errs, "interrupted after %d runs; the same command goes on\n", x.Runs)
	}
	return ctx.Err()
}

// print prints the result, then a table of what was found and how often, then each find.
func (x *hunter) print() {
	x.printResult()
	t := table{{"property", "cause", "runs", "first"}}
	for _, f := range x.Finds {
		t = append(t, []string{f.Property, f.Cause, fmt.Sprint(f.Runs), fmt.Sprintf("%s, seed %d", x.Scenarios[f.First.Scenario], f.First.Seed)})
	}
	if len(x.Finds) > 0 {
		fmt.Fprintln(x.out)
		printTable(x.out, t)
	}
	for _, f := range x.Finds {
		x.printFind(f)
	}
}

// printResult prints in one line how much was run and what came of it.
func (x *hunter) printResult() {
	in, text := good, "no violation found, under these faults"
	if held := x.held(); held > 0 {
		in, text = alarm, display.Plural(held, "violation")+" of required properties"
	} else if len(x.Finds) > 0 {
		in, text = plain, "no required property violated"
	}
	if x.held() == 0 && len(x.Finds) == 0 && x.Runs > 0 {
		_, high := outcome.Wilson(0, x.Runs)
		text += fmt.Sprintf(": at most %.2g %% of such runs", 100*high)
	}
	if x.Failed > 0 {
		in = alarm
		text += fmt.Sprintf("; %d could not be judged, the first: %s", x.Failed, display.FirstLine(x.Error))
	}
	fmt.Fprintln(x.out, painted(x.out, in, fmt.Sprintf("%s of %s, %s: %s", display.Plural(x.Runs, "run"), display.Plural(len(x.picks), "scenario"),
		time.Duration(x.Leg.Seconds*float64(time.Second)).Round(time.Second), text)))
}

func (x *hunter) held() (n int) {
	for _, f := range x.Finds {
		if f.Held {
			n++
		}
	}
	return n
}

func (x *hunter) printFind(f *campaign.FuzzFind) {
	in, had := doubt, "not required to hold"
	if f.Held {
		in, had = alarm, "required to hold"
	}
	fmt.Fprintf(x.out, "\n%s, in %s; %s\n", painted(x.out, in, f.Bug.String()), outcome.Rate(f.Runs, x.Runs), had)
	if f.Small != nil {
		for _, st := range f.Small.Scenario.Plan {
			indented(x.out, 2, 4, campaign.DescribeStep(st))
		}
		indented(x.out, 2, 4, f.Small.Sum())
	}
	if f.Known {
		fmt.Fprintln(x.out, "  known from the corpus")
	}
	if f.Why != "" {
		indented(x.out, 2, 4, "not minimized: "+f.Why)
	}
	for _, l := range [][2]string{{"scenario:  ", f.File}, {"record:    ", f.Dir}, {"run again: ", cmp.Or(f.Command, f.First.Command)}} {
		if l[1] != "" {
			fmt.Fprintln(x.out, strings.TrimRight("    "+l[0]+l[1], " "))
		}
	}
}
