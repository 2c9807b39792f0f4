// Package figures plots measurements: for one run, the latency and rate of acquires, the number of
// simultaneous holders and the clock errors; for many seeds, how often a property was violated.
//
// A Figure can be rendered as part of a page, as an SVG file or as a PNG file:
//
//	title
//	label and unit of the y axis
//	 2 ┤   ┌─┐
//	 1 ┤ ┌─┘ └──
//	 0 ┤─┘
//	 pause ▨▨    ▨   a lane for each kind of fault
//	   cut   ▧▧▧
//	   ┴──┴──┴──┴
//	    time (s)
//	── a line   × a dot
//
// A figure depends only on the history or the given rates, so the same run produces the same bytes.
//
// The sequence diagram and the timeline have their own packages. The checker computes a verdict's
// numbers.
package figures

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"image/color"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

// Figure is a plot with a title, a legend and a caption.
type Figure struct {
	Name    string // file name without extension
	Title   string // a single line
	Caption string // a sentence or two of explanation

	plot   *plot.Plot
	yLabel string    // label of the y axis, including the unit
	height vg.Length // of the plot and its x axis, without lanes
	lanes  []lane
	legend []legendEntry
}

// FromHistory returns a run's figures. It omits figures from which a reader learns nothing: empty ones,
// the number of holders if there was never more than one, and statistics of few acquires, which the
// figure of the latencies shows one by one.
func FromHistory(h *history.History) []Figure {
	if h == nil || len(h.Events) == 0 {
		return nil
	}
	m := newMeasurements(h)
	_, maxHolders := holderSteps(m)
	fewAcquires := len(m.acquires) < minAcquiresForStatistics
	return slices.DeleteFunc(m.figures(), func(f Figure) bool {
		return f.Name == "holders" && maxHolders < 2 || (f.Name == "quantiles" || f.Name == "rate") && fewAcquires
	})
}

// minAcquiresForStatistics is the number of acquires required to show their quantiles and their rate.
const minAcquiresForStatistics = 50

// figures returns all figures that are not empty.
func (m *measurements) figures() []Figure {
	var all []Figure
	for _, draw := range []func(*measurements) *Figure{holderFigure, latencyFigure, quantileFigure, acquireRateFigure, clockFigure} {
		if fig := draw(m); fig != nil {
			all = append(all, *fig)
		}
	}
	return all
}

var (
	// fontStyle matches the font that plot repeats for each string. The svg element sets it once instead.
	fontStyle = regexp.MustCompile(`font-family:[^;"]*;font-variant:normal;font-weight:normal;font-style:normal;`)
	// paintColor matches a color in plot's output. Plot itself cannot use CSS variables.
	paintColor = regexp.MustCompile(`(fill|stroke):#[0-9A-F]{6}`)
	// pathData matches a mark's path, and extraDigits the decimal places of a coordinate that make no
	// visible difference.
	pathData, extraDigits = regexp.MustCompile(` d="[^"]*"`), regexp.MustCompile(`(\.\d)\d+`)
)

// Inline renders the figure as an svg element for a page that defines the palette's CSS variables.
// All text is escaped.
func (f Figure) Inline() []byte {
	c := vgsvg.New(width, f.totalHeight())
	f.draw(c)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		panic(err) // writing to memory cannot fail
	}
	_, body, _ := bytes.Cut(b.Bytes(), []byte("xlink\">\n"))
	body = fontStyle.ReplaceAllLiteral(body, nil)
	body = pathData.ReplaceAllFunc(body, func(d []byte) []byte { return extraDigits.ReplaceAll(d, []byte("$1")) })
	body = paintColor.ReplaceAllFunc(body, func(old []byte) []byte {
		property, hex, _ := strings.Cut(strings.ToLower(string(old)), ":")
		return []byte(property + ":" + cssVariables[hex])
	})
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" class="fig" role="img" aria-label="%s" width="%g" height="%g" viewBox="0 0 %[2]g %[3]g" font-family="'Liberation Sans',Arial,Helvetica,sans-serif">`+"\n%[4]s",
		html.EscapeString(f.Title), width, f.totalHeight(), body)
}

var cssVariables = display.ColorVariables()

// SVG renders the figure as a standalone SVG file, including the palette.
func (f Figure) SVG() []byte {
	return bytes.Replace(f.Inline(), []byte(">\n"), []byte(">\n<style>"+display.ColorsCSS+"</style>\n"), 1)
}

// PNG renders the figure as a PNG image at twice the size, for papers and slides. It takes about ten
// times as long as SVG.
func (f Figure) PNG() ([]byte, error) {
	const perInch = 2 * vg.Inch / pixel
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, f.totalHeight()), vgimg.UseDPI(int(perInch)))}
	f.draw(c)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw figure %s: %w", f.Name, err)
	}
	return b.Bytes(), nil
}

// measurements is the input for a run's figures. Times and durations are in seconds.
type measurements struct {
	end          float64
	acquires     []acquire
	lanes        []lane // of faults
	beliefs      []facts.Window
	clockChanges []facts.ClockChange
}

// acquire is an acquire call that returned.
type acquire struct {
	at, duration float64
	granted      bool
}

func newMeasurements(h *history.History) *measurements {
	f := facts.Read(h)
	m := &measurements{beliefs: f.AllWindows(), clockChanges: f.ClockChanges}
	for _, e := range f.Events {
		if e.Op != history.OpLog && e.Op != history.OpRun {
			m.end = max(m.end, history.Seconds(e.T))
		}
	}
	for s := range f.Sessions() {
		if call, ret := s.Acquire.Call, s.Acquire.Return; ret != nil {
			m.acquires = append(m.acquires, acquire{at: history.Seconds(ret.T), duration: history.Seconds(ret.T - call.T), granted: s.Granted()})
		}
	}
	slices.SortStableFunc(m.acquires, func(a, b acquire) int { return cmp.Compare(a.at, b.at) })
	m.lanes = lanesOf(f.Faults, m.end)
	return m
}

// A length of 1 is a pixel on a page. Pages never scale figures down, so that all text has at least
// the smallest readable size, 11 pixels.
const (
	pixel                  = vg.Length(1)
	width                  = 520 * pixel
	height                 = 205 * pixel              // of a plot and its x axis
	minYLength, minXLength = 160 * pixel, 390 * pixel // approximate minimum axis lengths
	margin                 = 8 * pixel
	rowHeight              = 16 * pixel // of a lane or a legend row

	titleSize, labelSize, tickSize = 14 * pixel, 12 * pixel, 11 * pixel

	sectionGap  = 9 * pixel  // above the lanes and above the legend
	entryGap    = 14 * pixel // between legend entries
	sampleWidth = 22 * pixel // of the line or mark in a legend entry
	laneNameGap = 12 * pixel // between a lane and its name
)

type legendEntry struct {
	name string
	plot.Thumbnailer
}

func (f *Figure) totalHeight() vg.Length {
	total := 2*margin + f.headHeight() + f.height + f.lanesHeight()
	if rows := f.legendRows(); len(rows) > 0 {
		total += sectionGap + vg.Length(len(rows))*rowHeight
	}
	return total
}

// headHeight returns the height of the title and the y axis label.
func (f *Figure) headHeight() vg.Length {
	if f.yLabel == "" {
		return titleSize + 10
	}
	return titleSize + labelSize + 14
}

func (f *Figure) lanesHeight() vg.Length {
	if len(f.lanes) == 0 {
		return 0
	}
	return sectionGap + vg.Length(len(f.lanes))*rowHeight
}

func (f *Figure) draw(on vg.CanvasSizer) {
	c := draw.New(on)
	c.SetColor(paletteColor(display.PaperColor, 100))
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	f.drawLegend(&c)

	c.FillText(textStyle(titleSize, display.InkColor), vg.Point{X: c.Min.X, Y: c.Max.Y}, f.Title)
	c.FillText(textStyle(labelSize, display.FaintColor), vg.Point{X: c.Min.X, Y: c.Max.Y - titleSize - 5}, f.yLabel)
	c.Max.Y -= f.headHeight()

	nameStyle := textStyle(tickSize, display.InkColor)
	room := vg.Length(0)
	for _, l := range f.lanes {
		room = max(room, nameStyle.Width(l.name)+laneNameGap)
	}
	if deficit := room - (f.plot.DataCanvas(c).Min.X - c.Min.X); deficit > 0 {
		c.Min.X += deficit
	}
	f.plot.Draw(c)
	data := f.plot.DataCanvas(c)
	x, _ := f.plot.Transforms(&data)
	for i, l := range f.lanes {
		data.Max.Y = data.Min.Y - sectionGap - vg.Length(i)*rowHeight
		l.draw(data, x)
	}
}

func (f *Figure) legendRows() (rows [][]legendEntry) {
	at := vg.Length(0)
	for _, s := range f.legend {
		entryWidth := s.width()
		if len(rows) == 0 || at+entryWidth > width-2*margin {
			rows, at = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], s)
		at += entryWidth
	}
	return rows
}

func (s legendEntry) width() vg.Length {
	return sampleWidth + 5 + textStyle(tickSize, display.InkColor).Width(s.name) + entryGap
}

// drawLegend draws the legend at the bottom and removes its space from the canvas.
func (f *Figure) drawLegend(c *draw.Canvas) {
	rows := f.legendRows()
	for i, entries := range rows {
		x, y := c.Min.X, c.Min.Y+vg.Length(len(rows)-i)*rowHeight
		for _, s := range entries {
			if s.Thumbnailer != nil {
				box := *c
				box.Rectangle = vg.Rectangle{Min: vg.Point{X: x, Y: y - rowHeight + 2}, Max: vg.Point{X: x + sampleWidth, Y: y - 4}}
				s.Thumbnail(&box)
			}
			c.FillText(textStyle(tickSize, display.InkColor), vg.Point{X: x + sampleWidth + 5, Y: y}, s.name)
			x += s.width()
		}
	}
	if len(rows) > 0 {
		c.Min.Y += sectionGap + vg.Length(len(rows))*rowHeight
	}
}

// alphaColor is a palette color with an opacity. It rounds up to make up for plot's SVG output, which
// rounds down, so that the result is exactly the palette's color.
type alphaColor struct{ red, green, blue, alpha uint32 }

func (t alphaColor) RGBA() (r, g, b, a uint32) {
	weigh := func(c uint32) uint32 { return (c*t.alpha + 254) / 255 }
	return weigh(t.red), weigh(t.green), weigh(t.blue), t.alpha
}

// paletteColor returns a palette color with an opacity in percent.
func paletteColor(hex string, percent uint32) color.Color {
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil {
		panic(err) // hex is a constant of package display
	}
	return alphaColor{uint32(n >> 16), uint32(n >> 8 & 255), uint32(n & 255), math.MaxUint16 * percent / 100}
}

// textStyle returns a style for text positioned by its upper left corner.
func textStyle(size vg.Length, hex string) text.Style {
	return text.Style{Color: paletteColor(hex, 100), Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size), YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
}

// restyle sets the font and color but leaves the alignment unchanged.
func restyle(t *text.Style, size vg.Length, hex string) {
	x, y := t.XAlign, t.YAlign
	*t = textStyle(size, hex)
	t.XAlign, t.YAlign = x, y
}

// newFigure returns an empty figure with labeled axes.
func newFigure(name, title, x, y string) *Figure {
	p := plot.New()
	p.BackgroundColor = nil
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		restyle(&a.Label.TextStyle, labelSize, display.FaintColor)
		restyle(&a.Tick.Label, tickSize, display.InkColor)
		a.Color, a.Tick.Color, a.Tick.Length = paletteColor(display.FaintColor, 100), paletteColor(display.FaintColor, 100), 5
	}
	p.X.Label.Text, p.X.Label.Padding = x, 2
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Horizontal.Width = paletteColor(display.LineColor, 60), 0.5
	lines.Vertical.Width = 0
	p.Add(lines)
	return &Figure{Name: name, Title: title, yLabel: y, plot: p, height: height}
}

// newTimeFigure returns a figure whose x axis is the time since the run started, with lanes for the
// run's faults.
func newTimeFigure(m *measurements, name, title, y string) *Figure {
	fig := newFigure(name, title, "time (s)", y)
	fig.setXMax(m.end)
	fig.lanes = m.lanes
	fig.plot.X.Padding = fig.lanesHeight()
	return fig
}

// setXMax sets the x axis range to [0, end].
func (f *Figure) setXMax(end float64) {
	a := &f.plot.X
	a.Min, a.Max, a.Padding = 0, max(end, 1e-3), 0
	labelAxis(a, multiples(roundUp(a.Max/10), 0, a.Max), minXLength)
}

// add adds p to the plot and, unless name is empty, to the legend.
func (f *Figure) add(name string, p plot.Plotter) {
	f.plot.Add(p)
	if thumbnailer, ok := p.(plot.Thumbnailer); ok && name != "" {
		f.legend = append(f.legend, legendEntry{name, thumbnailer})
	}
}

// newLine returns a line with the given color and one of four dash patterns.
func newLine(points plotter.XYs, hex string, dash int) *plotter.Line {
	l, err := plotter.NewLine(points)
	if err != nil {
		panic(err) // NaN or infinite points, which a history cannot contain
	}
	l.Color, l.Width = paletteColor(hex, 100), 1.6
	l.Dashes = [][]vg.Length{nil, {5, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}}[dash%4]
	return l
}

// scatter draws discs or crosses in one color, at most one per pixel.
type scatter struct {
	plotter.XYs
	hex   string
	cross bool
}

func (d scatter) DataRange() (xmin, xmax, ymin, ymax float64) { return plotter.XYRange(d.XYs) }

func (d scatter) Plot(c draw.Canvas, p *plot.Plot) {
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
	d.drawMarks(&c, at...)
}

// Thumbnail draws a single mark for the legend.
func (d scatter) Thumbnail(c *draw.Canvas) { d.drawMarks(c, c.Center()) }

func (d scatter) drawMarks(c *draw.Canvas, points ...vg.Point) {
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
	c.SetLineStyle(draw.LineStyle{Color: paletteColor(d.hex, 100), Width: 1.2})
	if d.cross {
		c.Stroke(path)
		return
	}
	c.Fill(path)
}

// roundUp rounds x up to 1, 2 or 5 times a power of ten.
func roundUp(x float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if x <= m*decade*(1+1e-9) {
			return m * decade
		}
	}
	return 10 * decade
}

// multiples returns labels for the multiples of step between from and to.
func multiples(step, from, to float64) map[float64]string {
	labels := map[float64]string{}
	for n := int(math.Ceil(from/step - 1e-9)); n <= int(math.Floor(to/step+1e-9)); n++ {
		x := float64(n) * step
		labels[x] = strconv.FormatFloat(x, 'g', 6, 64)
	}
	return labels
}

// labelAxis sets the labels of an axis, given its approximate length.
func labelAxis(a *plot.Axis, labels map[float64]string, length vg.Length) {
	room, suffix := tickSize, " " // keeps labels at a distance from a vertical axis
	if length != minYLength {     // a horizontal axis: labels must not touch
		suffix = ""
		for x, l := range labels {
			if a.Min <= x && x <= a.Max {
				room = max(room, a.Tick.Label.Width(l))
			}
		}
	}
	a.Tick.Marker = axisLabels{labels, suffix, a.Scale, float64(1.3 * room / length)}
}

// axisLabels maps values on an axis to labels. Where labels would overlap, it shows the label
// closest to 0.
type axisLabels struct {
	labels      map[float64]string
	suffix      string
	scale       plot.Normalizer
	minDistance float64
}

func (m axisLabels) Ticks(from, to float64) (out []plot.Tick) {
	at := func(x float64) float64 { return m.scale.Normalize(from, to, x) }
	for _, x := range slices.SortedFunc(maps.Keys(m.labels), func(a, b float64) int {
		return cmp.Or(cmp.Compare(math.Abs(a), math.Abs(b)), cmp.Compare(b, a))
	}) {
		overlaps := func(t plot.Tick) bool { return math.Abs(at(t.Value)-at(x)) < m.minDistance }
		if from <= x && x <= to && !slices.ContainsFunc(out, overlaps) {
			out = append(out, plot.Tick{Value: x, Label: m.labels[x] + m.suffix})
		}
	}
	return out
}
