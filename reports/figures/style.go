package figures

import (
	"cmp"
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

	"lockpick/reports/display"
)

// tint is a colour of the palette, and how much of it there is. It rounds up, since plot's
// SVG rounds down: so what comes out there is the palette's.
type tint struct{ red, green, blue, alpha uint32 }

func (t tint) RGBA() (r, g, b, a uint32) {
	weigh := func(c uint32) uint32 { return (c*t.alpha + 254) / 255 }
	return weigh(t.red), weigh(t.green), weigh(t.blue), t.alpha
}

// hue is a colour of the palette; one of a hundred is opaque.
func hue(hex string, percent uint32) color.Color {
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil {
		panic(err) // a constant of ours
	}
	return tint{uint32(n >> 16), uint32(n >> 8 & 255), uint32(n & 255), math.MaxUint16 * percent / 100}
}

// style is that of a text below and to the right of where it stands.
func style(size vg.Length, hex string) text.Style {
	return text.Style{Color: hue(hex, 100), Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size), YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
}

// restyle changes the font of a text, and leaves where it stands.
func restyle(t *text.Style, size vg.Length, hex string) {
	x, y := t.XAlign, t.YAlign
	*t = style(size, hex)
	t.XAlign, t.YAlign = x, y
}

// figure is a drawing with axes: what they count, with its unit.
func figure(name, title, x, y string) *Figure {
	p := plot.New()
	p.BackgroundColor = nil
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		restyle(&a.Label.TextStyle, labelSize, display.Faint)
		restyle(&a.Tick.Label, tickSize, display.Ink)
		a.Color, a.Tick.Color, a.Tick.Length = hue(display.Faint, 100), hue(display.Faint, 100), 5
	}
	p.X.Label.Text, p.X.Label.Padding = x, 2
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Horizontal.Width = hue(display.Line, 60), 0.5
	lines.Vertical.Width = 0
	p.Add(lines)
	return &Figure{Name: name, Title: title, counts: y, plot: p, height: height}
}

// overTime is a figure whose x is the time of the run, with lanes of its faults.
func overTime(m *readings, name, title, y string) *Figure {
	fig := figure(name, title, "time (s)", y)
	fig.upTo(m.end)
	fig.lanes = m.lanes
	fig.plot.X.Padding = fig.deep()
	return fig
}

// upTo sets the span of the x axis, from 0 on.
func (f *Figure) upTo(end float64) {
	a := &f.plot.X
	a.Min, a.Max, a.Padding = 0, max(end, 1e-3), 0
	mark(a, every(round(a.Max/10), 0, a.Max), across)
}

// add adds what is drawn, and to the legend if it has a name there.
func (f *Figure) add(name string, p plot.Plotter) {
	f.plot.Add(p)
	if shown, ok := p.(plot.Thumbnailer); ok && name != "" {
		f.legend = append(f.legend, sample{name, shown})
	}
}

// line is a line of a colour and a dash, so that lines differ in both.
func line(points plotter.XYs, hex string, dash int) *plotter.Line {
	l, err := plotter.NewLine(points)
	if err != nil {
		panic(err) // only for points that are no numbers, which instants of a history aren't
	}
	l.Color, l.Width = hue(hex, 100), 1.6
	l.Dashes = [][]vg.Length{nil, {5, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}}[dash%4]
	return l
}

// dots are discs or crosses of a colour, drawn at once: those that no pixel is between
// are one.
type dots struct {
	plotter.XYs
	hex   string
	cross bool
}

func (d dots) DataRange() (xmin, xmax, ymin, ymax float64) { return plotter.XYRange(d.XYs) }

func (d dots) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var at []vg.Point
	seen := map[[2]int]bool{}
	for _, q := range d.XYs {
		point := vg.Point{X: x(q.X), Y: y(q.Y)}
		if pixel := [2]int{int(point.X), int(point.Y)}; !seen[pixel] {
			seen[pixel] = true
			at = append(at, point)
		}
	}
	d.drawAt(&c, at...)
}

// Thumbnail draws one, for the legend.
func (d dots) Thumbnail(c *draw.Canvas) { d.drawAt(c, c.Center()) }

func (d dots) drawAt(c *draw.Canvas, points ...vg.Point) {
	const r = 2.6 * pixel
	var path vg.Path
	for _, p := range points {
		if !d.cross {
			path.Move(vg.Point{X: p.X + r, Y: p.Y})
			path.Arc(p, r, 0, 2*math.Pi)
			continue
		}
		for _, up := range []vg.Length{r, -r} {
			path.Move(vg.Point{X: p.X - r, Y: p.Y - up})
			path.Line(vg.Point{X: p.X + r, Y: p.Y + up})
		}
	}
	c.SetLineStyle(draw.LineStyle{Color: hue(d.hex, 100), Width: 1.2})
	if d.cross {
		c.Stroke(path)
		return
	}
	c.Fill(path)
}

// round is the next of 1, 2 and 5 times a power of ten.
func round(x float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if x <= m*decade*(1+1e-9) {
			return m * decade
		}
	}
	return 10 * decade
}

// every has a label for each multiple of a step.
func every(step, from, to float64) map[float64]string {
	labels := map[float64]string{}
	for n := int(math.Ceil(from/step - 1e-9)); n <= int(math.Floor(to/step+1e-9)); n++ {
		x := float64(n) * step
		labels[x] = strconv.FormatFloat(x, 'g', 6, 64)
	}
	return labels
}

// mark labels the marks of an axis that is about so long.
func mark(a *plot.Axis, labels map[float64]string, long vg.Length) {
	room, after := tickSize, " " // between an upright axis and its labels
	if long != upright {         // labels lie beside each other
		after = ""
		for x, l := range labels {
			if a.Min <= x && x <= a.Max {
				room = max(room, a.Tick.Label.Width(l))
			}
		}
	}
	a.Tick.Marker = marks{labels, after, a.Scale, float64(1.3 * room / long)}
}

// marks are labels by what they stand at, in a part of the axis that each takes. Of those
// that would lie over each other, the one nearer to 0 stays.
type marks struct {
	labels map[float64]string
	after  string
	scale  plot.Normalizer
	room   float64
}

func (m marks) Ticks(from, to float64) (out []plot.Tick) {
	at := func(x float64) float64 { return m.scale.Normalize(from, to, x) }
	for _, x := range slices.SortedFunc(maps.Keys(m.labels), func(a, b float64) int {
		return cmp.Or(cmp.Compare(math.Abs(a), math.Abs(b)), cmp.Compare(b, a))
	}) {
		over := func(t plot.Tick) bool { return math.Abs(at(t.Value)-at(x)) < m.room }
		if from <= x && x <= to && !slices.ContainsFunc(out, over) {
			out = append(out, plot.Tick{Value: x, Label: m.labels[x] + m.after})
		}
	}
	return out
}
