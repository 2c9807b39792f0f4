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
	benchFor  = flag.Duration("for", 400*time.Millisecond, "how long each lock is driven each time")
	benchReps = flag.Int("reps", 5, "how often; the table has the medians")
	benchOnly = flag.String("only", "", "these locks, with commas between: wire,redsync")
	benchAt   = flag.String("at", "1,64,512,4096", "goroutines, each on its own key")
)

const benchHead = `
Locks beside each other on five redis-servers of this machine, %d cores, interleaved;
medians of %d times %v. A pair is an acquire and its release; allocs are a pair's, client
and nodes are its CPU in microseconds (the nodes' all together); SETs and DELs are what
INFO commandstats counted for each pair, on all nodes together.
`

// sample is what one drive measured.
type sample struct {
	pairs, errs    int
	rate           float64 // pairs/s
	p50, p99       time.Duration
	allocs         float64 // a pair
	client, nodes  float64 // CPU of a pair, µs; of the nodes all together
	sets, releases float64 // commands a pair that the nodes counted, all together
	writes         float64 // to all nodes together: below 10 requests went in batches
}

// field is the servers and what is measured on them.
type field struct {
	*testing.T
	addrs   []string
	clients []*redis.Client
	raw     *raw
	locks   []contestant
	pairs   map[string]pair
}

func newField(t *testing.T, names string, timeout time.Duration) *field {
	f := &field{T: t, addrs: redistest.Start(t, 5), locks: chosen(names), pairs: map[string]pair{}}
	for _, addr := range f.addrs {
		_, c := open(t, addr)
		f.clients = append(f.clients, c)
	}
	f.raw = newRaw(t, f.addrs)
	for _, l := range f.locks {
		fmt.Printf("  %-16s %s\n", l.name, l.what)
		f.pairs[l.name] = l.make(t, f.addrs, timeout)
		f.drive(l.name, 16, 50*time.Millisecond, distinct) // connections
	}
	return f
}

func distinct(i int) string { return fmt.Sprint("key", i) }
func contended(int) string  { return "key" }

// info sums fields of INFO over all nodes that run.
func (f *field) info(section string, read func(line string) float64) (sum float64) {
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

// calls is how often the nodes carried out a command, also within scripts.
func (f *field) calls(command string) float64 {
	return f.info("commandstats", func(line string) float64 {
		rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls=")
		if !ok {
			return 0
		}
		n, _ := strconv.ParseFloat(rest[:strings.IndexByte(rest, ',')], 64)
		return n
	})
}

// cpu is the CPU time so far, in µs: of this process, and of the nodes.
func (f *field) cpu() (client, nodes float64) {
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

// writes is how often this process has written to anything.
func writes() float64 {
	b, _ := os.ReadFile("/proc/self/io")
	_, rest, _ := strings.Cut(string(b), "syscw: ")
	n, _ := strconv.ParseFloat(rest[:strings.IndexByte(rest, '\n')], 64)
	return n
}

// measure runs work, which returns its pairs, and fills in what they cost.
func (f *field) measure(work func(s *sample)) sample {
	var s sample
	var before, after runtime.MemStats
	sets, releases, written := f.calls("set"), f.calls("del"), writes()
	client, nodes := f.cpu()
	runtime.ReadMemStats(&before)
	start := time.Now()
	work(&s)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	clientAfter, nodesAfter := f.cpu()
	n := float64(max(s.pairs, 1))
	s.rate = float64(s.pairs) / took.Seconds()
	s.allocs = float64(after.Mallocs-before.Mallocs) / n
	s.client, s.nodes = (clientAfter-client)/n, (nodesAfter-nodes)/n
	s.sets, s.releases = (f.calls("set")-sets)/n, (f.calls("del")-releases)/n
	s.writes = (writes() - written) / n
	return s
}

// drive has goroutines make pairs for a while, and measures them.
func (f *field) drive(name string, goroutines int, d time.Duration, key func(int) string) sample {
	do := f.pairs[name]
	took := make([][]time.Duration, goroutines)
	keys := make([]string, goroutines)
	for i := range keys {
		took[i], keys[i] = make([]time.Duration, 0, 1<<17/goroutines), name+key(i)
	}
	return f.measure(func(s *sample) {
		var all sync.WaitGroup
		var errs atomic.Int64
		end := time.Now().Add(d)
		for i := range goroutines {
			all.Go(func() {
				for start := time.Now(); start.Before(end); {
					if err := do(keys[i]); err != nil {
						errs.Add(1)
					} else {
						took[i] = append(took[i], time.Since(start))
					}
					start = time.Now()
				}
			})
		}
		all.Wait()
		each := slices.Concat(took...)
		slices.Sort(each)
		s.pairs, s.errs = len(each), int(errs.Load())
		if s.pairs > 0 {
			s.p50, s.p99 = each[s.pairs/2], each[s.pairs*99/100]
		}
	})
}

// median is the middle of what each of them says.
func median[T float64 | time.Duration](all []sample, of func(sample) T) T {
	values := make([]T, len(all))
	for i, s := range all {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(b))[:1], "")
}

// table measures all locks in turn, as often as is to be, and prints their medians. What is
// in extra is measured with them.
func (f *field) table(title string, goroutines int, key func(int) string, extra map[string]func() sample) {
	all := map[string][]sample{}
	before := load()
	for range *benchReps {
		for name, measure := range extra {
			all[name] = append(all[name], measure())
		}
		for _, l := range f.locks {
			all[l.name] = append(all[l.name], f.drive(l.name, goroutines, *benchFor, key))
		}
	}
	fmt.Printf("\n%s; the machine's load was %s before and %s after\n", title, before, load())
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
	f.counted(all)
}

// counted fails if the nodes did not do what was counted: each pair is set and deleted on a
// quorum at the least.
func (f *field) counted(all map[string][]sample) {
	for _, l := range f.locks {
		for _, s := range all[l.name] {
			if quorum := float64(l.nodes/2 + 1); s.pairs > 0 && (s.sets < quorum || s.releases < quorum) {
				f.Errorf("%s: %d pairs, and %.2f SETs and %.2f DELs for each: it did not lock", l.name, s.pairs, s.sets, s.releases)
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

// TestBesideLocks prints the tables of many keys and of one.
func TestBesideLocks(t *testing.T) {
	fmt.Printf(benchHead, runtime.NumCPU(), *benchReps, *benchFor)
	f := newField(t, *benchOnly, time.Second)
	for at := range strings.SplitSeq(*benchAt, ",") {
		n, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		extra := map[string]func() sample{"raw": func() sample {
			return f.measure(func(s *sample) { s.pairs = f.raw.bound(t, n, *benchFor) })
		}}
		if n == 1 {
			f.pairs["round trips"] = f.raw.roundTrips()
			extra["round trips"] = func() sample { return f.drive("round trips", 1, *benchFor, distinct) }
		}
		f.table(fmt.Sprintf("%d goroutines, each on its key", n), n, distinct, extra)
	}
	f.table("64 goroutines on one key", 64, contended, nil)
}

// TestBesideLocksOneStopped is TestBesideLocks with one of five nodes that neither answers
// nor refuses, and a time-out of 50 ms.
func TestBesideLocksOneStopped(t *testing.T) {
	fmt.Printf(benchHead, runtime.NumCPU(), *benchReps, *benchFor)
	f := newField(t, cmp.Or(*benchOnly, "wire"), 50*time.Millisecond)
	f.table("512 goroutines, all nodes up, time-out 50ms", 512, distinct, nil)
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
		f.table(fmt.Sprintf("%d goroutines, one node stopped, time-out 50ms", n), n, distinct, nil)
	}
}

// TestBesideLocksDurable shows what it costs that nodes don't forget.
func TestBesideLocksDurable(t *testing.T) {
	fmt.Printf(benchHead, runtime.NumCPU(), *benchReps, *benchFor)
	f := newField(t, cmp.Or(*benchOnly, "wire,redsync"), time.Second)
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
			f.table(fmt.Sprintf("%d goroutines, fsync %s", n, fsync), n, distinct, nil)
		}
	}
}
