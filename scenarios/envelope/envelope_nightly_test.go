//go:build nightly

package envelope

import (
	"testing"
	"time"
)

// TestEnvelopes: under other settings, too, the lock breaks where arithmetic says, each bound
// with more seeds than by day.
func TestEnvelopes(t *testing.T) {
	settings := []Setting{usual()}
	for _, change := range []func(*Setting){
		func(s *Setting) { s.TTL = 2 * time.Second },
		func(s *Setting) { s.TTL, s.Drift = 30*time.Second, 0.05 },
		func(s *Setting) { s.Nodes, s.Drift = 3, 0 },
		func(s *Setting) { s.Nodes = 7 },
		func(s *Setting) { s.Fence = true },
	} {
		s := usual()
		change(&s)
		settings = append(settings, s)
	}
	for i, s := range settings {
		seeds := 5
		if i == 0 {
			seeds = 30
		}
		for _, d := range All {
			t.Run(s.String()+"/"+d.Name+"/"+d.Property, func(t *testing.T) {
				r, err := searching(seeds).Find(t.Context(), d, s, func(Point) {})
				if err != nil {
					t.Fatal(err)
				}
				if !r.Agrees || r.Undecided() {
					t.Errorf("%s; %s", r, r.Reckoned())
				}
			})
		}
	}
}
