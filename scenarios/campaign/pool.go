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

// Pool runs jobs in worker processes.
type Pool struct {
	Command  []string      // starts a worker
	Env      []string      // that it gets besides this process's own
	Size     int           // workers at once
	Patience time.Duration // wall clock that one job may take
	Stacks   string        // folder for the stacks of workers that ended in the middle of a job
}

// Run does n jobs, each of which job makes when its turn comes, and calls done for
// each as it ends, one at a time. It returns early when ctx ends; jobs that were
// not done then are not reported.
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

// Each does the numbers below n in order, several at once, until ctx ends, and waits for those it began.
func Each(ctx context.Context, atOnce, n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(atOnce, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}

// Runner does the jobs of a campaign on one back end: simulated ones in worker processes, one for
// each processor; those in real time itself, AtOnce side by side, since they share the machine's time.
type Runner struct {
	harness.Backend
	Able    Abilities
	Workers Pool
	AtOnce  int
	Version string                                         // of lockpick
	Command func(s *Selection, p Pick, seed uint64) string // repeats a run
}

// Each does n jobs. None begins once more has ended; those in real time that have begun are done,
// unless ctx ends.
func (r *Runner) Each(ctx, more context.Context, n int, job func(i int) Job, done func(i int, o outcome.Outcome)) {
	if r.Name() == simulation {
		r.Workers.Run(more, n, job, done)
		return
	}
	Each(more, r.AtOnce, n, func(i int) { done(i, Execute(ctx, r.Backend, job(i))) })
}

// Close gives back what the back end keeps between runs.
func (r *Runner) Close() error {
	if r == nil {
		return nil
	}
	if c, ok := r.Backend.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// choose resolves a selection, and leaves out what the back end can't run.
func (r *Runner) choose(s *Selection, known scenario.Known) (Choice, error) {
	c, err := s.Choose(known)
	c.Restrict(r.Able, known.Kinds)
	return c, err
}

// job is a run of a pick.
func (r *Runner) job(s *Selection, p Pick, seed uint64, store string, keep Keep) Job {
	j := s.Job(p, seed)
	j.Store, j.Keep, j.Reports, j.Version, j.Command = store, keep, keep, r.Version, r.Command(s, p, seed)
	return j
}

// Workers are the worker processes of a pool, for jobs that come one by one.
type Workers struct {
	Idle chan *Worker // who takes one puts it back
}

// Start makes the workers of a pool. Stop ends them.
func (p Pool) Start() Workers {
	w := Workers{make(chan *Worker, p.Size)}
	for range p.Size {
		w.Idle <- p.worker()
	}
	return w
}

// Do does a job on the next worker that is idle.
func (w Workers) Do(ctx context.Context, j Job) outcome.Outcome {
	next := <-w.Idle
	defer func() { w.Idle <- next }()
	return next.Do(ctx, j)
}

// Stop ends the workers, once what they do is done.
func (w Workers) Stop() {
	for range cap(w.Idle) {
		(<-w.Idle).Stop()
	}
}

// Simulator runs single scenarios in workers.
type Simulator struct {
	Workers
	Backend harness.Backend // the simulation itself
	Known   scenario.Known
	Version string                                // of lockpick
	Command func(file string, seed uint64) string // runs a scenario file
}

// Run runs a scenario, and keeps nothing of it.
func (x Simulator) Run(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome {
	return x.Do(ctx, Job{Scenario: s, Seed: seed, Backend: simulation, Keep: KeepNone, Version: x.Version})
}

// Save writes a scenario to a file and runs it, to keep its run in a store with its reports.
func (x Simulator) Save(ctx context.Context, s scenario.Scenario, seed uint64, file string, text []byte, store, command string) (outcome.Outcome, error) {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = files.WriteIn(filepath.Dir(file), filepath.Base(file), text)
	}
	if err != nil {
		return outcome.Outcome{}, failed(storeFailed, err)
	}
	return x.Do(ctx, Job{Scenario: s, Seed: seed, Backend: simulation, Store: store, Keep: KeepAll, Version: x.Version, Command: command}), nil
}

// Minimizer makes scenarios small by at most so many runs; 0: as many as it takes.
func (x Simulator) Minimizer(most int) Minimizer {
	return Minimizer{Known: x.Known, Workers: cap(x.Idle), Most: most,
		Run: func(ctx context.Context, s scenario.Scenario, seed uint64) bool {
			return x.Run(ctx, s, seed).Code == outcome.ExitOK
		},
		Record: func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, verdict.Verdict, error) {
			return Record(ctx, x.Backend, s, seed)
		}}
}

// Worker is one worker process, started when it is first needed. It does one job at a time.
type Worker struct {
	pool    Pool
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan []byte // closed when the process has ended
	said    *speech
}

// worker is one of the pool, for jobs that come one by one. Stop ends it.
func (p Pool) worker() *Worker { return &Worker{pool: p, said: &speech{}} }

// Said is what the process has printed in its last job, answers aside.
func (w *Worker) Said() string { return w.said.String() }

// Do does a job. What ends the process in the middle of it is the outcome.
func (w *Worker) Do(ctx context.Context, j Job) outcome.Outcome {
	if w.cmd == nil {
		if err := w.start(); err != nil {
			return unanswered(j, startFailed(err))
		}
	}
	w.said.forget()
	line, err := json.Marshal(j)
	if err != nil {
		return w.lost(j, death{outcome.ExitBug, fmt.Sprintf("send job: %v", err), ""})
	}
	if _, err := w.in.Write(append(line, '\n')); err != nil {
		if !w.await() {
			return w.lost(j, death{outcome.ExitBug, "the worker takes no jobs any more, and goes on", ""})
		}
		return w.lost(j, w.died())
	}
	patience := time.NewTimer(w.pool.Patience)
	defer patience.Stop()
	select {
	case answer, ok := <-w.answers:
		var o outcome.Outcome
		if !ok {
			return w.lost(j, w.died())
		}
		if err := json.Unmarshal(answer, &o); err != nil {
			return w.lost(j, death{outcome.ExitBug, fmt.Sprintf("the worker's answer makes no sense: %v", err), ""})
		}
		return o
	case <-patience.C:
		w.dump()
		return w.lost(j, death{outcome.ExitBackend, fmt.Sprintf(TooLong+"%v of wall clock", w.pool.Patience),
			"give it longer by --timeout; one that takes minutes stands still, which is a bug in lockpick"})
	case <-ctx.Done():
		w.kill()
		return unanswered(j, death{outcome.ExitInterrupt, "interrupted", ""})
	}
}

// lost ends the worker, if it has not ended by itself, keeps what it said, and makes an
// outcome of it all.
func (w *Worker) lost(j Job, d death) outcome.Outcome {
	w.kill()
	d.why += w.said.keep(w.pool.Stacks, j)
	return unanswered(j, d)
}

// unanswered is the outcome of a job that no worker has answered.
func unanswered(j Job, d death) outcome.Outcome {
	return outcome.Outcome{Schema: 1, Scenario: j.Scenario.ID(), Backend: j.Backend, Seed: j.Seed, Command: j.Command, Code: d.code, Error: d.why, Hint: d.hint}
}

// settings are those of a worker's runtime. A run makes much garbage and keeps little, so collecting a
// quarter as often costs a few megabytes; a bubble on two processors is slower than on one; and a
// goroutine for each request of a driver gets a stack as deep as the last ones needed, where copying
// it twice took a tenth of the run. Values already in the environment win.
var settings = []string{"GOGC=400", "GOMAXPROCS=1", "GODEBUG=adaptivestackstart=1"}

func (w *Worker) start() error {
	cmd := exec.Command(w.pool.Command[0], w.pool.Command[1:]...)
	cmd.Env = slices.Concat(settings, os.Environ(), w.pool.Env)
	w.said = &speech{}
	cmd.Stderr = w.said
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
	w.cmd, w.in, w.answers = cmd, in, make(chan []byte)
	go w.read(cmd, out, w.said)
	return nil
}

// answerMark begins each line that is an answer. What else stands on standard output was
// printed by whatever else is in the program, such as a lock under test.
const answerMark = "lockpick answers: "

// mostAnswer bounds an answer, in bytes; those of runs have some thousands.
const mostAnswer = 64 << 20

// read passes the worker's answers on until it ends.
func (w *Worker) read(cmd *exec.Cmd, out io.Reader, said *speech) {
	defer close(w.answers)
	lines := bufio.NewReaderSize(out, 1<<16)
	var answer []byte // the beginning of a line that is an answer
	inLine := false   // the beginning of a line that is none has been read
	for {
		part, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		is := answer != nil || !inLine && bytes.HasPrefix(part, []byte(answerMark))
		switch {
		case !is || len(answer)+len(part) > mostAnswer:
			said.Write(part)
			answer = nil
		case err != nil:
			answer = append(answer, part...)
		default:
			w.answers <- bytes.TrimPrefix(append(answer, part...), []byte(answerMark))
			answer = nil
		}
		inLine = err != nil
	}
	cmd.Wait() // its error is told by what it said
}

// dump makes a worker that stands still tell where.
func (w *Worker) dump() {
	if files.ProcessQuit(w.cmd.Process) == nil {
		w.await()
	}
}

// await waits for the end of a worker that takes no more jobs, within reason.
func (w *Worker) await() (ended bool) {
	end := time.After(5 * time.Second)
	for {
		select {
		case _, open := <-w.answers:
			if !open {
				return true
			}
		case <-end:
			return false
		}
	}
}

// kill ends the worker's process; the next job starts another.
func (w *Worker) kill() {
	if w.cmd == nil {
		return
	}
	w.cmd.Process.Kill()
	for range w.answers {
	}
	w.cmd = nil
}

// Stop lets the worker end by itself.
func (w *Worker) Stop() {
	if w.cmd == nil {
		return
	}
	w.in.Close()
	for range w.answers {
	}
	w.cmd = nil
}

// ServeWorker does the jobs that it reads, one JSON line each, and answers each with
// its outcome. It ends with its input; if that happens in the middle of a job,
// it exits at once, since nobody waits for the answer any more.
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
			_, err = fmt.Fprintf(out, "%s%s\n", answerMark, answer)
		}
		if err != nil {
			return fmt.Errorf("answer job: %w", err)
		}
	}
	return nil
}

// death is why a worker gave no answer: the exit code that this calls for, the reason,
// and what to do about it.
type death struct {
	code      int
	why, hint string
}

func startFailed(err error) death {
	if hint := files.Remedy(err, files.TempDirHint); hint != "" {
		return death{outcome.ExitBackend, fmt.Sprintf("start worker: %v", err), hint}
	}
	return death{outcome.ExitBug, fmt.Sprintf("start worker: %v", err), ""}
}

// TooLong begins the error of a run that took longer than it may.
const TooLong = "the run did not end within "

// outside lists the signals by which others end a program. By any other it ended itself.
var outside = []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}

// died tells how a worker came to its end that has ended by itself: a bug in lockpick,
// or that somebody killed it, or that the machine was short of something. The exit
// status of Go's runtime is 2 for most of these, and says nothing.
func (w *Worker) died() death {
	if status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && slices.Contains(outside, status.Signal()) {
		return death{outcome.ExitBackend, fmt.Sprintf("the worker was killed in this run (%v)", w.cmd.ProcessState),
			"if nobody did it, the kernel did for want of memory, as dmesg tells: allow more, or use fewer clients"}
	}
	last := w.said.reason()
	if strings.HasPrefix(last, "SIGQUIT:") {
		return death{outcome.ExitBackend, "the worker was told to quit in this run (" + last + ")", "let it run to its end"}
	}
	if hint := files.Remedy(errors.New(last), ""); hint != "" {
		return death{outcome.ExitBackend, "the worker died in this run: " + last, hint}
	}
	if last == "" {
		last = w.cmd.ProcessState.String()
	}
	return death{outcome.ExitBug, "the worker died in this run: " + last, ""}
}

// speech is what a worker has printed on its standard error since its job began.
type speech struct {
	mu   sync.Mutex
	text []byte
}

// longestSpeech bounds what is kept: the reason stands first, and then all goroutines.
const longestSpeech = 4 << 20

func (s *speech) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b[:min(len(b), longestSpeech-len(s.text))]...)
	return len(b), nil
}

func (s *speech) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = s.text[:0]
}

func (s *speech) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// reason is the line in which Go's runtime says why it ends a program; "": there is none.
func (s *speech) reason() string {
	for line := range strings.Lines(s.String()) {
		for _, begin := range []string{"panic: ", "fatal error: ", "SIG", "runtime: out of memory", "runtime: failed to create", "error: "} {
			if strings.HasPrefix(line, begin) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// keep writes it to a file, and says which: it is long, and seldom read.
func (s *speech) keep(folder string, j Job) string {
	text := s.String()
	if text == "" {
		return ""
	}
	name := fmt.Sprintf("lockpick-stack-%s-%d-%.8s.txt", strings.ReplaceAll(j.Scenario.ID(), "/", "+"), j.Seed, rand.Text())
	if err := files.WriteIn(folder, name, []byte(text)); err != nil {
		return fmt.Sprintf("; its stacks could not be kept: %v:\n%s", err, text)
	}
	return "; its stacks are in " + filepath.Join(folder, name)
}
