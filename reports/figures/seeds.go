package figures

import (
	"fmt"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockpick/reports/palette"
	"lockpick/reports/words"
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
// of Wilson's score (outcome.Wilson).
func Rates(title string, rates []Rate) (*Figure, error) {
	if len(rates) == 0 {
		return nil, nil
	}
	fig := figure("rates", title, "share of runs", "")
	fig.Caption = "How often, with the 95 % interval of Wilson's score: where a mark stands at 0 it never came, and the line says how often it may come all the same."
	names := ticks{}
	var points struct {
		plotter.XYs
		plotter.XErrors
	}
	for i, r := range rates {
		y := -float64(i)
		names[y] = words.Fit(r.Name, longestName)
		share := float64(r.K) / float64(max(r.N, 1))
		low, high := outcome.Wilson(r.K, r.N)
		points.XYs = append(points.XYs, plotter.XY{X: share, Y: y})
		points.XErrors = append(points.XErrors, struct{ Low, High float64 }{share - low, high - share})
	}
	bars, err := plotter.NewXErrorBars(points)
	if err != nil {
		return nil, fmt.Errorf("draw rates: %w", err)
	}
	bars.Color, bars.Width = hue(palette.Lease, 100), vg.Points(1.2)
	fig.plot.Add(bars, dotted(points.XYs, palette.Lease, draw.CircleGlyph{}))
	fig.height = vg.Length(len(rates))*vg.Points(18) + vg.Points(80)
	fig.plot.X.Min, fig.plot.X.Max = 0, max(fig.plot.X.Max*1.05, 0.01)
	fig.plot.X.Tick.Marker = relabelled(func(x float64) string { return fmt.Sprintf("%.4g %%", 100*x) })
	fig.plot.Y.Min, fig.plot.Y.Max = -float64(len(rates))+0.5, 0.5
	fig.plot.Y.Tick.Marker = names
	return fig, fig.draw()
}
