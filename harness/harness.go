// Package harness is the engine: it interprets a Scenario on a Cluster and
// records a history.
package harness

import "strconv"

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = prefix + strconv.Itoa(i+1)
	}
	return out
}
