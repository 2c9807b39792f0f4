package figures

import (
	"strings"
	"testing"
)

// The limit on an integral value is exact, so the figure shows neither an uncertain range nor a line
// between the points.
func TestThresholdFigureOfIntegralValue(t *testing.T) {
	values, limit := []float64{0, 1, 2, 3}, &Limits{Nominal: 2, AlwaysSafe: 1.5, AlwaysBreaks: 2}
	rates := []Rate{{N: 4}, {N: 4}, {K: 4, N: 4}, {K: 4, N: 4}}
	if text := string(ThresholdFigure("e", "title", "nodes", true, values, rates, limit).SVG()); strings.Contains(text, "always ") || strings.Contains(text, ">1.5<") || !strings.Contains(text, ">3<") {
		t.Error(text)
	}
	if text := string(ThresholdFigure("e", "title", "seconds", false, values, rates, limit).SVG()); !strings.Contains(text, "always safe") || !strings.Contains(text, "always breaks") {
		t.Error(text)
	}
}
