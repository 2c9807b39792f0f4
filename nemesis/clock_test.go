package nemesis

import (
	"testing"
	"time"
)

func TestDescribeClock(t *testing.T) {
	for _, c := range []struct {
		off  time.Duration
		rate float64
		text string
	}{
		{0, 1, "which is right, rate 1"},
		{0, 1.1, "right until now, rate 1.1"},
		{11 * time.Second, 1, "11s ahead, rate 1"},
		{-90 * time.Minute, 0.9995, "1h30m0s behind, rate 0.9995"},
	} {
		text := DescribeClock(c.off, c.rate)
		if text != c.text {
			t.Errorf("offset %v, rate %v: got %q, want %q", c.off, c.rate, text, c.text)
		}
	}
}
