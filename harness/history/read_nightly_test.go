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
	if err != nil || h.Truncation != "" || len(h.Events) != lines || g.numLines != lines || g.numBytes < 1<<30 {
		t.Fatalf("error %v, want %d events; read %d lines, %d bytes", err, lines, g.numLines, g.numBytes)
	}
	if !isSorted(h.Events) {
		t.Error("the events are not sorted")
	}
	// HeapSys never shrinks, so it is the peak size of the heap.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	heapRatio := float64(m.HeapSys) / float64(g.numBytes)
	t.Logf("%d lines, %.2f GB; peak heap %.2f GB, %.2f times the file", lines, float64(g.numBytes)/1e9, float64(m.HeapSys)/1e9, heapRatio)
	if heapRatio > 3.0 {
		t.Errorf("the peak heap was %.2f times the size of the file, want at most 3.0", heapRatio)
	}

	g = generatedHistory{cycles: cycles, failAfter: 1 << 29}
	_, err = Read(&g)
	if want := fmt.Sprintf("line %d: %v", g.numLines, errReadFailed); !errors.Is(err, errReadFailed) || err.Error() != want {
		t.Errorf("reader failed halfway: got %v, want %s", err, want)
	}
}
