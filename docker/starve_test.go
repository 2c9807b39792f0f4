//go:build linux

package docker

import (
	"strings"
	"testing"
	"time"
)

// An unplugged node is unreachable but not down. After it is plugged in again, it is unchanged.
func TestUnpluggedNodeIsUnreachable(t *testing.T) {
	run(t, twoNodes, func(b testRun) {
		addrs, _ := b.Addresses("c1")
		if _, err := b.testbed.ask(t.Context(), addrs.Nodes[0].Addr, "SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		b.do("unplug", func() (string, error) { return b.Unplug("n1") })
		t.Logf("unplugged in %v", time.Since(start))
		if b.isAnswered("c1", 0, silenceWait) || !b.isAnswered("c1", 1, answerWait) {
			t.Error("n1 answers, or n2 does not")
		}
		for what, f := range map[string]func(string) (string, error){"unplug": b.Unplug, "shut down": b.Shutdown} {
			if _, err := f("n1"); err == nil || !strings.Contains(err.Error(), "unplugged") {
				t.Errorf("%s: %v", what, err)
			}
		}
		b.do("cut", func() (string, error) { return b.Cut("c1-n1", "", "") })
		if back := b.do("mend", func() (string, error) { return b.Mend("c1-n1") }); !strings.Contains(back, "does not answer") {
			t.Errorf("mend returned %q", back)
		}
		start = time.Now()
		back := b.do("plug", func() (string, error) { return b.Plug("n1") })
		t.Logf("plugged in in %v: %s", time.Since(start), back)
		if v := b.onNode("n1", "GET", "k"); v != "v" {
			t.Errorf("key is %v, want v", v)
		}
		if !b.isAnswered("c1", 0, answerWait) {
			t.Error("the link to the reconnected node does not answer")
		}
		b.do("unplug", func() (string, error) { return b.Unplug("n1") })
		b.do("kill", func() (string, error) { return b.Kill("n1") })
		if _, err := b.Restart("n1"); err == nil || !strings.Contains(err.Error(), "unplugged") {
			t.Errorf("restart: %v", err)
		}
		if back := b.do("plug", func() (string, error) { return b.Plug("n1") }); back != "the node has exited" {
			t.Errorf("plug returned %q", back)
		}
		b.do("restart", func() (string, error) { return b.Restart("n1") })
		if !b.nodeByName("n1").modified.Load() {
			t.Error("the node is not marked as modified, so the next run would reuse it")
		}
	})
}

// A starved node answers late, and normally again when its limits are removed. A node that exceeds its
// memory limit is killed and stays down.
func TestStarvedNode(t *testing.T) {
	run(t, twoNodes, func(b testRun) {
		start := time.Now()
		back := b.do("starve", func() (string, error) { return b.Starve("n1", 0.1, 64<<20) })
		t.Logf("starved in %v: %s", time.Since(start), back)
		if !strings.HasSuffix(back, "may use 10ms of CPU time per 100ms, 64MB of memory") {
			t.Errorf("starve returned %q", back)
		}
		if _, err := b.Starve("n1", 0.5, 0); err == nil {
			t.Error("no error when starving a node twice")
		}
		// This test cannot fail because of other load, which only makes the node slower.
		start = time.Now()
		cpuTime, before := time.Duration(0), b.cpuTime("n1")
		for cpuTime < 100*time.Millisecond {
			b.onNode("n1", "EVAL", "for i = 1, 1000000 do end return 'OK'", "0")
			cpuTime = b.cpuTime("n1") - before
		}
		if took := time.Since(start); took < 4*cpuTime {
			t.Errorf("node used %v of CPU time within %v, want at most a quarter", cpuTime, took)
		}
		start = time.Now()
		back = b.do("clear limits", func() (string, error) { return b.ClearLimits("n1") })
		t.Logf("cleared limits in %v: %s", time.Since(start), back)
		if !strings.Contains(back, "was throttled in ") || strings.Contains(back, "was throttled in 0 ") || !strings.Contains(back, "PING past the links was answered") {
			t.Errorf("clear limits returned %q", back)
		}
		b.do("starve", func() (string, error) { return b.Starve("n1", 0, 16<<20) })
		if v, err := b.nodeByName("n1").Command(t.Context(), "n1", []string{"EVAL", "redis.call('SETRANGE', 'k', 33554432, 'x') return redis.call('BITCOUNT', 'k')", "0"}); err == nil {
			t.Errorf("node uses more memory than its limit: %v", v)
		}
		n1 := b.nodeByName("n1")
		receive(t, "end of the node", n1.Done())
		for end := time.Now().Add(answerWait); time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // the engine may learn the reason late
			if usage, err := n1.engine.Usage(t.Context(), n1.id); err != nil || strings.HasSuffix(usage.EndText, "true") {
				break
			}
		}
		if back = b.do("clear limits", func() (string, error) { return b.ClearLimits("n1") }); back != "it exited with status 137, out of memory: true; the node has exited" {
			t.Errorf("clear limits returned %q", back)
		}
		if b.nodeByName("n1").Running() {
			t.Error("node is running again")
		}
		b.do("restart", func() (string, error) { return b.Restart("n1") })
	})
}

// cpuTime returns the CPU time used by a node's server, according to INFO.
func (b testRun) cpuTime(node string) (total time.Duration) {
	b.Helper()
	for line := range strings.Lines(b.onNode(node, "INFO", "cpu").(string)) {
		name, seconds, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			continue
		}
		d, err := time.ParseDuration(seconds + "s")
		if err != nil {
			b.Fatal(err)
		}
		total += d
	}
	return total
}
