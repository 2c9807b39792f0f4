package client

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockpick/harness/history"
)

func TestRandomDependsOnSeedAndNamesOnly(t *testing.T) {
	seen := map[uint64]string{}
	for seed := range uint64(50) {
		for _, names := range [][]string{{"c1", "think", "1"}, {"c1", "think", "2"}, {"c1", "hold", "1"}, {"c2", "think", "1"}, {"c1think", "1"}, {"c1", "think1"}} {
			name := fmt.Sprint(seed, names)
			r := Random(seed, names...)
			if r != Random(seed, names...) {
				t.Fatalf("%s: two calls returned different numbers", name)
			}
			if other, taken := seen[r]; taken {
				t.Fatalf("%s and %s yield the same number", name, other)
			}
			seen[r] = name
		}
	}
}

func TestDrawStaysInRange(t *testing.T) {
	g := Range{Min: 5 * time.Millisecond, Max: 7 * time.Millisecond}
	low, high := g.Max, g.Min
	for i := range uint64(10_000) {
		d := g.Draw(Random(i, "draw"))
		low, high = min(low, d), max(high, d)
	}
	if low < g.Min || high > g.Max || high-low < time.Millisecond {
		t.Errorf("drew durations from %v to %v, want nearly %v to %v", low, high, g.Min, g.Max)
	}
	for _, g := range []Range{{Min: 3, Max: 3}, {Min: 3}} {
		if d := g.Draw(12345); d != 3 {
			t.Errorf("range %v: drew %v, want 3", g, d)
		}
	}
}

func TestParseLog(t *testing.T) {
	e, err := ParseLogEntry("lock-1", "claim 1 c1/2 c1/2:read 7 0")
	want := history.Event{Op: history.OpLog, Type: history.OK, Key: "lock-1", Cause: "claim", Session: "c1/2", Value: "c1/2:read", Version: 7}
	if err != nil || e != want {
		t.Errorf("got %+v, %v", e, err)
	}
	if e, err = ParseLogEntry("lock-1", "write 0 c1/2 c1/2:write1 7 9"); err != nil || e.Type != history.Fail || e.Fence != 9 {
		t.Errorf("got %+v, %v", e, err)
	}
	for _, bad := range []string{"", "write", "write 1 c1/2 v x 0", "write 1 c1/2 v 1 0 more"} {
		if _, err := ParseLogEntry("lock-1", bad); err == nil || !strings.Contains(err.Error(), "read resource log") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A lock under test may read its clocks in several goroutines. Every second reading is the
// DuringAcquire point, whichever goroutine makes it.
func TestConcurrentClockReadings(t *testing.T) {
	var stops atomic.Int64
	p := &program{passes: map[string]int{}, s: Spec{ArmedPoints: []Point{{Name: DuringAcquire}}},
		e: Env{Now: time.Now, WallNow: time.Now, OnPoint: func(string) { stops.Add(1) }}}
	p.setAcquiring(true)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				p.lockNow()
				p.lockWall()
			}
		})
	}
	wg.Wait()
	if got := stops.Load(); got != 8000 || p.passes[DuringAcquire] != 8000 {
		t.Errorf("stopped %d times and counted %d points, want 8000 each", got, p.passes[DuringAcquire])
	}
}

// Clients that are meant to begin together do so even if some processes take longer to start.
func TestStartupTimeCountsAsThinking(t *testing.T) {
	for _, c := range []struct{ start, ready, first, second time.Duration }{
		{0, 400, 1400, 2400}, // starting took no time
		{100, 400, 1100, 2100},
		{100, 1500, 1500, 2500}, // starting took longer than the thinking time
	} {
		w := &fakeEnv{trueTime: c.ready}
		p := newProgram(Spec{StartTime: c.start, ThinkTime: Range{Min: 1000, Max: 1000}}, w.env())
		for n, want := range []time.Duration{c.first, c.second} {
			if p.think(t.Context(), n+1); w.trueTime != want {
				t.Errorf("started at %d, ready at %d: cycle %d begins at %d, want %d", c.start, c.ready, n+1, w.trueTime, want)
			}
		}
	}
}
