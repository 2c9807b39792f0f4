// Package figures draws the measured side of a run: how long acquires took, how
// often they came, how many held the lock at once, how wrong the clocks were; and of
// many seeds, which came out how, and how often a property was violated.
//
// Of and OfSeeds return Figures: an SVG each, and a PNG for those who ask. They are
// functions of the history and the sums alone, so the same run gives the same bytes.
//
// Deliberately missing: the sequence diagram and the timeline, which have packages
// of their own; numbers, which the checker measures.
package figures

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Figure is one drawing.
type Figure struct {
	Name    string // of its files, without ending
	Title   string // one line
	Caption string // what it shows, in a sentence or two
	SVG     []byte

	plot   *plot.Plot
	height vg.Length
}

// Of draws the figures of a run. One that would be empty is left out.
func Of(h *history.History) ([]Figure, error) {
	if h == nil || len(h.Events) == 0 {
		return nil, nil
	}
	m := measure(h)
	var all []Figure
	for _, draw := range []func(*readings) *Figure{holders, latency, quantiles, rate, clocks} {
		fig := draw(m)
		if fig == nil {
			continue
		}
		if err := fig.draw(); err != nil {
			return nil, fmt.Errorf("draw figure %s: %w", fig.Name, err)
		}
		all = append(all, *fig)
	}
	return all, nil
}

const (
	width  = 18 * vg.Centimeter
	height = 6.5 * vg.Centimeter
	dots   = 144 // per inch, of a PNG
)

// sans is the family that plot's SVG names, which few systems have under this name.
var sans = regexp.MustCompile(`font-family:Liberation Sans;`)

func (f *Figure) draw() error {
	c := vgsvg.New(width, f.height)
	f.plot.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	f.SVG = sans.ReplaceAll(b.Bytes(), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	return nil
}

// PNG draws the figure again as an image of 144 dots an inch. It takes some ten
// times as long as the SVG.
func (f Figure) PNG() ([]byte, error) {
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, f.height), vgimg.UseDPI(dots))}
	f.plot.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw figure %s: %w", f.Name, err)
	}
	return b.Bytes(), nil
}

// readings is what the figures are drawn from. Instants and spans are seconds.
type readings struct {
	end      float64
	acquires []acquire
	faults   []span
	beliefs  []facts.Belief
	turns    []facts.Turn
}

// acquire is one acquire call that returned.
type acquire struct {
	at, took float64
	granted  bool
}

// span is a fault in force.
type span struct {
	from, to float64
	label    string
}

func measure(h *history.History) *readings {
	f := facts.Read(h)
	m := &readings{beliefs: f.Beliefs(), turns: f.Turns}
	for _, e := range f.Events {
		if e.Op != history.OpLog && e.Op != history.OpRun {
			m.end = max(m.end, history.Seconds(e.T))
		}
	}
	for s := range f.Sessions() {
		if call, ret := s.Acquire.Call, s.Acquire.Return; ret != nil {
			m.acquires = append(m.acquires, acquire{at: history.Seconds(ret.T), took: history.Seconds(ret.T - call.T), granted: s.Granted()})
		}
	}
	slices.SortStableFunc(m.acquires, func(a, b acquire) int { return cmp.Compare(a.at, b.at) })
	for _, x := range f.Faults {
		if x.Begin == nil {
			continue
		}
		s := span{from: history.Seconds(x.Begin.T), to: m.end, label: x.Kind + " " + x.Target}
		if x.End != nil {
			s.to = history.Seconds(x.End.T)
		}
		m.faults = append(m.faults, s)
	}
	slices.SortStableFunc(m.faults, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return m
}
