package figures

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"lockpick/reports/palette"
)

// latency draws how long each acquire took, when it returned.
func latency(m *readings) *Figure {
	var granted, refused plotter.XYs
	for _, a := range m.acquires {
		p := plotter.XY{X: a.at, Y: max(a.took, least)}
		if a.granted {
			granted = append(granted, p)
		} else {
			refused = append(refused, p)
		}
	}
	if len(granted)+len(refused) == 0 {
		return nil
	}
	fig := figure("latency", "Latency of acquires", "seconds", "from call to return")
	fig.Caption = fmt.Sprintf("How long each acquire took, at the instant of its return: %d were granted (●), %d were not (×). Hatched: a fault in force.", len(granted), len(refused))
	fig.upTo(m.end)
	logarithmic(&fig.plot.Y)
	fig.plot.Add(bands(m.faults))
	if len(refused) > 0 {
		fig.plot.Add(dotted(refused, palette.Alarm, draw.CrossGlyph{}))
	}
	if len(granted) > 0 {
		fig.plot.Add(dotted(granted, palette.Lease, draw.CircleGlyph{}))
	}
	spread(&fig.plot.Y)
	return fig
}

// least is the shortest span that a logarithmic axis shows.
const least = 1e-6

func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	marks := ticks{}
	for decade := -6; decade <= 4; decade++ {
		marks[math.Pow(10, float64(decade))] = seconds(math.Pow(10, float64(decade)))
	}
	a.Tick.Marker = marks
}

// spread gives an axis of spans at least a decade, and room at its ends.
func spread(a *plot.Axis) {
	a.Min = math.Pow(10, math.Floor(math.Log10(a.Min)))
	a.Max = math.Pow(10, math.Ceil(math.Log10(max(a.Max, 1.1*a.Min))))
}

// quantiles draws within which time which share of the granted acquires returned.
func quantiles(m *readings) *Figure {
	var took []float64
	for _, a := range m.acquires {
		if a.granted {
			took = append(took, max(a.took, least))
		}
	}
	if len(took) < 2 {
		return nil
	}
	slices.Sort(took)
	fig := figure("quantiles", "Latency of granted acquires by quantile", "share of acquires that took at most so long", "from call to return")
	fig.Caption = fmt.Sprintf("Of %d granted acquires, which share had returned within which time. The axis is stretched towards the slowest.", len(took))
	var points plotter.XYs
	n := float64(len(took))
	for i, t := range took {
		points = append(points, plotter.XY{X: stretched(float64(i) / n), Y: t}, plotter.XY{X: stretched(min((float64(i)+1)/n, 1-0.5/n)), Y: t})
	}
	logarithmic(&fig.plot.Y)
	marks := ticks{}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		marks[stretched(q)] = fmt.Sprintf("%g %%", math.Round(q*1e7)/1e5)
	}
	fig.plot.Add(line(points, palette.Lease, 0))
	fig.upTo(stretched(1 - 0.5/n))
	fig.plot.X.Tick.Marker = marks
	spread(&fig.plot.Y)
	return fig
}

// stretched is where a quantile stands: each further nine takes as much room.
func stretched(q float64) float64 { return -math.Log10(1 - q) }

// rate draws how many acquires per second were granted, and how many were not.
func rate(m *readings) *Figure {
	if len(m.acquires) == 0 || m.end <= 0 {
		return nil
	}
	bin := round(m.end / 30)
	n := int(math.Ceil(m.end / bin))
	granted, refused := make([]float64, n), make([]float64, n)
	for _, a := range m.acquires {
		i := min(int(a.at/bin), n-1)
		if a.granted {
			granted[i] += 1 / bin
		} else {
			refused[i] += 1 / bin
		}
	}
	fig := figure("rate", "Acquires per second", "seconds", "acquires per second")
	fig.Caption = fmt.Sprintf("Acquires that returned, granted (solid) and not granted (dashed), in each %s.", seconds(bin))
	fig.upTo(m.end)
	fig.plot.Y.Min = 0
	fig.plot.Add(bands(m.faults))
	yes, no := line(stairs(granted, bin, m.end), palette.Lease, 0), line(stairs(refused, bin, m.end), palette.Alarm, 1)
	fig.plot.Add(no, yes)
	fig.plot.Legend.Add("granted", yes)
	fig.plot.Legend.Add("not granted", no)
	fig.plot.Y.Max *= 1.3
	return fig
}

// round is the next of 1, 2 and 5 times a power of ten.
func round(x float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if x <= m*decade {
			return m * decade
		}
	}
	return 10 * decade
}

func stairs(counts []float64, bin, end float64) plotter.XYs {
	var out plotter.XYs
	for i, n := range counts {
		out = append(out, plotter.XY{X: float64(i) * bin, Y: n}, plotter.XY{X: min(float64(i+1)*bin, end), Y: n})
	}
	return out
}
