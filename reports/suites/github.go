package suites

import (
	"fmt"
	"io"
	"strings"

	"lockpick/checker"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// GitHub gathers outcomes. Its zero value is ready.
type GitHub struct {
	groups []*githubGroup
	count  map[string]int // outcomes by state
	runs   int
}

// group is the runs of one scenario on one backend.
type githubGroup struct {
	scenario, backend string
	runs              int
	count             map[string]int
	rows              []*githubRow
	skipped           string
	bad               []outcome.Outcome // the first that were not as expected
	good              *outcome.Outcome  // the first that was, and shows a violation
}

// row is one property in all runs of a scenario.
type githubRow struct {
	property, expected string
	first              outcome.Judgement // that was not as expected; else the first
	runs, unexpected   int
	violated, decided  int  // runs
	free               bool // nothing is expected of it, and it was violated
	idle               int  // runs that gave no occasion to violate it
}

// mostBad is how many runs of one scenario are told of.
const mostBad = 3

// Add adds the outcome of one run.
func (r *GitHub) Add(o outcome.Outcome) {
	if r.count == nil {
		r.count = map[string]int{}
	}
	g := outcome.Entry(&r.groups, func(g *githubGroup) bool { return g.scenario == o.Scenario && g.backend == o.Backend },
		githubGroup{scenario: o.Scenario, backend: o.Backend, count: map[string]int{}})
	r.runs++
	r.count[o.State()]++
	g.add(o)
}

func (g *githubGroup) add(o outcome.Outcome) {
	g.runs++
	g.count[o.State()]++
	if o.Skipped != "" {
		g.skipped = o.Skipped
	}
	if o.Code != outcome.ExitOK && len(g.bad) < mostBad {
		g.bad = append(g.bad, o)
	}
	for _, j := range o.Judgements {
		if j.Tells() {
			g.judged(j)
		}
		if o.Code == outcome.ExitOK && g.good == nil && j.Got == checker.Violated && j.Number == nil {
			g.good = &o
		}
	}
}

func (g *githubGroup) judged(j outcome.Judgement) {
	r := outcome.Entry(&g.rows, func(r *githubRow) bool { return r.property == j.Property }, githubRow{property: j.Property, expected: j.Expected, first: j})
	r.runs++
	r.free = r.free || j.Free()
	switch j.Got {
	case checker.Violated:
		r.violated++
		r.decided++
	case checker.Holds:
		r.decided++
	}
	if j.Got == checker.NotExercised {
		r.idle++
	} else if r.idle > 0 && r.unexpected == 0 && r.first.Got == checker.NotExercised {
		r.first = j
	}
	if !j.AsExpected && !j.Waits() {
		if r.unexpected == 0 {
			r.first = j
		}
		r.unexpected++
	}
}

// mostAnnotations is one less than GitHub shows of one step, so that none is dropped
// without a word.
const mostAnnotations = 9

// Annotations writes a workflow command for each outcome that was not as expected: at
// most nine, the last of which says how many more there are.
func (r *GitHub) Annotations(w io.Writer) error {
	var lines []string
	all := 0
	for _, g := range r.groups {
		all += g.runs - outcome.Fine(g.count) - g.count[outcome.Skipped]
		for _, o := range g.bad {
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

// Summary writes what was gathered as a step's summary. drawing is the sequence
// diagram of a run: Mermaid's, or plain text; "" if there is none. It is asked only
// about runs whose diagram is shown, and may be nil.
func (r *GitHub) Summary(w io.Writer, drawing func(outcome.Outcome) string) error {
	d := &document{left: mostBytes}
	d.lines("## lockpick: "+r.verdict(), "")
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
	for _, g := range r.groups {
		for _, o := range g.bad {
			if o.Skipped == "" {
				d.run(o)
				show(o)
			}
		}
		if more := g.runs - outcome.Fine(g.count) - g.count[outcome.Skipped] - len(g.bad); more > 0 {
			d.lines(fmt.Sprintf("… and %d more runs of %s that were not as expected.", more, plain(g.scenario)), "")
		}
	}
	if len(r.groups) <= fewRuns {
		for _, g := range r.groups {
			if g.good != nil {
				if g.good.FreeOnly() {
					d.lines(fmt.Sprintf("### %s: a violation, seed %d", plain(g.scenario), g.good.Seed), "", "Nothing was expected of it. Run it again:", "")
					d.fenced("sh", display.Clip(g.good.Command, mostText))
				} else {
					d.lines("### "+plain(g.scenario)+": a violation, as expected", "")
				}
				show(*g.good)
			}
		}
	}
	d.table(r)
	d.skips(r)
	d.lines("“holds” means only: no violation was found in these runs.")
	if _, err := io.WriteString(w, d.b.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func (r *GitHub) verdict() string {
	noun := "runs"
	if r.runs == 1 {
		noun = "run"
	}
	return strings.Join(append([]string{fmt.Sprintf("%d %s", r.runs, noun)}, outcome.Counted(r.count)...), ", ")
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
func (d *document) table(r *GitHub) {
	d.lines("| scenario | property | expected | got | |", "|---|---|---|---|---|")
	for _, unexpected := range []bool{true, false} {
		for _, g := range r.groups {
			for _, row := range g.rows {
				if (row.unexpected > 0) == unexpected {
					d.lines(row.line(g))
				}
			}
		}
	}
	d.lines("")
}

func (r *githubRow) line(g *githubGroup) string {
	j := r.first
	got := j.Got.String()
	if j.Number != nil {
		got = outcome.Figure(j.Number.Value)
	}
	if r.runs > 1 && r.free {
		got = "violated in " + outcome.Rate(r.violated, r.decided)
	} else if j.Cause != "" {
		got += ": " + j.Cause
	}
	if j.Node != "" && (r.runs == 1 || !r.free) {
		got += " at " + j.Node
	}
	mark := "as expected"
	switch {
	case j.Waits():
		mark = "waits for " + j.Number.Bound.Than
	case r.unexpected > 0 && r.runs > 1:
		mark = fmt.Sprintf("**not as expected in %d of %d**", r.unexpected, r.runs)
	case r.unexpected > 0 && j.Open():
		mark = "**undecided**"
	case r.unexpected > 0:
		mark = "**unexpected**"
	case r.free:
		mark = "nothing expected"
	case r.idle == 1 && r.runs == 1:
		mark = "need not be"
	case r.runs > 1:
		mark = fmt.Sprintf("as expected, in %d runs", r.runs)
	}
	if r.idle > 0 && r.runs > 1 {
		mark += fmt.Sprintf("; %d did not exercise it", r.idle)
	}
	cells := []string{plain(g.scenario), plain(r.property), plain(r.expected), plain(got)}
	return "| " + strings.Join(cells, " | ") + " | " + mark + " |"
}

// skips lists what was not run, and why.
func (d *document) skips(r *GitHub) {
	head := false
	for _, g := range r.groups {
		if g.skipped == "" {
			continue
		}
		if !head {
			d.lines("Skipped:", "")
		}
		head = true
		d.lines("- " + plain(g.scenario) + ": " + plain(g.skipped))
	}
	if head {
		d.lines("")
	}
}
