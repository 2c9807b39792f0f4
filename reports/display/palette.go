// Package palette is the colours of all that is drawn: pages, diagrams, figures.
//
// They are Okabe and Ito's, which the colour-blind can tell apart
// (https://jfly.uni-koeln.de/color/), each with one meaning. A colour is never the
// only carrier of its meaning: a hatch, a mark or a word says the same.
package display

import (
	"regexp"
	"strings"
)

// Okabe and Ito's colours, by what they mean here.
const (
	Alarm = "#d55e00" // vermilion: harm, a refused or foreign act, the overlap of two holders
	Lease = "#0072b2" // blue: a client believes that it holds the lock
	Stall = "#e69f00" // orange: paused, cut off, slow: a fault in force
	Fine  = "#009e73" // green: accepted, as expected
	Clock = "#cc79a7" // purple: clocks and their errors
	Other = "#56b4e9" // sky blue: a second holder, or what has no other colour
)

// What has no meaning of its own.
const (
	Paper = "#ffffff"
	Ink   = "#1b1b1b"
	Faint = "#5f5f5f"
	Line  = "#c9c9c4"
)

var colour = regexp.MustCompile(`--([a-z-]+):(#[0-9a-f]{6})`)

// Variables gives the variable of CSS that each of these colours is the value of on paper
// white, as in "var(--lease)": a drawing that has them instead follows the scheme.
func ColorVariables() map[string]string {
	names := map[string]string{}
	white, _, _ := strings.Cut(ColorsCSS, "@media")
	for _, m := range colour.FindAllStringSubmatch(white, -1) {
		names[m[2]] = "var(--" + m[1] + ")"
	}
	return names
}

// CSS sets the colours as variables, for paper white and for the dark, and for
// print. A page has it once; an SVG file carries it in its own style element.
// The -ink colours are for text: they have a contrast of 4.5 or more on --paper.
const ColorsCSS = `:root{color-scheme:light dark;--paper:#ffffff;--panel:#f6f6f4;--ink:#1b1b1b;--faint:#5f5f5f;--line:#c9c9c4;
--alarm:#d55e00;--lease:#0072b2;--stall:#e69f00;--fine:#009e73;--clock:#cc79a7;--other:#56b4e9;
--alarm-ink:#a84300;--lease-ink:#005f95;--stall-ink:#7d5600;--fine-ink:#00694d;--clock-ink:#8f4470}
@media (prefers-color-scheme:dark){:root{--paper:#16181b;--panel:#1f2226;--ink:#ececec;--faint:#a5a8ac;--line:#44484d;
--alarm:#e8702a;--lease:#4aa3df;--stall:#e69f00;--fine:#2bb98d;--clock:#d992ba;--other:#7cc6ee;
--alarm-ink:#ff9659;--lease-ink:#7cc0ee;--stall-ink:#f0b840;--fine-ink:#54d0a8;--clock-ink:#e6aecd}}
@media print{:root{color-scheme:light;--paper:#ffffff;--panel:#ffffff;--ink:#000000;--faint:#444444;--line:#999999;
--alarm:#d55e00;--lease:#0072b2;--stall:#e69f00;--fine:#009e73;--clock:#cc79a7;--other:#56b4e9;
--alarm-ink:#a84300;--lease-ink:#005f95;--stall-ink:#7d5600;--fine-ink:#00694d;--clock-ink:#8f4470}}
`
