//go:build nightly && linux

package main

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A lockpick that is killed at any instant leaves nothing that the next start of its kind
// does not remove, and one that a signal ends leaves nothing at all. KILLS_SEED draws other
// instants.
func TestHundredKills(t *testing.T) {
	needEngine(t)
	seed, err := strconv.ParseUint(os.Getenv("KILLS_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	began := time.Now()
	f := newField(t, seed, true)
	for _, k := range f.kinds(40, 28, 16, 16) {
		f.kill(k)
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		for _, k := range f.kinds(10, 6, 4, 0) {
			f.signal(k, sig)
		}
	}
	t.Logf("in %v", time.Since(began).Round(time.Second))
}
