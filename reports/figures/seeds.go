package figures

import (
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// Rate states that something happened in K of N runs.
type Rate struct {
	Name string
	K, N int
}

// maxNameLen limits the length of names, in characters, to leave room for the plot.
const maxNameLen = 40

// RateFigure plots each rate in its own row, with the 95 % Wilson score interval (outcome.Wilson). It
// returns nil if there are no rates.
func RateFigure(title string, rates []Rate) *Figure {
	if len(rates) == 0 {
		return nil
	}
	fig := newFigure("rates", title, "share of runs (%)", "")
	fig.Caption = "Share of runs, with the 95 % Wilson score interval. A mark at 0 means that it never happened; the line shows how high the true share may still be."
	names := map[float64]string{}
	var points plotter.XYs
	maxPercent := 0.0
	for i, r := range rates {
		y := -float64(i)
		names[y] = display.Sanitize(r.Name, maxNameLen)
		low, high := outcome.Wilson(r.K, r.N)
		maxPercent = max(maxPercent, 100*high)
		points = append(points, plotter.XY{X: 100 * float64(r.K) / float64(max(r.N, 1)), Y: y})
		name := ""
		if i == 0 {
			name = "95 % interval"
		}
		fig.add(name, newLine(plotter.XYs{{X: 100 * low, Y: y}, {X: 100 * high, Y: y}}, display.LeaseColor, 0))
	}
	fig.add("share of runs", scatter{points, display.LeaseColor, false})
	fig.height = vg.Length(len(rates))*20 + 45
	fig.plot.Y.Min, fig.plot.Y.Max = -float64(len(rates))+0.5, 0.5
	const padding = "       " // wider than for numbers, in case another font is wider
	fig.plot.Y.Tick.Marker = axisLabels{labels: names, suffix: padding, scale: fig.plot.Y.Scale}
	setLinearScale(&fig.plot.X, 0, maxPercent, minXLength/2)
	return fig
}

// Limits are a lock's theoretical limits. The lock never breaks below AlwaysSafe and always breaks
// above AlwaysBreaks. Nominal is the limit if messages take no time. If smaller values are worse, the
// directions are reversed and AlwaysBreaks is less than AlwaysSafe.
type Limits struct{ Nominal, AlwaysSafe, AlwaysBreaks float64 }

// ThresholdFigure plots how often a lock failed at each value of x and, unless limit is nil, its
// theoretical limits. values must be sorted, and rates[i] is the rate at values[i]; the rates' names
// are not shown. ThresholdFigure omits values far from the limits. If integral is set, x is a whole
// number of things and the limit is exact.
func ThresholdFigure(name, title, x string, integral bool, values []float64, rates []Rate, limit *Limits) *Figure {
	if len(values) == 0 {
		return nil
	}
	fig := newFigure(name, title, x, "share of violated runs (%)")
	fig.Caption = "Share of violated runs at each tested value, with the theoretical limits. Between the limits, the outcome depends on timing."
	from, to := values[0], values[len(values)-1]
	if limit != nil && !integral {
		rangeWidth := math.Abs(limit.AlwaysBreaks - limit.AlwaysSafe)
		from, to = max(from, min(limit.AlwaysSafe, limit.AlwaysBreaks)-rangeWidth), min(to, max(limit.AlwaysSafe, limit.AlwaysBreaks)+rangeWidth)
	}
	var points plotter.XYs
	for i, v := range values {
		if from <= v && v <= to {
			points = append(points, plotter.XY{X: v, Y: 100 * float64(rates[i].K) / float64(max(rates[i].N, 1))})
		}
	}
	if len(points) == 0 {
		return nil
	}
	if limit != nil {
		at := func(v float64) plotter.XYs { return plotter.XYs{{X: v, Y: 0}, {X: v, Y: 100}} }
		fig.add("nominal", newLine(at(limit.Nominal), display.FaintColor, 2))
		if !integral {
			fig.add("always safe", newLine(at(limit.AlwaysSafe), display.LeaseColor, 1))
			fig.add("always breaks", newLine(at(limit.AlwaysBreaks), display.AlarmColor, 3))
		}
	}
	if !integral {
		fig.add("", newLine(points, display.InkColor, 0))
	}
	fig.add("measured", scatter{points, display.InkColor, false})
	p := fig.plot
	p.Y.Min, p.Y.Max = 0, 100
	labelAxis(&p.Y, multiples(25, 0, 100), minYLength)
	p.X.Min, p.X.Max, p.X.Padding = from, max(to, from+1e-9), 0
	step := roundUp((p.X.Max - p.X.Min) / 10)
	if integral {
		step = max(1, step)
	}
	labelAxis(&p.X, multiples(step, from, to), minXLength)
	return fig
}
