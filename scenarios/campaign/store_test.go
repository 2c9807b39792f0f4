package campaign

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"lockpick/harness/scenario"
)

// A run directory that can't be completed, as on a full disk, leaves no files.
func TestFailedRunDirectoryLeavesNothing(t *testing.T) {
	store := t.TempDir()
	unwritable := scenario.Scenario{Name: "s", Scale: math.NaN()}
	d := &runDir{store: store, manifest: scenario.Manifest{Scenario: unwritable}}
	if err := d.create(); err == nil {
		t.Fatal("a manifest that is not valid JSON was written")
	}
	if left, err := os.ReadDir(filepath.Join(store, "s")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
