//go:build nightly

package exhaust

import "testing"

// This is like TestReductionsAgree, but with more and larger scopes.
func TestReductionsAgreeInLargerScopes(t *testing.T) { checkReductions(t, 300, 64<<20) }

func TestManyRealRunsArePaths(t *testing.T) {
	checkRealRuns(t, 5000)
	checkHardenedRuns(t, 2500)
}

// The search of the largest scope fits into the memory of a small machine.
func TestLargestScope(t *testing.T) {
	r := newModel(Scope{Nodes: 5, Attempts: 2, Extensions: 1, Crashes: 1, Restart: RestartDelayed}, fullReductions).Search(t.Context(), 300e6, nil)
	if !r.Complete || r.Counterexample != nil || r.Acquires == 0 {
		t.Errorf("complete %v, counterexample %v", r.Complete, r.Counterexample)
	}
	t.Logf("%d states, %d acquires, %d MB", r.States, r.Acquires, r.Bytes/1e6)
}
