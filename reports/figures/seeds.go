package figures

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockpick/reports/palette"
	"lockpick/scenarios/outcome"
)

// Strip draws which of many seeds came out how, a cell for each, row by row: what
// was not as expected has a mark of its own beside its colour. states are
// outcome.States, of the seeds from first on.
func Strip(scenario string, first uint64, states []string) (*Figure, error) {
	if len(states) == 0 {
		return nil, nil
	}
	row := 50
	for row < 200 && len(states) > 12*row {
		row += 50
	}
	rows := (len(states) + row - 1) / row
	fig := figure("seeds", fmt.Sprintf("%s: %d seeds", scenario, len(states)), "seed, from the first of its row on", "first seed of the row")
	fig.Caption = "Each cell is a seed, in rows. " + legend
	fig.height = max(height/2, vg.Length(rows)*vg.Points(9)+vg.Points(70))
	fig.between(0, float64(row))
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

const legend = "Plain: as expected; ×: not as expected; ?: undecided; –: failed or skipped."

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
		case outcome.AsExpected:
		case outcome.Unexpected:
			hex, mark = palette.Alarm, "×"
		case outcome.Undecided:
			hex, mark = palette.Stall, "?"
		default:
			hex, mark = palette.Other, "–"
		}
		c.FillPolygon(hue(hex, 70), []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
		if mark != "" {
			c.FillText(words, vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}, mark)
		}
	}
}

// Rate is how often something came in many runs, at a value of a parameter, or
// under a name where the parameter is no number.
type Rate struct {
	Name string
	X    float64
	K, N int
}

// Rates draws how often something came against a parameter, with the 95 % interval
// of Wilson's score (outcome.Wilson). Where the rates have names, they stand in
// their order; otherwise by their X.
func Rates(title, parameter string, rates []Rate) (*Figure, error) {
	if len(rates) == 0 {
		return nil, nil
	}
	fig := figure("rates", title, parameter, "share of runs")
	fig.Caption = "How often, with the 95 % interval of Wilson's score: where a mark stands at 0 it never came, and the line says how often it may come all the same."
	marks, named := ticks{}, false
	var points measured
	low, high := math.Inf(1), math.Inf(-1)
	for i, r := range rates {
		x := r.X
		if r.Name != "" {
			named, x = true, float64(i)
			marks[x] = r.Name
		}
		from, to := outcome.Wilson(r.K, r.N)
		share := 0.0
		if r.N > 0 {
			share = float64(r.K) / float64(r.N)
		}
		points.XYs = append(points.XYs, plotter.XY{X: x, Y: share})
		points.YErrors = append(points.YErrors, struct{ Low, High float64 }{share - from, to - share})
		low, high = min(low, x), max(high, x)
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return nil, fmt.Errorf("draw rates: %w", err)
	}
	bars.Color, bars.Width = hue(palette.Lease, 100), vg.Points(1.2)
	fig.plot.Add(bars, dotted(points.XYs, palette.Lease, draw.CircleGlyph{}))
	room := max(0.05*(high-low), 0.5)
	if !named && high > low {
		room = 0.05 * (high - low)
	}
	fig.between(low-room, high+room)
	if named {
		fig.plot.X.Tick.Marker = marks
	}
	fig.plot.Y.Min = 0
	fig.plot.Y.Tick.Marker = shares{}
	return fig, fig.draw()
}

type measured struct {
	plotter.XYs
	plotter.YErrors
}

// shares is plot's own choice of ticks, in percent.
type shares struct{}

func (shares) Ticks(from, to float64) []plot.Tick {
	out := plot.DefaultTicks{}.Ticks(from, to)
	for i := range out {
		if out[i].Label != "" {
			out[i].Label = fmt.Sprintf("%.4g %%", 100*out[i].Value)
		}
	}
	return out
}
