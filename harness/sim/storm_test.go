package sim

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// injectStorm changes clocks, stops, kills and restarts nodes, breaks their disks and cuts links
// and replicas, at times drawn from the seed. A fault may be impossible when its time comes.
// injectStorm returns the number of injected faults by kind.
func injectStorm(c *cluster, until time.Duration) map[string]int {
	var mu sync.Mutex
	counts := map[string]int{}
	random := func(what string, i int, n uint64) uint64 { return hashWords(c.seed, hashBytes(what), uint64(i)) % n }
	injectFault := func(kind string, i int, begin, end func() (string, error)) {
		at := time.Duration(random(kind+" at", i, uint64(until)))
		duration := time.Duration(random(kind+" lasts", i, uint64(until/4)))
		c.At(at, func() {
			if _, err := begin(); err != nil {
				return
			}
			mu.Lock()
			counts[kind]++
			mu.Unlock()
			if end != nil {
				c.At(c.Now()+duration, func() { end() })
			}
		})
	}
	for i := range 6 {
		name := func(kind string) string { return fmt.Sprintf("n%d", 1+random(kind+" node", i, 5)) }
		injectNodeFault := func(kind string, begin, end func(string) (string, error)) {
			n := name(kind)
			beginOnNode := func() (string, error) { return begin(n) }
			if end == nil {
				injectFault(kind, i, beginOnNode, nil)
				return
			}
			injectFault(kind, i, beginOnNode, func() (string, error) { return end(n) })
		}
		injectNodeFault("pause", c.Pause, c.Resume)
		injectNodeFault("kill", c.Kill, c.Restart)
		injectNodeFault("shutdown", c.Shutdown, c.Restart)
		injectNodeFault("power", func(n string) (string, error) { return c.LosePower(n, i%2 == 0) }, c.Restart)
		injectNodeFault("slow", c.StallSync, c.FreeDisk)
		injectNodeFault("full", c.FillDisk, c.FreeDisk)
		injectNodeFault("touch", c.Touch, nil)
		injectNodeFault("failover", c.FailOver, nil)
		injectNodeFault("replica", func(n string) (string, error) { return c.Cut(n+"-replica", "", "") },
			func(n string) (string, error) { return c.Mend(n + "-replica") })
		offset := time.Duration(random("by", i, 4e9)) - 2*time.Second
		rate := 0.5 + float64(random("rate", i, 100))/100
		adjustClock := func(target string) (string, error) { return c.TurnClock(target, offset, rate) }
		resetClock := func(target string) (string, error) { return c.TurnClock(target, -offset, 1) }
		injectNodeFault("clock", adjustClock, resetClock)
		mode := []string{nemesis.CutHold, nemesis.CutDrop, nemesis.CutReset, nemesis.CutRefuse}[random("mode", i, 4)]
		link := fmt.Sprintf("c%d-%s", 1+random("link", i, 3), name("cut"))
		injectFault("cut", i, func() (string, error) { return c.Cut(link, mode, "") }, func() (string, error) { return c.Mend(link) })
		client := fmt.Sprintf("c%d", 1+random("client", i, 3))
		injectFault("client clock", i, func() (string, error) { return adjustClock(client) }, func() (string, error) { return resetClock(client) })
	}
	return counts
}

func stormScenario(seed uint64) scenario.Scenario {
	s := testScenario(3, 5)
	s.Topology.Persistence = []string{"none", "everysec", "always", "no"}[seed%4]
	s.Topology.Replicas = int(seed / 4 % 2)
	return s
}

func TestStormsAreReproducible(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const until = 4 * time.Second
	totals := map[string]int{}
	for seed := uint64(0); seed < 16; seed++ {
		var texts [2]string
		var digests [2]uint64
		var counts map[string]int
		for i := range texts {
			runtime.GOMAXPROCS(1 + i%2)
			texts[i], digests[i] = runContentionOn(t, stormScenario(seed), seed, until, func(c *cluster) { counts = injectStorm(c, until) })
			if texts[i] != texts[0] || digests[i] != digests[0] {
				t.Errorf("seed %d isn't reproducible: history differs: %v, digest differs: %v", seed, texts[i] != texts[0], digests[i] != digests[0])
			}
		}
		for kind, n := range counts {
			totals[kind] += n
		}
		if strings.Count(texts[0], "\n") < 100 {
			t.Errorf("seed %d: too few events: %s", seed, texts[0])
		}
	}
	for _, kind := range []string{"pause", "kill", "shutdown", "power", "slow", "full", "touch", "failover", "replica", "clock", "client clock", "cut"} {
		if totals[kind] < 10 {
			t.Errorf("%s was injected only %d times", kind, totals[kind])
		}
	}
	t.Log(totals)
}

// Simultaneous changes to several clients' clocks are recorded in a fixed order.
func TestConcurrentClockChangesAreOrdered(t *testing.T) {
	run := func() string {
		text, _, _ := simulate(t, testScenario(5, 1), 1, func(c *cluster) error {
			done := make(chan error)
			for _, h := range c.hosts {
				go func() {
					_, err := c.TurnClock(h.name, time.Second, 1)
					done <- err
				}()
			}
			for range c.hosts {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			_, err := c.Resource(context.Background(), "PING")
			return err
		})
		return text
	}
	first := run()
	if strings.Count(first, "\n") != 10 {
		t.Errorf("recorded %s", first)
	}
	for range 10 {
		if repeated := run(); repeated != first {
			t.Fatalf("first run:\n%slater run:\n%s", first, repeated)
		}
	}
}
