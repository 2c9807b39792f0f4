package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// checkFigures counts figures and reports layout errors: text that is too small, is cut off, or
// overlaps other text or a mark, and colors outside the palette.
func checkFigures(t *testing.T, count *int, name string, all ...Figure) {
	t.Helper()
	for _, f := range all {
		*count++
		for _, problem := range layoutErrors(f.Inline()) {
			t.Errorf("%s/%s: %s", name, f.Name, problem)
		}
	}
}

// TestFigureLayout checks the figures for the checker's test histories and for extreme data.
func TestFigureLayout(t *testing.T) {
	count := 0
	check := func(name string, all ...Figure) { checkFigures(t, &count, name, all...) }
	for name, h := range checkerHistories(t) {
		check(name, newMeasurements(h).figures()...)
	}
	for _, n := range []int{1, 10, 3000} {
		for _, times := range []float64{1e-6, 1, 1e6} {
			m := testMeasurements(n)
			for i := range m.acquires {
				m.acquires[i].at, m.acquires[i].granted = m.acquires[i].at*times, i%3 > 0
			}
			m.end *= times
			m.lanes = lanesOf(faultsOfEveryKind(), m.end)
			for _, fig := range []*Figure{latencyFigure(m), quantileFigure(m), acquireRateFigure(m)} {
				if fig != nil {
					check(fmt.Sprint(n, " times ", times), *fig)
				}
			}
		}
	}
	for _, k := range []int{0, 1, 30, 30_000} {
		var rates []Rate
		for i := range 12 {
			rates = append(rates, Rate{Name: strings.Repeat("long-name/", i), K: k, N: 30_000})
		}
		check(fmt.Sprint(k, " of many"), *RateFigure("lease-linearizable violated, of the seeds that exercised it", rates))
	}
	t.Logf("%d figures", count)
	if count < 230 {
		t.Errorf("%d figures, want at least 230", count)
	}
}

// faultsOfEveryKind returns faults of all known kinds and of many unknown kinds.
func faultsOfEveryKind() (all []*facts.Fault) {
	at := func(n int) *history.Event { return &history.Event{T: int64(n) * 1e8} }
	for i, k := range nemesis.Kinds {
		all = append(all, &facts.Fault{Kind: k.Name, Begin: at(i), End: at(i + 3)}, &facts.Fault{Kind: k.Name, Begin: at(i + 9)})
	}
	for i := range 40 {
		all = append(all, &facts.Fault{Kind: fmt.Sprint("another\n", i, strings.Repeat("e", 2000)), Begin: at(i)})
	}
	return all
}

// Each known kind has its own lane with a distinct color or hatch. The number of lanes for unknown
// kinds is limited.
func TestFaultKindsLookDistinct(t *testing.T) {
	lanes := lanesOf(faultsOfEveryKind(), 100)
	looks := map[string]string{}
	for i, l := range lanes[:len(nemesis.Kinds)] {
		if l.name != nemesis.Kinds[i].Name {
			t.Errorf("lane %d is %s, want %s", i, l.name, nemesis.Kinds[i].Name)
		}
		look := l.hex + hatches[l.hatch%len(hatches)]
		if other, ok := looks[look]; ok {
			t.Errorf("%s and %s look the same", l.name, other)
		}
		looks[look] = l.name
		if second := l.spans[len(l.spans)-1]; nemesis.Kinds[i].IsInstant != (second.to == second.from) {
			t.Errorf("%s has a span from %v to %v", l.name, second.from, second.to)
		}
	}
	if last := lanes[len(lanes)-1]; len(lanes) != maxLanes || last.name != "others" || len(last.spans) < 30 {
		t.Errorf("%d lanes, the last with the name %q", len(lanes), last.name)
	}
}

// area is the bounding box of a label or of part of a mark. The origin is at the bottom left.
type area struct {
	x1, y1, x2, y2 float64
	text           string
}

func (a area) overlaps(b area) bool { return a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2 }

var (
	pathCommand = regexp.MustCompile(`([MLA])([-\d.,e ]+)`)
	fontSize    = regexp.MustCompile(`font-size:([\d.]+)px`)
	fixedColor  = regexp.MustCompile(`(fill|stroke):(#|;|")`)
)

// layoutErrors lists a drawing's layout errors. It knows only the SVG, not the layout code. It allows
// for fonts up to a tenth wider than Liberation Sans or Arial.
func layoutErrors(svg []byte) (errs []string) {
	var labels, marks []area
	var canvas area
	report := func(format string, args ...any) { errs = append(errs, fmt.Sprintf(format, args...)) }
	if bad := fixedColor.Find(svg); bad != nil {
		report("color outside the palette: %s", bad)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return append(errs, err.Error())
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attrs := map[string]string{}
		for _, a := range start.Attr {
			attrs[a.Name.Local] = a.Value
		}
		number := func(name string) float64 { x, _ := strconv.ParseFloat(attrs[name], 64); return x }
		switch start.Name.Local {
		case "svg":
			canvas = area{x2: number("width"), y2: number("height")}
		case "text":
			var text string
			if err := d.DecodeElement(&text, &start); err != nil {
				return append(errs, err.Error())
			}
			size := 0.0
			if m := fontSize.FindStringSubmatch(attrs["style"]); m != nil {
				size, _ = strconv.ParseFloat(m[1], 64)
			}
			if size < 11 {
				report("%q is %v px high", text, size)
			}
			x, base := number("x"), -number("y")
			width := float64(textStyle(vg.Length(size), display.InkColor).Width(strings.TrimSpace(text)))
			labels = append(labels, area{x, base - 0.21*size, x + 1.1*width, base + 0.73*size, text})
		case "path":
			if !strings.Contains(attrs["style"], "var(--paper)") {
				marks = append(marks, strokes(attrs["d"])...)
			}
		}
	}
	for i, a := range labels {
		if a.x1 < canvas.x1 || a.y1 < canvas.y1 || a.x2 > canvas.x2 || a.y2 > canvas.y2 {
			report("cut off: %q at %.0f, %.0f to %.0f, %.0f", a.text, a.x1, a.y1, a.x2, a.y2)
		}
		for _, b := range labels[i+1:] {
			if a.overlaps(b) {
				report("%q overlaps %q", a.text, b.text)
			}
		}
		if i := slices.IndexFunc(marks, a.overlaps); i >= 0 {
			report("a mark overlaps %q", a.text)
		}
	}
	for _, m := range marks {
		if m.x1 < canvas.x1 || m.y1 < canvas.y1 || m.x2 > canvas.x2 || m.y2 > canvas.y2 {
			report("a mark is outside the drawing at %.0f, %.0f", m.x1, m.y1)
		}
	}
	if len(labels) < 5 {
		report("%d labels, want at least 5", len(labels))
	}
	return errs
}

// strokes returns the bounding box of each line in a path.
func strokes(d string) (all []area) {
	x, y := 0.0, 0.0
	for _, m := range pathCommand.FindAllStringSubmatch(d, -1) {
		numbers := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		nx, _ := strconv.ParseFloat(numbers[len(numbers)-2], 64)
		ny, _ := strconv.ParseFloat(numbers[len(numbers)-1], 64)
		if m[1] != "M" {
			all = append(all, area{x1: min(x, nx), y1: min(y, ny), x2: max(x, nx), y2: max(y, ny)})
		}
		x, y = nx, ny
	}
	return all
}
