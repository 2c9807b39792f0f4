package outcome

import "testing"

func TestWorse(t *testing.T) {
	order := []int{ExitInterrupt, ExitBug, ExitUsage, ExitUnexpected, ExitBackend, ExitUndecided, ExitOK}
	for i, a := range order {
		for _, b := range order[i:] {
			if Worse(a, b) != a || Worse(b, a) != a {
				t.Errorf("WorseCode(%d, %d) is not %d", a, b, a)
			}
		}
	}
}
