package figures

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"lockpick/reports/display"
)

// latency draws the duration of each acquire at the time of its return.
func latency(m *readings) *Figure {
	var granted, refused plotter.XYs
	for _, a := range m.acquires {
		p := plotter.XY{X: a.at, Y: a.millis()}
		if a.granted {
			granted = append(granted, p)
		} else {
			refused = append(refused, p)
		}
	}
	if len(m.acquires) == 0 {
		return nil
	}
	fig := overTime(m, "latency", "Latency of acquires", "from call to return (ms)")
	fig.Caption = fmt.Sprintf("Duration of each acquire, shown at the time of its return: %d were granted, %d were not.", len(granted), len(refused))
	if len(refused) > 0 {
		fig.add("not granted", dots{refused, display.Alarm, true})
	}
	if len(granted) > 0 {
		fig.add("granted", dots{granted, display.Lease, false})
	}
	logarithmic(&fig.plot.Y)
	return fig
}

// millis returns the duration of an acquire in milliseconds, but at least a microsecond, because a
// logarithmic axis can't show 0.
func (a acquire) millis() float64 { return max(1000*a.took, 1e-3) }

// setLogScale gives an axis whole decades, at least one, around its data.
func logarithmic(a *plot.Axis) {
	from := math.Floor(math.Log10(a.Min) + 1e-9)
	to := max(math.Ceil(math.Log10(a.Max)-1e-9), from+1)
	a.Scale, a.Min, a.Max = plot.LogScale{}, math.Pow(10, from), math.Pow(10, to)
	labels := map[float64]string{}
	for d := from; d <= to; d++ {
		x := math.Pow(10, d)
		if labels[x] = fmt.Sprint(x); d >= 0 {
			labels[x] = display.Grouped(int(x))
		}
	}
	mark(a, labels, upright)
}

// minAcquires is the smallest number of acquires with a quantile figure.
const fewest = 10

// quantiles draws the latency of granted acquires by quantile.
func quantiles(m *readings) *Figure {
	var took []float64
	for _, a := range m.acquires {
		if a.granted {
			took = append(took, a.millis())
		}
	}
	if len(took) < fewest {
		return nil
	}
	slices.Sort(took)
	fig := figure("quantiles", "Latency of granted acquires by quantile", "share of acquires that took at most this long", "from call to return (ms)")
	fig.Caption = fmt.Sprintf("Share of the %d granted acquires that returned within a given time. The axis is stretched toward the slowest.", len(took))
	var points plotter.XYs
	n := float64(len(took))
	for i, t := range took {
		points = append(points, plotter.XY{X: stretched(float64(i) / n), Y: t}, plotter.XY{X: stretched(min((float64(i)+1)/n, 1-0.5/n)), Y: t})
	}
	fig.add("", line(points, display.Lease, 0))
	logarithmic(&fig.plot.Y)
	fig.upTo(stretched(1 - 0.5/n))
	labels := map[float64]string{}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		labels[stretched(q)] = fmt.Sprintf("%g %%", math.Round(q*1e7)/1e5)
	}
	mark(&fig.plot.X, labels, across)
	return fig
}

// quantilePosition maps a quantile to its position: each additional nine takes the same space.
func stretched(q float64) float64 { return -math.Log10(1 - q) }

// rate draws how many acquires per second were granted and how many were not.
func rate(m *readings) *Figure {
	if len(m.acquires) == 0 || m.end <= 0 {
		return nil
	}
	n := min(max(len(m.acquires)/2, 10), 30)
	bin := m.end / float64(n) // divides the run evenly, so the last bin is as long as the others
	granted, refused := make([]float64, n), make([]float64, n)
	for _, a := range m.acquires {
		i := min(int(a.at/bin), n-1)
		if a.granted {
			granted[i] += 1 / bin
		} else {
			refused[i] += 1 / bin
		}
	}
	fig := overTime(m, "rate", "Rate of completed acquires", "acquires per second")
	fig.Caption = fmt.Sprintf("Acquires that returned, in %d intervals of %s each.", n, display.Span(int64(bin*1e9)))
	fig.add("not granted", line(stairs(refused, bin), display.Alarm, 1))
	fig.add("granted", line(stairs(granted, bin), display.Lease, 0))
	linear(&fig.plot.Y, 0, fig.plot.Y.Max, upright)
	return fig
}

func stairs(counts []float64, bin float64) plotter.XYs {
	var out plotter.XYs
	for i, n := range counts {
		out = append(out, plotter.XY{X: float64(i) * bin, Y: n}, plotter.XY{X: float64(i+1) * bin, Y: n})
	}
	return out
}

// setLinearScale gives an axis whole steps around its data.
func linear(a *plot.Axis, from, to float64, long vg.Length) {
	step := round(max(to-from, 1e-9) / 5)
	a.Min, a.Max = step*math.Floor(from/step+1e-9), step*math.Ceil(to/step-1e-9)
	mark(a, every(step, a.Min, a.Max), long)
}
