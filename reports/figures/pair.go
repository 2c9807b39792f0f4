package figures

import (
	"math"

	"gonum.org/v1/plot/plotter"

	"lockpick/reports/palette"
)

// Pair draws the bound of one fault, which y counts, for each value of another, which x counts:
// the first value that broke and where it had to. nil is a bound that was not met, or that arithmetic
// does not know.
func Pair(name, title, x, y string, values []float64, broke []*float64, must []*Reckoning) *Figure {
	var measured, sum, safe, certain plotter.XYs
	low, high := math.Inf(1), math.Inf(-1)
	to := func(list plotter.XYs, v, at float64) plotter.XYs {
		low, high = min(low, at), max(high, at)
		return append(list, plotter.XY{X: v, Y: at})
	}
	for i, v := range values {
		if b := broke[i]; b != nil {
			measured = to(measured, v, *b)
		}
		if m := must[i]; m != nil {
			sum, safe, certain = to(sum, v, m.Sum), to(safe, v, m.Safe), to(certain, v, m.Certain)
		}
	}
	if len(measured) == 0 || len(values) < 2 {
		return nil
	}
	fig := figure(name, title, x, y)
	fig.Caption = "The first value that broke it, for each value of the other fault that was tried, and between which values arithmetic says that luck decides."
	if len(sum) > 0 {
		fig.add("sum", line(sum, palette.Faint, 2))
		fig.add("limit of safe", line(safe, palette.Lease, 1))
		fig.add("limit of luck", line(certain, palette.Alarm, 3))
	}
	fig.add("measured", dots{measured, palette.Ink, false})
	p := fig.plot
	if low > 0 && low < 0.9*high { // else nothing would be seen between the lines
		low = 0
	}
	linear(&p.Y, low, high, upright)
	p.X.Min, p.X.Max, p.X.Padding = values[0], values[len(values)-1], 0
	mark(&p.X, every(round((p.X.Max-p.X.Min)/10), p.X.Min, p.X.Max), across)
	return fig
}
