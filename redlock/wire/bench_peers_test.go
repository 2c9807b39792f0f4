//go:build bench && linux

package wire_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock/redisnode/redistest"
)

var (
	benchFor  = flag.Duration("for", 400*time.Millisecond, "duration of each run")
	benchReps = flag.Int("reps", 5, "number of runs; the table shows medians")
	benchOnly = flag.String("only", "", "comma-separated locks to run, such as wire,redsync")
	benchAt   = flag.String("at", "1,64,512,4096", "numbers of goroutines, each with its own key")
)

const benchHeader = `
Comparison of locks on five Redis servers on this machine, %d cores, run in turn; medians
of %d runs of %v. A pair is an acquire and its release. allocs: allocations per pair; client
and nodes: CPU time per pair in microseconds, for all nodes together; SETs and DELs:
commands per pair on all nodes together, from INFO commandstats.
`

// sample is the result of one run.
type sample struct {
	pairs, errs    int
	rate           float64 // pairs/s
	p50, p99       time.Duration
	allocs         float64 // per pair
	client, nodes  float64 // CPU time per pair in µs; nodes: sum over all nodes
	sets, releases float64 // commands per pair, for all nodes together
	writes         float64 // writes per pair, to all nodes together; fewer than 10 means that requests were batched
}

// benchmark contains the servers and the locks to measure.
type benchmark struct {
	*testing.T
	addrs   []string
	clients []*redis.Client
	raw     *rawConns
	locks   []contestant
	pairs   map[string]pair
}

func newBenchmark(t *testing.T, names string, timeout time.Duration) *benchmark {
	f := &benchmark{T: t, addrs: redistest.Start(t, 5), locks: selectContestants(names), pairs: map[string]pair{}}
	for _, addr := range f.addrs {
		_, c := open(t, addr)
		f.clients = append(f.clients, c)
	}
	f.raw = newRaw(t, f.addrs)
	for _, l := range f.locks {
		fmt.Printf("  %-16s %s\n", l.name, l.description)
		f.pairs[l.name] = l.newPair(t, f.addrs, timeout)
		f.measurePairs(l.name, 16, 50*time.Millisecond, distinctKey) // to establish the connections
	}
	return f
}

func distinctKey(i int) string { return fmt.Sprint("key", i) }
func sharedKey(int) string     { return "key" }

// info adds up fields of INFO over all running nodes.
func (f *benchmark) info(section string, read func(line string) float64) (sum float64) {
	for _, c := range f.clients {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		text, err := c.Info(ctx, section).Result()
		if cancel(); err != nil {
			f.Fatalf("INFO %s: %v", section, err)
		}
		for line := range strings.Lines(text) {
			sum += read(strings.TrimSpace(line))
		}
	}
	return sum
}

// countCalls returns how many times the nodes have executed a command, including calls by scripts.
func (f *benchmark) countCalls(command string) float64 {
	return f.info("commandstats", func(line string) float64 {
		rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls=")
		if !ok {
			return 0
		}
		n, _ := strconv.ParseFloat(rest[:strings.IndexByte(rest, ',')], 64)
		return n
	})
}

// cpu returns the CPU time used by this process and by the nodes so far, in µs.
func (f *benchmark) cpu() (client, nodes float64) {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3, f.info("cpu", func(line string) float64 {
		name, value, _ := strings.Cut(line, ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			return 0
		}
		s, _ := strconv.ParseFloat(value, 64)
		return s * 1e6
	})
}

// countWrites returns the number of write system calls made by this process.
func countWrites() float64 {
	b, _ := os.ReadFile("/proc/self/io")
	_, rest, _ := strings.Cut(string(b), "syscw: ")
	n, _ := strconv.ParseFloat(rest[:strings.IndexByte(rest, '\n')], 64)
	return n
}

// measure runs work, which sets s.pairs, and computes the costs per pair.
func (f *benchmark) measure(work func(s *sample)) sample {
	var s sample
	var before, after runtime.MemStats
	sets, releases, written := f.countCalls("set"), f.countCalls("del"), countWrites()
	client, nodes := f.cpu()
	runtime.ReadMemStats(&before)
	start := time.Now()
	work(&s)
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	clientAfter, nodesAfter := f.cpu()
	n := float64(max(s.pairs, 1))
	s.rate = float64(s.pairs) / elapsed.Seconds()
	s.allocs = float64(after.Mallocs-before.Mallocs) / n
	s.client, s.nodes = (clientAfter-client)/n, (nodesAfter-nodes)/n
	s.sets, s.releases = (f.countCalls("set")-sets)/n, (f.countCalls("del")-releases)/n
	s.writes = (countWrites() - written) / n
	return s
}

// measurePairs runs pairs in the given number of goroutines for duration d and measures them.
func (f *benchmark) measurePairs(name string, goroutines int, d time.Duration, key func(int) string) sample {
	do := f.pairs[name]
	elapsed := make([][]time.Duration, goroutines)
	keys := make([]string, goroutines)
	for i := range keys {
		elapsed[i], keys[i] = make([]time.Duration, 0, 1<<17/goroutines), name+key(i)
	}
	return f.measure(func(s *sample) {
		var wg sync.WaitGroup
		var errs atomic.Int64
		end := time.Now().Add(d)
		for i := range goroutines {
			wg.Go(func() {
				for start := time.Now(); start.Before(end); {
					if err := do(keys[i]); err != nil {
						errs.Add(1)
					} else {
						elapsed[i] = append(elapsed[i], time.Since(start))
					}
					start = time.Now()
				}
			})
		}
		wg.Wait()
		durations := slices.Concat(elapsed...)
		slices.Sort(durations)
		s.pairs, s.errs = len(durations), int(errs.Load())
		if s.pairs > 0 {
			s.p50, s.p99 = durations[s.pairs/2], durations[s.pairs*99/100]
		}
	})
}

// median returns the median of a value over all samples.
func median[T float64 | time.Duration](all []sample, value func(sample) T) T {
	values := make([]T, len(all))
	for i, s := range all {
		values[i] = value(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(b))[:1], "")
}

// printTable measures all locks and the functions in extra, one after the other, *benchReps times, and
// prints the medians.
func (f *benchmark) printTable(title string, goroutines int, key func(int) string, extra map[string]func() sample) {
	all := map[string][]sample{}
	before := loadAverage()
	for range *benchReps {
		for name, measure := range extra {
			all[name] = append(all[name], measure())
		}
		for _, l := range f.locks {
			all[l.name] = append(all[l.name], f.measurePairs(l.name, goroutines, *benchFor, key))
		}
	}
	fmt.Printf("\n%s; machine load %s before and %s after\n", title, before, loadAverage())
	fmt.Printf("%-16s %9s %8s %8s %9s %9s %7s %7s %7s %6s %6s %6s %5s\n", "", "pairs/s", "÷redsync", "÷raw", "p50", "p99", "allocs", "client", "nodes", "writes", "SETs", "DELs", "errs")
	rate := func(name string) float64 {
		if len(all[name]) == 0 {
			return 0
		}
		return median(all[name], func(s sample) float64 { return s.rate })
	}
	order := []string{"raw", "round trips"}
	for _, l := range f.locks {
		order = append(order, l.name)
	}
	for _, name := range order {
		got := all[name]
		if len(got) == 0 {
			continue
		}
		errs := 0
		for _, s := range got {
			errs += s.errs
		}
		of := func(f func(sample) float64) float64 { return median(got, f) }
		fmt.Printf("%-16s %9.0f %8s %8s %9v %9v %7.1f %7.1f %7.1f %6.2f %6.2f %6.2f %5d\n", name, rate(name), ratio(rate(name), rate("redsync")), ratio(rate(name), rate("raw")),
			median(got, func(s sample) time.Duration { return s.p50 }).Round(time.Microsecond), median(got, func(s sample) time.Duration { return s.p99 }).Round(time.Microsecond),
			of(func(s sample) float64 { return s.allocs }), of(func(s sample) float64 { return s.client }), of(func(s sample) float64 { return s.nodes }),
			of(func(s sample) float64 { return s.writes }), of(func(s sample) float64 { return s.sets }), of(func(s sample) float64 { return s.releases }), errs)
	}
	f.checkCommands(all)
}

// checkCommands fails if the nodes executed too few commands. Each pair must set and delete a key
// on at least a quorum of nodes.
func (f *benchmark) checkCommands(all map[string][]sample) {
	for _, l := range f.locks {
		for _, s := range all[l.name] {
			if quorum := float64(l.nodes/2 + 1); s.pairs > 0 && (s.sets < quorum || s.releases < quorum) {
				f.Errorf("%s: %d pairs with only %.2f SETs and %.2f DELs each: it did not lock", l.name, s.pairs, s.sets, s.releases)
			}
		}
	}
}

func ratio(a, b float64) string {
	if b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// TestCompareLocks prints results for many keys and for one key.
func TestCompareLocks(t *testing.T) {
	fmt.Printf(benchHeader, runtime.NumCPU(), *benchReps, *benchFor)
	f := newBenchmark(t, *benchOnly, time.Second)
	for at := range strings.SplitSeq(*benchAt, ",") {
		n, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		extra := map[string]func() sample{"raw": func() sample {
			return f.measure(func(s *sample) { s.pairs = f.raw.measureBound(t, n, *benchFor) })
		}}
		if n == 1 {
			f.pairs["round trips"] = f.raw.roundTrips()
			extra["round trips"] = func() sample { return f.measurePairs("round trips", 1, *benchFor, distinctKey) }
		}
		f.printTable(fmt.Sprintf("%d goroutines, each with its own key", n), n, distinctKey, extra)
	}
	f.printTable("64 goroutines on one key", 64, sharedKey, nil)
}

// TestCompareLocksOneStopped is like TestCompareLocks, but one of the five nodes is stopped and the
// timeout is 50 ms.
func TestCompareLocksOneStopped(t *testing.T) {
	fmt.Printf(benchHeader, runtime.NumCPU(), *benchReps, *benchFor)
	f := newBenchmark(t, cmp.Or(*benchOnly, "wire"), 50*time.Millisecond)
	f.printTable("512 goroutines, all nodes up, timeout 50ms", 512, distinctKey, nil)
	pid, err := strconv.Atoi(f.clients[4].InfoMap(t.Context(), "server").Item("Server", "process_id"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	f.clients = f.clients[:4]
	for _, n := range []int{1, 64, 512} {
		f.printTable(fmt.Sprintf("%d goroutines, one node stopped, timeout 50ms", n), n, distinctKey, nil)
	}
}

// TestCompareLocksDurable measures the cost of durability.
func TestCompareLocksDurable(t *testing.T) {
	fmt.Printf(benchHeader, runtime.NumCPU(), *benchReps, *benchFor)
	f := newBenchmark(t, cmp.Or(*benchOnly, "wire,redsync"), time.Second)
	for _, fsync := range []string{"none", "everysec", "always"} {
		for _, c := range f.clients {
			appendonly := "no"
			if fsync != "none" {
				appendonly = "yes"
				c.ConfigSet(t.Context(), "appendfsync", fsync)
			}
			if err := c.ConfigSet(t.Context(), "appendonly", appendonly).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range []int{1, 512} {
			f.printTable(fmt.Sprintf("%d goroutines, fsync %s", n, fsync), n, distinctKey, nil)
		}
	}
}
