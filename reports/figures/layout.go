package figures

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockpick/reports/display"
)

// A length of 1 is a pixel where a page shows a figure at its own width; pages show none
// smaller, so that no text is less than the 11 pixels that one can read.
const (
	pixel           = vg.Length(1)
	width           = 520 * pixel
	height          = 205 * pixel              // of a plot, with its x axis
	upright, across = 160 * pixel, 390 * pixel // about how long the axes are at least
	margin          = 8 * pixel
	row             = 16 * pixel // of a lane, and of the legend

	titleSize, labelSize, tickSize = 14 * pixel, 12 * pixel, 11 * pixel

	lead  = 9 * pixel  // between plot and lanes, and plot and legend
	gap   = 14 * pixel // between samples of the legend
	stick = 22 * pixel // of a sample
	aside = 12 * pixel // between the name of a lane and the lane
)

// sample is what the legend says of a mark.
type sample struct {
	name string
	plot.Thumbnailer
}

func (f *Figure) tall() vg.Length {
	tall := 2*margin + f.head() + f.height + f.deep()
	if rows := f.legendRows(); len(rows) > 0 {
		tall += lead + vg.Length(len(rows))*row
	}
	return tall
}

// head is what the title takes, and what y counts.
func (f *Figure) head() vg.Length {
	if f.counts == "" {
		return titleSize + 10
	}
	return titleSize + labelSize + 14
}

// deep is what the lanes take.
func (f *Figure) deep() vg.Length {
	if len(f.lanes) == 0 {
		return 0
	}
	return lead + vg.Length(len(f.lanes))*row
}

// draw lays out and draws all of a figure.
func (f *Figure) draw(on vg.CanvasSizer) {
	c := draw.New(on)
	c.SetColor(hue(display.Paper, 100))
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	f.drawLegend(&c)

	c.FillText(style(titleSize, display.Ink), vg.Point{X: c.Min.X, Y: c.Max.Y}, f.Title)
	c.FillText(style(labelSize, display.Faint), vg.Point{X: c.Min.X, Y: c.Max.Y - titleSize - 5}, f.counts)
	c.Max.Y -= f.head()

	names := style(tickSize, display.Ink)
	room := vg.Length(0)
	for _, l := range f.lanes {
		room = max(room, names.Width(l.name)+aside)
	}
	if lacks := room - (f.plot.DataCanvas(c).Min.X - c.Min.X); lacks > 0 {
		c.Min.X += lacks
	}
	f.plot.Draw(c)
	data := f.plot.DataCanvas(c)
	x, _ := f.plot.Transforms(&data)
	for i, l := range f.lanes {
		data.Max.Y = data.Min.Y - lead - vg.Length(i)*row
		l.draw(data, x)
	}
}

func (f *Figure) legendRows() (rows [][]sample) {
	at := vg.Length(0)
	for _, s := range f.legend {
		wide := s.wide()
		if len(rows) == 0 || at+wide > width-2*margin {
			rows, at = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], s)
		at += wide
	}
	return rows
}

func (s sample) wide() vg.Length { return stick + 5 + style(tickSize, display.Ink).Width(s.name) + gap }

// drawLegend draws the legend at the bottom, and takes its room away.
func (f *Figure) drawLegend(c *draw.Canvas) {
	rows := f.legendRows()
	for i, samples := range rows {
		x, y := c.Min.X, c.Min.Y+vg.Length(len(rows)-i)*row
		for _, s := range samples {
			if s.Thumbnailer != nil {
				box := *c
				box.Rectangle = vg.Rectangle{Min: vg.Point{X: x, Y: y - row + 2}, Max: vg.Point{X: x + stick, Y: y - 4}}
				s.Thumbnail(&box)
			}
			c.FillText(style(tickSize, display.Ink), vg.Point{X: x + stick + 5, Y: y}, s.name)
			x += s.wide()
		}
	}
	if len(rows) > 0 {
		c.Min.Y += lead + vg.Length(len(rows))*row
	}
}
