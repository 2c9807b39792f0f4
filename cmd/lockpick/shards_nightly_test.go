//go:build nightly && linux

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

var sweepSeeds = flag.Int("sweep-seeds", 100_000, "number of seeds in TestHundredThousandSeeds")

// TestHundredThousandSeeds runs a hundred thousand seeds in eight shards, and merges them with and
// without JSON output. Each process must use less than a gigabyte of memory.
func TestHundredThousandSeeds(t *testing.T) {
	lockpick, store := build(t), t.TempDir()
	runLean := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), lockpick, append(args, "--store", store)...)
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		c.Stdout, c.Stderr = out, os.Stderr
		if err := c.Run(); err != nil {
			t.Fatal(args, err)
		}
		// This is the maximum over all its processes, including workers.
		maxMemory := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss / 1024
		size, _ := out.Seek(0, 1)
		t.Logf("lockpick %v: %d MB, %.0f s of CPU, prints %d MB", args, maxMemory, c.ProcessState.UserTime().Seconds(), size>>20)
		if maxMemory > 1000 {
			t.Errorf("lockpick %v takes %d MB", args, maxMemory)
		}
	}
	for k := 1; k <= 8; k++ {
		runLean("run", "restart-forgets/", "--seeds", fmt.Sprint(*sweepSeeds), "--shard", fmt.Sprintf("%d/8", k))
	}
	runLean("merge", store)
	runLean("merge", store, "--json")
}
