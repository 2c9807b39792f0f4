//go:build nightly

package campaign

import (
	"testing"
	"time"
)

// This is like TestMeasuredEdgesMatchPredictions, but with other settings and more seeds.
func TestEnvelopes(t *testing.T) {
	settings := []EnvelopeSetting{defaultSetting()}
	for _, change := range []func(*EnvelopeSetting){
		func(s *EnvelopeSetting) { s.TTL = 2 * time.Second },
		func(s *EnvelopeSetting) { s.TTL, s.Drift = 30*time.Second, 0.05 },
		func(s *EnvelopeSetting) { s.Nodes, s.Drift = 3, 0 },
		func(s *EnvelopeSetting) { s.Nodes = 7 },
		func(s *EnvelopeSetting) { s.Fence = true },
	} {
		s := defaultSetting()
		change(&s)
		settings = append(settings, s)
	}
	for i, s := range settings {
		seeds := 5
		if i == 0 {
			seeds = 30
		}
		for _, d := range Dimensions {
			t.Run(s.String()+"/"+d.Name+"/"+d.Property, func(t *testing.T) {
				r, err := testSearch(seeds).find(t.Context(), d, s, func(envelopePoint) {})
				if err != nil {
					t.Fatal(err)
				}
				if !r.AsPredicted || r.undecided() {
					t.Errorf("%s; %s", r, r.describePrediction())
				}
			})
		}
	}
}
