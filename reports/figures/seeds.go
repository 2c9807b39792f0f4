package figures

import (
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// Rate is how often something came in many runs of a name.
type Rate struct {
	Name string
	K, N int
}

// longestName leaves room for the figure.
const longestName = 40

// Rates draws how often something came, a name below the other, with the 95 % interval
// of Wilson's score (outcome.Wilson); nil: of nothing.
func Rates(title string, rates []Rate) *Figure {
	if len(rates) == 0 {
		return nil
	}
	fig := figure("rates", title, "share of runs (%)", "")
	fig.Caption = "How often, with the 95 % interval of Wilson's score: where a mark stands at 0 it never came, and the line says how often it may come all the same."
	names := map[float64]string{}
	var points plotter.XYs
	most := 0.0
	for i, r := range rates {
		y := -float64(i)
		names[y] = display.Visible(r.Name, longestName)
		low, high := outcome.Wilson(r.K, r.N)
		most = max(most, 100*high)
		points = append(points, plotter.XY{X: 100 * float64(r.K) / float64(max(r.N, 1)), Y: y})
		name := ""
		if i == 0 {
			name = "95 % interval"
		}
		fig.add(name, line(plotter.XYs{{X: 100 * low, Y: y}, {X: 100 * high, Y: y}}, display.Lease, 0))
	}
	fig.add("share of runs", dots{points, display.Lease, false})
	fig.height = vg.Length(len(rates))*20 + 45
	fig.plot.Y.Min, fig.plot.Y.Max = -float64(len(rates))+0.5, 0.5
	const after = "       " // a longer one than of numbers: so much wider may another font be
	fig.plot.Y.Tick.Marker = marks{labels: names, after: after, scale: fig.plot.Y.Scale}
	linear(&fig.plot.X, 0, most, across/2)
	return fig
}
