package locktest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/real"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
)

// workerEnv is set for processes that execute simulated runs.
const workerEnv = "LOCKPICK_LOCKTEST_WORKER"

// startWorkers starts the workers for the subtests. Each worker is a process of this binary that
// runs only this test, and executes jobs when it reaches Run.
func (r *run) startWorkers(t *testing.T, self string) {
	if r.backend != nil {
		return
	}
	r.workers = campaign.Pool{
		Command: append([]string{self, "-test.run=" + pattern(r.testName), "-test.timeout=0"}, customFlags()...),
		Env:     []string{workerEnv + "=1", "GORACE=atexit_sleep_ms=0"}, // without it, each worker takes a second to exit
		Timeout: r.Patience, StackFolder: r.storeDir, Size: runtime.GOMAXPROCS(0),
	}.Start()
	t.Cleanup(r.workers.Stop) // runs after all subtests
}

// work executes jobs until there are no more. It does not return.
func (r *run) work() {
	out := os.Stdout
	os.Stdout = os.Stderr // the lock's output must not mix with the answers
	fmt.Fprintln(out)     // ends a line that TestMain may have started
	b := simulation{sim.New(r.kindTable)}
	if err := campaign.ServeWorker(os.Stdin, out, map[string]harness.Backend{b.Name(): b}); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// simulation is the simulated backend. If a run deadlocks, it prints the stacks of all goroutines.
type simulation struct{ *sim.Backend }

// Run runs a simulation and prints all stacks if it deadlocks.
func (b simulation) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) error {
	err := b.Backend.Run(ctx, s, seed, rec, body)
	if err != nil && strings.Contains(err.Error(), "deadlock: ") {
		buf := make([]byte, 1<<20)
		os.Stderr.Write(buf[:runtime.Stack(buf, true)])
	}
	return err
}

// customFlags returns the command line's flags, except those of package testing.
func customFlags() (out []string) {
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			out = append(out, "-"+f.Name+"="+f.Value.String())
		}
	})
	return out
}

// pattern returns the value of -run that selects a single test.
func pattern(test string) string {
	var parts []string
	for part := range strings.SplitSeq(test, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// packageOf returns the import path of a factory's package, as it appears in stacks.
func packageOf(f lock.Factory) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	slash := strings.LastIndex(name, "/") + 1
	base, _, _ := strings.Cut(name[slash:], ".")
	return name[:slash] + base
}

// maxStacks limits the number of goroutines shown.
const maxStacks = 5

// addressPattern matches the addresses in stack frames, which are of no use to a reader.
var addressPattern = regexp.MustCompile(` fp=0x[0-9a-f]+ sp=0x[0-9a-f]+ pc=0x[0-9a-f]+| gp=0x[0-9a-f]+ m=\S+|(?m)^PC=.*\n`)

// goroutineStacks returns the text before the goroutines in a dump, and the goroutines in the lock's
// package, or the first few goroutines if the package has none. It omits the test's goroutine that
// waits for the others.
func goroutineStacks(dump, pkg string) string {
	var ownStacks, otherStacks []string
	preamble, rest, _ := strings.Cut("\n"+addressPattern.ReplaceAllString(dump, ""), "\ngoroutine ")
	if rest == "" {
		return strings.TrimSpace(dump)
	}
	for part := range strings.SplitSeq("\n"+rest, "\n\ngoroutine ") {
		switch part = "goroutine " + strings.TrimSpace(part); {
		case strings.Contains(part, "locktest.(*run).work("):
		case strings.Contains(part, "\n"+pkg+"."):
			ownStacks = append(ownStacks, part)
		default:
			otherStacks = append(otherStacks, part)
		}
	}
	title := "goroutines in " + pkg
	if len(ownStacks) == 0 {
		title, ownStacks = "goroutines, none of them in "+pkg, otherStacks
	}
	shown := ownStacks[:min(maxStacks, len(ownStacks))]
	return strings.TrimSpace(fmt.Sprintf("%s\n\n%s (%d of %d):\n\n%s", strings.TrimSpace(preamble), title, len(shown), len(ownStacks), strings.Join(shown, "\n\n")))
}

// clientVerb is the argument with which the process backend starts the test's binary as a client.
const clientVerb = "__client"

// clients are the kinds passed to Process.
var clients []lock.Kind

// Process is for the TestMain of tests that use real servers. If the binary was started as a
// client, Process runs the client with locks of the given kinds. Otherwise it runs the tests and
// exits.
//
//	func TestMain(m *testing.M) { locktest.Process(m, kind) }
//
// m is a *testing.M, or another value that runs the tests with their setup and teardown.
func Process(m interface{ Run() int }, clientKinds ...lock.Kind) {
	if len(os.Args) > 1 && os.Args[1] == clientVerb {
		code := 0
		flag.CommandLine.Parse(os.Args[2:]) // exits on error
		if err := real.ClientMain(os.Stdin, os.Stdout, tableWith(clientKinds...)); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			code = 3
		}
		os.Exit(code)
	}
	clients = clientKinds
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // without it, each client takes a second to exit under -race
	}
	os.Exit(m.Run())
}
