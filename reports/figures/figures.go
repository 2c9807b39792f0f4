// Package figures draws the measured side of a run: how long acquires took, how
// often they came, how many held the lock at once, how wrong the clocks were; and of
// many seeds, which came out how, and how often a property was violated.
//
// Of and Rates return Figures, drawings that are laid out but not drawn yet. Each is drawn
// from this one plan: as a part of a page, as an SVG file, as a PNG.
//
//	title
//	what y counts, and its unit
//	 2 ┤   ┌─┐
//	 1 ┤ ┌─┘ └──
//	 0 ┤─┘
//	 pause ▨▨    ▨   a lane for each kind of fault
//	   cut   ▧▧▧
//	   ┴──┴──┴──┴
//	    time (s)
//	── a line   × a dot
//
// They are functions of the history and the sums alone, so the same run gives the same bytes.
//
// Deliberately missing: the sequence diagram and the timeline, which have packages
// of their own; numbers, which the checker measures.
package figures

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

// Figure is one drawing.
type Figure struct {
	Name    string // of its files, without ending
	Title   string // one line
	Caption string // what it shows, in a sentence or two

	plot   *plot.Plot
	counts string    // what the y axis counts, and its unit
	height vg.Length // of the plot without lanes, and its x axis
	lanes  []lane
	legend []sample
}

// Of draws the figures of a run. One that would be empty is left out.
func Of(h *history.History) []Figure {
	if h == nil || len(h.Events) == 0 {
		return nil
	}
	m := measure(h)
	var all []Figure
	for _, draw := range []func(*readings) *Figure{holders, latency, quantiles, rate, clocks} {
		if fig := draw(m); fig != nil {
			all = append(all, *fig)
		}
	}
	return all
}

var (
	// face is what plot says of the font of each text; the drawing says it once.
	face = regexp.MustCompile(`font-family:[^;"]*;font-variant:normal;font-weight:normal;font-style:normal;`)
	// paint is a colour of plot's, which knows no variables.
	paint = regexp.MustCompile(`(fill|stroke):#[0-9A-F]{6}`)
	// path is where a mark runs, and digits is a part of it with more than can be seen.
	path, digits = regexp.MustCompile(` d="[^"]*"`), regexp.MustCompile(`(\.\d)\d+`)
)

// Inline draws the figure as an svg element for a page that has the palette's variables.
// Every text in it is escaped.
func (f Figure) Inline() []byte {
	c := vgsvg.New(width, f.tall())
	f.draw(c)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		panic(err) // memory refuses nothing
	}
	_, body, _ := bytes.Cut(b.Bytes(), []byte("xlink\">\n"))
	body = face.ReplaceAllLiteral(body, nil)
	body = path.ReplaceAllFunc(body, func(d []byte) []byte { return digits.ReplaceAll(d, []byte("$1")) })
	body = paint.ReplaceAllFunc(body, func(old []byte) []byte {
		property, hex, _ := strings.Cut(strings.ToLower(string(old)), ":")
		return []byte(property + ":" + variables[hex])
	})
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" class="fig" role="img" aria-label="%s" width="%g" height="%g" viewBox="0 0 %[2]g %[3]g" font-family="'Liberation Sans',Arial,Helvetica,sans-serif">`+"\n%[4]s",
		html.EscapeString(f.Title), width, f.tall(), body)
}

var variables = display.ColorVariables()

// SVG draws the figure as a file of its own, which brings the palette.
func (f Figure) SVG() []byte {
	return bytes.Replace(f.Inline(), []byte(">\n"), []byte(">\n<style>"+display.ColorsCSS+"</style>\n"), 1)
}

// PNG draws the figure as an image of twice the size, for papers and slides. It takes some
// ten times as long as the SVG.
func (f Figure) PNG() ([]byte, error) {
	const perInch = 2 * vg.Inch / pixel
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, f.tall()), vgimg.UseDPI(int(perInch)))}
	f.draw(c)
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
	lanes    []lane // of the faults
	beliefs  []facts.Belief
	turns    []facts.Turn
}

// acquire is one acquire call that returned.
type acquire struct {
	at, took float64
	granted  bool
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
	m.lanes = lanesOf(f.Faults, m.end)
	return m
}
