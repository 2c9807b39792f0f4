package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// TestMain lets the test binary be its own worker. The scenario's name selects what the worker does.
func TestMain(m *testing.M) {
	if os.Getenv("SWEEP_TEST_WORKER") == "" {
		os.Exit(m.Run())
	}
	for d := json.NewDecoder(os.Stdin); ; {
		var j Job
		if d.Decode(&j) != nil {
			os.Exit(0)
		}
		switch j.Scenario.Name {
		case "dies":
			panic("a goroutine of the run panicked")
		case "freezes":
			<-time.After(time.Hour)
		case "overflows":
			debug.SetMaxStack(1 << 20)
			_ = overflow(0)
		case "writes a map twice":
			m := map[int]int{}
			for range 2 {
				go func() {
					for {
						m[1]++
					}
				}()
			}
			<-time.After(time.Hour)
		case "has no memory":
			os.Stderr.WriteString("runtime: out of memory: cannot allocate 104857600-byte block (3833856 in use)\nfatal error: out of memory\n\ngoroutine 1\n")
			os.Exit(2)
		case "has no threads":
			os.Stderr.WriteString("runtime: failed to create new OS thread (have 5 already; errno=11)\nfatal error: newosproc\n")
			os.Exit(2)
		case "is killed":
			signalSelf(syscall.SIGKILL)
		case "is terminated":
			signalSelf(syscall.SIGTERM)
		case "gets SIGQUIT":
			signalSelf(syscall.SIGQUIT)
		case "answers nonsense":
			os.Stdout.WriteString(answerPrefix + "what?\n")
			continue
		}
		os.Stdout.WriteString("a lock prints this\n" + answerPrefix)
		json.NewEncoder(os.Stdout).Encode(outcome.Outcome{Scenario: j.Scenario.Name, Seed: j.Seed})
	}
}

//lint:ignore SA5007 the stack should overflow
func overflow(n int) int { return overflow(n+1) + 1 }

func signalSelf(s syscall.Signal) {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(s)
	}
	fmt.Fprintln(os.Stderr, "sent", s, err)
	<-time.After(time.Hour)
}

// A worker that is killed or crashes affects the outcome of its current job alone. Although the
// process usually exits with status 2, the outcome is never undecided. Its error is a single line
// that gives the reason and names the file with the stacks.
func TestPoolReportsWorkerFailures(t *testing.T) {
	t.Setenv("SWEEP_TEST_WORKER", "1")
	cases := []struct {
		name                   string
		code                   int
		reason, hint, inStacks string
	}{
		{name: "dies", code: 70, reason: "the worker died in this run: panic: a goroutine of the run panicked", inStacks: "goroutine "},
		{name: "overflows", code: 70, reason: "fatal error: stack overflow", inStacks: "overflow("},
		{name: "writes a map twice", code: 70, reason: "fatal error: concurrent map", inStacks: "goroutine "},
		{name: "answers nonsense", code: 70, reason: "invalid answer"},
		{name: "freezes", code: 3, reason: "did not end within 2s", hint: "--timeout", inStacks: "goroutine "},
		{name: "has no memory", code: 3, reason: "out of memory", hint: "ulimit -v", inStacks: "goroutine 1"},
		{name: "has no threads", code: 3, reason: "failed to create new OS thread", hint: "ulimit -u", inStacks: "newosproc"},
		{name: "is killed", code: 3, reason: "killed in this run (signal: killed)", hint: "memory"},
		{name: "is terminated", code: 3, reason: "killed in this run (signal: terminated)", hint: "memory"},
		{name: "gets SIGQUIT", code: 3, reason: "SIGQUIT", hint: "let the run finish", inStacks: "goroutine "},
	}
	got := make([]outcome.Outcome, 2*len(cases))
	pool := Pool{Command: []string{os.Args[0]}, Size: 2, StackFolder: t.TempDir()}
	// Jobs that never end get a short time limit. Other jobs may be slow on a busy machine.
	for _, freezes := range []bool{false, true} {
		var jobs []Job
		for i, e := range cases {
			if (e.name == "freezes") == freezes {
				jobs = append(jobs, Job{Scenario: scenario.Scenario{Name: e.name}, Seed: uint64(2 * i)},
					Job{Scenario: scenario.Scenario{Name: "fine"}, Seed: uint64(2*i + 1)})
			}
		}
		if pool.Timeout = time.Minute; freezes {
			pool.Timeout, pool.Size = 2*time.Second, 1
		}
		pool.Run(t.Context(), len(jobs), func(i int) Job { return jobs[i] }, func(i int, o outcome.Outcome) { got[jobs[i].Seed] = o })
	}
	for i, e := range cases {
		if o := got[2*i+1]; o.Code != 0 || o.Seed != uint64(2*i+1) {
			t.Errorf("the job after %q: %+v", e.name, o)
		}
		o := got[2*i]
		why, file, _ := strings.Cut(o.Error, "; its stacks are in ")
		if o.Code != e.code || !strings.Contains(why, e.reason) || !strings.Contains(o.Hint, e.hint) || o.Seed != uint64(2*i) || o.Scenario != e.name || strings.Contains(o.Error, "\n") {
			t.Errorf("%q: %+v", e.name, o)
		}
		if e.inStacks == "" {
			continue
		}
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), e.inStacks) {
			t.Errorf("%q: stacks file contains %q (%v)", e.name, text, err)
		}
	}
}

// A worker's other output is not mistaken for answers, and is available for the last job only.
func TestWorkerOutput(t *testing.T) {
	w := Pool{Command: []string{os.Args[0]}, Env: []string{"SWEEP_TEST_WORKER=1"}, Timeout: time.Minute, StackFolder: t.TempDir()}.worker()
	defer w.Stop()
	for _, name := range []string{"fine", "dies", "fine"} {
		o := w.Do(t.Context(), Job{Scenario: scenario.Scenario{Name: name}})
		output, died := w.Output(), name == "dies"
		if (o.Code != 0) != died || strings.Contains(output, "panic: ") != died || strings.Contains(output, "a lock prints this") == died {
			t.Errorf("%s: code %d, printed %q", name, o.Code, output)
		}
	}
	w.Stop()
	if o := w.Do(t.Context(), Job{Scenario: scenario.Scenario{Name: "fine"}}); o.Code != 0 {
		t.Errorf("after Stop: %+v", o)
	}
}

// The error says so and contains the stacks.
func TestStacksCannotBeSaved(t *testing.T) {
	t.Setenv("SWEEP_TEST_WORKER", "1")
	pool := Pool{Command: []string{os.Args[0]}, Size: 1, Timeout: time.Minute, StackFolder: filepath.Join(t.TempDir(), "none")}
	pool.Run(t.Context(), 1, func(int) Job { return Job{Scenario: scenario.Scenario{Name: "dies"}} }, func(_ int, o outcome.Outcome) {
		if o.Code != 70 || !strings.Contains(o.Error, "could not be saved") || !strings.Contains(o.Error, "goroutine ") {
			t.Errorf("%+v", o)
		}
	})
}

func TestPoolStopsOnCancel(t *testing.T) {
	t.Setenv("SWEEP_TEST_WORKER", "1")
	ctx, cancel := context.WithCancel(t.Context())
	jobs := []Job{{Scenario: scenario.Scenario{Name: "fine"}}, {Scenario: scenario.Scenario{Name: "freezes"}}, {Scenario: scenario.Scenario{Name: "fine"}}}
	pool := Pool{Command: []string{os.Args[0]}, Size: 1, Timeout: time.Minute}
	done := 0
	pool.Run(ctx, len(jobs), func(i int) Job { return jobs[i] }, func(int, outcome.Outcome) { done++; cancel() })
	if done != 1 {
		t.Errorf("%d jobs were reported, want 1", done)
	}
}

func TestPoolWorkerCannotStart(t *testing.T) {
	pool := Pool{Command: []string{"/nowhere/lockpick"}, Size: 1, Timeout: time.Second}
	var got outcome.Outcome
	pool.Run(t.Context(), 1, func(int) Job { return Job{} }, func(_ int, o outcome.Outcome) { got = o })
	if got.Code != 70 || !strings.Contains(got.Error, "start worker") {
		t.Errorf("%+v", got)
	}
}

// Output that is not an answer is passed on as it arrives, even in the middle of a long line, and
// does not swallow answers.
func TestWorkerLongLines(t *testing.T) {
	w := Pool{Command: []string{os.Args[0]}}.worker()
	w.answers = make(chan []byte)
	out, to := io.Pipe()
	go w.readAnswers(exec.Command("none"), out, w.output)
	to.Write([]byte(strings.Repeat("x", 1<<20)))
	if got := len(w.Output()); got < 1<<19 {
		t.Errorf("%d bytes of an unfinished line were passed on", got)
	}
	long := strings.Repeat("a", 1<<20)
	go func() {
		io.WriteString(to, answerPrefix+"no answer\n"+answerPrefix+long+"\nnoise\n"+answerPrefix+"last\n")
		to.Close()
	}()
	for _, want := range []string{long + "\n", "last\n"} {
		if got := string(<-w.answers); got != want {
			t.Errorf("got %d bytes, %.20q", len(got), got)
		}
	}
	if _, more := <-w.answers; more || !strings.Contains(w.Output(), "no answer\nnoise\n") {
		t.Errorf("more answers %v, output …%q", more, w.Output()[max(0, len(w.Output())-50):])
	}
}
