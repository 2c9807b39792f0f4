package figures

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/plotter"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

// clockLines returns for each changed clock a line that shows how far it was ahead of true time.
func (m *measurements) clockLines() map[string]plotter.XYs {
	lines := map[string]plotter.XYs{}
	rates := map[string]float64{}
	extend := func(name string, to float64) {
		l := lines[name]
		last := l[len(l)-1]
		lines[name] = append(l, plotter.XY{X: to, Y: last.Y + (to-last.X)*(rates[name]-1)})
	}
	for _, t := range m.clockChanges {
		if !slices.ContainsFunc(m.clockChanges, func(x facts.ClockChange) bool { return x.Process == t.Process && x.IsWrong() }) {
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

// clockFigure plots how far the clocks of nodes and clients were ahead of true time.
func clockFigure(m *measurements) *Figure {
	lines := m.clockLines()
	if len(lines) == 0 {
		return nil
	}
	fig := newTimeFigure(m, "clocks", "Clocks compared with true time", "")
	fig.Caption = "How far each changed clock was ahead of true time (below 0: behind), computed from its recorded settings and rates."
	colors := []string{display.ClockColor, display.LeaseColor, display.AlarmColor, display.SuccessColor, display.OtherColor, display.FaultColor}
	groups := groupSimilar(lines)
	unit := setClockScale(fig, lines)
	for i, g := range groups {
		points := slices.Clone(lines[g[0]])
		for i := range points {
			points[i].Y /= unit
		}
		name := display.Sanitize(strings.Join(g, " "), maxNameLen)
		if i >= maxNamedLines {
			name = ""
		}
		fig.add(name, newLine(points, colors[i%len(colors)], i))
	}
	if n := len(groups) - maxNamedLines; n > 0 {
		fig.legend = append(fig.legend, legendEntry{name: fmt.Sprintf("and %d more", n)})
	}
	return fig
}

// maxNamedLines is how many lines the legend names. More lines would repeat colors and dash patterns.
const maxNamedLines = 12

// groupSimilar groups clocks whose errors never differed by more than a millisecond.
func groupSimilar(lines map[string]plotter.XYs) (groups [][]string) {
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

// setClockScale fits the y axis to the clock errors and returns its unit in seconds. If the errors
// differ greatly in size, the axis is linear near 0 and logarithmic farther out.
func setClockScale(fig *Figure, lines map[string]plotter.XYs) (unit float64) {
	minError, maxError, smallestError := 0.0, 0.0, math.Inf(1)
	for _, l := range lines {
		largest := 0.0
		for _, p := range l {
			minError, maxError, largest = min(minError, p.Y), max(maxError, p.Y), max(largest, math.Abs(p.Y))
		}
		if largest > 0 {
			smallestError = min(smallestError, largest)
		}
	}
	largest := max(maxError, -minError)
	unit, fig.yLabel = 1, "ahead of true time (s)"
	if largest < 1 {
		unit, fig.yLabel = 1e-3, "ahead of true time (ms)"
	}
	minError, maxError, smallestError = minError/unit, maxError/unit, smallestError/unit
	a := &fig.plot.Y
	if room := max((maxError-minError)/20, 1e-6); largest/unit < 50*smallestError {
		setLinearScale(a, minError-room, maxError+room, minYLength)
		return unit
	}
	a.Scale, a.Min, a.Max = asinhScale{smallestError}, 3*minError, 3*maxError
	labels := map[float64]string{0: "0"}
	for d := -9; d <= 9; d++ {
		if x := math.Pow(10, float64(d)); x >= smallestError/2 {
			labels[x] = strconv.FormatFloat(x, 'f', -1, 64)
			labels[-x] = "-" + labels[x]
		}
	}
	labelAxis(a, labels, minYLength)
	return unit
}

// asinhScale is linear up to about one unit and logarithmic beyond.
type asinhScale struct{ unit float64 }

func (b asinhScale) Normalize(from, to, x float64) float64 {
	at := func(x float64) float64 { return math.Asinh(x / b.unit) }
	return (at(x) - at(from)) / (at(to) - at(from))
}
