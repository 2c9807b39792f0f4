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
	done := map[string]int{}
	draw := func(what string, i int, n uint64) uint64 { return mix(c.seed, sum(what), uint64(i)) % n }
	twoWays := func(kind string, i int, begin, end func() (string, error)) {
		at := time.Duration(draw(kind+" at", i, uint64(until)))
		lasts := time.Duration(draw(kind+" lasts", i, uint64(until/4)))
		c.At(at, func() {
			if _, err := begin(); err != nil {
				return
			}
			mu.Lock()
			done[kind]++
			mu.Unlock()
			if end != nil {
				c.At(c.Now()+lasts, func() { end() })
			}
		})
	}
	for i := range 6 {
		name := func(kind string) string { return fmt.Sprintf("n%d", 1+draw(kind+" node", i, 5)) }
		both := func(kind string, begin, end func(string) (string, error)) {
			n := name(kind)
			begun := func() (string, error) { return begin(n) }
			if end == nil {
				twoWays(kind, i, begun, nil)
				return
			}
			twoWays(kind, i, begun, func() (string, error) { return end(n) })
		}
		both("pause", c.Pause, c.Resume)
		both("kill", c.Kill, c.Restart)
		both("shutdown", c.Shutdown, c.Restart)
		both("power", func(n string) (string, error) { return c.LosePower(n, i%2 == 0) }, c.Restart)
		both("slow", c.StallSync, c.FreeDisk)
		both("full", c.FillDisk, c.FreeDisk)
		both("touch", c.Touch, nil)
		both("failover", c.FailOver, nil)
		both("replica", func(n string) (string, error) { return c.Cut(n+"-replica", "", "") },
			func(n string) (string, error) { return c.Mend(n + "-replica") })
		by := time.Duration(draw("by", i, 4e9)) - 2*time.Second
		rate := 0.5 + float64(draw("rate", i, 100))/100
		turn := func(target string) (string, error) { return c.TurnClock(target, by, rate) }
		right := func(target string) (string, error) { return c.TurnClock(target, -by, 1) }
		both("clock", turn, right)
		mode := []string{nemesis.CutHold, nemesis.CutDrop, nemesis.CutReset, nemesis.CutRefuse}[draw("mode", i, 4)]
		link := fmt.Sprintf("c%d-%s", 1+draw("link", i, 3), name("cut"))
		twoWays("cut", i, func() (string, error) { return c.Cut(link, mode, "") }, func() (string, error) { return c.Mend(link) })
		client := fmt.Sprintf("c%d", 1+draw("client", i, 3))
		twoWays("client clock", i, func() (string, error) { return turn(client) }, func() (string, error) { return right(client) })
	}
	return done
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
	happened := map[string]int{}
	for seed := uint64(0); seed < 16; seed++ {
		var texts [2]string
		var digests [2]uint64
		var done map[string]int
		for i := range texts {
			runtime.GOMAXPROCS(1 + i%2)
			texts[i], digests[i] = runContentionOn(t, stormScenario(seed), seed, until, func(c *cluster) { done = injectStorm(c, until) })
			if texts[i] != texts[0] || digests[i] != digests[0] {
				t.Errorf("seed %d isn't reproducible: history differs: %v, digest differs: %v", seed, texts[i] != texts[0], digests[i] != digests[0])
			}
		}
		for kind, n := range done {
			happened[kind] += n
		}
		if strings.Count(texts[0], "\n") < 100 {
			t.Errorf("seed %d: too few events: %s", seed, texts[0])
		}
	}
	for _, kind := range []string{"pause", "kill", "shutdown", "power", "slow", "full", "touch", "failover", "replica", "clock", "client clock", "cut"} {
		if happened[kind] < 10 {
			t.Errorf("%s was injected only %d times", kind, happened[kind])
		}
	}
	t.Log(happened)
}

// Simultaneous changes to several clients' clocks are recorded in a fixed order.
func TestConcurrentClockChanges(t *testing.T) {
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
