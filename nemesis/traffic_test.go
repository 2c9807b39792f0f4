package nemesis

import (
	"math/bits"
	"testing"
	"time"
)

// randomWord returns the k-th of 2^16 evenly spread words.
func randomWord(k int) uint64 { return bits.Reverse64(uint64(k)) }

// The correct share of messages is hit, delays are within their span, and in a heavy-tailed
// distribution each order of magnitude is equally likely.
func TestTraffic(t *testing.T) {
	const words = 1 << 16
	evenTraffic := Traffic{DelayMin: 10 * time.Millisecond, DelayMax: 30 * time.Millisecond}
	heavyTraffic := Traffic{DelayMin: time.Millisecond, DelayMax: time.Second, HeavyTailed: true}
	hits, below20, below10 := 0, 0, 0
	for k := range words {
		w := randomWord(k)
		if (Traffic{Share: 0.05}).Hits(w) {
			hits++
		}
		if !(Traffic{}).Hits(w) || !(Traffic{Share: 1}).Hits(w) {
			t.Fatal("a message was not hit although all should be")
		}
		e, h := evenTraffic.Delay(w), heavyTraffic.Delay(w)
		if e < evenTraffic.DelayMin || e > evenTraffic.DelayMax || h < heavyTraffic.DelayMin || h > heavyTraffic.DelayMax {
			t.Fatalf("delays %v and %v", e, h)
		}
		if e < 20*time.Millisecond {
			below20++
		}
		if h < 10*time.Millisecond {
			below10++
		}
	}
	for what, c := range map[string]struct{ got, want float64 }{
		"share": {float64(hits), 0.05}, "even": {float64(below20), 0.5}, "heavy": {float64(below10), 1.0 / 3},
	} {
		if share := c.got / words; share < c.want-0.001 || share > c.want+0.001 {
			t.Errorf("%s: %.4f, want %.4f", what, share, c.want)
		}
	}
	if got := (Traffic{Bandwidth: 1000}).TransmitTime(50); got != 50*time.Millisecond {
		t.Errorf("50 bytes at 1000 bytes per second take %v", got)
	}
	if (Traffic{}).TransmitTime(50) != 0 || (Traffic{Way: Reply}).AppliesTo(Request) || !(Traffic{Way: Reply}).AppliesTo(Reply) || !(Traffic{}).AppliesTo(Request) {
		t.Error("unlimited bandwidth causes a delay, or a direction is wrong")
	}
}
