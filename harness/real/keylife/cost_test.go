//go:build linux

package keylife_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// cpuTime returns the CPU time used by the node.
func (b *testNode) cpuTime() time.Duration {
	b.Helper()
	_, rest, _ := strings.Cut(b.direct("INFO", "server").Str, "\nprocess_id:")
	pid, _, _ := strings.Cut(rest, "\r")
	text, err := os.ReadFile("/proc/" + pid + "/schedstat")
	if err != nil {
		b.Fatal(err)
	}
	var ns int64
	fmt.Sscan(string(text), &ns)
	return time.Duration(ns)
}

// BenchmarkLock measures the cost of recording while a client sets and releases a lock through a
// link.
func BenchmarkLock(b *testing.B) {
	for _, recording := range []bool{false, true} {
		b.Run(fmt.Sprintf("recording=%v", recording), func(b *testing.B) {
			n := newTestNode(b, "none")
			if recording {
				n.watch()
			}
			c := n.client("c1")
			var durations []time.Duration
			before := n.cpuTime()
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				c.do("SET", "k", fmt.Sprint(i), "NX", "PX", "60000")
				durations = append(durations, time.Since(start))
				c.do("EVAL", releaseScript, "1", "k", fmt.Sprint(i))
			}
			b.ReportMetric(float64(n.cpuTime()-before)/float64(2*len(durations)), "node-ns/command")
			slices.Sort(durations)
			b.ReportMetric(float64(durations[len(durations)/2]), "median-ns/set")
		})
	}
}
