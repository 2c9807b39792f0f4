package campaign

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"lockpick/harness/scenario"
)

// edit makes a scenario smaller, or says that there is nothing to do. It may be given any
// scenario that comes of the one it was made for by other edits of its pass.
type edit func(s *scenario.Scenario) bool

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

// keeps tries one edit.
func (x *search) keeps(e edit) bool { return x.first([]edit{e}) == 0 }

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
	for i, e := range edits {
		edited := copied(s)
		if !e(&edited) || edited.Check(x.Known) != nil {
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
		edits = append(edits, func(s *scenario.Scenario) bool {
			s.Plan = slices.Delete(s.Plan, from, min(from+size, len(s.Plan)))
			return true
		})
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
		edits = append(edits, func(s *scenario.Scenario) bool {
			s.Plan = slices.Delete(s.Plan, i, i+1)
			return true
		})
	}
	edits = append(edits, smallWorld(x.best)...)
	edits = append(edits, patient(x.best)...)
	x.firstOf(edits, otherSeeds())
}

// shows lists the seeds from 1 on with which the best shows the bug, of so many.
func (x *search) shows(of int) []uint64 {
	held := make([]bool, of)
	var all sync.WaitGroup
	for i := range held {
		x.idle <- struct{}{}
		all.Go(func() {
			defer func() { <-x.idle }()
			held[i] = x.Run(x.ctx, x.best, uint64(i+1))
		})
	}
	all.Wait()
	var seeds []uint64
	for i, h := range held {
		if h {
			seeds = append(seeds, uint64(i+1))
		}
	}
	return seeds
}
