//go:build nightly

package history

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
)

// A history of more than 1 GiB goes through Read as a stream. Its lines have 195
// bytes on average and an event takes 240, so the events take 1.23 times the file:
// once where their number is known, as of a file, and twice for a moment, where it
// isn't. The rest (strings, the sort, what is not collected yet) may take 0.3.
func TestReadOfAGigabyte(t *testing.T) {
	const cycles = 292_000
	const lines = 19*cycles + 2
	for _, c := range []struct {
		name   string
		known  int
		factor float64 // bound of the heap at its largest, in sizes of the file
	}{
		{"as a file", lines, 1.6},
		{"as a stream", 0, 3.0},
	} {
		g := generated{cycles: cycles}
		h, err := read(&g, c.known, math.MaxInt)
		if err != nil || h.Cut != "" || len(h.Events) != lines || g.lines != lines || g.bytes < 1<<30 {
			t.Fatalf("%s: %v, want %d events of %d lines, %d bytes", c.name, err, lines, g.lines, g.bytes)
		}
		if !sorted(h.Events) {
			t.Errorf("%s: not sorted", c.name)
		}
		// The largest size that the heap has had; it never shrinks.
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		got := float64(m.HeapSys) / float64(g.bytes)
		t.Logf("%s: %d lines, %.2f GB; heap at most %.2f GB, %.2f times as much", c.name, lines, float64(g.bytes)/1e9, float64(m.HeapSys)/1e9, got)
		if got > c.factor {
			t.Errorf("%s: the heap took %.2f times the file, want at most %.1f", c.name, got, c.factor)
		}
		h = nil
		runtime.GC()
	}

	g := generated{cycles: cycles, fail: 1 << 29}
	_, err := Read(&g)
	if want := fmt.Sprintf("line %d: %v", g.lines, errTorn); !errors.Is(err, errTorn) || err.Error() != want {
		t.Errorf("torn in its middle: got %v, want %s", err, want)
	}
}
