package figures

import (
	"strings"
	"testing"
)

// For indivisible things the limit is exact: there are no limits and no line between the values.
func TestEdgeOfWholeThings(t *testing.T) {
	values, must := []float64{0, 1, 2, 3}, &Reckoning{Sum: 2, Safe: 1.5, Certain: 2}
	rates := []Rate{{N: 4}, {N: 4}, {K: 4, N: 4}, {K: 4, N: 4}}
	if text := string(Edge("e", "title", "nodes", true, values, rates, must).SVG()); strings.Contains(text, "always ") || strings.Contains(text, ">1.5<") || !strings.Contains(text, ">3<") {
		t.Error(text)
	}
	if text := string(Edge("e", "title", "seconds", false, values, rates, must).SVG()); !strings.Contains(text, "always safe") || !strings.Contains(text, "always breaks") {
		t.Error(text)
	}
}
