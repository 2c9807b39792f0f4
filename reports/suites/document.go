package suites

import (
	"fmt"
	"strings"

	"lockpick/reports/display"
)

// document is a text of Markdown that never gets longer than it may. What doesn't fit
// is left out from a line's end on, with a word that says so.
type document struct {
	b     strings.Builder
	left  int
	fence string // of the block that is open
	full  bool
}

// room for the word that it was cut, and the end of a fence.
const tail = 256

func (d *document) lines(lines ...string) {
	for _, l := range lines {
		if d.full {
			return
		}
		if len(l)+1 > d.left-tail {
			d.cut()
			return
		}
		d.b.WriteString(l + "\n")
		d.left -= len(l) + 1
	}
}

// cut ends the document, and a block that is open in it.
func (d *document) cut() {
	d.full = true
	if d.fence != "" {
		d.b.WriteString(d.fence + "\n\n")
	}
	fmt.Fprintf(&d.b, "\n**Cut at %d KiB.** The rest is in the run directories.\n", mostBytes>>10)
}

// drawing is a diagram: Mermaid's, as its first word says, or plain text.
func (d *document) drawing(text string) {
	kind := "text"
	if strings.HasPrefix(text, "sequenceDiagram") || strings.HasPrefix(text, "%%{") || strings.HasPrefix(text, "---\n") {
		kind = "mermaid"
	}
	if len(text) > mostDrawing && kind == "mermaid" { // half of it can't be drawn
		d.lines("The diagram is too long for Mermaid; it is in the run directory.", "")
		return
	}
	d.fenced(kind, display.Clip(text, mostDrawing))
}

// fenced is a block of code, whose fence is longer than any run of backticks in it.
func (d *document) fenced(kind, text string) {
	longest, n := 2, 0
	for _, r := range text {
		if n++; r != '`' {
			n = 0
		}
		longest = max(longest, n)
	}
	fence := strings.Repeat("`", longest+1)
	d.lines(fence + kind)
	if d.full {
		return
	}
	d.fence = fence
	for l := range strings.SplitSeq(text, "\n") {
		d.lines(display.Visible(l, len(l)))
	}
	d.lines(fence)
	d.fence = ""
	d.lines("")
}

// asIs are Markdown's and HTML's characters as they are written to be seen: one after @
// would call somebody, one after # is an issue, and an address is a link.
var asIs = strings.NewReplacer("://", ":&#47;/", "<", "&lt;", ">", "&gt;", "&", "&amp;", "@", "&#64;", "#", "&#35;",
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "{", `\{`, "}", `\}`, "[", `\[`, "]", `\]`, "(", `\(`, ")", `\)`, "|", `\|`, "~", `\~`, "$", `\$`, "!", `\!`)

// plain writes a text so that Markdown and HTML show it as it is, on one line. Its
// escapes differ from those of package suites, for GitHub makes links of bare words.
func plain(s string) string { return asIs.Replace(display.Visible(s, mostText)) }
