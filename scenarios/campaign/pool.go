// Package sweep runs many jobs in worker processes.
//
// A Pool keeps a few workers, one a core, each the same binary with one
// processor; Serve is their half of the conversation. What ends a worker in the
// middle of a job, a panic in a goroutine of a simulated client or a bubble that
// stands still, is the outcome of that one job (death.go); the stacks that the
// worker printed are in a file of their own.
//
// Deliberately missing: what a job means, and sharing among machines.
package campaign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

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
	var mu sync.Mutex
	EachWorker(ctx, p.Size, n, func(next <-chan int) {
		w := p.Worker()
		defer w.Stop()
		for i := range next {
			o := w.Do(ctx, job(i))
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			done(i, o)
			mu.Unlock()
		}
	})
}

// Each hands out the numbers below n to workers, until ctx ends, and waits for all of them.
func EachWorker(ctx context.Context, workers, n int, work func(next <-chan int)) {
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range n {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	var all sync.WaitGroup
	for range min(workers, n) {
		all.Go(func() { work(next) })
	}
	all.Wait()
}

// Worker is one worker process, started when it is first needed. It does one job at a time.
type Worker struct {
	pool    Pool
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan []byte // closed when the process has ended
	said    *speech
}

// Worker is one of the pool, for jobs that come one by one. Stop ends it.
func (p Pool) Worker() *Worker { return &Worker{pool: p, said: &speech{}} }

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
