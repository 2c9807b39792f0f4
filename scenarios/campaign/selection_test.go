package campaign_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
)

// On a real backend, the scaled TTLs of all clients are multiples of the lock's TTL unit, and keep their ratio.
func TestScaledTTLs(t *testing.T) {
	known := campaign.KnownLocks(kinds.All)
	for _, row := range []struct {
		lock, client string
		unit         time.Duration
		want         []time.Duration
		err          string
	}{
		{"10s", "2s", 0, []time.Duration{200 * time.Millisecond, time.Second}, ""},
		{"10s", "10s", time.Second, []time.Duration{time.Second}, ""},
		{"10s", "2s", time.Second, []time.Duration{time.Second, 5 * time.Second}, ""},
		{"10s", "3s", time.Second, []time.Duration{3 * time.Second, 10 * time.Second}, ""},
		{"10s", "4s", time.Second, []time.Duration{2 * time.Second, 5 * time.Second}, ""},
		{"10s", "1s", 0, nil, "makes the TTL of mine 100ms, which is too short for a node timeout of 50ms"},
	} {
		text := "name: mine\nclaim: none\nlock: {ttl: " + row.lock + "}\nclients: {c1: {}, c2: {ttl: " + row.client + "}}\n"
		all, err := scenario.Parse("mine.yaml", []byte(text), known)
		if err != nil {
			t.Fatal(err)
		}
		s := campaign.Selection{Scenarios: []scenarios.Found{{File: "mine.yaml", Scenario: all[0]}}, Backend: "process", TTLUnit: row.unit}
		c, err := s.Choose(known)
		switch {
		case row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)):
			t.Errorf("%s and %s: %v, want %q", row.lock, row.client, err, row.err)
		case row.err == "" && (err != nil || !slices.Equal(scenario.TTLs(c.Picks[0].Scenario), row.want)):
			t.Errorf("%s and %s, unit %v: %v, %+v, want %v", row.lock, row.client, row.unit, err, c.Picks, row.want)
		}
	}
}
