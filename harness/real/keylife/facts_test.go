package keylife

import (
	"testing"
	"time"

	"lockpick/harness/history"
)

// If the node itself finds an expired key, the fact is not dated before the key's expiry by the
// node's clock, even if that clock was changed after the last report.
func TestExpiryFoundAfterClockChange(t *testing.T) {
	const second = int64(time.Second)
	for _, c := range []struct {
		name, event string
		ahead, want int64 // last offset of the node's clock; time to be recorded; in seconds
	}{
		{"clock set forward", "expired", 0, 5},
		{"found late", "expired", 8, 10},
		{"evicted", "evicted", 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var recorded []history.Event
			l := New(Config{Clock: func() time.Duration { return 0 }, Record: func(e history.Event) { recorded = append(recorded, e) }})
			n := &node{name: "n1", recorder: l, keys: map[string]*state{"k": {expiry: 5000}}, pastStates: map[string][]*state{}, lastT: second, clockAhead: c.ahead * second}
			n.process(nil, []item{{at: 2 * second, key: "k", event: c.event}})
			if len(recorded) != 1 || recorded[0].T != 2*second || recorded[0].Local != c.want*second {
				t.Errorf("recorded %+v, want one fact at 2 s with the clock at %d s", recorded, c.want)
			}
		})
	}
}
