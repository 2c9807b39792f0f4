package campaign

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/reports/display"
	"lockpick/reports/suites"
)

// edit makes a scenario smaller or leaves it unchanged. It must cope with every scenario that the
// other edits in its pass can produce.
type edit func(s *scenario.Scenario)

// minimization is the state of a call to Minimize.
type minimization struct {
	Minimizer
	ctx           context.Context
	bug           Bug
	seed          uint64
	best          scenario.Scenario
	triedRuns     map[string]bool // names of the attempts already made
	runs          int
	acceptedEdits int // number of accepted edits
	runsLeft      int // remaining runs
	slots         chan struct{}
}

func (x *minimization) stopped() bool { return x.runsLeft <= 0 || x.ctx.Err() != nil }

// tryEdits tries the edits in order and applies those that preserve the bug.
func (x *minimization) tryEdits(edits []edit) {
	for len(edits) > 0 {
		i := x.acceptFirst(edits)
		if i < 0 {
			return
		}
		edits = edits[i+1:]
	}
}

// attempt is an edited scenario, run with one seed.
type attempt struct {
	index    int // of the edit
	seed     uint64
	name     string
	edited   scenario.Scenario
	done     chan struct{}
	showsBug bool
}

// acceptFirst applies the first edit that preserves the bug and returns its index, or -1 if none
// does. Idle workers try later edits in parallel. Those do not count if an earlier edit is accepted,
// so neither the result nor the number of runs depends on the number of workers.
func (x *minimization) acceptFirst(edits []edit) int {
	return x.acceptFirstWithSeeds(edits, []uint64{x.seed})
}

// acceptFirstWithSeeds is like acceptFirst, but tries each edit with each seed.
func (x *minimization) acceptFirstWithSeeds(edits []edit, seeds []uint64) int {
	if x.stopped() {
		return -1
	}
	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	started := make(chan *attempt, cap(x.slots))
	go x.startAttempts(ctx, x.best, edits, seeds, started)
	for a := range started {
		if x.triedRuns[a.name] {
			continue
		}
		<-a.done
		if x.ctx.Err() != nil {
			return -1
		}
		x.triedRuns[a.name] = true
		x.runs++
		x.runsLeft--
		if a.showsBug {
			x.best, x.seed = a.edited, a.seed
			x.acceptedEdits++
			return a.index
		}
		if x.runsLeft <= 0 {
			return -1
		}
	}
	return -1
}

// startAttempts starts the attempts in order and sends them to a channel, until ctx is done.
func (x *minimization) startAttempts(ctx context.Context, s scenario.Scenario, edits []edit, seeds []uint64, started chan<- *attempt) {
	defer close(started)
	before := digestOf(s, 0)
	for i, e := range edits {
		edited := deepCopy(s)
		e(&edited)
		if digestOf(edited, 0) == before || edited.Check(x.Known) != nil {
			continue
		}
		for _, seed := range seeds {
			a := &attempt{index: i, seed: seed, edited: edited, name: digestOf(edited, seed), done: make(chan struct{})}
			select {
			case x.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			go func() {
				defer func() { <-x.slots; close(a.done) }()
				a.showsBug = x.Run(x.ctx, a.edited, seed)
			}()
			select {
			case started <- a:
			case <-ctx.Done():
				return
			}
		}
	}
}

func deepCopy(s scenario.Scenario) (clone scenario.Scenario) {
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &clone)
	}
	if err != nil {
		panic(err) // plain data: can't happen
	}
	return clone
}

func digestOf(s scenario.Scenario, seed uint64) string {
	text, _ := json.Marshal(s)
	return fmt.Sprintf("%d %x", seed, sha256.Sum256(text))
}

// removeSteps removes steps that the bug does not need: halves of the plan, then quarters, and so on
// down to single steps. Source: A. Zeller and R. Hildebrandt, "Simplifying and Isolating
// Failure-Inducing Input", IEEE Transactions on Software Engineering 28 (2002), 183–200.
func (x *minimization) removeSteps() {
	for parts := 2; len(x.best.Plan) > 0; {
		all := len(x.best.Plan)
		size := (all + parts - 1) / parts
		switch i := x.acceptFirst(removeParts(all, size)); {
		case i >= 0:
			parts = max(parts-1, 2)
		case size == 1 || x.stopped():
			return
		default:
			parts = min(2*parts, all)
		}
	}
}

// removeParts divides a plan of all steps into parts of the given size, and returns an edit to
// remove each part.
func removeParts(all, size int) (edits []edit) {
	for from := 0; from < all; from += size {
		edits = append(edits, func(s *scenario.Scenario) { s.Plan = slices.Delete(s.Plan, from, min(from+size, len(s.Plan))) })
	}
	return edits
}

// smallPlanSize is the plan size up to which steps are removed singly rather than in parts.
const smallPlanSize = 3

// removePartsWithOtherSeeds removes halves, quarters and eighths of a long plan, trying other seeds
// each time. If only one seed in a hundred shows a bug, every step shifts the timing that the bug
// depends on, so no step can be removed without changing the seed.
func (x *minimization) removePartsWithOtherSeeds() {
	for parts := 2; len(x.best.Plan) > smallPlanSize && parts <= 8 && !x.stopped(); {
		all := len(x.best.Plan)
		if x.acceptFirstWithSeeds(removeParts(all, (all+parts-1)/parts), otherSeeds()) >= 0 {
			x.removeSteps()
			parts = 2
			continue
		}
		parts *= 2
	}
}

func otherSeeds() (seeds []uint64) {
	for seed := uint64(1); seed <= otherSeedCount; seed++ {
		seeds = append(seeds, seed)
	}
	return seeds
}

// otherSeedCount is how many other seeds to try for each edit. maxSingleSteps limits the number of
// steps that are tried one by one.
const (
	otherSeedCount = 8
	maxSingleSteps = 12
)

// removeWithOtherSeeds removes a step, a client or a node, trying other seeds. Many steps only shift
// the timing of others, and another seed may give the same timing without them.
func (x *minimization) removeWithOtherSeeds() {
	var edits []edit
	for i := range x.best.Plan[:min(len(x.best.Plan), maxSingleSteps)] {
		edits = append(edits, func(s *scenario.Scenario) { s.Plan = slices.Delete(s.Plan, i, i+1) })
	}
	edits = append(edits, shrinkTopology(x.best)...)
	edits = append(edits, removeClientAndRunLonger(x.best)...)
	x.acceptFirstWithSeeds(edits, otherSeeds())
}

// seedsShowing returns which of the seeds 1 to count show the bug in the minimized scenario.
func (x *minimization) seedsShowing(count int) []uint64 {
	showsBug := make([]bool, count)
	Each(x.ctx, x.Workers, count, func(i int) { showsBug[i] = x.Run(x.ctx, x.best, uint64(i+1)) })
	var seeds []uint64
	for i, shows := range showsBug {
		if shows {
			seeds = append(seeds, uint64(i+1))
		}
	}
	return seeds
}

// shortenRun lets the clients work for a shorter time, and shortens the run by the same amount.
// These edits come first because they make all others cheaper.
func shortenRun(best scenario.Scenario) (edits []edit) {
	tail := best.Limit - best.Workload.For
	for d := time.Second; d < best.Workload.For; d = (d * 3 / 2).Round(time.Second / 2) {
		edits = append(edits, func(s *scenario.Scenario) {
			if s.Workload.For > d {
				s.Workload.For, s.Limit = d, d+tail
				s.Plan = slices.DeleteFunc(s.Plan, func(st nemesis.Step) bool { // these steps would never happen
					return st.When.At != nil && *st.When.At >= s.Limit
				})
			}
		})
	}
	return edits
}

// reduceCycles limits the clients' work to a number of cycles instead of a time, or lowers the
// limit.
func reduceCycles(best scenario.Scenario) (edits []edit) {
	for n := 1; n <= 8; n *= 2 {
		edits = append(edits, func(s *scenario.Scenario) {
			switch w := &s.Workload; {
			case w.For == 0:
				w.Cycles = min(w.Cycles, n)
			case w.Cycles == 0 || w.Cycles >= n:
				w.For, w.Cycles = 0, n
			}
		})
		for i, c := range best.Clients {
			if c.Cycles != nil {
				edits = append(edits, lowerTo(func(s *scenario.Scenario) *int { return s.Clients[i].Cycles }, n))
			}
		}
	}
	return edits
}

// shareTrigger gives all steps the same trigger. A bug often needs several nodes only because the
// steps happen at different times.
func shareTrigger(best scenario.Scenario) (edits []edit) {
	for i := range best.Plan[:min(len(best.Plan), maxSingleSteps)] {
		edits = append(edits, func(s *scenario.Scenario) {
			for j := range s.Plan {
				s.Plan[j].When = s.Plan[i].When
			}
		})
	}
	return edits
}

// roundValues replaces ranges with single values, and shortens and rounds times and other numbers.
func roundValues(best scenario.Scenario) (edits []edit) {
	type sc = scenario.Scenario
	for i := range ranges(&best) {
		for _, choose := range []func(client.Range) time.Duration{
			func(r client.Range) time.Duration { return r.Min },
			func(r client.Range) time.Duration { return r.Max },
			func(r client.Range) time.Duration { return (r.Min + r.Max) / 2 },
		} {
			edits = append(edits, func(s *sc) {
				r := ranges(s)[i]
				value := choose(*r)
				r.Min, r.Max = value, value
			})
		}
	}
	for i, st := range best.Plan {
		if choose := st.When.At; choose != nil {
			for d := time.Second; d < *choose; d *= 2 {
				edits = append(edits, lowerTo(func(s *sc) *time.Duration { return s.Plan[i].When.At }, d))
			}
		}
		if st.Fault.For == nil {
			continue
		}
		for d := 10 * time.Millisecond; d < *st.Fault.For; d *= 2 {
			edits = append(edits, lowerTo(func(s *sc) *time.Duration { return s.Plan[i].Fault.For }, d))
		}
	}
	for i := range times(&best) {
		for _, unit := range []time.Duration{time.Second, time.Second / 2, time.Second / 10, 10 * time.Millisecond, time.Millisecond} {
			edits = append(edits, func(s *sc) {
				x := times(s)[i]
				*x = x.Round(unit)
			})
		}
	}
	for i := range numbers(&best) {
		for digits := 1; digits <= 2; digits++ {
			edits = append(edits, func(s *sc) {
				x := numbers(s)[i]
				*x = roundTo(*x, digits)
			})
		}
	}
	for i, st := range best.Plan {
		if st.Fault.Bandwidth > 0 {
			edits = append(edits, func(s *sc) {
				x := &s.Plan[i].Fault.Bandwidth
				*x = int(roundTo(float64(*x), 1))
			})
		}
	}
	return edits
}

// roundTo rounds a number to significant digits.
func roundTo(x float64, digits int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// ranges returns the ranges that a scenario draws times from.
func ranges(s *scenario.Scenario) []*client.Range {
	all := []*client.Range{&s.Workload.Think, &s.Workload.Hold, &s.Workload.Prepare}
	for i := range s.Clients {
		for _, r := range []*client.Range{s.Clients[i].Think, s.Clients[i].Hold} {
			if r != nil {
				all = append(all, r)
			}
		}
	}
	for i := range s.Plan {
		f := &s.Plan[i].Fault
		all = append(all, (*client.Range)(&f.Delay), (*client.Range)(&f.Every), (*client.Range)(&f.Lasts))
	}
	return all
}

// times returns all times in a scenario except the lock's settings.
func times(s *scenario.Scenario) []*time.Duration {
	all := []*time.Duration{&s.Workload.For, &s.Limit, &s.Workload.Extend, &s.Workload.CancelAfter}
	for _, r := range ranges(s) {
		all = append(all, &r.Min, &r.Max)
	}
	for i := range s.Clients {
		all = append(all, &s.Clients[i].Delay)
		if after := s.Clients[i].CancelAfter; after != nil {
			all = append(all, after)
		}
	}
	addEvent := func(e *nemesis.Event) {
		if e != nil {
			all = append(all, &e.After)
		}
	}
	for i := range s.Plan {
		w, f := &s.Plan[i].When, &s.Plan[i].Fault
		if w.At != nil {
			all = append(all, w.At)
		}
		all = append(all, &w.Before, &f.By)
		if f.For != nil {
			all = append(all, f.For)
		}
		if f.Timer != nil {
			all = append(all, &f.Timer.Step)
		}
		addEvent(w.Event)
		addEvent(f.Until)
	}
	return all
}

// numbers returns the rates and shares in a plan.
func numbers(s *scenario.Scenario) (all []*float64) {
	for i := range s.Plan {
		f := &s.Plan[i].Fault
		all = append(all, &f.Rate, &f.Share)
		if f.Timer != nil {
			all = append(all, &f.Timer.Rate)
		}
	}
	return all
}

// Write formats the result as a scenario file that expects the bug. The name must be valid for a
// scenario.
func (r Minimized) Write(name string, known scenario.KnownNames) ([]byte, error) {
	s := r.Scenario
	s.Name = name
	s.Claim = r.claim()
	s.Source = fmt.Sprintf("lockpick minimize, from %s with seed %d", r.OriginalID, r.OriginalSeed)
	return scenario.Write(s, r.Caption(), known)
}

func (r Minimized) claim() string {
	by := "without any fault"
	if n := r.SizeAfter.Steps; n > 0 {
		by = "with " + display.Plural(n, "fault")
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

// Caption describes the bug, the plan and the origin of the scenario, and how to run it.
func (r Minimized) Caption() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in the lock %s, %s on %s:\n", r.Bug, r.lock(), display.Plural(r.SizeAfter.Clients, "client"), display.Plural(r.SizeAfter.Nodes, "node"))
	for _, st := range r.Scenario.Plan {
		fmt.Fprintf(&b, "  %s\n", DescribeStep(st))
	}
	if len(r.Scenario.Plan) == 0 {
		fmt.Fprintf(&b, "  no faults\n")
	}
	fmt.Fprintf(&b, "\nMinimized from %s, seed %d: %s.\n", r.OriginalID, r.OriginalSeed, r.Summary())
	hint := "To reproduce: lockpick run FILE"
	if r.Seed != 1 {
		hint += fmt.Sprintf(" --seed %d", r.Seed)
	}
	b.WriteString(hint + "\n")
	return b.String()
}

// Summary says in one line how much smaller the scenario became and how often it shows the bug.
func (r Minimized) Summary() string {
	parts := []string{fmt.Sprintf("%s -> %d", display.Plural(r.SizeBefore.Steps, "step"), r.SizeAfter.Steps)}
	for _, x := range []struct {
		before, after int
		noun          string
	}{{r.SizeBefore.Clients, r.SizeAfter.Clients, "client"}, {r.SizeBefore.Nodes, r.SizeAfter.Nodes, "node"}, {r.SizeBefore.Keys, r.SizeAfter.Keys, "key"}} {
		if x.before != x.after {
			parts = append(parts, fmt.Sprintf("%s -> %d", display.Plural(x.before, x.noun), x.after))
		}
	}
	parts = append(parts, display.Plural(r.Runs, "run"), fmt.Sprintf("reproduces with %d of %d seeds", r.ReproducingSeeds, r.SeedsTried))
	if !r.Complete {
		parts = append(parts, "more runs might make it smaller")
	}
	return strings.Join(parts, ", ")
}

// Print prints the caption, the result on another backend, and the paths of the files.
func (k *MinimizedRun) Print(w io.Writer) {
	fmt.Fprintf(w, "%s\n", strings.TrimRight(k.Caption(), "\n"))
	if k.Reproduction != nil {
		fmt.Fprintln(w, suites.DescribeReproduction(k.Reproduction))
	}
	fmt.Fprintf(w, "\n    scenario:  %s\n    record:    %s\n    run again: %s\n", k.File, k.Dir, k.Command)
}

// DescribeStep describes a step in words, for example "at 3s: n2 is killed (for 10ms)".
func DescribeStep(st nemesis.Step) string {
	targets := display.List(st.Fault.Targets)
	wording := nemesis.WordingOf(st.Fault.Kind)
	template := cmp.Or(wording.BeginText, "{targets}: {kind}")
	subject := "all"
	if len(st.Fault.Targets) > 0 {
		subject = targets
	}
	text := strings.NewReplacer("{targets}", subject, "{client} is cut off from {targets}", "the links "+subject+" are cut",
		"messages between {client} and {targets}", "messages on "+subject,
		"{message}", "it", "{saw}", "", "{kind}", st.Fault.Kind).Replace(template)
	text = st.When.String() + ": " + text
	if d := st.Fault.Details(); d != "" {
		text += " (" + d + ")"
	}
	if st.Drawn {
		text += ", with some probability"
	}
	return text
}
