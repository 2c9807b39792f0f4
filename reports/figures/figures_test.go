package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"gonum.org/v1/plot/plotter"

	"lockpick/harness/history"
	"lockpick/internal/histories"
)

var update = flag.Bool("update", false, "update the golden files")

// checkerHistories returns the histories from the checker's test data, by name.
func checkerHistories(t *testing.T) map[string]*history.History {
	t.Helper()
	files, err := filepath.Glob("../../checker/testdata/*.txt")
	if err != nil || len(files) < 50 {
		t.Fatal(len(files), err)
	}
	all := map[string]*history.History{}
	for _, path := range files {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if a.Files[0].Name != "history" {
			t.Fatalf("%s begins with %q", path, a.Files[0].Name)
		}
		h, err := histories.Parse(string(a.Files[0].Data))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".txt")] = h
	}
	return all
}

// Every figure is valid XML without NaN or infinity, and drawing it twice gives the same bytes.
func TestFiguresAreValidAndDeterministic(t *testing.T) {
	count := map[string]int{}
	for name, h := range checkerHistories(t) {
		all, repeated := newMeasurements(h).figures(), newMeasurements(h).figures()
		if len(all) != len(repeated) {
			t.Fatalf("%s: %d and %d figures", name, len(all), len(repeated))
		}
		for i, f := range all {
			count[f.Name]++
			svg := f.SVG()
			checkWellFormed(t, name+"/"+f.Name, svg)
			if !bytes.Equal(svg, repeated[i].SVG()) {
				t.Errorf("%s/%s differs between two drawings", name, f.Name)
			}
			if f.Title == "" || !strings.HasSuffix(f.Caption, ".") {
				t.Errorf("%s/%s: title %q, caption %q", name, f.Name, f.Title, f.Caption)
			}
		}
	}
	for _, name := range []string{"holders", "latency", "rate", "clocks"} {
		if count[name] == 0 {
			t.Errorf("no history has the figure %q", name)
		}
	}
}

func checkWellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Errorf("%s is not valid XML: %v", name, err)
			return
		}
	}
	for _, bad := range []string{"NaN", "Inf"} {
		if bytes.Contains(svg, []byte(bad)) {
			t.Errorf("%s contains %s", name, bad)
		}
	}
}

// If two clients believed at the same time that they held the lock, the line exceeds 1 and the
// caption says so.
func TestHolderFigureShowsOverlap(t *testing.T) {
	for name, maxHolders := range map[string]int{"restart-forgets": 2, "fenced": 1, "clock-jump": 2} {
		f := newMeasurements(checkerHistories(t)[name])
		steps, n := holderSteps(f)
		if n != maxHolders {
			t.Errorf("%s: at most %d holders, want %d", name, n, maxHolders)
		}
		if fig := holderFigure(f); strings.Contains(fig.Caption, "exceeds 1:") != (maxHolders > 1) {
			t.Errorf("%s: %q", name, fig.Caption)
		}
		if last := steps[len(steps)-1]; last.X != f.end {
			t.Errorf("%s: the line ends at %v, want the run's end %v", name, last.X, f.end)
		}
	}
}

// Statistics of few acquires, and the number of holders if there was never more than one, are not shown.
func TestOnlyInformativeFigures(t *testing.T) {
	// shown returns which of the figures that may be omitted are shown.
	shown := func(h *history.History) string {
		var names []string
		for _, f := range FromHistory(h) {
			if slices.Contains([]string{"holders", "quantiles", "rate"}, f.Name) {
				names = append(names, f.Name)
			}
		}
		return strings.Join(names, " ")
	}
	for name, want := range map[string]string{"restart-forgets": "holders", "fenced": ""} {
		if got := shown(checkerHistories(t)[name]); got != want {
			t.Errorf("%s: figures are %q, want %q", name, got, want)
		}
	}
	many := &history.History{Events: []history.Event{{T: 0, Process: history.Harness, Type: history.Begin, Op: history.OpRun}}}
	for i := range int64(minAcquiresForStatistics) {
		e := history.Event{T: i * 1e9, Process: "c1", Op: history.OpAcquire, Type: history.Invoke, Key: "k", Session: fmt.Sprint("c1/", i)}
		reply := e
		reply.T, reply.Type, reply.ValidUntil = i*1e9+1e8, history.OK, i*1e9+5e8
		many.Events = append(many.Events, e, reply)
	}
	for i := range many.Events {
		many.Events[i].N = int64(i + 1)
	}
	if got := shown(many); got != "quantiles rate" {
		t.Errorf("with many acquires, figures are %q, want quantiles and rate", got)
	}
}

func TestNoFiguresWithoutEvents(t *testing.T) {
	for _, h := range []*history.History{nil, {}, {Events: []history.Event{{N: 1, Process: history.Harness, Type: history.Begin, Op: history.OpRun}}}} {
		if all := FromHistory(h); len(all) > 0 {
			t.Errorf("%d figures, want none", len(all))
		}
	}
}

func TestGolden(t *testing.T) {
	rates := RateFigure("violated", []Rate{{Name: "10 ms", K: 90, N: 100}, {Name: "100 ms", K: 3, N: 100}, {Name: "200 ms", N: 100}})
	all := append(newMeasurements(checkerHistories(t)["clock-drift-both-ways"]).figures(), *rates)
	for _, f := range append(all, *quantileFigure(testMeasurements(40))) {
		checkWellFormed(t, f.Name, f.SVG())
		path := filepath.Join("testdata", f.Name+".svg")
		if *update {
			if err := os.WriteFile(path, f.SVG(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(f.SVG(), want) {
			t.Errorf("%s differs: check the change and, if it is right, run with -update (%v)", path, err)
		}
		image, err := f.PNG()
		if err != nil {
			t.Fatal(err)
		}
		if p, err := png.DecodeConfig(bytes.NewReader(image)); err != nil || p.Width != 2*int(width) || math.Abs(float64(p.Height)-2*float64(f.totalHeight())) > 1 {
			t.Errorf("%s as PNG: %d × %d, %v", f.Name, p.Width, p.Height, err)
		}
	}
}

// testMeasurements returns n granted acquires, one every tenth of a second. Most are short.
func testMeasurements(n int) *measurements {
	m := &measurements{end: float64(n) / 10}
	for i := range n {
		m.acquires = append(m.acquires, acquire{at: float64(i+1) / 10, duration: 0.001 * float64(n) / float64(1+i*7%n), granted: true})
	}
	return m
}

func TestQuantileFigureRequiresTenAcquires(t *testing.T) {
	if quantileFigure(testMeasurements(9)) != nil || quantileFigure(testMeasurements(10)) == nil {
		t.Error("want a figure for ten acquires and none for nine")
	}
}

// All bins, including the last, have the same width, and together they contain all acquires.
func TestRateBinsHaveEqualWidth(t *testing.T) {
	for _, n := range []int{1, 2, 19, 100, 1000} {
		m := testMeasurements(n)
		m.end += 0.03
		fig := acquireRateFigure(m)
		var steps plotter.XYs
		for _, s := range fig.legend {
			if s.name == "granted" {
				steps = s.Thumbnailer.(*plotter.Line).XYs
			}
		}
		first, sum := steps[1].X-steps[0].X, 0.0
		for i := 0; i < len(steps); i += 2 {
			width := steps[i+1].X - steps[i].X
			if sum += steps[i].Y * width; math.Abs(width-first) > 1e-9 {
				t.Errorf("%d acquires: a bin is %v wide, want %v", n, width, first)
			}
		}
		if math.Abs(sum-float64(n)) > 1e-6 || math.Abs(steps[len(steps)-1].X-m.end) > 1e-9 {
			t.Errorf("%d acquires: the bins contain %v and end at %v, want %v", n, sum, steps[len(steps)-1].X, m.end)
		}
	}
}

// A rate is labeled even if it is based on few runs.
func TestRatesAreLabeled(t *testing.T) {
	fig := RateFigure("violated", []Rate{{Name: "base", K: 1, N: 1}, {Name: "fenced", N: 30}})
	if !bytes.Contains(fig.SVG(), []byte(">fenced  ")) {
		t.Error("a rate has no label")
	}
}

// A clock's line continues from each recorded setting, and clocks with similar errors share a line.
func TestClockFigure(t *testing.T) {
	const epoch, h = 1e18, 3600e9
	clockChange := func(n, at int64, node string, off, drift int64) history.Event {
		return history.Event{N: n, T: at * 1e9, Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: node, WallClock: true, Local: epoch + at*1e9 + off, Drift: drift}
	}
	monotonic := clockChange(4, 2, "n4", 5e9, 0)
	monotonic.WallClock = false
	f := newMeasurements(&history.History{Params: history.Params{Epoch: epoch}, Events: []history.Event{
		clockChange(1, 1, "n1", 0, 5e8), clockChange(2, 1, "n2", 0, 5e8), clockChange(3, 1, "n3", -3*h, 0), monotonic, {N: 5, T: 5e9, Process: "c1", Type: history.End, Op: history.OpClient},
	}})
	fig := clockFigure(f)
	checkWellFormed(t, "clocks", fig.SVG())
	for _, want := range []string{">n1 n2<", ">n3<", ">-1000 <", ">ahead of true time (s)<"} {
		if !bytes.Contains(fig.SVG(), []byte(want)) {
			t.Errorf("%s is missing", want)
		}
	}
	if bytes.Contains(fig.SVG(), []byte("n4")) {
		t.Error("the figure shows a monotonic clock")
	}
	if y := f.clockLines()["n1"]; y[len(y)-1].Y != 2 {
		t.Errorf("after 4 s at rate 1.5, the line of n1 is %v, want 2 at its end", y)
	}
}

func TestRoundUp(t *testing.T) {
	for x, want := range map[float64]float64{0.7: 1, 1: 1, 1.2: 2, 3: 5, 7: 10} {
		if got := roundUp(x); math.Abs(got-want) > 1e-9 {
			t.Errorf("roundUp(%g) = %g, want %g", x, got, want)
		}
	}
}
