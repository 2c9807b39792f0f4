package outcome

import "testing"

func TestWorseCode(t *testing.T) {
	order := []int{ExitInterrupt, ExitBug, ExitUsage, ExitUnexpected, ExitBackend, ExitUndecided, ExitOK}
	for i, a := range order {
		for _, b := range order[i:] {
			if WorseCode(a, b) != a || WorseCode(b, a) != a {
				t.Errorf("WorseCode(%d, %d) is not %d", a, b, a)
			}
		}
	}
}
