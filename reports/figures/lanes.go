package figures

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// lane shows when faults of one kind were active, below a plot.
type lane struct {
	name  string
	hex   string
	hatch int
	spans []span
}

// span is the time a fault was active, in seconds. For an instantaneous fault, from equals to.
type span struct{ from, to float64 }

// maxLanes limits the number of lanes, because a history from another version of lockpick may name
// any number of fault kinds.
const maxLanes = 24

// lanesOf assigns faults to lanes, ordered as in nemesis.Kinds. Colors distinguish clock, message and
// process faults; hatches distinguish kinds of the same color.
func lanesOf(faults []*facts.Fault, end float64) []lane {
	byName := map[string][]span{}
	var names []string
	for _, x := range faults {
		if x.Begin == nil {
			continue
		}
		kind, _ := nemesis.KindOf(x.Kind)
		s := span{from: history.Seconds(x.Begin.T), to: end}
		switch {
		case x.To() < facts.Never:
			s.to = history.Seconds(x.To())
		case kind.IsInstant:
			s.to = s.from
		}
		if byName[x.Kind] == nil {
			names = append(names, x.Kind)
		}
		byName[x.Kind] = append(byName[x.Kind], s)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(kindIndex(a), kindIndex(b)) })
	var lanes []lane
	lanesPerColor := map[string]int{} // number of lanes with each color
	for i, name := range names {
		if i >= maxLanes {
			last := &lanes[maxLanes-1]
			last.name, last.spans = "others", append(last.spans, byName[name]...)
			continue
		}
		hex := colorOfKind(name)
		lanes = append(lanes, lane{name: display.Sanitize(name, 14), hex: hex, hatch: lanesPerColor[hex], spans: byName[name]})
		lanesPerColor[hex]++
	}
	for _, l := range lanes {
		slices.SortStableFunc(l.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	}
	return lanes
}

// kindIndex returns the index of a kind in nemesis.Kinds, or their number for an unknown kind.
func kindIndex(name string) int {
	if i := slices.IndexFunc(nemesis.Kinds, func(k nemesis.Kind) bool { return k.Name == name }); i >= 0 {
		return i
	}
	return len(nemesis.Kinds)
}

func colorOfKind(name string) string {
	kind, _ := nemesis.KindOf(name)
	switch {
	case (&facts.Fault{Kind: name}).ChangesClock():
		return display.ClockColor
	case kind.Hits(nemesis.Link), kind.Hits(nemesis.Message):
		return display.OtherColor
	}
	return display.FaultColor
}

// draw draws the lane at the top of the canvas. It merges spans that are at most a pixel apart.
func (l lane) draw(c draw.Canvas, x func(float64) vg.Length) {
	top, bottom := c.Max.Y-2, c.Max.Y-rowHeight+2
	name := textStyle(tickSize, display.InkColor)
	name.XAlign = draw.XRight
	c.FillText(name, vg.Point{X: c.Min.X - laneNameGap, Y: c.Max.Y}, l.name)
	c.StrokeLine2(draw.LineStyle{Color: paletteColor(display.LineColor, 100), Width: 0.5}, c.Min.X, bottom, c.Max.X, bottom)
	var boxes []vg.Rectangle
	var ticks vg.Path
	last := vg.Length(-1)
	for _, s := range l.spans {
		from, to := min(max(x(s.from), c.Min.X), c.Max.X), min(x(s.to), c.Max.X)
		n := len(boxes)
		switch {
		case n > 0 && from <= boxes[n-1].Max.X+1:
			boxes[n-1].Max.X = max(boxes[n-1].Max.X, to)
		case to-from >= 3:
			boxes = append(boxes, vg.Rectangle{Min: vg.Point{X: from, Y: bottom}, Max: vg.Point{X: to, Y: top}})
		case from > last+1: // the span is too short to hatch
			ticks.Move(vg.Point{X: from, Y: bottom})
			ticks.Line(vg.Point{X: from, Y: top})
			last = from
		}
	}
	hatch(c, l.hex, l.hatch, boxes...)
	if len(ticks) > 0 {
		c.SetLineStyle(draw.LineStyle{Color: paletteColor(l.hex, 100), Width: 2})
		c.Stroke(ticks)
	}
}

// hatches lists the line directions of each hatch: rising, falling, vertical and horizontal.
var hatches = []string{"/", `\`, `/\`, "|", "-", "|-", "", "/|", `\-`, "/-", `\|`, `/\|`, `/\-`, "/|-", `\|-`, `/\|-`}

// hatch fills rectangles with a tint and lines of one color.
func hatch(c draw.Canvas, hex string, kind int, boxes ...vg.Rectangle) {
	if len(boxes) == 0 {
		return
	}
	var areas, lines vg.Path
	for _, r := range boxes {
		areas = append(areas, r.Path()...)
		for _, direction := range hatches[kind%len(hatches)] {
			lines = append(lines, hatchLines(r, direction)...)
		}
	}
	c.SetColor(paletteColor(hex, 18))
	c.Fill(areas)
	if len(lines) > 0 {
		c.SetLineStyle(draw.LineStyle{Color: paletteColor(hex, 80), Width: 0.7})
		c.Stroke(lines)
	}
	c.SetLineStyle(draw.LineStyle{Color: paletteColor(hex, 100), Width: 0.7})
	c.Stroke(areas)
}

// hatchLines returns parallel lines that fill a rectangle.
func hatchLines(r vg.Rectangle, direction rune) (lines vg.Path) {
	const step = 5 * pixel
	add := func(x1, y1, x2, y2 vg.Length) {
		lines.Move(vg.Point{X: x1, Y: y1})
		lines.Line(vg.Point{X: x2, Y: y2})
	}
	height := r.Max.Y - r.Min.Y
	switch direction {
	case '-':
		for y := r.Min.Y + step/2; y < r.Max.Y; y += step {
			add(r.Min.X, y, r.Max.X, y)
		}
	case '|':
		for x := r.Min.X + step/2; x < r.Max.X; x += step {
			add(x, r.Min.Y, x, r.Max.Y)
		}
	case '/', '\\': // from (x, bottom) to (x+tall, top), or from (x, top) to (x+tall, bottom)
		for x := r.Min.X - height + step/2; x < r.Max.X; x += step {
			from, to := max(x, r.Min.X), min(x+height, r.Max.X)
			if y := r.Min.Y - x; direction == '/' {
				add(from, y+from, to, y+to)
			} else {
				add(from, r.Max.Y+x-from, to, r.Max.Y+x-to)
			}
		}
	}
	return lines
}
