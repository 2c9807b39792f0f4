package figures

import (
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/palette"
)

// clockLines is how far each clock that was turned was ahead of true time, from when it
// was turned and as it ran on from there.
func (m *readings) clockLines() map[string]plotter.XYs {
	lines := map[string]plotter.XYs{}
	rates := map[string]float64{}
	extend := func(name string, to float64) {
		l := lines[name]
		last := l[len(l)-1]
		lines[name] = append(l, plotter.XY{X: to, Y: last.Y + (to-last.X)*(rates[name]-1)})
	}
	for _, t := range m.turns {
		if !slices.ContainsFunc(m.turns, func(x facts.Turn) bool { return x.Process == t.Process && x.Wrong() }) {
			continue
		}
		if lines[t.Process] == nil {
			lines[t.Process], rates[t.Process] = plotter.XYs{{X: 0, Y: 0}}, 1
		}
		at := history.Seconds(t.T)
		extend(t.Process, at)
		lines[t.Process] = append(lines[t.Process], plotter.XY{X: at, Y: history.Seconds(t.Offset)})
		rates[t.Process] = t.Rate
	}
	for name := range lines {
		extend(name, m.end)
	}
	return lines
}

// clocks draws how far clocks of nodes and clients were ahead of true time.
func clocks(m *readings) *Figure {
	lines := m.clockLines()
	if len(lines) == 0 {
		return nil
	}
	fig := figure("clocks", "Clocks against true time", "seconds", "ahead")
	fig.Caption = "How far each clock that was turned was ahead of true time (below 0: behind), as it was turned and ran on from there."
	hues := []string{palette.Clock, palette.Lease, palette.Alarm, palette.Fine, palette.Other, palette.Stall}
	var all []plotter.XYs
	for i, g := range alike(lines) {
		points := lines[g[0]]
		all = append(all, points)
		l := line(points, hues[i%len(hues)], i)
		fig.plot.Add(l)
		if i < len(hues) {
			fig.plot.Legend.Add(strings.Join(g, " "), l)
		}
	}
	fig.plot.Legend.Left = true
	fig.upTo(m.end)
	scale(&fig.plot.Y, all)
	return fig
}

// alike groups clocks that were as wrong at all times, to the millisecond.
func alike(lines map[string]plotter.XYs) (groups [][]string) {
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		i := slices.IndexFunc(groups, func(g []string) bool {
			return slices.EqualFunc(lines[g[0]], lines[name], func(a, b plotter.XY) bool {
				return math.Abs(a.X-b.X) < 1e-3 && math.Abs(a.Y-b.Y) < 1e-3
			})
		})
		if i < 0 {
			groups = append(groups, []string{name})
			continue
		}
		groups[i] = append(groups[i], name)
	}
	return groups
}

// scale shows offsets of very different size on one axis: it is linear near 0 and
// logarithmic beyond.
func scale(a *plot.Axis, lines []plotter.XYs) {
	most, small := 0.0, math.Inf(1)
	for _, l := range lines {
		reach := 0.0
		for _, p := range l {
			reach = max(reach, math.Abs(p.Y))
		}
		if most = max(most, reach); reach > 0 {
			small = min(small, reach)
		}
	}
	if most == 0 {
		a.Min, a.Max = -1, 1
		return
	}
	room := 0.15 * (a.Max - a.Min)
	if most/small < 50 {
		a.Min, a.Max = a.Min-room, a.Max+2*room
		a.Tick.Marker = relabelled(func(x float64) string { return seconds(math.Round(x*1e9) / 1e9) })
		return
	}
	a.Scale = bent{unit: small}
	marks := ticks{0: "0"}
	for _, s := range []float64{1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600, 10 * 3600, 100 * 3600} {
		if s >= small/2 {
			marks[s], marks[-s] = seconds(s), seconds(-s)
		}
	}
	a.Tick.Marker = marks
	a.Min, a.Max = min(3*a.Min, 0), max(3*a.Max, 0)
}

// bent is linear up to about a unit, and logarithmic beyond.
type bent struct{ unit float64 }

func (b bent) Normalize(from, to, x float64) float64 {
	at := func(x float64) float64 { return math.Asinh(x / b.unit) }
	return (at(x) - at(from)) / (at(to) - at(from))
}

// relabelled is plot's own choice of ticks, with labels of ours.
type relabelled func(x float64) string

func (label relabelled) Ticks(from, to float64) []plot.Tick {
	out := plot.DefaultTicks{}.Ticks(from, to)
	for i := range out {
		if out[i].Label != "" {
			out[i].Label = label(out[i].Value)
		}
	}
	return out
}
