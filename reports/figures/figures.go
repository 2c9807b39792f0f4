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
	"fmt"
	"regexp"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"lockpick/checker"
	"lockpick/harness/history"
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
	f := newFacts(h)
	var all []Figure
	for _, draw := range []func(*facts) *Figure{holders, latency, quantiles, rate, clocks} {
		fig := draw(f)
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

// facts is what the figures are drawn from. Instants and spans are seconds.
type facts struct {
	end      float64
	acquires []acquire
	faults   []span
	beliefs  []history.Belief
	events   []history.Event
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

func newFacts(h *history.History) *facts {
	f := &facts{events: h.Events, beliefs: checker.Beliefs(h)}
	called := map[string]int64{}
	open := map[string]int{}
	for _, e := range h.Events {
		if e.Op != history.OpLog && e.Op != history.OpRun {
			f.end = max(f.end, history.Seconds(e.T))
		}
		fault := fmt.Sprint(e.Op, e.Node, e.Step)
		switch {
		case e.Process == history.Nemesis && e.Type == history.Begin:
			open[fault] = len(f.faults)
			f.faults = append(f.faults, span{from: history.Seconds(e.T), to: -1, label: e.Op + " " + e.Node})
		case e.Process == history.Nemesis && e.Type == history.End:
			if i, ok := open[fault]; ok {
				f.faults[i].to = history.Seconds(e.T)
				delete(open, fault)
			}
		case e.Op == history.OpAcquire && e.Type == history.Invoke:
			called[e.Session] = e.T
		case e.Op == history.OpAcquire:
			if t, ok := called[e.Session]; ok {
				f.acquires = append(f.acquires, acquire{at: history.Seconds(e.T), took: history.Seconds(e.T - t), granted: e.Type == history.OK})
			}
		}
	}
	for i := range f.faults {
		if f.faults[i].to < 0 {
			f.faults[i].to = f.end
		}
	}
	return f
}
