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

// latencyFigure plots the duration of each acquire at the time it returned.
func latencyFigure(m *measurements) *Figure {
	var grantedPoints, refusedPoints plotter.XYs
	for _, a := range m.acquires {
		p := plotter.XY{X: a.at, Y: a.millis()}
		if a.granted {
			grantedPoints = append(grantedPoints, p)
		} else {
			refusedPoints = append(refusedPoints, p)
		}
	}
	if len(m.acquires) == 0 {
		return nil
	}
	fig := newTimeFigure(m, "latency", "Latency of acquires", "from call to return (ms)")
	fig.Caption = fmt.Sprintf("Duration of each acquire, plotted at the time it returned. %d acquires were granted, %d were not.", len(grantedPoints), len(refusedPoints))
	if len(refusedPoints) > 0 {
		fig.add("not granted", scatter{refusedPoints, display.AlarmColor, true})
	}
	if len(grantedPoints) > 0 {
		fig.add("granted", scatter{grantedPoints, display.LeaseColor, false})
	}
	setLogScale(&fig.plot.Y)
	return fig
}

// millis returns the acquire's duration in milliseconds, but at least a microsecond, because a
// logarithmic axis cannot show 0.
func (a acquire) millis() float64 { return max(1000*a.duration, 1e-3) }

// setLogScale makes an axis logarithmic and extends its range to whole decades, at least one.
func setLogScale(a *plot.Axis) {
	from := math.Floor(math.Log10(a.Min) + 1e-9)
	to := max(math.Ceil(math.Log10(a.Max)-1e-9), from+1)
	a.Scale, a.Min, a.Max = plot.LogScale{}, math.Pow(10, from), math.Pow(10, to)
	labels := map[float64]string{}
	for d := from; d <= to; d++ {
		x := math.Pow(10, d)
		if labels[x] = fmt.Sprint(x); d >= 0 {
			labels[x] = display.GroupDigits(int(x))
		}
	}
	labelAxis(a, labels, minYLength)
}

// minAcquires is the number of granted acquires required to draw quantiles.
const minAcquires = 10

// quantileFigure plots the latency of granted acquires by quantile.
func quantileFigure(m *measurements) *Figure {
	var durations []float64
	for _, a := range m.acquires {
		if a.granted {
			durations = append(durations, a.millis())
		}
	}
	if len(durations) < minAcquires {
		return nil
	}
	slices.Sort(durations)
	fig := newFigure("quantiles", "Latency of granted acquires by quantile", "share of acquires that took at most this long", "from call to return (ms)")
	fig.Caption = fmt.Sprintf("Share of the %d granted acquires that returned within a given time. The axis gives more space to the slowest.", len(durations))
	var points plotter.XYs
	n := float64(len(durations))
	for i, t := range durations {
		points = append(points, plotter.XY{X: quantilePosition(float64(i) / n), Y: t}, plotter.XY{X: quantilePosition(min((float64(i)+1)/n, 1-0.5/n)), Y: t})
	}
	fig.add("", newLine(points, display.LeaseColor, 0))
	setLogScale(&fig.plot.Y)
	fig.setXMax(quantilePosition(1 - 0.5/n))
	labels := map[float64]string{}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		labels[quantilePosition(q)] = fmt.Sprintf("%g %%", math.Round(q*1e7)/1e5)
	}
	labelAxis(&fig.plot.X, labels, minXLength)
	return fig
}

// quantilePosition maps a quantile to a position on the axis. Each additional nine takes the same
// amount of space.
func quantilePosition(q float64) float64 { return -math.Log10(1 - q) }

// acquireRateFigure plots how many acquires per second were granted and how many were not.
func acquireRateFigure(m *measurements) *Figure {
	if len(m.acquires) == 0 || m.end <= 0 {
		return nil
	}
	bins := min(max(len(m.acquires)/2, 10), 30)
	bin := m.end / float64(bins) // divides the run evenly, so the last bin is as long as the others
	grantedRates, refusedRates := make([]float64, bins), make([]float64, bins)
	for _, a := range m.acquires {
		i := min(int(a.at/bin), bins-1)
		if a.granted {
			grantedRates[i] += 1 / bin
		} else {
			refusedRates[i] += 1 / bin
		}
	}
	fig := newTimeFigure(m, "rate", "Rate of completed acquires", "acquires per second")
	fig.Caption = fmt.Sprintf("Acquires per second by time of return, averaged over %d intervals of %s each.", bins, display.Duration(int64(bin*1e9)))
	fig.add("not granted", newLine(stepLine(refusedRates, bin), display.AlarmColor, 1))
	fig.add("granted", newLine(stepLine(grantedRates, bin), display.LeaseColor, 0))
	setLinearScale(&fig.plot.Y, 0, fig.plot.Y.Max, minYLength)
	return fig
}

func stepLine(counts []float64, bin float64) plotter.XYs {
	var out plotter.XYs
	for i, n := range counts {
		out = append(out, plotter.XY{X: float64(i) * bin, Y: n}, plotter.XY{X: float64(i+1) * bin, Y: n})
	}
	return out
}

// setLinearScale makes an axis linear and extends its range to whole label steps.
func setLinearScale(a *plot.Axis, from, to float64, length vg.Length) {
	step := roundUp(max(to-from, 1e-9) / 5)
	a.Min, a.Max = step*math.Floor(from/step+1e-9), step*math.Ceil(to/step-1e-9)
	labelAxis(a, multiples(step, a.Min, a.Max), length)
}
