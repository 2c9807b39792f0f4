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

// edit makes a scenario smaller, or leaves it as it is. It may be given any scenario that comes of
// the one it was made for by other edits of its pass.
type edit func(s *scenario.Scenario)

// search is the way from one scenario to the smallest.
type search struct {
	Minimizer
	ctx  context.Context
	bug  Bug
	seed uint64
	best scenario.Scenario
	seen map[string]bool // what was tried
	runs int
	kept int // edits
	left int // runs that may be made
	idle chan struct{}
}

func (x *search) over() bool { return x.left <= 0 || x.ctx.Err() != nil }

// pass tries edits one after the other, each on what the ones before have made.
func (x *search) pass(edits []edit) {
	for len(edits) > 0 {
		i := x.first(edits)
		if i < 0 {
			return
		}
		edits = edits[i+1:]
	}
}

// attempt is an edited scenario, and what came of it.
type attempt struct {
	at     int // of the edits
	seed   uint64
	name   string
	edited scenario.Scenario
	end    chan struct{}
	holds  bool
}

// first is the first of some edits that keeps the bug, which is kept, and -1 if none does.
// While one is tried, so are those behind it, on whatever worker is idle. They count for
// nothing once one before them holds: neither what is found nor the number of runs depends on
// how many workers there are.
func (x *search) first(edits []edit) int { return x.firstOf(edits, []uint64{x.seed}) }

// firstOf is first, with each of some seeds.
func (x *search) firstOf(edits []edit, seeds []uint64) int {
	if x.over() {
		return -1
	}
	ctx, enough := context.WithCancel(x.ctx)
	defer enough()
	begun := make(chan *attempt, cap(x.idle))
	go x.begin(ctx, x.best, edits, seeds, begun)
	for a := range begun {
		if x.seen[a.name] {
			continue
		}
		<-a.end
		if x.ctx.Err() != nil {
			return -1
		}
		x.seen[a.name] = true
		x.runs++
		x.left--
		if a.holds {
			x.best, x.seed = a.edited, a.seed
			x.kept++
			return a.at
		}
		if x.left <= 0 {
			return -1
		}
	}
	return -1
}

// begin begins to try edits of a scenario in their order, until ctx ends.
func (x *search) begin(ctx context.Context, s scenario.Scenario, edits []edit, seeds []uint64, begun chan<- *attempt) {
	defer close(begun)
	before := nameOf(s, 0)
	for i, e := range edits {
		edited := copied(s)
		e(&edited)
		if nameOf(edited, 0) == before || edited.Check(x.Known) != nil {
			continue
		}
		for _, seed := range seeds {
			a := &attempt{at: i, seed: seed, edited: edited, name: nameOf(edited, seed), end: make(chan struct{})}
			select {
			case x.idle <- struct{}{}:
			case <-ctx.Done():
				return
			}
			go func() {
				defer func() { <-x.idle; close(a.end) }()
				a.holds = x.Run(x.ctx, a.edited, seed)
			}()
			select {
			case begun <- a:
			case <-ctx.Done():
				return
			}
		}
	}
}

// copied is a scenario that has nothing in common with another.
func copied(s scenario.Scenario) (own scenario.Scenario) {
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &own)
	}
	if err != nil {
		panic(err) // plain data: can't happen
	}
	return own
}

// nameOf is the same for scenarios that are the same.
func nameOf(s scenario.Scenario, seed uint64) string {
	text, _ := json.Marshal(s)
	return fmt.Sprintf("%d %x", seed, sha256.Sum256(text))
}

// steps removes as many steps as can be spared: halves of them, quarters, and in the end
// each by itself. Source: A. Zeller and R. Hildebrandt, "Simplifying and Isolating
// Failure-Inducing Input", IEEE Transactions on Software Engineering 28 (2002), 183–200.
func (x *search) steps() {
	for parts := 2; len(x.best.Plan) > 0; {
		all := len(x.best.Plan)
		size := (all + parts - 1) / parts
		switch i := x.first(less(all, size)); {
		case i >= 0:
			parts = max(parts-1, 2)
		case size == 1 || x.over():
			return
		default:
			parts = min(2*parts, all)
		}
	}
}

// less takes a part of so many steps away, one after the other.
func less(all, size int) (edits []edit) {
	for from := 0; from < all; from += size {
		edits = append(edits, func(s *scenario.Scenario) { s.Plan = slices.Delete(s.Plan, from, min(from+size, len(s.Plan))) })
	}
	return edits
}

// fewSteps are so few that each is tried by itself with other seeds.
const fewSteps = 3

// leap removes parts of a plan with other seeds: halves, quarters, eighths, until few steps are
// left or none can be spared. What shows with one seed of a hundred shows by instants that each step
// moves, so that with the same seed none can be spared.
func (x *search) leap() {
	for parts := 2; len(x.best.Plan) > fewSteps && parts <= 8 && !x.over(); {
		all := len(x.best.Plan)
		if x.firstOf(less(all, (all+parts-1)/parts), otherSeeds()) >= 0 {
			x.steps()
			parts = 2
			continue
		}
		parts *= 2
	}
}

func otherSeeds() (seeds []uint64) {
	for seed := uint64(1); seed <= hops; seed++ {
		seeds = append(seeds, seed)
	}
	return seeds
}

// hops is how many other seeds a step, a client or a node is taken away with, and mostHops of
// how many steps.
const (
	hops     = 8
	mostHops = 12
)

// hop takes steps, clients and nodes away with other seeds. Several steps often do no more than
// move the others to the instants at which they do harm; another seed has other instants.
func (x *search) hop() {
	var edits []edit
	for i := range x.best.Plan[:min(len(x.best.Plan), mostHops)] {
		edits = append(edits, func(s *scenario.Scenario) { s.Plan = slices.Delete(s.Plan, i, i+1) })
	}
	edits = append(edits, smallWorld(x.best)...)
	edits = append(edits, patient(x.best)...)
	x.firstOf(edits, otherSeeds())
}

// shows lists the seeds from 1 on with which the best shows the bug, of so many.
func (x *search) shows(of int) []uint64 {
	held := make([]bool, of)
	Each(x.ctx, x.Workers, of, func(i int) { held[i] = x.Run(x.ctx, x.best, uint64(i+1)) })
	var seeds []uint64
	for i, h := range held {
		if h {
			seeds = append(seeds, uint64(i+1))
		}
	}
	return seeds
}

// shorter lets the clients work for less, and ends the run as much sooner. It comes first, for it makes all that follows cheaper.
func shorter(best scenario.Scenario) (edits []edit) {
	tail := best.Limit - best.Workload.For
	for d := time.Second; d < best.Workload.For; d = (d * 3 / 2).Round(time.Second / 2) {
		edits = append(edits, func(s *scenario.Scenario) {
			if s.Workload.For > d {
				s.Workload.For, s.Limit = d, d+tail
				s.Plan = slices.DeleteFunc(s.Plan, func(st nemesis.Step) bool { // what would come later never does
					return st.When.At != nil && *st.When.At >= s.Limit
				})
			}
		})
	}
	return edits
}

// briefer bounds the clients' work by cycles, and these by fewer.
func briefer(best scenario.Scenario) (edits []edit) {
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
				edits = append(edits, lower(func(s *scenario.Scenario) *int { return s.Clients[i].Cycles }, n))
			}
		}
	}
	return edits
}

// together lets all steps come when one of them does: what takes several instants often takes
// several nodes for no other reason.
func together(best scenario.Scenario) (edits []edit) {
	for i := range best.Plan[:min(len(best.Plan), mostHops)] {
		edits = append(edits, func(s *scenario.Scenario) {
			for j := range s.Plan {
				s.Plan[j].When = s.Plan[i].When
			}
		})
	}
	return edits
}

// rounder makes times short and round, settles what is drawn from a range, and makes other
// numbers round.
func rounder(best scenario.Scenario) (edits []edit) {
	type sc = scenario.Scenario
	for i := range ranges(&best) {
		for _, at := range []func(client.Range) time.Duration{
			func(r client.Range) time.Duration { return r.Min },
			func(r client.Range) time.Duration { return r.Max },
			func(r client.Range) time.Duration { return (r.Min + r.Max) / 2 },
		} {
			edits = append(edits, func(s *sc) {
				r := ranges(s)[i]
				one := at(*r)
				r.Min, r.Max = one, one
			})
		}
	}
	for i, st := range best.Plan {
		if at := st.When.At; at != nil {
			for d := time.Second; d < *at; d *= 2 {
				edits = append(edits, lower(func(s *sc) *time.Duration { return s.Plan[i].When.At }, d))
			}
		}
		if st.Fault.For == nil {
			continue
		}
		for d := 10 * time.Millisecond; d < *st.Fault.For; d *= 2 {
			edits = append(edits, lower(func(s *sc) *time.Duration { return s.Plan[i].Fault.For }, d))
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
				*x = rounded(*x, digits)
			})
		}
	}
	for i, st := range best.Plan {
		if st.Fault.Bandwidth > 0 {
			edits = append(edits, func(s *sc) {
				x := &s.Plan[i].Fault.Bandwidth
				*x = int(rounded(float64(*x), 1))
			})
		}
	}
	return edits
}

// rounded is a number with so many digits that count.
func rounded(x float64, digits int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// ranges are those that a scenario draws times from.
func ranges(s *scenario.Scenario) []*client.Range {
	all := []*client.Range{&s.Workload.Think, &s.Workload.Hold, &s.Workload.Prepare}
	for i := range s.Clients {
		for _, own := range []*client.Range{s.Clients[i].Think, s.Clients[i].Hold} {
			if own != nil {
				all = append(all, own)
			}
		}
	}
	for i := range s.Plan {
		f := &s.Plan[i].Fault
		all = append(all, (*client.Range)(&f.Delay), (*client.Range)(&f.Every), (*client.Range)(&f.Lasts))
	}
	return all
}

// times are all of a scenario, but for the lock's own, which are its configuration.
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
	event := func(e *nemesis.Event) {
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
		event(w.Event)
		event(f.Until)
	}
	return all
}

// numbers are a plan's.
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

// Print prints what a scenario shows in words, and where it is.
func (k *MinimizedRun) Print(w io.Writer) {
	fmt.Fprintf(w, "%s\n", strings.TrimRight(k.Caption(), "\n"))
	if k.Try != nil {
		fmt.Fprintln(w, suites.CardTries(k.Try))
	}
	fmt.Fprintf(w, "\n    scenario:  %s\n    record:    %s\n    run again: %s\n", k.File, k.Dir, k.Command)
}

// DescribeStep is a step in plain words: "at 3s: n2 is killed (for 10ms)".
func DescribeStep(st nemesis.Step) string {
	targets := display.List(st.Fault.Targets)
	told := nemesis.ToldOf(st.Fault.Kind)
	began := cmp.Or(told.Began, "{targets}: {kind}")
	whom := "all"
	if len(st.Fault.Targets) > 0 {
		whom = targets
	}
	text := strings.NewReplacer("{targets}", whom, "{client} is cut off from {targets}", "the links "+whom+" are cut",
		"messages between {client} and {targets}", "messages on "+whom,
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
