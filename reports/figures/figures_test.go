package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/harness/history"
	"lockpick/harness/history/story"
)

var update = flag.Bool("update", false, "write the golden files again")

// stories are the checker's, each a whole history.
func stories(t *testing.T) map[string]*history.History {
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
		h, err := story.Parse(string(a.Files[0].Data))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".txt")] = h
	}
	return all
}

// Whatever the history: valid XML, no number that is none, the same bytes again.
func TestFiguresOfAllStories(t *testing.T) {
	drawn := map[string]int{}
	for name, h := range stories(t) {
		all, err := Of(h)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := Of(h)
		if err != nil || len(all) != len(again) {
			t.Fatalf("%s: %d and %d figures, %v", name, len(all), len(again), err)
		}
		for i, f := range all {
			drawn[f.Name]++
			wellFormed(t, name+"/"+f.Name, f.SVG)
			if !bytes.Equal(f.SVG, again[i].SVG) {
				t.Errorf("%s/%s is not the same again", name, f.Name)
			}
			if f.Title == "" || !strings.HasSuffix(f.Caption, ".") {
				t.Errorf("%s/%s: title %q, caption %q", name, f.Name, f.Title, f.Caption)
			}
		}
	}
	for _, name := range []string{"holders", "latency", "quantiles", "rate"} {
		if drawn[name] == 0 {
			t.Errorf("no story has a figure of %s", name)
		}
	}
}

func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Errorf("%s is no XML: %v", name, err)
			return
		}
	}
	for _, bad := range []string{"NaN", "Inf"} {
		if bytes.Contains(svg, []byte(bad)) {
			t.Errorf("%s has %s in it", name, bad)
		}
	}
}

// The line of holders passes 1 where two believed at once, and the figure says so.
func TestHoldersPassOne(t *testing.T) {
	for name, most := range map[string]int{"restart-forgets": 2, "fenced": 1, "clock-jump": 2} {
		f := measure(stories(t)[name])
		steps, n := counted(f)
		if n != most {
			t.Errorf("%s: at most %d held, want %d", name, n, most)
		}
		if fig := holders(f); strings.Contains(fig.Caption, "passes 1") != (most > 1) {
			t.Errorf("%s: %q", name, fig.Caption)
		}
		if last := steps[len(steps)-1]; last.X != f.end {
			t.Errorf("%s: the line ends at %v, the run at %v", name, last.X, f.end)
		}
	}
}

// A run in which nobody acquired has nothing to draw, and none that never began.
func TestNothingToDraw(t *testing.T) {
	for _, h := range []*history.History{nil, {}, {Events: []history.Event{{N: 1, Process: history.Harness, Type: history.Begin, Op: history.OpRun}}}} {
		if all, err := Of(h); err != nil || len(all) > 0 {
			t.Errorf("%d figures, %v", len(all), err)
		}
	}
}

func TestGolden(t *testing.T) {
	h := stories(t)["clock-drift-both-ways"]
	all, err := Of(h)
	if err != nil {
		t.Fatal(err)
	}
	rates, err := Rates("violated", []Rate{{Name: "10 ms", K: 90, N: 100}, {Name: "100 ms", K: 3, N: 100}, {Name: "200 ms", N: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(all, *rates) {
		wellFormed(t, f.Name, f.SVG)
		path := filepath.Join("testdata", f.Name+".svg")
		if *update {
			if err := os.WriteFile(path, f.SVG, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(f.SVG, want) {
			t.Errorf("%s differs from what it was: look at it, and run with -update (%v)", path, err)
		}
		image, err := f.PNG()
		if err != nil {
			t.Fatal(err)
		}
		if p, err := png.DecodeConfig(bytes.NewReader(image)); err != nil || p.Width < 1000 {
			t.Errorf("%s as PNG: %d wide, %v", f.Name, p.Width, err)
		}
	}
}

// A rate has its name, however few the runs.
func TestRatesByName(t *testing.T) {
	named, err := Rates("violated", []Rate{{Name: "base", K: 1, N: 1}, {Name: "fenced", N: 30}})
	if err != nil || !bytes.Contains(named.SVG, []byte(">fenced<")) {
		t.Errorf("rates by name: %v", err)
	}
}

// Clocks run on from what was read back; those that are alike are one line.
func TestClocks(t *testing.T) {
	const epoch, h = 1e18, 3600e9
	turn := func(n, at int64, node string, off, drift int64) history.Event {
		return history.Event{N: n, T: at * 1e9, Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: node, Wall: true, Local: epoch + at*1e9 + off, Drift: drift}
	}
	monotonic := turn(4, 2, "n4", 5e9, 0)
	monotonic.Wall = false
	f := measure(&history.History{Params: history.Params{Epoch: epoch}, Events: []history.Event{
		turn(1, 1, "n1", 0, 5e8), turn(2, 1, "n2", 0, 5e8), turn(3, 1, "n3", -3*h, 0), monotonic, {N: 5, T: 5e9, Process: "c1", Type: history.End, Op: history.OpClient},
	}})
	fig := clocks(f)
	if err := fig.draw(); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, "clocks", fig.SVG)
	for _, want := range []string{">n1 n2<", ">n3<", ">-1 h<"} {
		if !bytes.Contains(fig.SVG, []byte(want)) {
			t.Errorf("%s is missing", want)
		}
	}
	if bytes.Contains(fig.SVG, []byte("n4")) {
		t.Error("a clock that shows no time of day is drawn")
	}
	if y := f.clockLines()["n1"]; y[len(y)-1].Y != 2 {
		t.Errorf("after 4 s at 1.5, n1 is %v", y)
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{0: "0", 2e-6: "2 µs", 0.05: "50 ms", 9.896: "9.9 s", -60: "-60 s", 7200: "2 h"} {
		if got := seconds(s); got != want {
			t.Errorf("%g is %q, want %q", s, got, want)
		}
	}
	for x, want := range map[float64]float64{0.7: 1, 1: 1, 1.2: 2, 3: 5, 7: 10} {
		if got := round(x); math.Abs(got-want) > 1e-9 {
			t.Errorf("round(%g) = %g, want %g", x, got, want)
		}
	}
}
