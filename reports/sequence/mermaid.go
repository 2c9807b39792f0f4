package sequence

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/reports/display"
)

// mostRows is how many facts a Mermaid diagram shows: more would not be read, and
// GitHub draws none beyond its own limits.
const mostRows = 60

// Mermaid draws a diagram as a sequenceDiagram of Mermaid's, which GitHub and GitLab
// show in issues and summaries. Time runs down, a fact a line, with its instant. Only
// the first 60 facts are there; the last line says how many are not.
func Mermaid(d Diagram) string {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for i, l := range d.Lanes {
		fmt.Fprintf(&b, "  participant p%d as %s\n", i, mermaidText(string(l.Role)+" "+l.Name, 40))
	}
	rows := makeRows(d)
	if len(d.Lanes) == 0 || len(rows) == 0 {
		b.WriteString("  participant x as nothing to draw#58; no client tried to acquire a lock\n")
		return b.String()
	}
	exact := digits(rows)
	inBand := false
	for _, r := range rows[:min(len(rows), mostRows)] {
		within := slices.ContainsFunc(d.Bands, func(b band) bool { return b.From <= r.at && r.at < b.To }) // something was wrong then
		if within != inBand {
			b.WriteString(map[bool]string{true: "  rect rgba(213, 94, 0, 0.15)\n", false: "  end\n"}[within])
		}
		inBand = within
		at := display.Decimal(r.at, max(exact[r.at], 3)) + " s"
		if len(r.arrows) > 0 {
			mermaidArrows(&b, r, at)
			continue
		}
		label := r.label
		if r.bad {
			label = "! " + label
		}
		words := mermaidText(at+" "+label, 160)
		switch {
		case r.lane >= 0 && r.lane < len(d.Lanes):
			fmt.Fprintf(&b, "  Note over p%d: %s\n", r.lane, words)
		default:
			fmt.Fprintf(&b, "  Note over p0,p%d: %s\n", len(d.Lanes)-1, words)
		}
	}
	if inBand {
		b.WriteString("  end\n")
	}
	if more := len(rows) - mostRows; more > 0 {
		fmt.Fprintf(&b, "  Note over p0,p%d: %s not shown here\n", len(d.Lanes)-1, display.Plural(more, "later fact"))
	}
	return b.String()
}

// mermaidArrows writes the messages of one fact: an answer with a dashed shaft, a lost
// one with a cross.
func mermaidArrows(b *strings.Builder, r row, at string) {
	for k, a := range r.arrows {
		shaft := "->>"
		if a.Answer {
			shaft = "-->>"
		}
		if a.Lost {
			shaft = strings.TrimSuffix(shaft, ">>") + "x"
		}
		label := a.Label
		switch {
		case r.part == departure:
			label += ", under way until " + display.Seconds(latest(r.arrows))
		case k == 0 && a.Detail != "":
			label += ": " + a.Detail
		}
		if a.Bad {
			label = "! " + label
		}
		fmt.Fprintf(b, "  p%d%sp%d: %s\n", a.From, shaft, a.To, mermaidText(at+" "+label, 160))
	}
}

// mermaidText makes a text one that Mermaid takes as it is: what its grammar gives a
// meaning is written as the number of the character. A word "end" would end a block.
func mermaidText(s string, most int) string {
	var b strings.Builder
	for _, r := range display.Fit(strings.ReplaceAll(escape(s), display.NoBreak, " "), most) {
		if strings.ContainsRune(`#;:<>"'%&{}[]()\|`+"`", r) {
			fmt.Fprintf(&b, "#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	words := strings.Split(b.String(), " ")
	for i, w := range words {
		if strings.EqualFold(w, "end") {
			words[i] = "#" + fmt.Sprint(w[0]) + ";" + w[1:]
		}
	}
	return strings.Join(words, " ")
}
