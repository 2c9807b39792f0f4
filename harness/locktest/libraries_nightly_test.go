//go:build nightly

package locktest_test

import "testing"

// In the whole catalog, and whatever the options, examples fail only with violations.
func TestExamplesReportViolationsEverywhere(t *testing.T) {
	for _, example := range []string{"default", "production", "three-nodes", "one-try"} {
		t.Run(example, func(t *testing.T) {
			if counts := checkExample(t, example, ""); counts["PASS"] < 200 || counts["FAIL"] == 0 || counts["SKIP"] == 0 {
				t.Errorf("results: %v", counts)
			}
		})
	}
}
