package figures

import (
	"fmt"
	"math"

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
	named := rates[0].Name != ""
	fig := figure("rates", title, parameter, "share of runs")
	fig.Caption = "How often, with the 95 % interval of Wilson's score: where a mark stands at 0 it never came, and the line says how often it may come all the same."
	marks := ticks{}
	var points measured
	low, high := math.Inf(1), math.Inf(-1)
	for i, r := range rates {
		x := r.X
		if named { // from the top
			x = -float64(i)
			marks[x] = words.Fit(r.Name, longestName)
		}
		from, to := outcome.Wilson(r.K, r.N)
		share := 0.0
		if r.N > 0 {
			share = float64(r.K) / float64(r.N)
		}
		points.at = append(points.at, plotter.XY{X: x, Y: share})
		points.off = append(points.off, struct{ Low, High float64 }{share - from, to - share})
		low, high = min(low, x), max(high, x)
	}
	if named {
		return fig, fig.byName(points, marks)
	}
	bars, err := plotter.NewYErrorBars(points.up())
	if err != nil {
		return nil, fmt.Errorf("draw rates: %w", err)
	}
	bars.Color, bars.Width = hue(palette.Lease, 100), vg.Points(1.2)
	fig.plot.Add(bars, dotted(points.at, palette.Lease, draw.CircleGlyph{}))
	room := 0.5
	if high > low {
		room = 0.05 * (high - low)
	}
	fig.between(low-room, high+room)
	fig.plot.Y.Min = 0
	fig.plot.Y.Tick.Marker = shares{}
	return fig, fig.draw()
}

// longestName leaves room for the figure.
const longestName = 40

// byName draws the shares to the right, with a name at each.
func (f *Figure) byName(points measured, names ticks) error {
	flat := points.flat()
	bars, err := plotter.NewXErrorBars(flat)
	if err != nil {
		return fmt.Errorf("draw rates: %w", err)
	}
	bars.Color, bars.Width = hue(palette.Lease, 100), vg.Points(1.2)
	f.plot.X.Label.Text, f.plot.Y.Label.Text = "share of runs", ""
	f.plot.Add(bars, dotted(flat.XYs, palette.Lease, draw.CircleGlyph{}))
	f.height = vg.Length(len(points.at))*vg.Points(18) + vg.Points(80)
	f.plot.X.Min, f.plot.X.Max = 0, max(f.plot.X.Max*1.05, 0.01)
	f.plot.X.Tick.Marker = shares{}
	f.plot.Y.Min, f.plot.Y.Max = -float64(len(points.at))+0.5, 0.5
	f.plot.Y.Tick.Marker = names
	return f.draw()
}

// measured is shares, and how far their intervals reach below and above them.
type measured struct {
	at  plotter.XYs
	off plotter.YErrors
}

type upright struct {
	plotter.XYs
	plotter.YErrors
}

type level struct {
	plotter.XYs
	plotter.XErrors
}

func (m measured) up() upright { return upright{m.at, m.off} }

func (m measured) flat() level {
	l := level{XErrors: plotter.XErrors(m.off)}
	for _, p := range m.at {
		l.XYs = append(l.XYs, plotter.XY{X: p.Y, Y: p.X})
	}
	return l
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
