package figures

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockpick/reports/palette"
	"lockpick/reports/words"
	"lockpick/scenarios/outcome"
)

// Harm is the state of a seed that violated a property, which was expected or at
// least not excluded.
const Harm = "violated, as may be"

// Strip draws which of many seeds came out how, a cell for each, row by row: what
// was not as expected has a mark of its own beside its colour. states are
// outcome.States or Harm, of the seeds from first on; "" is a seed that was not run.
func Strip(scenario string, first uint64, states []string) (*Figure, error) {
	if len(states) == 0 {
		return nil, nil
	}
	row := 50
	for row < 200 && len(states) > 12*row {
		row += 50
	}
	rows := (len(states) + row - 1) / row
	fig := figure("seeds", fmt.Sprintf("%s: %d seeds", scenario, len(states)), "seed, from the first of its row on", "row")
	fig.Caption = "Each cell is a seed, in rows. Plain: as expected; v: a property was violated, as may be; ×: not as expected; ?: undecided; –: failed; empty: not run."
	fig.height = max(height/2, vg.Length(rows)*vg.Points(9)+vg.Points(70))
	fig.upTo(float64(row))
	fig.plot.Y.Min, fig.plot.Y.Max = -float64(rows), 0
	marks := ticks{}
	for r := 0; r < rows; r += max(1, rows/12) {
		marks[-float64(r)-0.5] = fmt.Sprint(first + uint64(r*row))
	}
	fig.plot.Y.Tick.Marker = marks
	fig.plot.Y.Tick.Length = 0
	fig.plot.Add(strip{states: states, row: row})
	return fig, fig.draw()
}

type strip struct {
	states []string
	row    int
}

func (s strip) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	words := style(6)
	words.XAlign, words.YAlign = draw.XCenter, draw.YCenter
	for i, state := range s.states {
		left, top := float64(i%s.row), -float64(i/s.row)
		r := vg.Rectangle{Min: vg.Point{X: x(left) + 0.4, Y: y(top-1) + 0.4}, Max: vg.Point{X: x(left+1) - 0.4, Y: y(top) - 0.4}}
		hex, mark := palette.Fine, ""
		switch state {
		case "":
			continue
		case outcome.AsExpected:
		case Harm:
			hex, mark = palette.Stall, "v"
		case outcome.Unexpected:
			hex, mark = palette.Alarm, "×"
		case outcome.Undecided:
			hex, mark = palette.Clock, "?"
		default:
			hex, mark = palette.Other, "–"
		}
		c.FillPolygon(hue(hex, 70), []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
		if mark != "" {
			c.FillText(words, vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}, mark)
		}
	}
}

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
