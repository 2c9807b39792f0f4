package locktest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
)

// workerEnv is set for a process that is to do simulated runs.
const workerEnv = "LOCKPICK_LOCKTEST_WORKER"

// hire gets ready workers for the subtests. Each is this binary, which is told to run this
// test alone, and works once it comes to Run.
func (r *run) hire(t *testing.T, self string) {
	if r.backend != nil {
		return
	}
	r.pool = campaign.Pool{
		Command:  append([]string{self, "-test.run=" + pattern(r.test), "-test.timeout=0"}, ownFlags()...),
		Env:      []string{workerEnv + "=1", "GORACE=atexit_sleep_ms=0"}, // a second each, otherwise
		Patience: r.Patience, Stacks: r.store,
	}
	size := runtime.GOMAXPROCS(0)
	r.idle = make(chan *campaign.Worker, size)
	for range size {
		r.idle <- r.pool.Worker()
	}
	t.Cleanup(func() { // after all subtests
		for range size {
			(<-r.idle).Stop()
		}
	})
}

// work does runs until there are no more. It does not return.
func (r *run) work() {
	answers := os.Stdout
	os.Stdout = os.Stderr // what the lock prints is no answer
	fmt.Fprintln(answers) // nor is what a TestMain has begun a line with
	b := simulation{sim.New(r.table)}
	if err := campaign.ServeWorker(os.Stdin, answers, map[string]harness.Backend{b.Name(): b}); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// simulation prints where goroutines stand that wait for each other.
type simulation struct{ *sim.Backend }

// Run is that of the simulation.
func (b simulation) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) error {
	err := b.Backend.Run(ctx, s, seed, rec, body)
	if err != nil && strings.Contains(err.Error(), "deadlock: ") {
		all := make([]byte, 1<<20)
		os.Stderr.Write(all[:runtime.Stack(all, true)])
	}
	return err
}

// ownFlags are the flags of the test that are not Go's, as they were given.
func ownFlags() (out []string) {
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			out = append(out, "-"+f.Name+"="+f.Value.String())
		}
	})
	return out
}

// pattern is the value of -run that matches one test alone.
func pattern(test string) string {
	var parts []string
	for part := range strings.SplitSeq(test, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}
