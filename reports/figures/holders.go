package figures

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"lockpick/harness/history"
	"lockpick/reports/display"
)

// holderFigure plots how many clients believed at the same time that they held a lock. If there are
// several locks, it shows the largest number at each instant.
func holderFigure(m *measurements) *Figure {
	if len(m.beliefs) == 0 {
		return nil
	}
	steps, maxHolders := holderSteps(m)
	fig := newTimeFigure(m, "holders", "Simultaneous holders of a lock", "clients that believe they hold the lock")
	fig.Caption = "How many clients believed at the same time, each by its own clock, that they held the lock. If there are several locks, the figure shows the lock with the most holders. The number must never exceed 1."
	if maxHolders > 1 {
		fig.Caption = fmt.Sprintf("How many clients believed at the same time, each by its own clock, that they held the lock. The number exceeds 1: there were up to %d holders.", maxHolders)
		fig.add("more than one", excessHatch(steps))
	}
	fig.add("clients", newLine(steps, display.LeaseColor, 0))
	fig.add("maximum allowed", newLine(plotter.XYs{{X: 0, Y: 1}, {X: m.end, Y: 1}}, display.AlarmColor, 1))
	top := float64(max(maxHolders, 1))
	fig.plot.Y.Min, fig.plot.Y.Max = 0, 1.15*top
	labelAxis(&fig.plot.Y, multiples(max(1, roundUp(top/5)), 0, top), minYLength)
	return fig
}

// holderSteps returns the number of holders over time as a step line, and the maximum.
func holderSteps(m *measurements) (steps plotter.XYs, maxHolders int) {
	type change struct {
		t     int64
		delta int
		key   string
	}
	var all []change
	for _, b := range m.beliefs {
		all = append(all, change{b.From, 1, b.Session.Key()}, change{b.To, -1, b.Session.Key()})
	}
	// Beliefs don't overlap if one ends at the instant the other begins.
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Or(cmp.Compare(a.t, b.t), a.delta-b.delta) })
	holderCount := map[string]int{}
	last := 0
	steps = plotter.XYs{{X: 0, Y: 0}}
	for i, c := range all {
		holderCount[c.key] += c.delta
		if i+1 < len(all) && all[i+1].t == c.t {
			continue
		}
		n := 0
		for _, k := range holderCount {
			n = max(n, k)
		}
		if n == last {
			continue
		}
		x := min(history.Seconds(c.t), m.end)
		steps = append(steps, plotter.XY{X: x, Y: float64(last)}, plotter.XY{X: x, Y: float64(n)})
		last, maxHolders = n, max(maxHolders, n)
	}
	return append(steps, plotter.XY{X: m.end, Y: float64(last)}), maxHolders
}

// excessHatch hatches the part of a step line above 1.
type excessHatch plotter.XYs

func (e excessHatch) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var boxes []vg.Rectangle
	for i := 1; i < len(e); i++ {
		if e[i-1].Y <= 1 || e[i].X == e[i-1].X {
			continue
		}
		r := vg.Rectangle{Min: vg.Point{X: x(e[i-1].X), Y: y(1)}, Max: vg.Point{X: x(e[i].X), Y: y(e[i-1].Y)}}
		r.Max.X = max(r.Max.X, r.Min.X+1)
		boxes = append(boxes, r)
	}
	hatch(c, display.AlarmColor, 0, boxes...)
}

func (excessHatch) Thumbnail(c *draw.Canvas) { hatch(*c, display.AlarmColor, 0, c.Rectangle) }
