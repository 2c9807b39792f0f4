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

// workerEnv is set for a process that is to do simulated runs.
const workerEnv = "LOCKPICK_LOCKTEST_WORKER"

// hire gets ready workers for the subtests. Each is this binary, which is told to run this
// test alone, and works once it comes to Run.
func (r *run) hire(t *testing.T, self string) {
	if r.backend != nil {
		return
	}
	r.workers = campaign.Pool{
		Command:  append([]string{self, "-test.run=" + pattern(r.test), "-test.timeout=0"}, ownFlags()...),
		Env:      []string{workerEnv + "=1", "GORACE=atexit_sleep_ms=0"}, // a second each, otherwise
		Patience: r.Patience, Stacks: r.store, Size: runtime.GOMAXPROCS(0),
	}.Start()
	t.Cleanup(r.workers.Stop) // after all subtests
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

// packageOf is the path of the package that a factory is of, as stacks have it.
func packageOf(f lock.Factory) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	folder := strings.LastIndex(name, "/") + 1
	base, _, _ := strings.Cut(name[folder:], ".")
	return name[:folder] + base
}

// mostStacks bounds the goroutines that are told.
const mostStacks = 5

// addresses are those of frames, which say nothing to a reader.
var addresses = regexp.MustCompile(` fp=0x[0-9a-f]+ sp=0x[0-9a-f]+ pc=0x[0-9a-f]+| gp=0x[0-9a-f]+ m=\S+|(?m)^PC=.*\n`)

// stacks are the goroutines of a dump that are in the lock's package, or the first where none
// is, behind what was printed before them. That of the test, which waits for all, is left out.
func stacks(dump, pkg string) string {
	var lock, other []string
	before, rest, _ := strings.Cut("\n"+addresses.ReplaceAllString(dump, ""), "\ngoroutine ")
	if rest == "" {
		return strings.TrimSpace(dump)
	}
	for part := range strings.SplitSeq("\n"+rest, "\n\ngoroutine ") {
		switch part = "goroutine " + strings.TrimSpace(part); {
		case strings.Contains(part, "locktest.(*run).work("):
		case strings.Contains(part, "\n"+pkg+"."):
			lock = append(lock, part)
		default:
			other = append(other, part)
		}
	}
	title := "goroutines in " + pkg
	if len(lock) == 0 {
		title, lock = "goroutines, none of them in "+pkg, other
	}
	shown := lock[:min(mostStacks, len(lock))]
	return strings.TrimSpace(fmt.Sprintf("%s\n\n%s (%d of %d):\n\n%s", strings.TrimSpace(before), title, len(shown), len(lock), strings.Join(shown, "\n\n")))
}

// clientVerb is the argument by which the process backend starts the test's binary as a client.
const clientVerb = "__client"

// clients are the kinds that Process was given.
var clients []lock.Kind

// Process is for a TestMain whose tests run on real servers: it makes the test's binary a
// program of clients that use locks of these kinds, runs the tests, and exits.
//
//	func TestMain(m *testing.M) { locktest.Process(m, kind) }
//
// m is a *testing.M, or whatever runs the tests and what must be done before and after them.
func Process(m interface{ Run() int }, all ...lock.Kind) {
	if len(os.Args) > 1 && os.Args[1] == clientVerb {
		code := 0
		flag.CommandLine.Parse(os.Args[2:]) // its error ends the program
		if err := real.ClientMain(os.Stdin, os.Stdout, tableWith(all...)); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			code = 3
		}
		os.Exit(code)
	}
	clients = all
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // or each client takes a second to end under -race
	}
	os.Exit(m.Run())
}
