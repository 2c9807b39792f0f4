//go:build nightly

package history

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
)

// Read streams a history of more than 1 GiB. A line has 195 bytes on average and an event takes 240
// bytes, so the events take 1.23 times the file's size, and briefly twice that. Everything else
// (strings, sorting, garbage) may take 0.3 times the file's size.
func TestReadGigabyte(t *testing.T) {
	const cycles = 292_000
	const lines = 19*cycles + 2
	g := generatedHistory{cycles: cycles}
	h, err := Read(&g)
	if err != nil || h.Cut != "" || len(h.Events) != lines || g.lines != lines || g.bytes < 1<<30 {
		t.Fatalf("error %v, want %d events; read %d lines, %d bytes", err, lines, g.lines, g.bytes)
	}
	if !isSorted(h.Events) {
		t.Error("the events are not sorted")
	}
	// HeapSys never shrinks, so it is the peak size of the heap.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	got := float64(m.HeapSys) / float64(g.bytes)
	t.Logf("%d lines, %.2f GB; peak heap %.2f GB, %.2f times the file", lines, float64(g.bytes)/1e9, float64(m.HeapSys)/1e9, got)
	if got > 3.0 {
		t.Errorf("the peak heap was %.2f times the size of the file, want at most 3.0", got)
	}

	g = generatedHistory{cycles: cycles, fail: 1 << 29}
	_, err = Read(&g)
	if want := fmt.Sprintf("line %d: %v", g.lines, errReadFailed); !errors.Is(err, errReadFailed) || err.Error() != want {
		t.Errorf("reader failed halfway: got %v, want %s", err, want)
	}
}
