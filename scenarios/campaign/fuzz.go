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

// fuzzFile is the state file in a search's folder.
const fuzzFile = "hunt.json"

// maxFuzzFile limits the size of the state file, which holds only a few findings and the numbers of
// a few runs.
const maxFuzzFile = 16 << 20

// fuzzSchema is the version of the state file format.
const fuzzSchema = 1

// FuzzState is the progress of a search, as saved in the state file. It is not safe for concurrent
// use.
type FuzzState struct {
	Schema          int            `json:"schema"`
	Digest          string         `json:"of"`              // digest of the scenarios and lockpick's version
	Scenarios       []string       `json:"scenarios"`       // run in this order with each seed
	Seed            uint64         `json:"seed"`            // the first seed
	FirstUnfinished int            `json:"next"`            // every run with a lower number is done
	OutOfOrder      []int          `json:"ahead,omitempty"` // sorted numbers of the other runs that are done
	Runs            int            `json:"runs"`
	FailedRuns      int            `json:"failed,omitempty"` // finished runs that could not be judged
	Error           string         `json:"error,omitempty"`  // error of the first such run
	Findings        []*FuzzFinding `json:"finds"`
	Owner           string         `json:"owner,omitempty"` // the process running the search, or ""
	// Session is the current invocation or, after an interruption, the one to resume.
	Session fuzzSession `json:"leg"`

	folder       string
	nextToAssign int
}

// fuzzSession is the part of a search done by one invocation, including resumptions.
type fuzzSession struct {
	RunsBefore int     `json:"begun"`   // runs done before the session started
	Seconds    float64 `json:"seconds"` // search time so far
	Done       bool    `json:"over"`
}

// FuzzFinding is a violation found by a search: a property and a cause.
type FuzzFinding struct {
	Bug
	Required    bool        `json:"held"` // whether the property was required
	Runs        int         `json:"runs"`
	FirstRun    fuzzExample `json:"first"`
	ShortestRun fuzzExample `json:"shortest"`
	// RunsBefore and Seconds are the number of runs and the search time up to the first run that
	// showed the finding. MinimizeSeconds is how long minimizing took.
	RunsBefore      int     `json:"after"`
	Seconds         float64 `json:"seconds"`
	MinimizeSeconds float64 `json:"took,omitempty"`
	// FirstRun is the lowest-numbered run known to show the finding when the finding was settled,
	// and Dir is its directory. File is the minimized scenario, described by Minimized. If there is
	// none, NotMinimized says why. Settled means that File or NotMinimized is final.
	Dir          string     `json:"dir,omitempty"`
	File         string     `json:"file,omitempty"`
	Minimized    *Minimized `json:"small,omitempty"`
	Command      string     `json:"command,omitempty"` // runs the minimized scenario
	NotMinimized string     `json:"why,omitempty"`
	Known        bool       `json:"known,omitempty"` // whether the finding was already in the corpus
	Settled      bool       `json:"settled"`
}

// fuzzExample is a run that shows a finding.
type fuzzExample struct {
	Scenario int `json:"scenario"` // index into Scenarios
	outcome.Example
}

// errFuzzInUse is returned if another process is running the same search.
var errFuzzInUse = errors.New("another lockpick process is running this search")

// openFuzz resumes the search stored in a folder, or starts a new one.
func openFuzz(folder, digest string, scenarios []string, seed uint64) (*FuzzState, error) {
	h := &FuzzState{Schema: fuzzSchema, Digest: digest, Scenarios: scenarios, Seed: seed, Findings: []*FuzzFinding{}, Session: fuzzSession{Done: true}}
	text, err := files.ReadIn(folder, fuzzFile, maxFuzzFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read search state: %w", err)
	default:
		if h, err = parseFuzz(text); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, fuzzFile), err)
		}
		if h.Digest != digest || !slices.Equal(h.Scenarios, scenarios) {
			return nil, fmt.Errorf("read %s: it belongs to another search", filepath.Join(folder, fuzzFile))
		}
	}
	self, err := files.CurrentOwner()
	if err != nil {
		return nil, fmt.Errorf("open search: %w", err)
	}
	if owner, ok := files.ParseOwner(h.Owner); ok && owner != self && !owner.Ended(self, time.Time{}) {
		return nil, errFuzzInUse
	}
	h.folder, h.Owner = folder, self.String()
	if h.Session.Done {
		h.Session = fuzzSession{RunsBefore: h.Runs}
	}
	return h, nil
}

// parseFuzz parses and validates a state file.
func parseFuzz(text []byte) (*FuzzState, error) {
	h := &FuzzState{}
	if err := files.JSON(verdict.CanonicalJSON(text), h); err != nil {
		return nil, err
	}
	slices.Sort(h.OutOfOrder)
	for k, i := range h.OutOfOrder {
		if i < h.FirstUnfinished || k > 0 && i == h.OutOfOrder[k-1] {
			return nil, fmt.Errorf("run %d is counted twice", i)
		}
	}
	switch {
	case h.Schema != fuzzSchema:
		return nil, fmt.Errorf("schema %d is not supported; this version reads schema %d", h.Schema, fuzzSchema)
	case h.FirstUnfinished < 0 || h.Runs != h.FirstUnfinished+len(h.OutOfOrder):
		return nil, fmt.Errorf("runs is %d, but %d runs are marked as done", h.Runs, h.FirstUnfinished+len(h.OutOfOrder))
	case len(h.Scenarios) == 0:
		return nil, errors.New("no scenarios")
	case h.Session.RunsBefore < 0 || h.Session.RunsBefore > h.Runs || !(h.Session.Seconds >= 0):
		return nil, errors.New("leg: begun or seconds is out of range")
	}
	for i, f := range h.Findings {
		if f == nil || f.Runs < 1 || f.FirstRun.Scenario < 0 || f.FirstRun.Scenario >= len(h.Scenarios) {
			return nil, fmt.Errorf("finding %d has no valid run", i+1)
		}
	}
	h.nextToAssign = h.FirstUnfinished
	return h, nil
}

// resumes reports whether the session was interrupted before.
func (h *FuzzState) resumes() bool { return h.Session.Seconds > 0 }

// nextRun assigns the next run that is not done and returns its number.
func (h *FuzzState) nextRun() int {
	for h.isDone(h.nextToAssign) {
		h.nextToAssign++
	}
	h.nextToAssign++
	return h.nextToAssign - 1
}

func (h *FuzzState) isDone(i int) bool {
	_, outOfOrder := slices.BinarySearch(h.OutOfOrder, i)
	return i < h.FirstUnfinished || outOfOrder
}

// runOf returns the index of a run's scenario and the run's seed.
func (h *FuzzState) runOf(i int) (scenario int, seed uint64) {
	return i % len(h.Scenarios), h.Seed + uint64(i/len(h.Scenarios))
}

// record adds the outcome of run i, unless it was added before. It returns the new findings and
// whether a required property was violated.
func (h *FuzzState) record(i int, o outcome.Outcome) (newFindings []*FuzzFinding, requiredViolated bool) {
	if h.isDone(i) {
		return nil, false
	}
	insertAt, _ := slices.BinarySearch(h.OutOfOrder, i)
	h.OutOfOrder = slices.Insert(h.OutOfOrder, insertAt, i)
	for len(h.OutOfOrder) > 0 && h.OutOfOrder[0] == h.FirstUnfinished {
		h.OutOfOrder = h.OutOfOrder[1:]
		h.FirstUnfinished++
	}
	h.Runs++
	if o.Error != "" {
		h.FailedRuns++
		h.Error = cmp.Or(h.Error, o.Error)
	}
	scenario, seed := h.runOf(i)
	for _, j := range o.Violations() {
		example := fuzzExample{scenario, outcome.Example{Seed: seed, Events: j.Length, Command: o.Command}}
		b := Bug{Property: j.Property, Cause: j.Cause}
		f := outcome.GetOrAdd(&h.Findings, func(f *FuzzFinding) bool { return f.Bug == b }, FuzzFinding{Bug: b, FirstRun: example, ShortestRun: example, RunsBefore: h.Runs})
		if f.Runs++; f.Runs == 1 {
			newFindings = append(newFindings, f)
		}
		required := j.Expected == string(verdict.Holds)
		f.Required, requiredViolated = f.Required || required, requiredViolated || required
		if !f.Settled && hasLowerNumber(example, f.FirstRun) {
			f.FirstRun = example
		}
		if example.Events < f.ShortestRun.Events || example.Events == f.ShortestRun.Events && hasLowerNumber(example, f.ShortestRun) {
			f.ShortestRun = example
		}
	}
	return newFindings, requiredViolated
}

// hasLowerNumber reports whether a has a lower run number than b.
func hasLowerNumber(a, b fuzzExample) bool {
	return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Scenario, b.Scenario)) < 0
}

// finish sorts the findings for printing and returns the exit code.
func (h *FuzzState) finish() int {
	slices.SortFunc(h.Findings, func(a, b *FuzzFinding) int {
		propertyIndex := func(f *FuzzFinding) int { return slices.Index(checker.Properties(), f.Property) }
		requiredFirst := func(f *FuzzFinding) int {
			if f.Required {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(requiredFirst(a), requiredFirst(b)), cmp.Compare(propertyIndex(a), propertyIndex(b)), cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Cause, b.Cause))
	})
	code := outcome.ExitOK
	if len(h.Findings) > 0 && h.Findings[0].Required {
		code = outcome.ExitUnexpected
	}
	if h.FailedRuns > 0 {
		code = outcome.WorseCode(code, outcome.ExitBackend)
	}
	return code
}

func (h *FuzzState) save() error {
	text, err := json.MarshalIndent(h, "", " ")
	if err == nil {
		err = files.WriteIn(h.folder, fuzzFile, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write search state: %w", err)
	}
	return nil
}

// close saves the state without an owner.
func (h *FuzzState) close() error {
	h.Owner = ""
	return h.save()
}

// Fuzzer runs scenarios with new seeds and minimizes the violations it finds.
type Fuzzer struct {
	Simulator
	Store     string // folder for the findings
	Scenarios []scenario.Scenario
	NewJob    func(n int, seed uint64) Job // returns the job of the n-th scenario
	Corpus    string                       // folder of minimized scenarios; defaults to a folder in Store
	TimeLimit time.Duration                // 0 means no limit
	Seed      uint64                       // the first seed of a new search
	Seeds     int                          // per scenario
	Restart   bool                         // discard the stored search and start a new one
	FailFast  bool                         // stop when a required property is violated
	Log       io.Writer                    // receives progress messages
	Result    *FuzzState

	startTime   time.Time
	resumedRuns int                 // runs done before Open
	knownBugs   map[Bug]FuzzFinding // violations that the corpus still shows

	running        sync.WaitGroup // runs in progress
	mu             sync.Mutex     // protects Result and the fields below
	liveProgress   *display.Progress
	lastSave       time.Time
	saveErr        error  // from saving the state
	currentFinding string // the finding being minimized
	stopped        bool   // start no more runs
}

// Open prepares the folders and resumes the search if the store contains it. Otherwise it starts a
// new one.
func (x *Fuzzer) Open() error {
	x.startTime = time.Now()
	if x.Corpus == "" {
		x.Corpus = filepath.Join(x.Store, CorpusFolder)
	} else if err := CanWrite(x.Corpus); err != nil {
		return withKind(CorpusFailed, fmt.Errorf("open corpus: %w", errors.Unwrap(err)))
	}
	if err := CanWrite(x.Store); err != nil {
		return withKind(storeFailed, err)
	}
	text, err := json.Marshal(x.Scenarios)
	if err != nil {
		return err
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(append(text, x.Version...)))
	var names []string
	for _, s := range x.Scenarios {
		names = append(names, s.ID())
	}
	l := x.Scenarios[0].Lock
	name := display.Join("-", x.Scenarios[0].Name, l.Kind, l.Mistake)
	folder := filepath.Join(x.Store, huntsFolder, name[:min(len(name), 80)]+"-"+digest[:8])
	err = os.MkdirAll(folder, 0o755)
	if err == nil && x.Restart {
		if err = os.Remove(filepath.Join(folder, fuzzFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return withKind(storeFailed, err)
	}
	switch x.Result, err = openFuzz(folder, digest[:16], names, x.Seed); {
	case errors.Is(err, errFuzzInUse):
		return withKind(InUse, err)
	case err != nil:
		return &Error{NotResumable, folder, err}
	case x.Result.resumes():
		fmt.Fprintf(x.Log, "resuming the interrupted search: %d runs done\n", x.Result.Runs)
	case x.Result.Runs > 0:
		fmt.Fprintf(x.Log, "continuing with new seeds: %d runs done\n", x.Result.Runs)
	}
	x.resumedRuns = x.Result.Runs
	return x.Result.save()
}

// Run runs the scenarios in the corpus and then searches until ctx is done or the search reaches
// its time limit or its last seed. It returns the exit code for the findings.
func (x *Fuzzer) Run(ctx context.Context) (code int, err error) {
	if err = x.runCorpus(ctx); err == nil {
		err = x.search(ctx)
	}
	x.Result.Session.Seconds = x.elapsed()
	x.Result.Session.Done = err == nil && ctx.Err() == nil
	if closeErr := x.Result.close(); err == nil {
		err = withKind(storeFailed, closeErr)
	}
	return x.Result.finish(), cmp.Or(ctx.Err(), err)
}

// elapsed returns the session's search time in seconds, including the time before an interruption.
func (x *Fuzzer) elapsed() float64 {
	return x.Result.Session.Seconds + time.Since(x.startTime).Seconds()
}

func (x *Fuzzer) search(ctx context.Context) error {
	session := x.Result.Session
	var timeUp <-chan time.Time
	if x.TimeLimit > 0 {
		timeUp = time.After(x.TimeLimit - time.Duration(session.Seconds*float64(time.Second)))
	}
	x.liveProgress = &display.Progress{W: x.Log, Mu: &x.mu, StartTime: x.startTime, Text: x.progress}
	defer x.liveProgress.Start()()
	defer x.running.Wait()
	for {
		if err := x.settle(ctx); err != nil {
			return err
		}
		i, end := 0, session.RunsBefore+x.Seeds*len(x.Scenarios) // stop when i reaches end
		var w *Worker
		select { // check the time limit first, because the select below chooses at random
		case <-timeUp:
			i = end
		default:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-timeUp:
				i = end
			case w = <-x.Idle:
				x.mu.Lock()
				if i = x.Result.nextRun(); x.stopped {
					i = end
				}
				x.mu.Unlock()
			}
		}
		if i >= end {
			if w != nil {
				x.Idle <- w
			}
			x.running.Wait()
			return x.settle(ctx)
		}
		x.running.Go(func() {
			o := w.Do(ctx, x.job(x.Result.runOf(i)))
			x.Idle <- w
			if ctx.Err() == nil {
				x.recordRun(i, o)
			}
		})
	}
}

// job returns a job that does not store its run.
func (x *Fuzzer) job(n int, seed uint64) Job {
	j := x.NewJob(n, seed)
	j.Keep = KeepNone
	return j
}

// saveInterval is how often the state is saved if nothing is found. A killed search repeats the runs
// since the last save.
const saveInterval = time.Second

// recordRun adds the outcome of a run, prints new findings, and regularly saves the state.
func (x *Fuzzer) recordRun(i int, o outcome.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	newFindings, requiredViolated := x.Result.record(i, o)
	x.stopped = x.stopped || requiredViolated && x.FailFast
	for _, f := range newFindings {
		f.Seconds = x.elapsed()
		x.liveProgress.Erase()
		fmt.Fprintf(x.Log, "found: %s, shown by %s\n", f.Bug, f.FirstRun.Command)
		if corpusFinding, inCorpus := x.knownBugs[f.Bug]; inCorpus {
			f.Known, f.File, f.Command = true, corpusFinding.File, corpusFinding.Command
		}
	}
	if len(newFindings) > 0 || time.Since(x.lastSave) > saveInterval {
		x.saveErr = errors.Join(x.saveErr, x.Result.save())
		x.lastSave = time.Now()
	}
}

// settle stores a run of each new finding and minimizes its scenario.
func (x *Fuzzer) settle(ctx context.Context) error {
	for {
		x.mu.Lock()
		i := slices.IndexFunc(x.Result.Findings, func(f *FuzzFinding) bool { return !f.Settled })
		if i >= 0 {
			x.currentFinding = x.Result.Findings[i].Bug.String()
		}
		saveErr := x.saveErr
		x.mu.Unlock()
		if saveErr != nil || i < 0 {
			return withKind(storeFailed, saveErr)
		}
		x.running.Wait() // so that the lowest-numbered run is known and all processors are free
		f := x.Result.Findings[i]
		j := x.NewJob(f.FirstRun.Scenario, f.FirstRun.Seed)
		j.Keep = KeepAll
		o := x.Do(ctx, j)
		start, minimized, minimizeErr := time.Now(), (*MinimizedRun)(nil), error(nil)
		if !f.Known {
			minimized, minimizeErr = x.minimize(ctx, f)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		x.mu.Lock()
		x.currentFinding = ""
		f.Dir, f.Settled, f.MinimizeSeconds = o.Dir, true, time.Since(start).Seconds()
		if minimizeErr != nil {
			f.NotMinimized = display.FirstLine(minimizeErr.Error())
		} else if minimized != nil {
			f.File, f.Minimized, f.Command = minimized.File, &minimized.Minimized, minimized.Command
		}
		x.saveErr = errors.Join(x.saveErr, x.Result.save())
		x.mu.Unlock()
	}
}

// minimize minimizes the scenario of a finding. A run often violates several properties, so it
// starts from another finding's minimized scenario if that shows this finding too.
func (x *Fuzzer) minimize(ctx context.Context, f *FuzzFinding) (*MinimizedRun, error) {
	s := x.Scenarios[f.FirstRun.Scenario]
	original, seed := s, f.FirstRun.Seed
	for _, other := range x.Result.Findings {
		if r := other.Minimized; r != nil && x.Simulator.Run(ctx, ExpectBug(r.Scenario, f.Bug), r.Seed).Code == outcome.ExitOK {
			original, seed = r.Scenario, r.Seed
			break
		}
	}
	r, err := x.Minimizer(0).Minimize(ctx, original, seed, f.Bug)
	if err != nil {
		return nil, err
	}
	r.OriginalID, r.OriginalSeed, r.SizeBefore = s.ID(), f.FirstRun.Seed, SizeOf(s.WithRandomPlan(f.FirstRun.Seed))
	name := corpusName(r)
	return x.SaveMinimized(ctx, r, name, filepath.Join(x.Corpus, name+".yaml"), x.Store)
}

func (x *Fuzzer) progress(elapsed time.Duration) string {
	h, violations := x.Result, 0
	for _, f := range h.Findings {
		violations += f.Runs
	}
	runs, newRuns, seconds := h.Runs-h.Session.RunsBefore, h.Runs-x.resumedRuns, elapsed.Seconds()
	parts := []string{display.Plural(runs, "run"), fmt.Sprintf("%s, %s", display.Plural(len(h.Findings), "finding"), display.Plural(violations, "violation"))}
	if h.FailedRuns > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", h.FailedRuns))
	}
	parts = append(parts, fmt.Sprintf("%.0f s, %.3g per second", seconds, float64(newRuns)/max(seconds, 1e-3)))
	remaining := math.Inf(1)
	if x.TimeLimit > 0 {
		remaining = max(0, x.TimeLimit.Seconds()-h.Session.Seconds-seconds)
	}
	if x.Seeds < MaxSeeds && newRuns > 0 {
		remaining = min(remaining, float64(x.Seeds*len(x.Scenarios)-runs)*seconds/float64(newRuns))
	}
	if !math.IsInf(remaining, 1) {
		parts = append(parts, fmt.Sprintf("about %.0f s left", remaining))
	}
	if x.currentFinding != "" {
		parts = append(parts, "minimizing "+x.currentFinding)
	}
	return strings.Join(parts, ", ")
}

// Print prints a summary, a table of the findings, and the details of each finding.
func (h *FuzzState) Print(w io.Writer) {
	h.printResult(w)
	t := display.Table{{"property", "cause", "runs", "first"}}
	for _, f := range h.Findings {
		t = append(t, []string{f.Property, f.Cause, fmt.Sprint(f.Runs), fmt.Sprintf("%s, seed %d", h.Scenarios[f.FirstRun.Scenario], f.FirstRun.Seed)})
	}
	if len(h.Findings) > 0 {
		fmt.Fprintln(w)
		t.Print(w)
	}
	for _, f := range h.Findings {
		f.print(w, h.Runs)
	}
}

// printResult prints a one-line summary.
func (h *FuzzState) printResult(w io.Writer) {
	numRequired := 0
	for _, f := range h.Findings {
		if f.Required {
			numRequired++
		}
	}
	style, text := display.GoodText, "no violation found under these faults"
	switch {
	case numRequired > 0:
		style, text = display.BadText, display.Plural(numRequired, "violation")+" of required properties"
	case len(h.Findings) > 0:
		style, text = display.PlainText, "no required property violated"
	case h.Runs > 0:
		_, high := outcome.Wilson(0, h.Runs)
		text += fmt.Sprintf("; at most %.2g %% of such runs violate a property", 100*high)
	}
	if h.FailedRuns > 0 {
		style = display.BadText
		text += fmt.Sprintf("; %d could not be judged, first error: %s", h.FailedRuns, display.FirstLine(h.Error))
	}
	fmt.Fprintln(w, display.Paint(w, style, fmt.Sprintf("%s of %s, %s: %s", display.Plural(h.Runs, "run"), display.Plural(len(h.Scenarios), "scenario"),
		time.Duration(h.Session.Seconds*float64(time.Second)).Round(time.Second), text)))
}

func (f *FuzzFinding) print(w io.Writer, runs int) {
	style, requirement := display.DoubtText, "not required"
	if f.Required {
		style, requirement = display.BadText, "required"
	}
	fmt.Fprintf(w, "\n%s, in %s; %s\n", display.Paint(w, style, f.Bug.String()), outcome.Rate(f.Runs, runs), requirement)
	if f.Minimized != nil {
		for _, st := range f.Minimized.Scenario.Plan {
			display.PrintWrapped(w, 2, 4, DescribeStep(st))
		}
		display.PrintWrapped(w, 2, 4, f.Minimized.Summary())
	}
	if f.Known {
		fmt.Fprintln(w, "  already in the corpus")
	}
	if f.NotMinimized != "" {
		display.PrintWrapped(w, 2, 4, "not minimized: "+f.NotMinimized)
	}
	for _, l := range [][2]string{{"scenario:  ", f.File}, {"record:    ", f.Dir}, {"run again: ", cmp.Or(f.Command, f.FirstRun.Command)}} {
		if l[1] != "" {
			fmt.Fprintln(w, strings.TrimRight("    "+l[0]+l[1], " "))
		}
	}
}

// seedSuffix matches the seed at the end of a file name in the corpus. Without it, the seed is 1.
var seedSuffix = regexp.MustCompile(`-seed-([0-9]+)$`)

// corpusName names a minimized scenario after its lock, its violation and, unless it is 1, its seed.
func corpusName(r Minimized) string {
	l := r.Scenario.Lock
	name := strings.Join([]string{cmp.Or(l.Mistake, l.Kind), r.Property, cmp.Or(r.Cause, "violated")}, "-")
	suffix := ""
	if r.Seed != 1 {
		suffix = fmt.Sprintf("-seed-%d", r.Seed)
	}
	return clipName(name, 64-len(suffix)) + suffix
}

// clipName shortens a name to maxLen bytes and keeps different names different.
func clipName(name string, maxLen int) string {
	if len(name) <= maxLen {
		return name
	}
	return fmt.Sprintf("%s-%x", strings.TrimRight(name[:maxLen-9], "-"), sha256.Sum256([]byte(name)))[:maxLen]
}

// runCorpus reruns the scenarios in the corpus that use the lock under test.
func (x *Fuzzer) runCorpus(ctx context.Context) error {
	dir, err := files.OpenFolder(x.Corpus)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return withKind(CorpusFailed, fmt.Errorf("open corpus: %w", err))
	}
	defer dir.Close()
	entries, err := dir.Entries()
	if err != nil {
		return withKind(CorpusFailed, fmt.Errorf("open corpus: %w", err))
	}
	numRun, numReproduced := 0, 0
	x.knownBugs = map[Bug]FuzzFinding{}
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
		if m := seedSuffix.FindStringSubmatch(base); m != nil {
			seed, _ = strconv.ParseUint(m[1], 10, 64)
		}
		o := x.Simulator.Run(ctx, all[0], seed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if numRun++; o.Code != outcome.ExitOK {
			fmt.Fprintf(x.Log, "corpus: %s no longer reproduces its violation: %s\n", path, display.FirstLine(cmp.Or(o.Error, strings.Join(suites.DescribeResults(o), "; "))))
			continue
		}
		numReproduced++
		for property, e := range all[0].Expect {
			if e.Want == wantViolated && e.LeadProperty == "" {
				x.knownBugs[Bug{property, e.Cause}] = FuzzFinding{File: path, Command: x.Command(path, seed)}
			}
		}
	}
	if numRun > 0 {
		fmt.Fprintf(x.Log, "corpus: %d of %d scenarios still reproduce their violations\n", numReproduced, numRun)
	}
	return nil
}

// sameLock reports whether the search tests a lock with the kind, mistake and options of l.
func (x *Fuzzer) sameLock(l lock.Settings) bool {
	return slices.ContainsFunc(x.Scenarios, func(s scenario.Scenario) bool {
		return l.Kind == s.Lock.Kind && l.Mistake == s.Lock.Mistake && maps.Equal(l.Options, s.Lock.Options)
	})
}
