package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
)

// A trace is the complete record of a simulated run: its history, and a digest of all messages and
// the times at which they were sent and delivered.
type trace struct {
	History []byte
	Wire    uint64
}

func simulate(s scenario.Scenario, seed uint64) (tr trace, err error) {
	var out bytes.Buffer
	b := sim.New(locks())
	b.Digest = func(d uint64) { tr.Wire = d }
	err = harness.Run(context.Background(), b, s, seed, history.NewRecorder(&out))
	tr.History = out.Bytes()
	return tr, err
}

// diff describes how two traces differ, or returns "" if they are identical.
func (tr trace) diff(o trace) string {
	a, b := bytes.Split(tr.History, []byte("\n")), bytes.Split(o.History, []byte("\n"))
	for n := range max(len(a), len(b)) {
		if lineAt(a, n) != lineAt(b, n) {
			return fmt.Sprintf("line %d of the history:\n  %s\n  %s", n+1, lineAt(a, n), lineAt(b, n))
		}
	}
	if tr.Wire != o.Wire {
		return "the wire, but not the history"
	}
	return ""
}

// tracerName is the command name that makes the test binary act as a tracer.
const tracerName = "lockpick-tracer"

// A tracer is a process that runs jobs and returns their traces.
type tracer struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	jobs    *json.Encoder
	answers *gob.Decoder
	errs    bytes.Buffer
}

func startTracer(ctx context.Context, env ...string) (*tracer, error) {
	tr := &tracer{cmd: exec.CommandContext(ctx, tracerName)}
	tr.cmd.Env = append(os.Environ(), env...)
	tr.cmd.Stderr = &tr.errs
	in, err := tr.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := tr.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	tr.in, tr.jobs, tr.answers = in, json.NewEncoder(in), gob.NewDecoder(bufio.NewReader(out))
	return tr, tr.cmd.Start()
}

func (tr *tracer) trace(j campaign.Job) (got trace, err error) {
	if err = tr.jobs.Encode(j); err == nil {
		err = tr.answers.Decode(&got)
	}
	if err != nil {
		tr.stop()
		return got, fmt.Errorf("%s seed %d: %w\n%s", j.Scenario.ID(), j.Seed, err, tr.errs.String())
	}
	return got, nil
}

func (tr *tracer) stop() {
	tr.in.Close()
	tr.cmd.Wait()
}

// runTracer runs the jobs that it reads from standard input, and writes their traces to standard
// output.
func runTracer() {
	jobs, encoder := json.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var j campaign.Job
		if err := jobs.Decode(&j); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		got, err := simulate(j.Scenario, j.Seed)
		if err == nil {
			err = encoder.Encode(got)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
