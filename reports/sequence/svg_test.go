package sequence

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker"
	"lockpick/internal/histories"
)

// eachExample calls f with the diagrams of the checker's test histories and of this package's
// examples.
func eachExample(t *testing.T, f func(name string, d Diagram)) {
	t.Helper()
	files, err := filepath.Glob("../../checker/testdata/*.txt")
	if err != nil || len(files) < 50 {
		t.Fatal(len(files), err)
	}
	ours, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(ours) < 10 {
		t.Fatal(len(ours), err)
	}
	for _, file := range append(files, ours...) {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".txtar") {
			_, d := parseExample(t, a)
			f("ours/"+name, d)
			continue
		}
		h, err := histories.Parse(string(a.Files[0].Data))
		if err != nil {
			t.Fatal(err)
		}
		f(name, ForVerdict(h, checker.Check(h)))
	}
}

// Every picture is valid XML and contains all events of its diagram, and drawing it twice gives the
// same bytes. All text is inside the picture, and no labels overlap.
func TestPictures(t *testing.T) {
	n := 0
	eachExample(t, func(name string, d Diagram) {
		n++
		svg := SVG(d, SVGOptions{})
		if !bytes.Equal(svg, SVG(d, SVGOptions{})) {
			t.Errorf("%s differs between two drawings", name)
		}
		checkValidXML(t, name, svg)
		checkPlacement(t, name, d)
		for _, e := range drawnEvents(d) {
			if !bytes.Contains(svg, []byte(fmt.Sprintf("%d", e))) {
				t.Errorf("%s: event %d is missing", name, e)
			}
		}
		if m := Mermaid(d); !strings.HasPrefix(m, "sequenceDiagram\n") || strings.Count(m, "  rect ") != strings.Count(m, "\n  end\n") {
			t.Errorf("%s: invalid Mermaid:\n%s", name, m)
		}
	})
	if n < 56 {
		t.Errorf("%d pictures, want at least 56", n)
	}
}

func drawnEvents(d Diagram) []int64 {
	var all []int64
	for _, n := range d.Notes {
		if n.Lane >= 0 {
			all = append(all, n.Events...)
		}
	}
	for _, g := range groupByFact(d) {
		for _, a := range g {
			all = append(all, a.Events...)
		}
	}
	return all
}

func checkValidXML(t *testing.T, name string, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s is not valid XML: %v", name, err)
			return
		}
	}
}

// checkPlacement checks that all text is inside the picture and that labels don't overlap each other.
// Other text cannot overlap, because it is laid out line by line.
func checkPlacement(t *testing.T, name string, d Diagram) {
	t.Helper()
	p := newPicture(d, SVGOptions{})
	var labels []box
	for _, x := range p.texts {
		chars := 0
		for _, l := range x.lines {
			chars = max(chars, utf8.RuneCountInString(l))
		}
		b := box{x.x, x.y - lineHeight + 3, x.x + float64(chars)*charWidth*0.97, x.y + float64(len(x.lines)-1)*lineHeight}
		if b.x1 < 0 || b.x2 > p.width || b.y1 < 0 || b.y2 > p.height {
			t.Errorf("%s: %q is outside the picture: %v of %v × %v", name, x.lines, b, p.width, p.height)
		}
		if !strings.HasPrefix(x.class, "sq-label") {
			continue
		}
		for _, o := range labels {
			if b.x1 < o.x2 && o.x1 < b.x2 && b.y1 < o.y2 && o.y1 < b.y2 {
				t.Errorf("%s: %q overlaps another label", name, x.lines)
			}
		}
		labels = append(labels, b)
	}
	for _, m := range p.marks {
		if m.x < leftEdge-1 || m.x > p.width || m.y < p.top || m.y > p.bottom {
			t.Errorf("%s: mark %s is outside the drawing at %v, %v", name, m.symbol, m.x, m.y)
		}
	}
}

// TestGoldenPictures compares some of the pictures with golden files.
func TestGoldenPictures(t *testing.T) {
	var done []string
	eachExample(t, func(name string, d Diagram) {
		switch name {
		case "ours/gc-pause", "restart-forgets", "clock-jump", "delayed-write", "ours/foreign-release", "ours/stopped", "ours/hostile", "vacuous":
		default:
			return
		}
		done = append(done, name)
		for ending, got := range map[string][]byte{".svg": SVG(d, SVGOptions{}), ".mmd": []byte(Mermaid(d))} {
			path := filepath.Join("testdata", "pictures", filepath.Base(name)+ending)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s differs: check the picture and, if it is right, run with -update (%v)", path, err)
			}
		}
	})
	if len(done) != 8 {
		t.Errorf("compared the pictures of %q, want 8", done)
	}
}

// SVG and Mermaid escape and truncate all names.
func TestHostileNamesAreEscaped(t *testing.T) {
	evil := "</title><script>alert(1)</script>\x00\x1b[31m]]>&\"'; end #35; %%{init}%%\n" + strings.Repeat("W", 1<<20)
	d := Diagram{Title: evil, Caption: []string{evil}, Omitted: evil,
		Lanes:  []lane{{Name: evil, Role: clientRole}, {Name: evil, Role: lockRole}},
		Arrows: []arrow{{Fact: 1, From: 0, To: 1, Sent: 1e9, Arrived: 2e9, Label: evil, Detail: evil, Events: []int64{1}}, {Fact: 2, From: 5, To: -1}},
		Notes:  []note{{Lane: 0, At: 3e9, Label: evil, Bad: true, Events: []int64{2}}, {Lane: 9, At: 3e9, Label: evil}},
		Bars:   []bar{{Lane: 7}, {Lane: 0, State: statePaused, From: -1 << 62, To: 1 << 62}},
		Bands:  []band{{From: 1e9, To: 3e9, Label: evil}}}
	svg := SVG(d, SVGOptions{Prefix: evil[:20]})
	checkValidXML(t, "hostile", svg)
	checkPlacement(t, "hostile", d)
	if bytes.Contains(svg, []byte("<script")) || len(svg) > 100_000 {
		t.Errorf("unescaped markup, or %d bytes is too long", len(svg))
	}
	m := Mermaid(d)
	for _, bad := range []string{"<", "\x00", "\x1b", "%%", "; end", "{"} {
		if strings.Contains(m, bad) {
			t.Errorf("%q is not escaped in Mermaid:\n%.600s", bad, m)
		}
	}
}

// An embedded picture has links but no style sheet.
func TestEmbeddedPicture(t *testing.T) {
	d := ForResult(readExample(t, "gc-pause"), nil)
	svg := string(SVG(d, SVGOptions{Embedded: true, Prefix: "a-"}))
	for _, want := range []string{`<a href="#e`, `id="a-stall"`, `url(#a-stall)`, `data-e="`} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(svg, "<style>") {
		t.Error("an embedded picture contains a style element")
	}
}

// An axis preserves the order of times and stretches short spans.
func TestAxis(t *testing.T) {
	a := newAxis([]int64{0, 1e6, 2e6, 10e9, 1e6})
	if len(a.times) != 4 || a.pos(-5) != leftEdge || a.pos(1<<60) != a.x[3] {
		t.Errorf("%v", a)
	}
	quick, long := a.pos(1e6)-a.pos(0), a.pos(10e9)-a.pos(2e6)
	if quick < 20 || long < quick || long > 100 {
		t.Errorf("1 ms is %v wide, 10 s is %v wide", quick, long)
	}
	if mid := a.pos(6e9); mid <= a.x[2] || mid >= a.x[3] {
		t.Errorf("6 s is at %v", mid)
	}
	if none := newAxis(nil); none.pos(5) != leftEdge {
		t.Error("pos on an empty axis is not the left edge")
	}
}

func BenchmarkSVG(b *testing.B) {
	a, err := txtar.ParseFile("testdata/gc-pause.txtar")
	if err != nil {
		b.Fatal(err)
	}
	h, err := parseShortForm(string(a.Files[0].Data))
	if err != nil {
		b.Fatal(err)
	}
	d := ForResult(h, nil)
	for b.Loop() {
		SVG(d, SVGOptions{})
	}
}
