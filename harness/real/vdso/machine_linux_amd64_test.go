package vdso

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockpick/harness/real/proc"
)

// The test binary is also the process whose clocks are changed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__watch":
			watch()
			return
		case "__date":
			printDate()
		case GateVerb:
			fmt.Fprintln(os.Stderr, Gate(os.Args[2:]))
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// watch reads its clocks continuously. For each line on stdin, it prints the latest reading and the
// largest step back of its monotonic clock.
func watch() {
	requests := make(chan bool)
	go func() {
		defer close(requests)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			requests <- true
		}
	}()
	start := time.Now()
	var last, maxStepBack time.Duration
	for {
		select {
		case _, ok := <-requests:
			if !ok {
				return
			}
			s := readClocks(start)
			for try := 1; try < maxTries && s.to-s.from > maxGap; try++ {
				if next := readClocks(start); next.to-next.from < s.to-s.from {
					s = next
				}
			}
			fmt.Println(int64(s.from), s.wall, int64(s.mono), int64(s.to), int64(maxStepBack))
		default:
			now := time.Since(start)
			maxStepBack, last = max(maxStepBack, last-now), now
		}
	}
}

// readClocks reads all clocks once. The thread may be preempted between the readings.
func readClocks(start time.Time) (s reading) {
	s.from = proc.TrueClock()
	s.wall, s.mono = time.Now().UnixNano(), time.Since(start)
	s.to = proc.TrueClock()
	return s
}

type watchedProcess struct {
	*testing.T
	*Machine
	in  *os.File
	out *bufio.Reader
}

func startWatched(t *testing.T, m *Machine) watchedProcess {
	t.Helper()
	group, err := proc.NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	group.AtStart = func(_ string, pid int) error { return m.Start(pid) }
	stdin, in, err1 := os.Pipe()
	out, stdout, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	cmd := exec.Command(os.Args[0], "__watch")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	if _, err := group.Start("watch", cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, err := range []error{group.Close(), m.Close(), stdin.Close(), in.Close(), out.Close(), stdout.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return watchedProcess{t, m, in, bufio.NewReader(out)}
}

type reading struct {
	from, to, mono, stepBack time.Duration
	wall                     int64
}

func (w watchedProcess) read() (s reading) {
	w.Helper()
	fmt.Fprintln(w.in)
	if _, err := fmt.Fscan(w.out, &s.from, &s.wall, &s.mono, &s.to, &s.stepBack); err != nil {
		w.Fatal(err)
	}
	return s
}

// checkAhead checks how far the process's wall clock is ahead of a correct one.
func (w watchedProcess) checkAhead(what string, want time.Duration) {
	w.Helper()
	s := w.read()
	_, from := w.ClockState().Wall(s.from)
	_, to := w.ClockState().Wall(s.to)
	low, high := s.wall-to.UnixNano(), s.wall-from.UnixNano()
	if tick := int64(10 * time.Microsecond); int64(want) < low-tick || int64(want) > high+tick {
		w.Errorf("%s: the wall clock is %v to %v ahead, want %v", what, time.Duration(low), time.Duration(high), want)
	}
}

func (w watchedProcess) adjust(step time.Duration, rate float64) {
	w.Helper()
	if _, _, err := w.Adjust(step, rate); err != nil {
		w.Fatal(err)
	}
}

// speed gives bounds on a clock's rate between two readings.
type speed struct{ min, max float64 }

func (s speed) String() string { return fmt.Sprintf("%.4f to %.4f", s.min, s.max) }

func (s speed) isNear(want float64) bool { return s.min < want+0.01 && s.max > want-0.01 }

// speeds measures how fast the process's clocks run.
func (w watchedProcess) speeds() (wall, mono speed) {
	w.Helper()
	a := w.read()
	time.Sleep(50 * time.Millisecond)
	b := w.read()
	bounds := func(advance float64) speed {
		return speed{advance / float64(b.to-a.from), advance / float64(b.from-a.to)}
	}
	return bounds(float64(b.wall - a.wall)), bounds(float64(b.mono - a.mono))
}

func TestJumpChangesOnlyWallClock(t *testing.T) {
	w := startWatched(t, &Machine{Monotonic: true})
	w.checkAhead("unchanged", 0)
	before := w.read()
	w.adjust(11*time.Second, 1)
	w.checkAhead("set forward", 11*time.Second)
	w.adjust(-14*time.Second, 1)
	w.checkAhead("set back", -3*time.Second)
	if after := w.read(); after.mono-before.mono > after.to-before.from || after.mono < before.mono {
		t.Errorf("the monotonic clock advanced by %v in %v", after.mono-before.mono, after.to-before.from)
	}
	w.adjust(3*time.Second, 1)
	w.checkAhead("corrected", 0)
}

func TestRateAppliesToConfiguredClocks(t *testing.T) {
	for _, bothClocks := range []bool{true, false} {
		w := startWatched(t, &Machine{Monotonic: bothClocks})
		for _, rate := range []float64{2, 0.5, 1.1, 1} {
			w.adjust(0, rate)
			want := rate
			if !bothClocks {
				want = 1
			}
			if wall, mono := w.speeds(); !wall.isNear(rate) || !mono.isNear(want) {
				t.Errorf("rate %g: the wall clock runs at %v, the monotonic one at %v", rate, wall, mono)
			}
		}
	}
}

// Programs fail if their monotonic clock goes back.
func TestMonotonicClockNeverGoesBack(t *testing.T) {
	w := startWatched(t, &Machine{Monotonic: true})
	var maxLateness time.Duration // maximum lateness of a change; at triple speed, the clock goes back by up to three times this
	for range 50 {
		for _, rate := range []float64{3, 0.3} {
			from, to, err := w.Adjust(0, rate)
			if err != nil {
				t.Fatal(err)
			}
			maxLateness = max(maxLateness, to-from)
		}
	}
	if s := w.read(); s.stepBack > 3*maxLateness {
		t.Errorf("the clock went back by %v, but no change was more than %v late", s.stepBack, maxLateness)
	}
}

func TestNextProcessInheritsClocks(t *testing.T) {
	m := &Machine{}
	if _, _, err := m.Adjust(time.Hour, 1); err != nil {
		t.Fatal(err)
	}
	startWatched(t, m).checkAhead("first", time.Hour)
	w := startWatched(t, m)
	w.checkAhead("second", time.Hour)
	w.adjust(0, 2)
	if wall, _ := startWatched(t, m).speeds(); !wall.isNear(2) {
		t.Errorf("the third process's clock runs at %v", wall)
	}
}

func TestAdjustRejectsInvalidValues(t *testing.T) {
	m := &Machine{}
	for _, c := range []struct {
		by   time.Duration
		rate float64
	}{{0, 0}, {0, -1}, {0, 1e9}, {-100 * 365 * 24 * time.Hour, 1}} {
		if _, _, err := m.Adjust(c.by, c.rate); err == nil || !strings.Contains(err.Error(), "change a clock") {
			t.Errorf("Adjust(%v, %g): %v", c.by, c.rate, err)
		}
	}
	if err := m.Start(os.Getpid()); err == nil {
		t.Error("an untraced process was patched")
	}
}
