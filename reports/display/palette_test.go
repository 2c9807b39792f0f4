package display

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

// The Web Content Accessibility Guidelines (WCAG 2.1, 1.4.3) require a contrast of 4.5 for text.
func TestTextHasContrast(t *testing.T) {
	value := regexp.MustCompile(`--([a-z-]+):#([0-9a-f]{6})`)
	for i, scheme := range strings.Split(ColorsCSS, ":root{")[1:] {
		color := map[string]string{}
		for _, m := range value.FindAllStringSubmatch(scheme, -1) {
			color[m[1]] = m[2]
		}
		if len(color) != 16 {
			t.Errorf("scheme %d has %d colors, want 16", i, len(color))
		}
		for name, c := range color {
			if name != "ink" && name != "faint" && !strings.HasSuffix(name, "-ink") {
				continue
			}
			for _, background := range []string{"paper", "panel"} {
				if r := contrast(c, color[background]); r < 4.5 {
					t.Errorf("scheme %d: %s on %s has a contrast of %.1f, want at least 4.5", i, name, background, r)
				}
			}
		}
	}
}

// Each color used in drawings has its own CSS variable.
func TestColorsAreVariables(t *testing.T) {
	names := ColorVariables()
	for hex, want := range map[string]string{AlarmColor: "alarm", LeaseColor: "lease", FaultColor: "stall", SuccessColor: "fine", ClockColor: "clock", OtherColor: "other",
		PaperColor: "paper", InkColor: "ink", FaintColor: "faint", LineColor: "line"} {
		if names[hex] != "var(--"+want+")" {
			t.Errorf("%s is %q, want --%s", hex, names[hex], want)
		}
	}
	if len(names) != 16 {
		t.Errorf("%d distinct colors, want 16", len(names))
	}
}

// contrast returns the contrast ratio as defined by WCAG 2.1.
func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(hex string) float64 {
	var c [3]int
	fmt.Sscanf(hex, "%2x%2x%2x", &c[0], &c[1], &c[2])
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v := float64(c[i]) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
