package facts_test

import (
	"testing"

	"lockpick/harness/history/facts"
)

func TestFromTo(t *testing.T) {
	for want, span := range map[string][2]int64{
		"from 1.2 s to 3 s (1.8 s)":           {1_200_000_000, 3_000_000_000},
		"from 0.16 s to 0.161 s (0.001 s)":    {160_000_000, 161_000_000},
		"from 0 s to 0.000008 s (0.000008 s)": {0, 8_000},
		"at 0.16 s for 8 µs":                  {160_000_000, 160_008_000},
		"at 0.16 s for 0.5 µs":                {160_000_000, 160_000_500},
		"at 0.16 s for 0 µs":                  {160_000_000, 160_000_000},
		"at 3600.123 s for 400 µs":            {3600_122_900_000, 3600_123_300_000},
	} {
		if got := facts.FromTo(span[0], span[1]); got != want {
			t.Errorf("%v: %q, want %q", span, got, want)
		}
	}
}
