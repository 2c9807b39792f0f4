package figures

import (
	"math"

	"gonum.org/v1/plot/plotter"

	"lockpick/reports/display"
)

// Reckoning is where arithmetic says that something breaks: never before Safe, and always after
// Certain; Sum is what it comes to if messages take no time. Where less is worse, Certain is
// the smaller one.
type Reckoning struct{ Sum, Safe, Certain float64 }

// Edge draws how often something broke (rates, whose names are not shown) at each value of what x
// counts, which are in order, and where it had to; nil: nowhere. Of values far from there it
// draws none. whole says that x counts things, of which there is no half: arithmetic is exact then.
func Edge(name, title, x string, whole bool, values []float64, rates []Rate, must *Reckoning) *Figure {
	if len(values) == 0 {
		return nil
	}
	fig := figure(name, title, x, "share of runs that break it (%)")
	fig.Caption = "How often it broke at each value that was tried, and between which values arithmetic says that luck decides."
	from, to := values[0], values[len(values)-1]
	if must != nil && !whole {
		wide := math.Abs(must.Certain - must.Safe)
		from, to = max(from, min(must.Safe, must.Certain)-wide), min(to, max(must.Safe, must.Certain)+wide)
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
	if must != nil {
		at := func(v float64) plotter.XYs { return plotter.XYs{{X: v, Y: 0}, {X: v, Y: 100}} }
		fig.add("sum", line(at(must.Sum), display.Faint, 2))
		if !whole {
			fig.add("limit of safe", line(at(must.Safe), display.Lease, 1))
			fig.add("limit of luck", line(at(must.Certain), display.Alarm, 3))
		}
	}
	if !whole {
		fig.add("", line(points, display.Ink, 0))
	}
	fig.add("measured", dots{points, display.Ink, false})
	p := fig.plot
	p.Y.Min, p.Y.Max = 0, 100
	mark(&p.Y, every(25, 0, 100), upright)
	p.X.Min, p.X.Max, p.X.Padding = from, max(to, from+1e-9), 0
	apart := round((p.X.Max - p.X.Min) / 10)
	if whole {
		apart = max(1, apart)
	}
	mark(&p.X, every(apart, from, to), across)
	return fig
}
