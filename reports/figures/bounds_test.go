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

// A pair that broke nowhere has no figure; one whose bound does not move shows how far it is from where it may be.
func TestPairsOfFaults(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	must := []*Reckoning{{9.88, 9.88, 9.8}, {9.88, 9.88, 9.8}}
	if Pair("p", "title", "x", "y", []float64{0, 1}, []*float64{nil, nil}, []*Reckoning{nil, nil}) != nil {
		t.Error("there is a figure of nothing")
	}
	text := string(Pair("p", "title", "x", "y", []float64{0, 1}, []*float64{at(9.87), at(9.87)}, must).SVG())
	if !strings.Contains(text, ">9.8 <") || strings.Contains(text, ">2 <") {
		t.Error(text)
	}
	text = string(Pair("p", "title", "x", "y", []float64{0, 1}, []*float64{at(10), nil}, []*Reckoning{nil, nil}).SVG())
	if strings.Contains(text, "limit of") {
		t.Error(text)
	}
}
