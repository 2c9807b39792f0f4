package campaign

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

// FuzzFile is the name of a hunt's file in its folder.
const FuzzFile = "hunt.json"

// mostFile bounds what is read of it. Finds are few, and so is what is done out of order.
const mostFile = 16 << 20

// fuzzSchema is the version of the file.
const fuzzSchema = 1

// Fuzz is what is known of a search. It is not safe for several goroutines.
type Fuzz struct {
	Schema    int         `json:"schema"`
	Of        string      `json:"of"`        // tells what is run: scenarios, lock and version
	Scenarios []string    `json:"scenarios"` // of each seed, in this order
	Seed      uint64      `json:"seed"`      // the first
	Next      int         `json:"next"`      // all runs with lower numbers are done
	Ahead     []int       `json:"ahead,omitempty"`
	Runs      int         `json:"runs"`
	Failed    int         `json:"failed,omitempty"` // of these, those that could not be judged
	Error     string      `json:"error,omitempty"`  // of the first of them
	Finds     []*FuzzFind `json:"finds"`
	Owner     string      `json:"owner,omitempty"` // the process that hunts; "": none
	// Leg is what was asked for last, of which as much is done. Over: all of it.
	Leg fuzzLeg `json:"leg"`

	folder string
	taken  int
	ahead  map[int]bool
}

// fuzzLeg is one invocation's share of a search.
type fuzzLeg struct {
	Begun   int     `json:"begun"`   // runs that were done before
	Seconds float64 `json:"seconds"` // that it has taken
	Over    bool    `json:"over"`
}

// FuzzFind is a property with a cause by which it was violated.
type FuzzFind struct {
	Bug
	Held     bool        `json:"held"` // it had to hold
	Runs     int         `json:"runs"`
	First    fuzzExample `json:"first"`
	Shortest fuzzExample `json:"shortest"`
	// When it came first, After so many runs were done, the hunt had taken so many Seconds. To
	// make it small Took so many more.
	After   int     `json:"after"`
	Seconds float64 `json:"seconds"`
	Took    float64 `json:"took,omitempty"`
	// First is the run with the lowest number of those that were done when the find was settled.
	// Dir is where it is kept; File the scenario that was made small of it, and
	// Small what that took; Why says why there is none. Settled: one of the two is there.
	Dir     string     `json:"dir,omitempty"`
	File    string     `json:"file,omitempty"`
	Small   *Minimized `json:"small,omitempty"`
	Command string     `json:"command,omitempty"` // runs the small scenario
	Why     string     `json:"why,omitempty"`
	Known   bool       `json:"known,omitempty"` // the corpus had it
	Settled bool       `json:"settled"`
}

// fuzzExample is a run that shows a find.
type fuzzExample struct {
	Scenario int `json:"scenario"` // which of Scenarios
	outcome.Example
}

// ErrFuzzTaken says that another process is at the same hunt.
var ErrFuzzTaken = errors.New("another lockpick is at this hunt")

// OpenFuzz begins a hunt in a folder, or goes on with the one that is there and is of the same.
func OpenFuzz(folder, of string, scenarios []string, seed uint64) (*Fuzz, error) {
	h := &Fuzz{Schema: fuzzSchema, Of: of, Scenarios: scenarios, Seed: seed, Finds: []*FuzzFind{}, Leg: fuzzLeg{Over: true}}
	text, err := files.ReadIn(folder, FuzzFile, mostFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read hunt: %w", err)
	default:
		if h, err = parse(text); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, FuzzFile), err)
		}
		if h.Of != of || !slices.Equal(h.Scenarios, scenarios) {
			return nil, fmt.Errorf("read %s: it is of another hunt", filepath.Join(folder, FuzzFile))
		}
	}
	self, err := files.Self()
	if err != nil {
		return nil, fmt.Errorf("open hunt: %w", err)
	}
	if other, ok := files.ParseOwner(h.Owner); ok && other != self && !other.Ended(self, time.Time{}) {
		return nil, ErrFuzzTaken
	}
	h.folder, h.Owner = folder, self.String()
	if h.Leg.Over {
		h.Leg = fuzzLeg{Begun: h.Runs}
	}
	return h, nil
}

// parse reads a hunt's file, of which nothing is worth a guess.
func parse(text []byte) (*Fuzz, error) {
	h := &Fuzz{}
	if err := files.JSON(text, h); err != nil {
		return nil, err
	}
	h.ahead = map[int]bool{}
	for _, i := range h.Ahead {
		if i < h.Next || h.ahead[i] {
			return nil, fmt.Errorf("run %d is counted twice", i)
		}
		h.ahead[i] = true
	}
	switch {
	case h.Schema != fuzzSchema:
		return nil, fmt.Errorf("it has schema %d, and this version reads %d", h.Schema, fuzzSchema)
	case h.Next < 0 || h.Runs != h.Next+len(h.Ahead):
		return nil, fmt.Errorf("it says that %d runs are done, and names %d", h.Runs, h.Next+len(h.Ahead))
	case len(h.Scenarios) == 0:
		return nil, errors.New("it has no scenarios")
	case h.Leg.Begun < 0 || h.Leg.Begun > h.Runs || !(h.Leg.Seconds >= 0):
		return nil, errors.New("leg: it begins before the hunt or after it")
	}
	for i, f := range h.Finds {
		if f == nil || f.Runs < 1 || f.First.Scenario < 0 || f.First.Scenario >= len(h.Scenarios) {
			return nil, fmt.Errorf("find %d is of no run", i+1)
		}
	}
	h.taken = h.Next
	return h, nil
}

// Resumes says whether the hunt goes on with what another call was asked for.
func (h *Fuzz) Resumes() bool { return h.Leg.Seconds > 0 }

// Take is the number of the next run that nobody has taken.
func (h *Fuzz) Take() int {
	for h.ahead[h.taken] {
		h.taken++
	}
	h.taken++
	return h.taken - 1
}

// Run is the scenario and the seed of a run's number.
func (h *Fuzz) Run(i int) (scenario int, seed uint64) {
	return i % len(h.Scenarios), h.Seed + uint64(i/len(h.Scenarios))
}

// Done takes what came of a run, and says what nobody had found before, and whether something was
// violated that had to hold. A run that was taken before counts once.
func (h *Fuzz) Done(i int, o outcome.Outcome) (fresh []*FuzzFind, harm bool) {
	if i < h.Next || h.ahead[i] {
		return nil, false
	}
	if h.ahead == nil {
		h.ahead = map[int]bool{}
	}
	h.ahead[i] = true
	for h.ahead[h.Next] {
		delete(h.ahead, h.Next)
		h.Next++
	}
	h.Runs++
	if o.Error != "" {
		h.Failed++
		h.Error = cmp.Or(h.Error, o.Error)
	}
	scenario, seed := h.Run(i)
	for _, j := range o.Violations() {
		this := fuzzExample{scenario, outcome.Example{Seed: seed, Events: j.Length, Command: o.Command}}
		b := Bug{Property: j.Property, Cause: j.Cause}
		f := outcome.Entry(&h.Finds, func(f *FuzzFind) bool { return f.Bug == b }, FuzzFind{Bug: b, First: this, Shortest: this, After: h.Runs})
		if f.Runs++; f.Runs == 1 {
			fresh = append(fresh, f)
		}
		held := j.Expected == string(verdict.Holds)
		f.Held, harm = f.Held || held, harm || held
		if !f.Settled && before(this, f.First) {
			f.First = this
		}
		if this.Events < f.Shortest.Events || this.Events == f.Shortest.Events && before(this, f.Shortest) {
			f.Shortest = this
		}
	}
	return fresh, harm
}

// before says whether a run has the lower number.
func before(a, b fuzzExample) bool {
	return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Scenario, b.Scenario)) < 0
}

// Finish puts the finds into the order in which they are told, and returns the exit code that they call for.
func (h *Fuzz) Finish() int {
	slices.SortFunc(h.Finds, func(a, b *FuzzFind) int {
		at := func(f *FuzzFind) int { return slices.Index(checker.Properties(), f.Property) }
		held := func(f *FuzzFind) int {
			if f.Held {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(held(a), held(b)), cmp.Compare(at(a), at(b)), cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Cause, b.Cause))
	})
	code := outcome.ExitOK
	if len(h.Finds) > 0 && h.Finds[0].Held {
		code = outcome.ExitUnexpected
	}
	if h.Failed > 0 {
		code = outcome.Worse(code, outcome.ExitBackend)
	}
	return code
}

// Save writes the hunt's file.
func (h *Fuzz) Save() error {
	h.Ahead = nil
	for i := range h.ahead {
		h.Ahead = append(h.Ahead, i)
	}
	slices.Sort(h.Ahead)
	text, err := json.MarshalIndent(h, "", " ")
	if err == nil {
		err = files.WriteIn(h.folder, FuzzFile, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write hunt: %w", err)
	}
	return nil
}

// Close writes the file a last time, of a hunt that nobody is at any more.
func (h *Fuzz) Close() error {
	h.Owner = ""
	return h.Save()
}
