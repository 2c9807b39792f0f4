package sequence

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// In the picture of each example, no label is cut off, extends beyond the picture, overlaps another
// label or a mark, or is crossed by an arrow. The number of each footnote is in the picture.
func TestPictureLayout(t *testing.T) { checkLayouts(t, eachExample, 50) }

// checkLayouts checks the layout of all pictures, and that there are at least minPictures.
func checkLayouts(t *testing.T, all func(t *testing.T, visit func(name string, d Diagram)), minPictures int) {
	t.Helper()
	pictures, numErrors := 0, 0
	all(t, func(name string, d Diagram) {
		pictures++
		for _, embedded := range []bool{false, true} {
			for _, w := range layoutErrors(SVG(d, SVGOptions{Embedded: embedded})) {
				if strings.Contains(w, "cut:") && (strings.Contains(name, "hostile") || strings.Contains(w, "locklock")) {
					continue // very long names are always cut
				}
				numErrors++
				t.Errorf("%s: %s", name, w)
			}
		}
	})
	t.Logf("%d pictures, %d layout errors", pictures, numErrors)
	if pictures < minPictures {
		t.Errorf("%d pictures, want at least %d", pictures, minPictures)
	}
}

// piece is a text, mark or arrow in a picture.
type piece struct {
	box
	class, text string
	line        [4]float64 // coordinates of an arrow's ends
}

var (
	linePath       = regexp.MustCompile(`^M([-\d.]+) ([-\d.]+)L([-\d.]+) ([-\d.]+)$`)
	crossPath      = regexp.MustCompile(`^M([-\d.]+) ([-\d.]+)m-6 -6l`)
	footnoteNumber = regexp.MustCompile(`^[①-⑳]|^\(\d+\)`)
)

// layoutErrors lists a picture's layout errors. It knows only the SVG, not the layout code.
func layoutErrors(svg []byte) (errs []string) {
	texts, marks, arrows, width, height := parsePieces(svg)
	report := func(format string, args ...any) { errs = append(errs, fmt.Sprintf(format, args...)) }
	numFootnotes, numReferences := 0, 0
	for i, a := range texts {
		label := strings.Contains(a.class, "sq-label") || strings.Contains(a.class, "sq-in")
		if a.x1 < 0 || a.y1 < 0 || a.x2 > width || a.y2 > height {
			report("outside the picture: %q", a.text)
		}
		if strings.HasSuffix(a.text, "…") || strings.HasSuffix(a.text, "…)") {
			report("cut: %q", a.text)
		}
		if footnoteNumber.MatchString(a.text) {
			if label {
				numReferences++
			} else {
				numFootnotes++
			}
		}
		for _, b := range texts[i+1:] {
			if overlap(a.box, b.box) {
				report("%q overlaps %q", a.text, b.text)
			}
		}
		if !label && a.class != "sq-name" {
			continue
		}
		for _, m := range marks {
			if overlap(a.box, m.box) {
				report("a mark overlaps %q", a.text)
			}
		}
		for _, l := range arrows {
			if lineCrosses(a.box, l.line) {
				report("an arrow crosses %q", a.text)
			}
		}
	}
	if numFootnotes != numReferences {
		report("%d footnotes but %d footnote numbers in the picture", numFootnotes, numReferences)
	}
	return errs
}

func overlap(b, o box) bool { return b.x1+1 < o.x2 && o.x1+1 < b.x2 && b.y1+1 < o.y2 && o.y1+1 < b.y2 }

// lineCrosses reports whether any of a number of sampled points of a line is in a box.
func lineCrosses(b box, l [4]float64) bool {
	n := math.Max(math.Hypot(l[2]-l[0], l[3]-l[1]), 1)
	for i := 0.0; i <= n; i++ {
		x, y := l[0]+i/n*(l[2]-l[0]), l[1]+i/n*(l[3]-l[1])
		if b.x1+1 < x && x < b.x2-1 && b.y1+1 < y && y < b.y2-1 {
			return true
		}
	}
	return false
}

func parsePieces(svg []byte) (texts, marks, arrows []piece, width, height float64) {
	var at map[string]string
	class := ""
	number := func(s string) float64 { n, _ := strconv.ParseFloat(s, 64); return n }
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if err != nil {
			return texts, marks, arrows, width, height
		}
		switch e := token.(type) {
		case xml.StartElement:
			at = map[string]string{"element": e.Name.Local}
			for _, a := range e.Attr {
				at[a.Name.Local] = a.Value
			}
			class = at["class"]
			x, y := number(at["cx"]), number(at["cy"])
			switch {
			case e.Name.Local == "svg":
				width, height = number(at["width"]), number(at["height"])
			case e.Name.Local == "circle":
				marks = append(marks, piece{box: box{x - 5, y - 5, x + 5, y + 5}, class: class})
			case e.Name.Local == "path":
				if m := crossPath.FindStringSubmatch(at["d"]); m != nil {
					x, y := number(m[1]), number(m[2])
					marks = append(marks, piece{box: box{x - 6, y - 6, x + 6, y + 6}, class: class})
				}
				if m := linePath.FindStringSubmatch(at["d"]); m != nil && strings.Contains(class, "sq-arrow") {
					arrows = append(arrows, piece{class: class, line: [4]float64{number(m[1]), number(m[2]), number(m[3]), number(m[4])}})
				}
			}
		case xml.EndElement:
			at = nil
		case xml.CharData:
			if at["element"] != "text" {
				continue
			}
			size, widthFactor := 12.0, 0.53
			if strings.Contains(class, "sq-title") {
				size = 16
			}
			if strings.Contains(class, "sq-bad") || strings.Contains(class, "sq-name") {
				widthFactor = 0.56
			}
			w := widthFactor * size * float64(utf8.RuneCount(e))
			x, y := number(at["x"]), number(at["y"])
			switch at["text-anchor"] {
			case "middle":
				x -= w / 2
			case "end":
				x -= w
			}
			texts = append(texts, piece{box: box{x, y - 0.8*size, x + w, y + 0.2*size}, class: class, text: string(e)})
		}
	}
}
