package campaign

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// fuzzFile is the name of the state file in a search's folder.
const fuzzFile = "hunt.json"

// maxFuzzFile limits the state file. It has few findings and few runs that finished out of order.
const mostFile = 16 << 20

// fuzzSchema is the version of the state file.
const fuzzSchema = 1

// FuzzState is the state of a search. It is not safe for concurrent use.
type Fuzz struct {
	Schema    int         `json:"schema"`
	Of        string      `json:"of"`              // digest of the scenarios, the lock and the version
	Scenarios []string    `json:"scenarios"`       // each seed runs all of them, in this order
	Seed      uint64      `json:"seed"`            // the first seed
	Next      int         `json:"next"`            // all runs with lower numbers are done
	Ahead     []int       `json:"ahead,omitempty"` // numbers of other finished runs, sorted
	Runs      int         `json:"runs"`
	Failed    int         `json:"failed,omitempty"` // finished runs that could not be judged
	Error     string      `json:"error,omitempty"`  // error of the first failed run
	Finds     []*FuzzFind `json:"finds"`
	Owner     string      `json:"owner,omitempty"` // the process that runs the search; "" if none does
	// Session is the current invocation, or an interrupted one that the next invocation resumes.
	Leg fuzzLeg `json:"leg"`

	folder string
	taken  int
}

// fuzzSession is one invocation's share of a search.
type fuzzLeg struct {
	Begun   int     `json:"begun"`   // runs done before it started
	Seconds float64 `json:"seconds"` // time it has taken
	Over    bool    `json:"over"`
}

// FuzzFinding is a property and a cause of its violation.
type FuzzFind struct {
	Bug
	Held     bool        `json:"held"` // whether the property was required
	Runs     int         `json:"runs"`
	First    fuzzExample `json:"first"`
	Shortest fuzzExample `json:"shortest"`
	// RunsBefore and Seconds are the number of runs and the search time until the finding's first
	// run. MinimizeSeconds is the time that minimizing it took.
	After   int     `json:"after"`
	Seconds float64 `json:"seconds"`
	Took    float64 `json:"took,omitempty"`
	// First is the run with the lowest number among those done when the finding was processed. Dir
	// is the directory of that run. File is the minimized scenario and Minimized describes it;
	// NotMinimized says why there is none. Settled is set once either is there.
	Dir     string     `json:"dir,omitempty"`
	File    string     `json:"file,omitempty"`
	Small   *Minimized `json:"small,omitempty"`
	Command string     `json:"command,omitempty"` // runs the minimized scenario
	Why     string     `json:"why,omitempty"`
	Known   bool       `json:"known,omitempty"` // the corpus already had it
	Settled bool       `json:"settled"`
}

// fuzzExample is a run that shows a finding.
type fuzzExample struct {
	Scenario int `json:"scenario"` // index into Scenarios
	outcome.Example
}

// errFuzzInUse means that another process runs the same search.
var errFuzzTaken = errors.New("another lockpick process is running this search")

// openFuzz starts a search in a folder, or resumes the same search if its state is there.
func openFuzz(folder, of string, scenarios []string, seed uint64) (*Fuzz, error) {
	h := &Fuzz{Schema: fuzzSchema, Of: of, Scenarios: scenarios, Seed: seed, Finds: []*FuzzFind{}, Leg: fuzzLeg{Over: true}}
	text, err := files.ReadIn(folder, fuzzFile, mostFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read search state: %w", err)
	default:
		if h, err = parse(text); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, fuzzFile), err)
		}
		if h.Of != of || !slices.Equal(h.Scenarios, scenarios) {
			return nil, fmt.Errorf("read %s: it belongs to another search", filepath.Join(folder, fuzzFile))
		}
	}
	self, err := files.Self()
	if err != nil {
		return nil, fmt.Errorf("open search: %w", err)
	}
	if other, ok := files.ParseOwner(h.Owner); ok && other != self && !other.Ended(self, time.Time{}) {
		return nil, errFuzzTaken
	}
	h.folder, h.Owner = folder, self.String()
	if h.Leg.Over {
		h.Leg = fuzzLeg{Begun: h.Runs}
	}
	return h, nil
}

// parseFuzz parses a state file and rejects an invalid one.
func parse(text []byte) (*Fuzz, error) {
	h := &Fuzz{}
	if err := files.JSON(verdict.CanonicalJSON(text), h); err != nil {
		return nil, err
	}
	slices.Sort(h.Ahead)
	for k, i := range h.Ahead {
		if i < h.Next || k > 0 && i == h.Ahead[k-1] {
			return nil, fmt.Errorf("run %d is counted twice", i)
		}
	}
	switch {
	case h.Schema != fuzzSchema:
		return nil, fmt.Errorf("schema %d is not supported; this version reads schema %d", h.Schema, fuzzSchema)
	case h.Next < 0 || h.Runs != h.Next+len(h.Ahead):
		return nil, fmt.Errorf("runs is %d, but %d runs are marked as done", h.Runs, h.Next+len(h.Ahead))
	case len(h.Scenarios) == 0:
		return nil, errors.New("no scenarios")
	case h.Leg.Begun < 0 || h.Leg.Begun > h.Runs || !(h.Leg.Seconds >= 0):
		return nil, errors.New("leg: begun or seconds is out of range")
	}
	for i, f := range h.Finds {
		if f == nil || f.Runs < 1 || f.First.Scenario < 0 || f.First.Scenario >= len(h.Scenarios) {
			return nil, fmt.Errorf("finding %d has no run", i+1)
		}
	}
	h.taken = h.Next
	return h, nil
}

// resumes reports whether the search continues an interrupted invocation.
func (h *Fuzz) resumes() bool { return h.Leg.Seconds > 0 }

// nextRun returns the number of the next unassigned run.
func (h *Fuzz) take() int {
	for h.isDone(h.taken) {
		h.taken++
	}
	h.taken++
	return h.taken - 1
}

func (h *Fuzz) isDone(i int) bool {
	_, ahead := slices.BinarySearch(h.Ahead, i)
	return i < h.Next || ahead
}

// runOf returns the scenario and the seed of a run.
func (h *Fuzz) run(i int) (scenario int, seed uint64) {
	return i % len(h.Scenarios), h.Seed + uint64(i/len(h.Scenarios))
}

// record adds the outcome of a run. It returns the new findings, and whether a required property
// was violated. A run that is recorded twice counts once.
func (h *Fuzz) done(i int, o outcome.Outcome) (fresh []*FuzzFind, harm bool) {
	if h.isDone(i) {
		return nil, false
	}
	at, _ := slices.BinarySearch(h.Ahead, i)
	h.Ahead = slices.Insert(h.Ahead, at, i)
	for len(h.Ahead) > 0 && h.Ahead[0] == h.Next {
		h.Ahead = h.Ahead[1:]
		h.Next++
	}
	h.Runs++
	if o.Error != "" {
		h.Failed++
		h.Error = cmp.Or(h.Error, o.Error)
	}
	scenario, seed := h.run(i)
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

// earlier reports whether run a has a lower number than run b.
func before(a, b fuzzExample) bool {
	return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Scenario, b.Scenario)) < 0
}

// finish sorts the findings for output and returns the exit code.
func (h *Fuzz) finish() int {
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

func (h *Fuzz) save() error {
	text, err := json.MarshalIndent(h, "", " ")
	if err == nil {
		err = files.WriteIn(h.folder, fuzzFile, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write search state: %w", err)
	}
	return nil
}

// close writes the state file for the last time, without an owner.
func (h *Fuzz) close() error {
	h.Owner = ""
	return h.save()
}

// Fuzzer runs scenarios with one seed after another and minimizes the violations that it finds.
type Fuzzer struct {
	Simulator
	Store     string // for the findings
	Scenarios []scenario.Scenario
	Job       func(n int, seed uint64) Job // returns the job of the n-th scenario
	Corpus    string                       // folder of minimized scenarios; "" means the one in the store
	Time      time.Duration                // time limit of the search; 0 means none
	Seed      uint64                       // the first seed of a new search
	Seeds     int                          // per scenario
	Anew      bool                         // start a new search even if there is one to resume
	FailFast  bool                         // stop after the first violation of a required property
	Log       io.Writer                    // for messages during the search
	Result    *Fuzz

	started time.Time
	resumed int              // runs done before this call began
	corpus  map[Bug]FuzzFind // the findings that the corpus still reproduces

	begun  sync.WaitGroup // runs in progress
	mu     sync.Mutex     // protects Result and the fields below
	live   *display.Progress
	saved  time.Time
	lost   error  // error from saving the state
	small  string // the finding that is being minimized
	enough bool   // no more runs should start
}

func (x *Fuzzer) Open() error {
	x.started = time.Now()
	if x.Corpus == "" {
		x.Corpus = filepath.Join(x.Store, CorpusFolder)
	} else if err := CanWrite(x.Corpus); err != nil {
		return failed(CorpusFailed, fmt.Errorf("open corpus: %w", errors.Unwrap(err)))
	}
	if err := CanWrite(x.Store); err != nil {
		return failed(storeFailed, err)
	}
	text, err := json.Marshal(x.Scenarios)
	if err != nil {
		return err
	}
	of := fmt.Sprintf("%x", sha256.Sum256(append(text, x.Version...)))
	var names []string
	for _, s := range x.Scenarios {
		names = append(names, s.ID())
	}
	l := x.Scenarios[0].Lock
	name := display.Join("-", x.Scenarios[0].Name, l.Kind, l.Mistake)
	folder := filepath.Join(x.Store, huntsFolder, name[:min(len(name), 80)]+"-"+of[:8])
	err = os.MkdirAll(folder, 0o755)
	if err == nil && x.Anew {
		if err = os.Remove(filepath.Join(folder, fuzzFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return failed(storeFailed, err)
	}
	switch x.Result, err = openFuzz(folder, of[:16], names, x.Seed); {
	case errors.Is(err, errFuzzTaken):
		return failed(Taken, err)
	case err != nil:
		return &Error{NotResumable, folder, err}
	case x.Result.resumes():
		fmt.Fprintf(x.Log, "resuming the interrupted search: %d runs done\n", x.Result.Runs)
	case x.Result.Runs > 0:
		fmt.Fprintf(x.Log, "continuing with new seeds: %d runs done\n", x.Result.Runs)
	}
	x.resumed = x.Result.Runs
	return x.Result.save()
}

// Run searches until the time limit, the last seed or the end of ctx, after running the scenarios
// of the corpus. It returns the exit code for the findings.
func (x *Fuzzer) Run(ctx context.Context) (code int, err error) {
	if err = x.runCorpus(ctx); err == nil {
		err = x.search(ctx)
	}
	x.Result.Leg.Seconds = x.spent()
	x.Result.Leg.Over = err == nil && ctx.Err() == nil
	if lost := x.Result.close(); err == nil {
		err = failed(storeFailed, lost)
	}
	return x.Result.finish(), cmp.Or(ctx.Err(), err)
}

// elapsed returns the search time in seconds, including interrupted invocations.
func (x *Fuzzer) spent() float64 { return x.Result.Leg.Seconds + time.Since(x.started).Seconds() }

func (x *Fuzzer) search(ctx context.Context) error {
	leg := x.Result.Leg
	var over <-chan time.Time
	if x.Time > 0 {
		over = time.After(x.Time - time.Duration(leg.Seconds*float64(time.Second)))
	}
	x.live = &display.Progress{W: x.Log, Mu: &x.mu, Started: x.started, Text: x.progress}
	defer x.live.Start()()
	defer x.begun.Wait()
	for {
		if err := x.settle(ctx); err != nil {
			return err
		}
		i, last := 0, leg.Begun+x.Seeds*len(x.Scenarios) // no run starts when i reaches last
		var w *Worker
		select { // check the limit first: if several cases are ready, the select below may choose any
		case <-over:
			i = last
		default:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-over:
				i = last
			case w = <-x.Idle:
				x.mu.Lock()
				if i = x.Result.take(); x.enough {
					i = last
				}
				x.mu.Unlock()
			}
		}
		if i >= last {
			if w != nil {
				x.Idle <- w
			}
			x.begun.Wait()
			return x.settle(ctx)
		}
		x.begun.Go(func() {
			o := w.Do(ctx, x.job(x.Result.run(i)))
			x.Idle <- w
			if ctx.Err() == nil {
				x.done(i, o)
			}
		})
	}
}

// job returns the job of a run that is not stored.
func (x *Fuzzer) job(n int, seed uint64) Job {
	j := x.Job(n, seed)
	j.Keep = KeepNone
	return j
}

// saveInterval is how often the state is saved while nothing is found. Runs done since the last
// save are repeated if lockpick is killed.
const saves = time.Second

// recordRun adds the outcome of a run and reports new findings.
func (x *Fuzzer) done(i int, o outcome.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	fresh, harm := x.Result.done(i, o)
	x.enough = x.enough || harm && x.FailFast
	for _, f := range fresh {
		f.Seconds = x.spent()
		x.live.Erase()
		fmt.Fprintf(x.Log, "found: %s, shown by %s\n", f.Bug, f.First.Command)
		if k, had := x.corpus[f.Bug]; had {
			f.Known, f.File, f.Command = true, k.File, k.Command
		}
	}
	if len(fresh) > 0 || time.Since(x.saved) > saves {
		x.lost = errors.Join(x.lost, x.Result.save())
		x.saved = time.Now()
	}
}

// settle stores a run of each new finding and minimizes it.
func (x *Fuzzer) settle(ctx context.Context) error {
	for {
		x.mu.Lock()
		i := slices.IndexFunc(x.Result.Finds, func(f *FuzzFind) bool { return !f.Settled })
		if i >= 0 {
			x.small = x.Result.Finds[i].Bug.String()
		}
		lost := x.lost
		x.mu.Unlock()
		if lost != nil || i < 0 {
			return failed(storeFailed, lost)
		}
		x.begun.Wait() // so that the first run of the finding is known and all processors are free
		f := x.Result.Finds[i]
		j := x.Job(f.First.Scenario, f.First.Seed)
		j.Keep = KeepAll
		o := x.Do(ctx, j)
		begun, k, why := time.Now(), (*MinimizedRun)(nil), error(nil)
		if !f.Known {
			k, why = x.minimize(ctx, f)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		x.mu.Lock()
		x.small = ""
		f.Dir, f.Settled, f.Took = o.Dir, true, time.Since(begun).Seconds()
		if why != nil {
			f.Why = display.FirstLine(why.Error())
		} else if k != nil {
			f.File, f.Small, f.Command = k.File, &k.Minimized, k.Command
		}
		x.lost = errors.Join(x.lost, x.Result.save())
		x.mu.Unlock()
	}
}

// minimize minimizes the scenario of a finding. It starts from the minimized scenario of another
// finding if that also shows this one, because a run often violates several properties.
func (x *Fuzzer) minimize(ctx context.Context, f *FuzzFind) (*MinimizedRun, error) {
	s := x.Scenarios[f.First.Scenario]
	from, seed := s, f.First.Seed
	for _, other := range x.Result.Finds {
		if r := other.Small; r != nil && x.Simulator.Run(ctx, Expecting(r.Scenario, f.Bug), r.Seed).Code == outcome.ExitOK {
			from, seed = r.Scenario, r.Seed
			break
		}
	}
	r, err := x.Minimizer(0).Shrink(ctx, from, seed, f.Bug)
	if err != nil {
		return nil, err
	}
	r.From, r.Given, r.Before = s.ID(), f.First.Seed, SizeOf(s.Drawn(f.First.Seed))
	name := corpusName(r)
	return x.SaveMinimized(ctx, r, name, filepath.Join(x.Corpus, name+".yaml"), x.Store)
}

// progress describes the progress of the search.
func (x *Fuzzer) progress(passed time.Duration) string {
	h, violated := x.Result, 0
	for _, f := range h.Finds {
		violated += f.Runs
	}
	runs, fresh, spent := h.Runs-h.Leg.Begun, h.Runs-x.resumed, passed.Seconds()
	parts := []string{display.Plural(runs, "run"), fmt.Sprintf("%s, %s", display.Plural(len(h.Finds), "finding"), display.Plural(violated, "violation"))}
	if h.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", h.Failed))
	}
	parts = append(parts, fmt.Sprintf("%.0f s, %.3g per second", spent, float64(fresh)/max(spent, 1e-3)))
	left := math.Inf(1)
	if x.Time > 0 {
		left = max(0, x.Time.Seconds()-h.Leg.Seconds-spent)
	}
	if x.Seeds < MaxSeeds && fresh > 0 {
		left = min(left, float64(x.Seeds*len(x.Scenarios)-runs)*spent/float64(fresh))
	}
	if !math.IsInf(left, 1) {
		parts = append(parts, fmt.Sprintf("about %.0f s left", left))
	}
	if x.small != "" {
		parts = append(parts, "minimizing "+x.small)
	}
	return strings.Join(parts, ", ")
}

// Print prints the result, then a table of the findings with their frequency, then each finding.
func (h *Fuzz) Print(w io.Writer) {
	h.printResult(w)
	t := display.Table{{"property", "cause", "runs", "first"}}
	for _, f := range h.Finds {
		t = append(t, []string{f.Property, f.Cause, fmt.Sprint(f.Runs), fmt.Sprintf("%s, seed %d", h.Scenarios[f.First.Scenario], f.First.Seed)})
	}
	if len(h.Finds) > 0 {
		fmt.Fprintln(w)
		t.Print(w)
	}
	for _, f := range h.Finds {
		f.print(w, h.Runs)
	}
}

// printResult prints a one-line summary of the search.
func (h *Fuzz) printResult(w io.Writer) {
	held := 0
	for _, f := range h.Finds {
		if f.Held {
			held++
		}
	}
	in, text := display.Good, "no violation found under these faults"
	switch {
	case held > 0:
		in, text = display.Bad, display.Plural(held, "violation")+" of required properties"
	case len(h.Finds) > 0:
		in, text = display.Plain, "no required property violated"
	case h.Runs > 0:
		_, high := outcome.Wilson(0, h.Runs)
		text += fmt.Sprintf("; at most %.2g %% of such runs are violated", 100*high)
	}
	if h.Failed > 0 {
		in = display.Bad
		text += fmt.Sprintf("; %d could not be judged, first error: %s", h.Failed, display.FirstLine(h.Error))
	}
	fmt.Fprintln(w, display.Paint(w, in, fmt.Sprintf("%s of %s, %s: %s", display.Plural(h.Runs, "run"), display.Plural(len(h.Scenarios), "scenario"),
		time.Duration(h.Leg.Seconds*float64(time.Second)).Round(time.Second), text)))
}

func (f *FuzzFind) print(w io.Writer, runs int) {
	in, had := display.Doubt, "not required to hold"
	if f.Held {
		in, had = display.Bad, "required to hold"
	}
	fmt.Fprintf(w, "\n%s, in %s; %s\n", display.Paint(w, in, f.Bug.String()), outcome.Rate(f.Runs, runs), had)
	if f.Small != nil {
		for _, st := range f.Small.Scenario.Plan {
			display.PrintWrapped(w, 2, 4, DescribeStep(st))
		}
		display.PrintWrapped(w, 2, 4, f.Small.Sum())
	}
	if f.Known {
		fmt.Fprintln(w, "  known from the corpus")
	}
	if f.Why != "" {
		display.PrintWrapped(w, 2, 4, "not minimized: "+f.Why)
	}
	for _, l := range [][2]string{{"scenario:  ", f.File}, {"record:    ", f.Dir}, {"run again: ", cmp.Or(f.Command, f.First.Command)}} {
		if l[1] != "" {
			fmt.Fprintln(w, strings.TrimRight("    "+l[0]+l[1], " "))
		}
	}
}

// seedSuffix is the end of a name in the corpus if the scenario runs with a seed other than 1.
var seeded = regexp.MustCompile(`-seed-([0-9]+)$`)

// corpusName names a minimized scenario in the corpus by its lock and what it shows.
func corpusName(r Minimized) string {
	l := r.Scenario.Lock
	name := strings.Join([]string{cmp.Or(l.Mistake, l.Kind), r.Property, cmp.Or(r.Cause, "violated")}, "-")
	end := ""
	if r.Seed != 1 {
		end = fmt.Sprintf("-seed-%d", r.Seed)
	}
	return clipped(name, 64-len(end)) + end
}

// clipName shortens a name to maxLen characters. Different names stay different.
func clipped(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return fmt.Sprintf("%s-%x", strings.TrimRight(name[:most-9], "-"), sha256.Sum256([]byte(name)))[:most]
}

// runCorpus runs the scenarios of the corpus that use the lock under test.
func (x *Fuzzer) runCorpus(ctx context.Context) error {
	dir, err := files.OpenFolder(x.Corpus)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failed(CorpusFailed, fmt.Errorf("open corpus: %w", err))
	}
	defer dir.Close()
	entries, err := dir.Entries()
	if err != nil {
		return failed(CorpusFailed, fmt.Errorf("open corpus: %w", err))
	}
	ran, shown := 0, 0
	x.corpus = map[Bug]FuzzFind{}
	for _, e := range entries {
		base, isYAML := strings.CutSuffix(e.Name(), ".yaml")
		if !isYAML || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(x.Corpus, e.Name())
		text, err := dir.Read(e.Name(), scenario.MaxFile)
		if err != nil {
			return &Error{CorpusFailed, path, fmt.Errorf("read corpus: %w", err)}
		}
		all, err := scenario.Parse(path, text, x.Known)
		if err != nil {
			return err
		}
		if !x.sameLock(all[0].Lock) {
			continue
		}
		seed := uint64(1)
		if m := seeded.FindStringSubmatch(base); m != nil {
			seed, _ = strconv.ParseUint(m[1], 10, 64)
		}
		o := x.Simulator.Run(ctx, all[0], seed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if ran++; o.Code != outcome.ExitOK {
			fmt.Fprintf(x.Log, "corpus: %s no longer shows its violation: %s\n", path, display.FirstLine(cmp.Or(o.Error, strings.Join(suites.Brief(o), "; "))))
			continue
		}
		shown++
		for property, e := range all[0].Expect {
			if e.Want == wantViolated && e.Follows == "" {
				x.corpus[Bug{property, e.Cause}] = FuzzFind{File: path, Command: x.Command(path, seed)}
			}
		}
	}
	if ran > 0 {
		fmt.Fprintf(x.Log, "corpus: %d of %d scenarios still show their violation\n", shown, ran)
	}
	return nil
}

// sameLock reports whether the search runs the same lock.
func (x *Fuzzer) sameLock(l lock.Settings) bool {
	return slices.ContainsFunc(x.Scenarios, func(s scenario.Scenario) bool {
		return l.Kind == s.Lock.Kind && l.Mistake == s.Lock.Mistake && maps.Equal(l.Options, s.Lock.Options)
	})
}
