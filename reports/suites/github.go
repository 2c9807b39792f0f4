package suites

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// mostBad bounds the runs of one scenario that are shown.
const mostBad = 3

// mostAnnotations is one less than GitHub shows of one step, so that none is dropped
// without a word.
const mostAnnotations = 9

// GitHubAnnotations writes a workflow command for each outcome that was not as expected: at
// most nine, the last of which says how many more there are.
func GitHubAnnotations(w io.Writer, t *outcome.Tally) error {
	var lines []string
	all := 0
	for _, r := range t.Rows {
		all += r.Runs - outcome.Fine(r.Counts)
		for _, o := range r.NotFine(mostBad) {
			if o.Skipped != "" { // it was required
				all++
			}
			lines = append(lines, annotation(o))
		}
	}
	if all > mostAnnotations || len(lines) > mostAnnotations {
		lines = lines[:min(len(lines), mostAnnotations-1)]
	}
	if more := all - len(lines); more > 0 {
		lines = append(lines, command("lockpick", fmt.Sprintf("… and %d more runs that were not as expected: see the summary", more)))
	}
	for _, l := range lines {
		if _, err := fmt.Fprintln(w, l); err != nil {
			return fmt.Errorf("write annotations: %w", err)
		}
	}
	return nil
}

func annotation(o outcome.Outcome) string {
	var parts []string
	for _, j := range o.Judgements {
		if !j.AsExpected && !j.Waits() {
			parts = append(parts, line(j.String()+": "+j.Because))
		}
	}
	if o.Error != "" {
		parts = append(parts, line(display.FirstLine(o.Error)))
	}
	if o.Skipped != "" {
		parts = append(parts, "not run: "+line(o.Skipped))
	}
	if o.Command != "" {
		parts = append(parts, "run again: "+line(o.Command))
	}
	return command(fmt.Sprintf("%s: %s on %s, seed %d", o.State(), line(o.Scenario), o.Backend, o.Seed), strings.Join(parts, "\n"))
}

// line is a text that quotes data, as one line.
func line(s string) string { return display.Visible(display.Clip(s, mostText), mostText) }

// command is one workflow command, escaped as GitHub's own toolkit does it
// (actions/toolkit, packages/core/src/command.ts).
func command(title, message string) string {
	escaped := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	return "::error title=" + property.Replace(title) + "::" + escaped.Replace(message)
}

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

// Limits of what is shown.
const (
	mostBytes   = 900 << 10 // GitHub refuses a summary of more than 1 MiB
	fewRuns     = 4         // scenarios up to which what was expected is drawn, too
	mostText    = 1 << 10   // of one text of a run: characters on the page, bytes elsewhere
	mostDrawing = 40 << 10  // Mermaid refuses more than 50,000 characters
	mostDrawn   = 20        // diagrams
)

// GitHubSummary writes a tally as a step's summary. drawing is the sequence
// diagram of a run: Mermaid's, or plain text; "" if there is none. It is asked only
// about runs whose diagram is shown, and may be nil.
func GitHubSummary(w io.Writer, t *outcome.Tally, drawing func(outcome.Outcome) string) error {
	d := &document{left: mostBytes}
	runs := 0
	for _, n := range t.Counts {
		runs += n
	}
	d.lines("## lockpick: "+strings.Join(append([]string{counted(runs, "run")}, outcome.Counted(t.Counts)...), ", "), "")
	drawn := 0
	show := func(o outcome.Outcome) {
		if drawing == nil || drawn >= mostDrawn {
			return
		}
		if text := strings.Trim(drawing(o), "\n"); text != "" {
			drawn++
			d.drawing(text)
		}
	}
	for _, r := range t.Rows {
		bad := r.NotFine(mostBad)
		for _, o := range bad {
			if o.Skipped == "" {
				d.run(o)
				show(o)
			}
		}
		if more := r.Runs - outcome.Fine(r.Counts) - len(bad); more > 0 {
			d.lines(fmt.Sprintf("… and %d more runs of %s that were not as expected.", more, plain(r.Scenario)), "")
		}
	}
	if len(t.Rows) <= fewRuns {
		for _, r := range t.Rows {
			i := slices.IndexFunc(r.Quoted, func(o outcome.Outcome) bool { return o.Code == outcome.ExitOK && o.Violated() })
			if i < 0 {
				continue
			}
			if good := r.Quoted[i]; good.FreeOnly() {
				d.lines(fmt.Sprintf("### %s: a violation, seed %d", plain(r.Scenario), good.Seed), "", "Nothing was expected of it. Run it again:", "")
				d.fenced("sh", display.Clip(good.Command, mostText))
			} else {
				d.lines("### "+plain(r.Scenario)+": a violation, as expected", "")
			}
			show(r.Quoted[i])
		}
	}
	d.table(t)
	d.skips(t)
	d.lines("“holds” means only: no violation was found in these runs.")
	if _, err := io.WriteString(w, d.b.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func (d *document) run(o outcome.Outcome) {
	d.lines(fmt.Sprintf("### %s: %s on %s, seed %d", strings.ToUpper(o.State()), plain(o.Scenario), plain(o.Backend), o.Seed), "")
	for _, j := range o.Judgements {
		if !j.AsExpected && !j.Waits() {
			d.lines("- **" + plain(j.String()) + "**: " + plain(j.Because))
		}
	}
	if o.Error != "" {
		d.lines("- error: " + plain(display.FirstLine(o.Error)))
	}
	for _, why := range o.Retried {
		d.lines("- tried again: " + plain(why))
	}
	d.lines("", "Run again:", "")
	d.fenced("sh", display.Clip(o.Command, mostText))
}

// table is each scenario with its properties, unexpected ones first.
func (d *document) table(t *outcome.Tally) {
	d.lines("| scenario | property | expected | got | |", "|---|---|---|---|---|")
	for _, first := range []bool{true, false} {
		for _, r := range t.Rows {
			for _, property := range r.Reported {
				if c := r.Cell(property); c != nil && (c.Count(unexpected) > 0) == first {
					d.lines(tableLine(r, c))
				}
			}
		}
	}
	d.lines("")
}

// Ways of runs.
func unexpected(w outcome.Way) bool { return !w.AsExpected && !w.Waiting }
func all(outcome.Way) bool          { return true }

// tableLine is a property in all runs of a scenario that are worth a line.
func tableLine(r *outcome.Row, c *outcome.Cell) string {
	j, runs, free, other := c.Shown, c.Count(all), c.Count(outcome.Way.Free) > 0, c.Count(unexpected)
	idle := c.Count(func(w outcome.Way) bool { return w.Got == verdict.NotExercised })
	for _, o := range slices.Backward(r.Quoted) {
		if first := o.Of(c.Property); first != nil && !first.AsExpected && !first.Waits() {
			j = *first
		}
	}
	got := j.Got.String()
	if j.Number != nil {
		got = outcome.Figure(j.Number.Value)
	}
	if runs > 1 && free {
		got = "violated in " + outcome.Rate(c.Violated, c.Decided)
	} else if j.Cause != "" {
		got += ": " + j.Cause
	}
	if j.Node != "" && (runs == 1 || !free) {
		got += " at " + j.Node
	}
	mark := "as expected"
	switch {
	case j.Waits():
		mark = "waits for " + j.Number.Bound.Than
	case other > 0 && runs > 1:
		mark = fmt.Sprintf("**not as expected in %d of %d**", other, runs)
	case other > 0 && j.Open():
		mark = "**undecided**"
	case other > 0:
		mark = "**unexpected**"
	case free:
		mark = "nothing expected"
	case idle == 1 && runs == 1:
		mark = "need not be"
	case runs > 1:
		mark = fmt.Sprintf("as expected, in %d runs", runs)
	}
	if idle > 0 && runs > 1 {
		mark += fmt.Sprintf("; %d did not exercise it", idle)
	}
	cells := []string{plain(r.Scenario), plain(c.Property), plain(j.Expected), plain(got)}
	return "| " + strings.Join(cells, " | ") + " | " + mark + " |"
}

// skips lists what was not run, and why.
func (d *document) skips(t *outcome.Tally) {
	head := false
	for _, r := range t.Rows {
		if r.Skipped == "" {
			continue
		}
		if !head {
			d.lines("Skipped:", "")
		}
		head = true
		d.lines("- " + plain(r.Scenario) + ": " + plain(r.Skipped))
	}
	if head {
		d.lines("")
	}
}
