package liveness

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// A key with a TTL of 10 s is set at 10 s. want is the time, in seconds, by which it must have
// lapsed.
func TestLapseAfterClockSetBack(t *testing.T) {
	jump := func(step, from, to int, node string) string {
		text := fmt.Sprintf("%d nemesis invoke clock-jump node=%s step=%d\n%d.1 nemesis begin clock-jump node=%s step=%d\n", from, node, step, from, node, step)
		if to > 0 {
			text += fmt.Sprintf("%d nemesis end clock-jump node=%s step=%d\n", to, node, step)
		}
		return text
	}
	for _, row := range []struct {
		name, faults string
		by           []time.Duration // clock offset of each step
		want         float64
	}{
		{"no fault", "", nil, 20},
		{"set back during its life", jump(1, 12, 0, "n1"), []time.Duration{-20 * time.Second}, 40},
		{"set back before", jump(1, 5, 0, "n1"), []time.Duration{-20 * time.Second}, 20},
		{"set back after it has lapsed", jump(1, 25, 0, "n1"), []time.Duration{-20 * time.Second}, 20},
		{"set forward", jump(1, 12, 0, "n1"), []time.Duration{20 * time.Second}, 20},
		{"set forward before, corrected during its life", jump(1, 5, 15, "n1"), []time.Duration{20 * time.Second}, 40},
		{"twice on one node", jump(1, 12, 0, "n1") + jump(2, 22, 0, "n1"), []time.Duration{-3 * time.Second, -5 * time.Second}, 28},
		{"on two nodes", jump(1, 12, 0, "n1") + jump(2, 13, 0, "n2"), []time.Duration{-3 * time.Second, -5 * time.Second}, 25},
		{"a client's clock", jump(1, 12, 0, "c1"), []time.Duration{-20 * time.Second}, 20},
		{"set back by an unknown amount", jump(1, 12, 0, "n1"), []time.Duration{0}, 20},
		{"set back, then replaced by a replica", jump(1, 12, 0, "n1") + "14 nemesis begin failover node=n1 step=2\n", []time.Duration{-20 * time.Second, 0}, 20},
	} {
		h := histories.MustParse("params clients=c1 nodes=n1,n2,n3 ttl=10s slack=500ms\n" + row.faults + "60 harness end run")
		for i, offset := range row.by {
			h.Params.Steps = append(h.Params.Steps, history.PlannedStep{Step: i + 1, Offset: offset})
		}
		r := newConditions(facts.Read(h))
		if got := history.Seconds(r.lapses.latestLapse("c1", 10e9)); got != row.want {
			t.Errorf("%s: the key has lapsed by %v s, want %v s", row.name, got, row.want)
		}
		// A fully recorded jump suspends no guarantee. Any other jump suspends them all.
		recorded := row.faults == "" || row.by[0] != 0 && !strings.Contains(row.faults, "failover")
		if suspended := len(r.outages.globalSpans) > 0; suspended == recorded {
			t.Errorf("%s: guarantees suspended = %v", row.name, suspended)
		}
	}
}
