package campaign

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

// Pool configures worker processes that run jobs.
type Pool struct {
	Command     []string      // starts a worker
	Env         []string      // added to this process's environment
	Size        int           // number of workers
	Timeout     time.Duration // wall-clock limit for a job
	StackFolder string        // folder for the stack traces of workers that die during a job
}

// Run runs n jobs. It calls job(i) when a worker is ready for the i-th job, and done when the job
// has ended. Calls to done do not overlap. If ctx is canceled, Run returns early and does not
// report unfinished jobs.
func (p Pool) Run(ctx context.Context, n int, job func(i int) Job, done func(i int, o outcome.Outcome)) {
	p.Size = min(p.Size, n)
	w := p.Start()
	defer w.Stop()
	var mu sync.Mutex
	Each(ctx, p.Size, n, func(i int) {
		o := w.Do(ctx, job(i))
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			done(i, o)
		}
	})
}

// Each calls do for 0 to n-1, making up to parallel calls at a time, and waits until they return. It
// makes no more calls once ctx is done.
func Each(ctx context.Context, parallel, n int, do func(i int)) {
	var next atomic.Int64
	var callers sync.WaitGroup
	for range min(parallel, n) {
		callers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	callers.Wait()
}

// Runner runs the jobs of a campaign on one backend. Simulated jobs run in worker processes, one per
// processor. Real-time jobs run in this process, at most Parallel at once because they compete for
// the machine's time.
type Runner struct {
	harness.Backend
	Capabilities Capabilities
	Workers      Pool
	Parallel     int
	Version      string                                         // of lockpick
	Command      func(s *Selection, p Pick, seed uint64) string // returns the command that repeats a run
}

// Each runs n jobs. It starts no more jobs once startCtx is done. Real-time jobs that have started
// may finish unless ctx is done too.
func (r *Runner) Each(ctx, startCtx context.Context, n int, job func(i int) Job, done func(i int, o outcome.Outcome)) {
	if r.Name() == simulation {
		r.Workers.Run(startCtx, n, job, done)
		return
	}
	Each(startCtx, r.Parallel, n, func(i int) { done(i, Execute(ctx, r.Backend, job(i))) })
}

// Close releases resources that the backend reuses between runs.
func (r *Runner) Close() error {
	if r == nil {
		return nil
	}
	if c, ok := r.Backend.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// choose resolves a selection and skips the scenarios that the backend can't run.
func (r *Runner) choose(s *Selection, known scenario.KnownNames) (Choice, error) {
	c, err := s.Choose(known)
	c.Restrict(r.Capabilities, known.Kinds)
	return c, err
}

func (r *Runner) job(s *Selection, p Pick, seed uint64, store string, keep KeepPolicy) Job {
	j := s.Job(p, seed)
	j.Store, j.Keep, j.Reports, j.Version, j.Command = store, keep, keep, r.Version, r.Command(s, p, seed)
	return j
}

// Workers are the workers of a Pool. Jobs can be submitted to them one at a time.
type Workers struct {
	Idle chan *Worker // idle workers; whoever takes one must put it back
}

// Start creates the workers. The caller must call Stop.
func (p Pool) Start() Workers {
	w := Workers{make(chan *Worker, p.Size)}
	for range p.Size {
		w.Idle <- p.worker()
	}
	return w
}

// Do runs a job on the next idle worker.
func (w Workers) Do(ctx context.Context, j Job) outcome.Outcome {
	next := <-w.Idle
	defer func() { w.Idle <- next }()
	return next.Do(ctx, j)
}

// Stop ends the workers after their current jobs.
func (w Workers) Stop() {
	for range cap(w.Idle) {
		(<-w.Idle).Stop()
	}
}

// Simulator runs individual scenarios in the simulation.
type Simulator struct {
	Workers
	Backend harness.Backend // the simulation itself
	Known   scenario.KnownNames
	Version string                                // of lockpick
	Command func(file string, seed uint64) string // returns the command that runs a scenario file
}

// Run runs a scenario and does not store the run.
func (x Simulator) Run(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome {
	return x.Do(ctx, Job{Scenario: s, Seed: seed, Backend: simulation, Keep: KeepNone, Version: x.Version})
}

// Save writes a scenario's YAML text to a file, runs the scenario, and stores the run with its
// reports.
func (x Simulator) Save(ctx context.Context, s scenario.Scenario, seed uint64, file string, text []byte, store, command string) (outcome.Outcome, error) {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = files.WriteIn(filepath.Dir(file), filepath.Base(file), text)
	}
	if err != nil {
		return outcome.Outcome{}, withKind(storeFailed, err)
	}
	return x.Do(ctx, Job{Scenario: s, Seed: seed, Backend: simulation, Store: store, Keep: KeepAll, Version: x.Version, Command: command}), nil
}

// Minimizer returns a Minimizer for simulated runs. If maxRuns is 0, it uses the default limit.
func (x Simulator) Minimizer(maxRuns int) Minimizer {
	return Minimizer{Known: x.Known, Workers: cap(x.Idle), MaxRuns: maxRuns,
		Run: func(ctx context.Context, s scenario.Scenario, seed uint64) bool {
			return x.Run(ctx, s, seed).Code == outcome.ExitOK
		},
		Record: func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, verdict.Verdict, error) {
			return Record(ctx, x.Backend, s, seed)
		}}
}

// Worker runs one job at a time in a process that it starts for the first job.
type Worker struct {
	pool    Pool
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers chan []byte // closed when the process exits
	output  *workerOutput
}

// worker returns a new worker. The caller must call Stop.
func (p Pool) worker() *Worker { return &Worker{pool: p, output: &workerOutput{}} }

// Output returns what the process printed during its last job, without the answer.
func (w *Worker) Output() string { return w.output.String() }

// Do runs a job. If the process dies first, the outcome says why.
func (w *Worker) Do(ctx context.Context, j Job) outcome.Outcome {
	if w.cmd == nil {
		if err := w.start(); err != nil {
			return failedOutcome(j, startFailure(err))
		}
	}
	w.output.reset()
	line, err := json.Marshal(j)
	if err != nil {
		return w.fail(j, workerFailure{outcome.ExitBug, fmt.Sprintf("send job: %v", err), ""})
	}
	if _, err := w.stdin.Write(append(line, '\n')); err != nil {
		if !w.awaitExit() {
			return w.fail(j, workerFailure{outcome.ExitBug, "the worker accepts no more jobs but does not exit", ""})
		}
		return w.fail(j, w.failure())
	}
	timer := time.NewTimer(w.pool.Timeout)
	defer timer.Stop()
	select {
	case answer, ok := <-w.answers:
		var o outcome.Outcome
		if !ok {
			return w.fail(j, w.failure())
		}
		if err := json.Unmarshal(answer, &o); err != nil {
			return w.fail(j, workerFailure{outcome.ExitBug, fmt.Sprintf("invalid answer from the worker: %v", err), ""})
		}
		return o
	case <-timer.C:
		w.dumpStacks()
		return w.fail(j, workerFailure{outcome.ExitBackend, fmt.Sprintf(TimeoutMessage+"%v of wall clock", w.pool.Timeout),
			"raise the limit with --timeout; a run that takes minutes hangs, which is a bug in lockpick"})
	case <-ctx.Done():
		w.kill()
		return failedOutcome(j, workerFailure{outcome.ExitInterrupt, "interrupted", ""})
	}
}

// fail kills the process if it is still running, saves its output, and returns the outcome of the
// failed job.
func (w *Worker) fail(j Job, d workerFailure) outcome.Outcome {
	w.kill()
	d.reason += w.output.save(w.pool.StackFolder, j)
	return failedOutcome(j, d)
}

func failedOutcome(j Job, d workerFailure) outcome.Outcome {
	return outcome.Outcome{Schema: 1, Scenario: j.Scenario.ID(), Backend: j.Backend, Seed: j.Seed, Command: j.Command, Code: d.code, Error: d.reason, Hint: d.hint}
}

// workerEnv configures the Go runtime of a worker. A run allocates much memory and retains little,
// so collecting garbage a quarter as often costs only a few megabytes. A synctest bubble is slower
// on two processors than on one. Drivers start a goroutine for each request, and growing each stack
// twice took a tenth of the run time, so stacks start at the average size. Variables already set in
// the environment take precedence.
var workerEnv = []string{"GOGC=400", "GOMAXPROCS=1", "GODEBUG=adaptivestackstart=1"}

func (w *Worker) start() error {
	cmd := exec.Command(w.pool.Command[0], w.pool.Command[1:]...)
	cmd.Env = slices.Concat(workerEnv, os.Environ(), w.pool.Env)
	w.output = &workerOutput{}
	cmd.Stderr = w.output
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.cmd, w.stdin, w.answers = cmd, in, make(chan []byte)
	go w.readAnswers(cmd, out, w.output)
	return nil
}

// answerPrefix marks the lines on standard output that are answers. All other output comes from code
// such as a lock under test.
const answerPrefix = "lockpick answers: "

// maxAnswer limits the size of an answer in bytes. Most answers take a few thousand.
const maxAnswer = 64 << 20

// readAnswers sends the process's answers to w.answers until it exits, and adds everything else to
// output.
func (w *Worker) readAnswers(cmd *exec.Cmd, out io.Reader, output *workerOutput) {
	defer close(w.answers)
	lines := bufio.NewReaderSize(out, 1<<16)
	var answer []byte // what was read of an unfinished answer
	midLine := false  // in the middle of a line
	for {
		part, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		isAnswer := answer != nil || !midLine && bytes.HasPrefix(part, []byte(answerPrefix))
		switch {
		case !isAnswer || len(answer)+len(part) > maxAnswer:
			output.Write(part)
			answer = nil
		case err != nil:
			answer = append(answer, part...)
		default:
			w.answers <- bytes.TrimPrefix(append(answer, part...), []byte(answerPrefix))
			answer = nil
		}
		midLine = err != nil
	}
	cmd.Wait() // the worker's output explains the error
}

// dumpStacks makes a hung process print its stacks and exit.
func (w *Worker) dumpStacks() {
	if files.QuitProcess(w.cmd.Process) == nil {
		w.awaitExit()
	}
}

// awaitExit gives the process a few seconds to exit, and reports whether it did.
func (w *Worker) awaitExit() (exited bool) {
	deadline := time.After(5 * time.Second)
	for {
		select {
		case _, open := <-w.answers:
			if !open {
				return true
			}
		case <-deadline:
			return false
		}
	}
}

// kill kills the process. The next job starts another.
func (w *Worker) kill() {
	if w.cmd == nil {
		return
	}
	w.cmd.Process.Kill()
	for range w.answers {
	}
	w.cmd = nil
}

// Stop lets the process finish its job and exit.
func (w *Worker) Stop() {
	if w.cmd == nil {
		return
	}
	w.stdin.Close()
	for range w.answers {
	}
	w.cmd = nil
}

// ServeWorker reads jobs as lines of JSON, runs them, and writes their outcomes. When the input
// ends, it exits the process at once, even during a job, because no one is waiting for an answer.
func ServeWorker(in io.Reader, out io.Writer, backends map[string]harness.Backend) error {
	jobs := make(chan []byte)
	go func() {
		lines := bufio.NewReaderSize(in, 1<<16)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				close(jobs)
				os.Exit(0)
			}
			jobs <- line
		}
	}()
	for line := range jobs {
		var j Job
		if err := json.Unmarshal(line, &j); err != nil {
			return fmt.Errorf("read job: %w", err)
		}
		b, ok := backends[j.Backend]
		if !ok {
			return fmt.Errorf("read job: no backend %q", j.Backend)
		}
		answer, err := json.Marshal(Execute(context.Background(), b, j))
		if err == nil {
			_, err = fmt.Fprintf(out, "%s%s\n", answerPrefix, answer)
		}
		if err != nil {
			return fmt.Errorf("answer job: %w", err)
		}
	}
	return nil
}

// workerFailure explains why a job got no answer.
type workerFailure struct {
	code         int
	reason, hint string
}

func startFailure(err error) workerFailure {
	if hint := files.Remedy(err, files.TempDirHint); hint != "" {
		return workerFailure{outcome.ExitBackend, fmt.Sprintf("start worker: %v", err), hint}
	}
	return workerFailure{outcome.ExitBug, fmt.Sprintf("start worker: %v", err), ""}
}

// TimeoutMessage starts the error for a run that exceeded its time limit.
const TimeoutMessage = "the run did not end within "

// externalSignals are the signals that a user or the kernel sends to end a process. Any other fatal
// signal means that the process crashed.
var externalSignals = []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}

// failure explains why the process exited: a bug in lockpick, a signal, or a lack of some resource.
// The Go runtime usually exits with status 2 whatever the reason, so failure looks at the output.
func (w *Worker) failure() workerFailure {
	if status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && slices.Contains(externalSignals, status.Signal()) {
		return workerFailure{outcome.ExitBackend, fmt.Sprintf("the worker was killed in this run (%v)", w.cmd.ProcessState),
			"if you did not kill it, the kernel did because memory ran out (see dmesg): allow more memory, or use fewer clients"}
	}
	reason := w.output.failureLine()
	if strings.HasPrefix(reason, "SIGQUIT:") {
		return workerFailure{outcome.ExitBackend, "the worker received a quit signal during this run (" + reason + ")", "let the run finish"}
	}
	if hint := files.Remedy(errors.New(reason), ""); hint != "" {
		return workerFailure{outcome.ExitBackend, "the worker died in this run: " + reason, hint}
	}
	if reason == "" {
		reason = w.cmd.ProcessState.String()
	}
	return workerFailure{outcome.ExitBug, "the worker died in this run: " + reason, ""}
}

// workerOutput is what a worker's process has printed during its job.
type workerOutput struct {
	mu   sync.Mutex
	text []byte
}

// maxOutput limits the output to keep. The Go runtime prints the reason before the goroutines, so
// the first bytes matter most.
const maxOutput = 4 << 20

func (s *workerOutput) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b[:min(len(b), maxOutput-len(s.text))]...)
	return len(b), nil
}

func (s *workerOutput) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = s.text[:0]
}

func (s *workerOutput) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// failureLine returns the line of the Go runtime that says why the process died, or "".
func (s *workerOutput) failureLine() string {
	for line := range strings.Lines(s.String()) {
		for _, prefix := range []string{"panic: ", "fatal error: ", "SIG", "runtime: out of memory", "runtime: failed to create", "error: "} {
			if strings.HasPrefix(line, prefix) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// save writes the output to a file, because it is too long for an error message, and returns the end
// of the message, which names the file.
func (s *workerOutput) save(folder string, j Job) string {
	text := s.String()
	if text == "" {
		return ""
	}
	name := fmt.Sprintf("lockpick-stack-%s-%d-%.8s.txt", strings.ReplaceAll(j.Scenario.ID(), "/", "+"), j.Seed, rand.Text())
	if err := files.WriteIn(folder, name, []byte(text)); err != nil {
		return fmt.Sprintf("; its stacks could not be saved: %v:\n%s", err, text)
	}
	return "; its stacks are in " + filepath.Join(folder, name)
}
