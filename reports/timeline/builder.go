package timeline

import "lockpick/harness/history"

// builder draws a run on a chart.
type builder struct {
	run   *run
	chart *chart
}

func newBuilder(h *history.History) *builder {
	r := newRun(h)
	return &builder{run: r, chart: newChart(r.end)}
}
