//go:build nightly && linux

package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/scenarios/outcome"
)

// A killEnv is the environment in which a test ends lockpick processes at random times. TMPDIR and
// the store are not used by anything else, so whatever is there, except runs, was left behind.
type killEnv struct {
	*testing.T
	binary, tmp, store string
	rng                *rand.Rand
	engine             bool                     // runs use containers, and nothing else uses the engine
	initialState       map[string]string        // machineState before the first lockpick process
	durations          map[string]time.Duration // of undisturbed processes, by command
}

func newKillEnv(t *testing.T, seed uint64, engine bool) *killEnv {
	t.Helper()
	needRedis(t)
	f := &killEnv{T: t, engine: engine, binary: build(t), tmp: t.TempDir(), store: filepath.Join(t.TempDir(), "store"),
		rng: rand.New(rand.NewPCG(seed, 13)), durations: map[string]time.Duration{}}
	t.Logf("seed %d", seed)
	f.initialState = f.machineState()
	f.runToEnd("run", "baseline/", "gc-pause-after-acquire/", "restart-forgets/") // for report and replay
	return f
}

func (f *killEnv) newCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(f.binary, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+f.tmp, "LOCKPICK_STORE="+f.store)
	// Use a separate process group, as a shell does; otherwise signals would reach the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// runToEnd runs lockpick undisturbed, and records the duration. It accepts any verdict, because the
// machine may be overloaded.
func (f *killEnv) runToEnd(args ...string) {
	f.Helper()
	start := time.Now()
	cmd := f.newCommand(args...)
	out, err := cmd.CombinedOutput()
	if !reachedVerdict(cmd.ProcessState) {
		f.Fatalf("lockpick %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	f.durations[strings.Join(args, " ")] = time.Since(start)
}

func reachedVerdict(state *os.ProcessState) bool {
	return slices.Contains([]int{outcome.ExitOK, outcome.ExitUnexpected, outcome.ExitUndecided}, state.ExitCode())
}

// A killKind is a kind of lockpick process: the commands to kill or end, and the command that must
// clean up afterward.
type killKind struct {
	name     string
	commands [][]string // in rotation
	cleanup  []string
	num      int
}

// killCounts counts killed processes of one kind, by result.
type killCounts struct{ killed, alreadyEnded, leftSomething, cleanedUp int }

// kill kills lockpick processes of a kind at random times. After each, it runs the cleanup command
// and checks that nothing is left.
func (f *killEnv) kill(k killKind) {
	f.Helper()
	var counts killCounts
	for n := range k.num {
		args := k.commands[n%len(k.commands)]
		duration := f.durations[strings.Join(args, " ")]
		if duration == 0 {
			f.runToEnd(args...)
			duration = f.durations[strings.Join(args, " ")]
		}
		delay := time.Duration(f.rng.Int64N(int64(duration)))
		cmd := f.newCommand(args...)
		if err := cmd.Start(); err != nil {
			f.Fatal(err)
		}
		time.Sleep(delay)
		cmd.Process.Kill()
		cmd.Wait()
		counts.killed++
		if cmd.ProcessState.Exited() {
			counts.alreadyEnded++
		}
		remainsBefore := f.remains()
		if remainsBefore != "" {
			counts.leftSomething++
		}
		f.runToEnd(k.cleanup...)
		leftovers := f.awaitCleanup()
		if leftovers == "" && remainsBefore != "" {
			counts.cleanedUp++
		}
		if leftovers != "" {
			f.Errorf("lockpick %s, killed after %v: the next process did not remove:\n%s", strings.Join(args, " "), delay, leftovers)
		}
	}
	f.Logf("kill -9 of %-17s %3d, %d had already ended; %d left something, all removed in %d", k.name+":", counts.killed, counts.alreadyEnded, counts.leftSomething, counts.cleanedUp)
}

// signal sends sig to lockpick processes of kind k, to end them. They must leave nothing behind, keep the
// history and its verdict, and exit with 130.
func (f *killEnv) signal(k killKind, sig syscall.Signal) {
	f.Helper()
	numEarly, numLate := 0, 0
	var longest time.Duration
	for n := range k.num {
		args := k.commands[n%len(k.commands)]
		duration := f.durations[strings.Join(args, " ")]
		if duration == 0 {
			f.runToEnd(args...)
			duration = f.durations[strings.Join(args, " ")]
		}
		delay, before := time.Duration(f.rng.Int64N(int64(duration))), f.runs()
		cmd := f.newCommand(args...)
		if err := cmd.Start(); err != nil {
			f.Fatal(err)
		}
		time.Sleep(delay)
		cmd.Process.Signal(sig)
		signalTime := time.Now()
		cmd.Wait()
		longest = max(longest, time.Since(signalTime))
		switch state := cmd.ProcessState; {
		case state.Sys().(syscall.WaitStatus).Signaled(): // before lockpick handled signals, so it had created nothing
			numEarly++
		case reachedVerdict(state):
			numLate++
		case state.ExitCode() != outcome.ExitInterrupt:
			f.Errorf("lockpick %s, %v after %v: exit code %d", strings.Join(args, " "), sig, delay, state.ExitCode())
		}
		if leftovers := f.awaitCleanup(); leftovers != "" {
			f.Errorf("lockpick %s, %v after %v left behind\n%s", strings.Join(args, " "), sig, delay, leftovers)
		}
		for _, dir := range f.runs() {
			if !slices.Contains(before, dir) {
				f.checkVerdict(dir, fmt.Sprintf("lockpick %s, %v after %v", strings.Join(args, " "), sig, delay))
			}
		}
	}
	f.Logf("%-11v of %-17s %3d, %d before they handled signals, %d had already ended; all within %v", sig, k.name+":", k.num, numEarly, numLate, longest.Round(time.Millisecond))
}

func (f *killEnv) runs() []string {
	runs, err := filepath.Glob(filepath.Join(f.store, "*", "*-*-*"))
	if err != nil {
		f.Fatal(err)
	}
	return runs
}

// checkVerdict checks that a run with a history has a verdict.
func (f *killEnv) checkVerdict(dir, description string) {
	f.Helper()
	if info, err := os.Stat(filepath.Join(dir, "history.jsonl")); err != nil || info.Size() == 0 {
		return
	}
	for _, name := range []string{"outcome.json", "verdict.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			f.Errorf("%s: %v", description, err)
		}
	}
}

// awaitCleanup waits up to five seconds until nothing remains, and returns what remains then.
func (f *killEnv) awaitCleanup() (leftovers string) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if leftovers = f.remains(); leftovers == "" {
			return ""
		}
	}
	return leftovers
}

// remains lists everything that lockpick processes left behind.
func (f *killEnv) remains() string {
	var leftovers []string
	entries, err := os.ReadDir(f.tmp)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		leftovers = append(leftovers, "in TMPDIR: "+e.Name())
	}
	filepath.WalkDir(f.store, func(path string, _ fs.DirEntry, _ error) error {
		if name := filepath.Base(path); strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".new") {
			leftovers = append(leftovers, "in the store: "+path)
		}
		return nil
	})
	leftovers = append(leftovers, f.processes()...)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, f.tmp) {
			leftovers = append(leftovers, "mounted: "+line)
		}
	}
	for resource, state := range f.machineState() {
		if initialText := f.initialState[resource]; initialText != state {
			leftovers = append(leftovers, fmt.Sprintf("%s: %s\ninstead of\n%s", resource, state, initialText))
		}
	}
	return strings.Join(leftovers, "\n")
}

// processes lists the processes that run the binary, or whose working directory or open files are in
// TMPDIR.
func (f *killEnv) processes() (leftovers []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	cwds, _ := filepath.Glob("/proc/[0-9]*/cwd")
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	ownProc := fmt.Sprintf("/proc/%d/", os.Getpid())
	for _, link := range slices.Concat(links, cwds, files) {
		to, err := os.Readlink(link)
		if err == nil && !strings.HasPrefix(link, ownProc) && (strings.HasPrefix(to, f.binary) || strings.HasPrefix(to, f.tmp)) {
			leftovers = append(leftovers, "process: "+link+" -> "+to)
		}
	}
	return leftovers
}

// machineState lists what runs in containers can leave behind: containers, networks, interfaces,
// network namespaces and packet filter rules.
func (f *killEnv) machineState() map[string]string {
	state := map[string]string{}
	if !f.engine {
		return state
	}
	query := func(what string, command ...string) {
		if out, err := exec.Command(command[0], command[1:]...).Output(); err == nil {
			var lines []string
			for line := range strings.Lines(string(out)) {
				if line, _, _ = strings.Cut(line, " ["); !strings.HasPrefix(line, "#") { // times and counters
					lines = append(lines, strings.TrimSpace(line))
				}
			}
			slices.Sort(lines)
			state[what] = strings.Join(lines, "\n")
		}
	}
	query("containers", "docker", "ps", "--all", "--quiet", "--filter", "label=lockpick")
	query("networks", "docker", "network", "ls", "--quiet", "--filter", "label=lockpick")
	query("rules", "iptables-save")
	query("tables", "nft", "list", "tables")
	if all, err := net.Interfaces(); err == nil {
		var names []string
		for _, i := range all {
			names = append(names, i.Name)
		}
		state["interfaces"] = strings.Join(names, " ")
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		f.Fatal(err)
	}
	state["network namespaces"] = fmt.Sprint(strings.Count(string(mounts), "nsfs "))
	return state
}

// kinds returns the kinds of processes to end, with the given numbers. It omits kinds whose number
// is 0.
func (f *killEnv) kinds(process, docker, replay, report int) (all []killKind) {
	latest := func(scenario string) string { return filepath.Join(f.store, scenario, "latest") }
	onProcess := []string{"run", "baseline/", "--backend", "process", "--set", "workload.for=5s"}
	if process > 0 || replay > 0 {
		f.runToEnd(onProcess...)
	}
	storedRun := func(scenario, backend string) string {
		runs, err := filepath.Glob(filepath.Join(f.store, scenario, "*-"+backend+"-*"))
		if err != nil || len(runs) == 0 {
			f.Fatalf("no run of %s on %s: %v", scenario, backend, err)
		}
		return runs[0]
	}
	all = append(all, killKind{"runs on processes", [][]string{onProcess,
		{"run", "power-loss-everysec/", "--backend", "process"}, {"run", "clock-jump/", "--backend", "process"},
		{"run", "failover-loses-lock/", "--backend", "process"}}, onProcess, process})
	if docker > 0 {
		onDocker := []string{"run", "baseline/", "--backend", "docker", "--set", "workload.for=5s"}
		f.runToEnd(onDocker...)
		all = append(all, killKind{"runs on docker", [][]string{onDocker, {"replay", storedRun("baseline", "docker")},
			{"run", "power-loss-everysec/", "--backend", "docker"}, {"run", "clock-jump/", "--backend", "docker"},
			{"run", "lost-packets/", "--backend", "docker"}}, onDocker, docker})
	}
	if replay > 0 {
		rerun := []string{"replay", storedRun("baseline", "process")}
		simReplay := []string{"replay", storedRun("baseline", "sim")}
		all = append(all, killKind{"replays", [][]string{simReplay, rerun}, simReplay, replay})
	}
	if report > 0 {
		suite := []string{"report", latest("suites")}
		all = append(all, killKind{"reports", [][]string{suite, {"report", latest("restart-forgets")}}, suite, report})
	}
	return slices.DeleteFunc(all, func(k killKind) bool { return k.num == 0 })
}
