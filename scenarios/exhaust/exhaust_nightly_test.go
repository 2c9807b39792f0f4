//go:build nightly

package exhaust

import "testing"

// Each reduction comes to the same verdict as none, in many scopes and larger ones.
func TestReductionsAgreeAtLength(t *testing.T) { agree(t, 300, 64<<20) }

// Thousands of real runs are paths of the model.
func TestManyRealRunsArePaths(t *testing.T) {
	realRunsArePaths(t, 5000)
	hardenedRunsArePaths(t, 2500)
}

// The largest scope that has been searched to its end keeps to the memory that a small machine has.
func TestLargestScope(t *testing.T) {
	r := newModel(Scope{Nodes: 5, Attempts: 2, Extends: 1, Crashes: 1, Restart: Delayed}, fully).Search(t.Context(), 300e6, nil)
	if !r.Whole || r.Story != nil || r.Acquires == 0 {
		t.Errorf("whole %v, %v", r.Whole, r.Story)
	}
	t.Logf("%d states, %d acquires, %d MB", r.States, r.Acquires, r.Bytes/1e6)
}
