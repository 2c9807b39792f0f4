package figures

import (
	"strings"
	"testing"
)

// Of things that are counted arithmetic is exact: no limit lies between two of them, nor a line.
func TestEdgeOfWholeThings(t *testing.T) {
	values, must := []float64{0, 1, 2, 3}, &Reckoning{Sum: 2, Safe: 1.5, Certain: 2}
	rates := []Rate{{N: 4}, {N: 4}, {K: 4, N: 4}, {K: 4, N: 4}}
	if text := string(Edge("e", "title", "nodes", true, values, rates, must).SVG()); strings.Contains(text, "limit of") || strings.Contains(text, ">1.5<") || !strings.Contains(text, ">3<") {
		t.Error(text)
	}
	if text := string(Edge("e", "title", "seconds", false, values, rates, must).SVG()); !strings.Contains(text, "limit of safe") || !strings.Contains(text, "limit of luck") {
		t.Error(text)
	}
}
