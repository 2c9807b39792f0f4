package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockpick/reports/palette"
)

// hue is a colour of the palette; one of a hundred is opaque.
func hue(hex string, percent uint32) color.Color {
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil {
		panic(err) // a constant of ours
	}
	return color.NRGBA{R: uint8(n >> 16), G: uint8(n >> 8), B: uint8(n), A: uint8(255 * percent / 100)}
}

var (
	ink   = color.Gray{Y: 0x1b}
	faint = color.Gray{Y: 0x5f}
	grid  = color.Gray{Y: 0xdd}
)

func style(size vg.Length) text.Style {
	return text.Style{Color: ink, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size), Handler: plot.DefaultTextHandler}
}

// restyle changes the font of a text, and leaves where it stands.
func restyle(t *text.Style, size vg.Length) {
	x, y := t.XAlign, t.YAlign
	*t = style(size)
	t.XAlign, t.YAlign = x, y
}

// figure is a drawing with axes, of which x is seconds of the run.
func figure(name, title, x, y string) *Figure {
	p := plot.New()
	p.Title.Text, p.Title.Padding = title, vg.Points(6)
	restyle(&p.Title.TextStyle, 11)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		restyle(&a.Label.TextStyle, 9)
		restyle(&a.Tick.Label, 8)
		a.Color, a.Tick.Color = faint, faint
	}
	p.X.Label.Text, p.Y.Label.Text = x, y
	restyle(&p.Legend.TextStyle, 8)
	p.Legend.Top = true
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Vertical.Color = grid, grid
	lines.Vertical.Width = 0
	p.Add(lines)
	return &Figure{Name: name, Title: title, plot: p, height: height}
}

// upTo sets the span of the x axis, from 0 on.
func (f *Figure) upTo(end float64) {
	f.plot.X.Min, f.plot.X.Max = 0, max(end, 1e-3)
	f.plot.X.Padding = 0
	f.plot.X.Tick.Marker = every(round(end / 10))
}

// every marks each multiple of a step.
type every float64

func (e every) Ticks(from, to float64) []plot.Tick {
	var out []plot.Tick
	for n := math.Ceil(from / float64(e)); n*float64(e) <= to; n++ {
		out = append(out, plot.Tick{Value: n * float64(e), Label: strconv.FormatFloat(n*float64(e), 'g', 6, 64)})
	}
	return out
}

// line is a line of a colour and a dash, so that lines differ in both.
func line(points plotter.XYs, hex string, dash int) *plotter.Line {
	l, err := plotter.NewLine(points)
	if err != nil {
		panic(err) // only for points that are no numbers, which instants of a history aren't
	}
	l.Color, l.Width = hue(hex, 100), vg.Points(1.4)
	l.Dashes = [][]vg.Length{nil, {5, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}}[dash%4]
	return l
}

// dots are points of a colour and a shape.
func dotted(points plotter.XYs, hex string, shape draw.GlyphDrawer) *plotter.Scatter {
	s, err := plotter.NewScatter(points)
	if err != nil {
		panic(err) // as in line
	}
	s.GlyphStyle = draw.GlyphStyle{Color: hue(hex, 100), Radius: vg.Points(2.4), Shape: shape}
	return s
}

// bands hatches the spans in which faults were in force, with a label where there
// is room.
type bands []span

func (b bands) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	words := style(7)
	words.Color = hue("#7d5600", 100)
	words.YAlign = draw.YTop
	for _, s := range b.united() {
		from, to := max(x(s.from), c.Min.X), min(x(s.to), c.Max.X)
		if from <= to {
			hatch(c, vg.Rectangle{Min: vg.Point{X: from, Y: c.Min.Y}, Max: vg.Point{X: max(to, from+vg.Points(0.8)), Y: c.Max.Y}}, palette.Stall)
		}
	}
	free := c.Min.X // up to where labels stand
	for _, s := range b {
		from, w := x(s.from), words.Width(s.label)
		if from < free || from+w+4 > c.Max.X {
			continue
		}
		top, bottom := c.Max.Y-1, c.Max.Y-10
		c.FillPolygon(color.NRGBA{R: 255, G: 255, B: 255, A: 215}, []vg.Point{{X: from, Y: top}, {X: from + w + 4, Y: top}, {X: from + w + 4, Y: bottom}, {X: from, Y: bottom}})
		c.FillText(words, vg.Point{X: from + 2, Y: top - 1}, s.label)
		free = from + w + 6
	}
}

// united is the spans in which at least one fault was in force, in their order.
func (b bands) united() []span {
	all := slices.Clone(b)
	slices.SortStableFunc(all, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	var out []span
	for _, s := range all {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// hatch fills a rectangle with a light colour and slanted lines.
func hatch(c draw.Canvas, r vg.Rectangle, hex string) {
	c.FillPolygon(hue(hex, 14), []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
	tall := r.Max.Y - r.Min.Y
	slant := draw.LineStyle{Color: hue(hex, 45), Width: vg.Points(0.5)}
	const step = 6
	for x := vg.Length(math.Floor(float64((r.Min.X-tall)/step))) * step; x < r.Max.X; x += step {
		// The line rises from (x, bottom) to (x+tall, top).
		from, to := max(x, r.Min.X), min(x+tall, r.Max.X)
		if from < to {
			c.StrokeLine2(slant, from, r.Min.Y+from-x, to, r.Min.Y+to-x)
		}
	}
}

// ticks marks the given values, with the words that they have.
type ticks map[float64]string

func (t ticks) Ticks(from, to float64) []plot.Tick {
	var out []plot.Tick
	for _, x := range slices.Sorted(maps.Keys(t)) {
		if from <= x && x <= to {
			out = append(out, plot.Tick{Value: x, Label: t[x]})
		}
	}
	return out
}

// seconds are a span in the unit that suits it. It differs from words.Span, for ticks
// are round numbers of any size, and what stands at an axis is short.
func seconds(s float64) string {
	switch a := math.Abs(s); {
	case a == 0:
		return "0"
	case a < 1e-3:
		return fmt.Sprintf("%.3g µs", s*1e6)
	case a < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case a < 1000:
		return fmt.Sprintf("%.3g s", s)
	}
	return fmt.Sprintf("%.3g h", s/3600)
}
