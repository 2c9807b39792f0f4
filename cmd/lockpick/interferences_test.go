//go:build (processes || containers || nightly) && linux

package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

var interferences = flag.Int("interferences", 0, "number of processes or containers that TestInterferences… kills, stops or pauses; 0: a few, or many in nightly runs")

// An attack kills, stops or pauses part of a run from outside. hit is called once in each of the
// first tries attempts, when a client has started to write.
type attack struct {
	binary   string
	scenario string
	backend  string
	maxHits  int
	hit      func(lockpick int) error
}

// everyAttempt exceeds the maximum number of attempts of a run.
const everyAttempt = 99

// run runs lockpick under the attack, and returns its exit code and output.
func (a attack) run(t *testing.T) (code int, output string) {
	t.Helper()
	store := t.TempDir()
	cmd := exec.Command(a.binary, "run", a.scenario, "--backend", a.backend, "--store", store)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); cmd.Wait() }() // cmd.ProcessState has the result
	hitPaths := map[string]bool{}
	for {
		select {
		case <-done:
			if len(hitPaths) == 0 {
				t.Errorf("the attack hit no attempt")
			}
			return cmd.ProcessState.ExitCode(), out.String()
		case <-time.After(2 * time.Millisecond):
		}
		filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "history.jsonl" || hitPaths[path] || len(hitPaths) >= a.maxHits {
				return nil
			}
			if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte(`"op":"write"`)) {
				return nil
			}
			hitPaths[path] = true
			if err := a.hit(cmd.Process.Pid); err != nil {
				t.Errorf("attack: %v", err)
			}
			return nil
		})
	}
}

// attackOnChild returns an attack.hit that sends signals to one process of a run on the process
// backend.
func attackOnChild(name string, all ...syscall.Signal) func(int) error {
	return func(lockpick int) error {
		pid, err := childOf(lockpick, name)
		if err != nil {
			return err
		}
		return sendSignals(pid, all...)
	}
}

// checkRetried checks that a run whose first attempt was hit passes with a later one, and that the
// output says that it was retried.
func checkRetried(t *testing.T, a attack, name string) {
	t.Helper()
	code, output := a.run(t)
	if want := "retried: unplanned: " + name + " "; code != 0 || !strings.Contains(output, want) {
		t.Errorf("exit code %d, want 0 and %q:\n%s", code, want, output)
	}
}

// An interference kills, stops or pauses one process or container of a run from outside.
type interference struct {
	scenario string
	actor    string
	way      string
	after    time.Duration // since the start of lockpick; if there is no such actor then, as soon as there is
}

func (i interference) String() string {
	return fmt.Sprintf("%s: %s %s after %v", i.scenario, i.way, i.actor, i.after.Round(time.Millisecond))
}

// A saboteur interferes with runs of the built binary on one backend.
type saboteur struct {
	*testing.T
	binary, backend string
	args            map[string][]string // by scenario
	ways            []string
	actors          func(lockpick int) map[string]string // targets for hit, by name
	hit             func(target, way string) (at time.Time, err error)
	lastCheck       time.Duration // maximum time between a run's last check of its actors and its end

	mu    sync.Mutex
	tally map[string]map[string]int // numbers of interferences, by kind of actor and way, and by result
}

// runUndisturbed runs a scenario without interference, and returns its actors and its duration.
func (s *saboteur) runUndisturbed(scenario string) (actors []string, duration time.Duration) {
	s.Helper()
	actorSet := map[string]bool{}
	r := s.startRun(scenario)
	for r.running() {
		for name := range s.actors(r.cmd.Process.Pid) {
			actorSet[name] = true
		}
		time.Sleep(time.Millisecond)
	}
	if code := r.cmd.ProcessState.ExitCode(); code != outcome.ExitOK && code != outcome.ExitUndecided { // undecided: the machine is overloaded
		s.Fatalf("%s, undisturbed: exit code %d\n%s", scenario, code, r.output.String())
	}
	return slices.Sorted(maps.Keys(actorSet)), time.Since(r.startTime)
}

// A disturbedRun is a lockpick process that a saboteur has started.
type disturbedRun struct {
	cmd        *exec.Cmd
	output     bytes.Buffer
	store, tmp string
	startTime  time.Time
	done       chan struct{}
}

func (s *saboteur) startRun(scenario string) *disturbedRun {
	s.Helper()
	r := &disturbedRun{store: filepath.Join(s.TempDir(), "store"), tmp: s.TempDir(), done: make(chan struct{}), startTime: time.Now()}
	r.cmd = exec.Command(s.binary, append([]string{"run", "--backend", s.backend, "--store", r.store, "--reports", "none", "-v"}, s.args[scenario]...)...)
	r.cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp)
	r.cmd.Stdout, r.cmd.Stderr = &r.output, &r.output
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { r.cmd.Wait(); close(r.done) }()
	return r
}

func (r *disturbedRun) running() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

const (
	longestLimit = 20 * time.Second // longest time limit of the scenarios in these tests
	maxOverrun   = 30 * time.Second // by how much a run may exceed its time limit
	totalLimit   = 5 * time.Minute  // time limit for all attempts of a run, on an overloaded machine
)

// try interferes with one run and checks the result. It returns false if the run ended before the
// actor could be hit.
func (s *saboteur) try(i interference, normalDuration time.Duration) bool {
	r := s.startRun(i.scenario)
	var at time.Time
	for at.IsZero() && r.running() {
		if time.Since(r.startTime) >= i.after {
			if target := s.actors(r.cmd.Process.Pid)[i.actor]; target != "" {
				if hitTime, err := s.hit(target, i.way); err == nil {
					at = hitTime
					break
				}
			}
		}
		time.Sleep(500 * time.Microsecond)
	}
	select {
	case <-r.done:
	case <-time.After(totalLimit):
		r.cmd.Process.Signal(syscall.SIGQUIT)
		<-r.done
		s.Errorf("%v: still running after %v\n%s", i, totalLimit, r.output.String())
		s.countResult(i, "endless")
		return true
	}
	if at.IsZero() {
		return false
	}
	code, output := r.cmd.ProcessState.ExitCode(), r.output.String()
	retried := strings.Contains(output, "retried: ")
	result := fmt.Sprintf("exit %d", code)
	switch {
	case retried:
		result += " after a retry"
	case code == outcome.ExitOK && strings.Contains(output, "skipped"):
		s.Errorf("%v: skipped, exit code 0\n%s", i, output)
	case code == outcome.ExitOK && isProbe(i.actor):
		result += ", probed again"
	case code == outcome.ExitOK && s.isAfterLastCheck(r, at):
		result += ", hit after the run had ended"
	default:
		s.Errorf("%v: exit code %d, and no attempt was discarded\n%s", i, code, output)
	}
	// A process with a node's address is reported as that node. If there are many actors, only
	// the first ones are named.
	isNamed := strings.Contains(output, i.actor) || strings.HasPrefix(i.actor, "address") || strings.Contains(output, " more (")
	if retried && !isProbe(i.actor) && !isNamed {
		s.Errorf("%v: the output doesn't name the actor\n%s", i, output)
	}
	if !slices.Contains([]int{outcome.ExitOK, outcome.ExitUndecided, outcome.ExitBackend}, code) {
		s.Errorf("%v: exit code %d\n%s", i, code, output)
	}
	if duration, limit := s.firstTryDuration(r), normalDuration+longestLimit+maxOverrun; duration > limit {
		s.Errorf("%v: the attempt took %v, limit %v", i, duration, limit)
	}
	if leftovers, err := os.ReadDir(r.tmp); err != nil || len(leftovers) > 0 {
		s.Errorf("%v: left in TMPDIR: %v %v\n%s", i, leftovers, err, output)
	}
	s.countResult(i, result)
	return true
}

// isProbe reports whether an actor is a process that probes the machine before the run.
func isProbe(actor string) bool {
	return actor == "trial" || actor == "date" || actor == "redis-server"
}

// firstTryDuration returns how long the first attempt, which was disturbed, took.
func (s *saboteur) firstTryDuration(r *disturbedRun) time.Duration {
	runs, err := filepath.Glob(filepath.Join(r.store, "*", "2*"))
	if err != nil || len(runs) == 0 {
		return 0 // no attempt was started
	}
	o, err := campaign.ReadOutcome(slices.Min(runs))
	if err != nil {
		s.Error(err)
	}
	return time.Duration(o.Seconds * float64(time.Second))
}

// isAfterLastCheck reports whether at may be after the last attempt checked its actors for the last
// time.
func (s *saboteur) isAfterLastCheck(r *disturbedRun, at time.Time) bool {
	runs, err := filepath.Glob(filepath.Join(r.store, "*", "2*", campaign.PackedFile))
	if err != nil || len(runs) == 0 {
		return false
	}
	h, err := history.ReadFile(slices.Max(runs))
	if err != nil {
		s.Error(err)
		return false
	}
	end := time.Unix(0, h.Params.Epoch+h.Events[len(h.Events)-1].T)
	return !at.Before(end.Add(-s.lastCheck))
}

func (s *saboteur) countResult(i interference, result string) {
	s.Logf("%v: %s", i, result)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprintf("%-12s %s", kindOf(i.actor), i.way)
	if s.tally == nil {
		s.tally = map[string]map[string]int{}
	}
	if s.tally[key] == nil {
		s.tally[key] = map[string]int{}
	}
	s.tally[key][result]++
}

// sabotage interferes with n runs, numConcurrent at a time. It alternates between scenarios,
// actors and ways, and spreads the times evenly over a run.
func (s *saboteur) sabotage(n, numConcurrent int) {
	type undisturbedRun struct {
		cast []string
		life time.Duration
	}
	all := map[string]undisturbedRun{}
	names := slices.Sorted(maps.Keys(s.args))
	names = names[:min(n, len(names))]
	for _, name := range names {
		actors, duration := s.runUndisturbed(name)
		all[name] = undisturbedRun{actors, duration}
		s.Logf("%s: %v: %s", name, duration.Round(time.Millisecond), strings.Join(actors, " "))
	}
	var wg sync.WaitGroup
	indices := make(chan int)
	for range numConcurrent {
		wg.Go(func() {
			for k := range indices {
				name := names[k%len(names)]
				base, round := all[name], k/len(names)
				kinds := slices.Compact(mapAll(base.cast, kindOf))
				kind := kinds[round%len(kinds)]
				sameKind := slices.DeleteFunc(slices.Clone(base.cast), func(actor string) bool { return kindOf(actor) != kind })
				i := interference{scenario: name, actor: sameKind[k%len(sameKind)], way: s.ways[(round+k%len(names))%len(s.ways)]}
				// The fractional parts of multiples of the golden ratio are spread
				// evenly for any n.
				_, fraction := math.Modf(float64(k) * math.Phi)
				i.after = time.Duration(fraction * float64(base.life))
				for !s.try(i, base.life) {
					if i.after == 0 {
						s.countResult(i, "not found in time")
						break
					}
					i.after /= 2 // too late: the run had already ended
					if i.after < 10*time.Millisecond {
						i.after = 0
					}
				}
			}
		})
	}
	for k := range n {
		indices <- k
	}
	close(indices)
	wg.Wait()
	for _, key := range slices.Sorted(maps.Keys(s.tally)) {
		var results []string
		for _, result := range slices.Sorted(maps.Keys(s.tally[key])) {
			results = append(results, fmt.Sprintf("%d × %s", s.tally[key][result], result))
		}
		s.Logf("%-24s %s", key, strings.Join(results, "; "))
	}
}

func kindOf(actor string) string { return strings.Trim(actor, "0123456789") }

func mapAll(all []string, f func(string) string) (out []string) {
	for _, s := range all {
		out = append(out, f(s))
	}
	return out
}

// processesOf returns the IDs of a lockpick process's children, by the name in lockpick's record,
// or else by the name of the program.
func processesOf(lockpick int) map[string]string {
	processes, names := map[string]string{}, childrenOf(lockpick)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", lockpick))
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // empty if the thread has ended
		for _, pid := range strings.Fields(string(text)) {
			stat, _ := os.ReadFile("/proc/" + pid + "/stat") // PID (PROGRAM) STATE …
			program, rest, _ := strings.Cut(string(stat), ") ")
			_, program, _ = strings.Cut(program, "(")
			to, _ := os.Readlink("/proc/" + pid + "/fd/2")
			name := cmp.Or(names[pid], program)
			if to != "" && rest != "" && rest[0] != 'Z' && !strings.HasPrefix(name, "lockpick") { // not a fork of lockpick that has not called exec yet
				processes[name] = pid
			}
		}
	}
	return processes
}

// containersOf returns a lockpick process's running containers, by name without the host number.
func containersOf(lockpick int) map[string]string {
	containers := map[string]string{}
	list, _ := exec.Command("docker", "ps", "--filter", "label=lockpick", "--format", "{{.Names}}").Output() // empty if the engine is busy
	for _, container := range strings.Fields(string(list)) {
		owner, name, _ := strings.Cut(strings.TrimPrefix(container, "lockpick-"), "-") // BOOT.SPACE.PID.START.SITE
		if parts := strings.Split(owner, "."); len(parts) < 3 || parts[2] != strconv.Itoa(lockpick) {
			continue
		}
		if shortName, host, ok := strings.Cut(name, "-"); ok && strings.Trim(host, "0123456789") == "" {
			name = shortName
		}
		containers[strings.TrimSuffix(name, "-51")] = container
	}
	return containers
}

// waysToHitContainer lists docker commands, and a signal to the container's first process.
var waysToHitContainer = []string{"kill", "pause", "kill --signal=TERM", "SIGSTOP", "pause unpause"}

// hitContainer hits a container in one of waysToHitContainer, and returns when it did.
func hitContainer(target, way string) (at time.Time, err error) {
	runDocker := func(words ...string) string {
		text, cmdErr := exec.Command("docker", words...).Output()
		err = cmp.Or(err, cmdErr)
		return strings.TrimSpace(string(text))
	}
	switch way {
	case "SIGSTOP":
		pid, _ := strconv.Atoi(runDocker("inspect", "--format", "{{.State.Pid}}", target))
		if err != nil || pid <= 1 {
			return at, cmp.Or(err, errors.New("the container has ended"))
		}
		return time.Now(), syscall.Kill(pid, syscall.SIGSTOP)
	case "pause unpause":
		runDocker("pause", target)
		at = time.Now()
		if err == nil {
			time.Sleep(150 * time.Millisecond)
			exec.Command("docker", "unpause", target).Run() // lockpick may have removed it already
		}
		return at, err
	}
	runDocker(append(strings.Fields(way), target)...)
	at = time.Now()
	if err == nil && strings.HasSuffix(way, "TERM") {
		// The first process of a container receives only signals for which it has set a
		// handler.
		for end := at.Add(3 * time.Second); runDocker("inspect", "--format", "{{.State.Running}}", target) == "true"; {
			if time.Now().After(end) {
				return at, errors.New("the container ignored the signal")
			}
		}
		err = nil // lockpick may have removed it already
	}
	return at, err
}

// signalProcess sends a process the signals in waysToHit[way], and returns when it sent the first.
func signalProcess(target, way string) (at time.Time, err error) {
	pid, err := strconv.Atoi(target)
	if err != nil {
		return at, err
	}
	all := waysToHit[way]
	if err := sendSignals(pid, all[0]); err != nil {
		return at, err
	}
	at = time.Now()
	if len(all) > 1 {
		time.Sleep(150 * time.Millisecond)
		sendSignals(pid, all[1:]...) // lockpick may have ended it already
	}
	return at, nil
}

// dockerSaboteur returns a saboteur for runs in containers.
func dockerSaboteur(t *testing.T) *saboteur {
	return &saboteur{T: t, binary: build(t), backend: "docker", ways: waysToHitContainer, actors: containersOf, hit: hitContainer,
		lastCheck: 500 * time.Millisecond, args: map[string][]string{
			"baseline": {"baseline/", "--expect", "fault-tolerance=any"}, "power-loss-everysec": {"power-loss-everysec/"}, "clock-jump": {"clock-jump/"},
			"lost-packets": {"lost-packets/", "--expect", "fault-tolerance=any"}, "watched": {watchedNode, "--scale", "0.5"},
		}}
}
