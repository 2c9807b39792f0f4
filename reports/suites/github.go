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

// maxFailedRuns limits the number of runs shown per scenario.
const maxFailedRuns = 3

// maxAnnotations is one less than GitHub shows per step, so that GitHub does not silently drop any.
const maxAnnotations = 9

// GitHubAnnotations writes a workflow command for each outcome that was not as expected. It writes at
// most nine; if there are more such outcomes, the last command states how many.
func GitHubAnnotations(w io.Writer, t *outcome.Tally) error {
	var lines []string
	all := 0
	for _, r := range t.Rows {
		all += r.Runs - outcome.CountPassed(r.Counts)
		for _, o := range r.FailedRuns(maxFailedRuns) {
			if o.Skipped != "" { // the skip is an error because of --require
				all++
			}
			lines = append(lines, annotation(o))
		}
	}
	if all > maxAnnotations || len(lines) > maxAnnotations {
		lines = lines[:min(len(lines), maxAnnotations-1)]
	}
	if more := all - len(lines); more > 0 {
		lines = append(lines, workflowCommand("lockpick", fmt.Sprintf("… and %d more runs were not as expected; see the summary", more)))
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
		if !j.AsExpected && !j.Pending() {
			parts = append(parts, oneLine(j.String()+": "+j.Because))
		}
	}
	if o.Error != "" {
		parts = append(parts, oneLine(display.FirstLine(o.Error)))
	}
	if o.Skipped != "" {
		parts = append(parts, "not run: "+oneLine(o.Skipped))
	}
	if o.Command != "" {
		parts = append(parts, "run again: "+oneLine(o.Command))
	}
	return workflowCommand(fmt.Sprintf("%s: %s on %s, seed %d", outcome.StateText(o.State()), oneLine(o.Scenario), o.Backend, o.Seed), strings.Join(parts, "\n"))
}

// oneLine returns s, which may quote untrusted data, as a single line.
func oneLine(s string) string { return display.Sanitize(display.TruncateBytes(s, maxText), maxText) }

// workflowCommand formats a workflow command. It escapes text in the same way as GitHub's toolkit
// (actions/toolkit, packages/core/src/command.ts).
func workflowCommand(title, message string) string {
	escaped := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	return "::error title=" + property.Replace(title) + "::" + escaped.Replace(message)
}

// document is a Markdown text with a maximum size. It is truncated at the end of a line, with a note.
type document struct {
	text      strings.Builder
	bytesLeft int
	fence     string // fence of the open code block, or ""
	truncated bool
}

// noteSize is the number of bytes reserved for the note on truncation and the end of a code block.
const noteSize = 256

func (d *document) addLines(lines ...string) {
	for _, l := range lines {
		if d.truncated {
			return
		}
		if len(l)+1 > d.bytesLeft-noteSize {
			d.truncate()
			return
		}
		d.text.WriteString(l + "\n")
		d.bytesLeft -= len(l) + 1
	}
}

// truncate ends the document, including any open code block.
func (d *document) truncate() {
	d.truncated = true
	if d.fence != "" {
		d.text.WriteString(d.fence + "\n\n")
	}
	fmt.Fprintf(&d.text, "\n**Truncated at %d KiB.** See the run directories for the rest.\n", maxBytes>>10)
}

// addDrawing adds a diagram as Mermaid, if the text starts like Mermaid, or as plain text.
func (d *document) addDrawing(text string) {
	kind := "text"
	if strings.HasPrefix(text, "sequenceDiagram") || strings.HasPrefix(text, "%%{") || strings.HasPrefix(text, "---\n") {
		kind = "mermaid"
	}
	if len(text) > maxDrawing && kind == "mermaid" { // a truncated Mermaid diagram cannot be rendered
		d.addLines("The diagram is too long for Mermaid. See the run directory.", "")
		return
	}
	d.addCodeBlock(kind, display.TruncateBytes(text, maxDrawing))
}

// addCodeBlock adds a code block with a fence longer than any run of backticks in the text.
func (d *document) addCodeBlock(kind, text string) {
	longest, n := 2, 0
	for _, r := range text {
		if n++; r != '`' {
			n = 0
		}
		longest = max(longest, n)
	}
	fence := strings.Repeat("`", longest+1)
	d.addLines(fence + kind)
	if d.truncated {
		return
	}
	d.fence = fence
	for l := range strings.SplitSeq(text, "\n") {
		d.addLines(display.Sanitize(l, len(l)))
	}
	d.addLines(fence)
	d.fence = ""
	d.addLines("")
}

// githubEscapes escapes text for GitHub. An unescaped @ would mention a user, a # would link to an
// issue, and an address would become a link.
var githubEscapes = strings.NewReplacer("://", ":&#47;/", "<", "&lt;", ">", "&gt;", "&", "&amp;", "@", "&#64;", "#", "&#35;",
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "{", `\{`, "}", `\}`, "[", `\[`, "]", `\]`, "(", `\(`, ")", `\)`, "|", `\|`, "~", `\~`, "$", `\$`, "!", `\!`)

// githubMarkdown escapes text for GitHub and puts it on one line. It escapes more than markdown does,
// because GitHub turns even plain words into links.
func githubMarkdown(s string) string { return githubEscapes.Replace(display.Sanitize(s, maxText)) }

// Limits of the summary.
const (
	maxBytes         = 900 << 10 // GitHub rejects summaries of more than 1 MiB
	maxExpectedDrawn = 4         // expected violations are drawn only for at most this many scenarios
	maxText          = 1 << 10   // size of one text, in characters on the page and in bytes elsewhere
	maxDrawing       = 40 << 10  // Mermaid rejects more than 50,000 characters
	maxDiagrams      = 20        // number of diagrams
)

// GitHubSummary writes a tally as the summary of a workflow step. drawing returns a run's sequence
// diagram as Mermaid or plain text, or "" if there is none. GitHubSummary calls drawing only to show
// the diagram. drawing may be nil.
func GitHubSummary(w io.Writer, t *outcome.Tally, drawing func(outcome.Outcome) string) error {
	d := &document{bytesLeft: maxBytes}
	runs := 0
	for _, n := range t.Counts {
		runs += n
	}
	d.addLines("## lockpick: "+strings.Join(append([]string{countNoun(runs, "run")}, outcome.DescribeCounts(t.Counts)...), ", "), "")
	numDrawn := 0
	show := func(o outcome.Outcome) {
		if drawing == nil || numDrawn >= maxDiagrams {
			return
		}
		if text := strings.Trim(drawing(o), "\n"); text != "" {
			numDrawn++
			d.addDrawing(text)
		}
	}
	for _, r := range t.Rows {
		failedRuns := r.FailedRuns(maxFailedRuns)
		for _, o := range failedRuns {
			if o.Skipped == "" {
				d.addRun(o)
				show(o)
			}
		}
		if more := r.Runs - outcome.CountPassed(r.Counts) - len(failedRuns); more > 0 {
			d.addLines(fmt.Sprintf("… and %d more runs of %s were not as expected.", more, githubMarkdown(r.Scenario)), "")
		}
	}
	if len(t.Rows) <= maxExpectedDrawn {
		for _, r := range t.Rows {
			i := slices.IndexFunc(r.QuotedRuns, func(o outcome.Outcome) bool { return o.Code == outcome.ExitOK && o.Violated() })
			if i < 0 {
				continue
			}
			if good := r.QuotedRuns[i]; good.InformationalOnly() {
				d.addLines(fmt.Sprintf("### %s: violation (informational), seed %d", githubMarkdown(r.Scenario), good.Seed), "", "The scenario has no expectation for it. To rerun it:", "")
				d.addCodeBlock("sh", display.TruncateBytes(good.Command, maxText))
			} else {
				d.addLines("### "+githubMarkdown(r.Scenario)+": violation, as expected", "")
			}
			show(r.QuotedRuns[i])
		}
	}
	d.addTable(t)
	d.addSkips(t)
	d.addLines("“holds” means only that no violation was found in these runs.")
	if _, err := io.WriteString(w, d.text.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func (d *document) addRun(o outcome.Outcome) {
	d.addLines(fmt.Sprintf("### %s: %s on %s, seed %d", strings.ToUpper(outcome.StateText(o.State())), githubMarkdown(o.Scenario), githubMarkdown(o.Backend), o.Seed), "")
	for _, j := range o.Judgements {
		if !j.AsExpected && !j.Pending() {
			d.addLines("- **" + githubMarkdown(j.String()) + "**: " + githubMarkdown(j.Because))
		}
	}
	if o.Error != "" {
		d.addLines("- error: " + githubMarkdown(display.FirstLine(o.Error)))
	}
	for _, why := range o.RetryReasons {
		d.addLines("- retried: " + githubMarkdown(why))
	}
	d.addLines("", "Run again:", "")
	d.addCodeBlock("sh", display.TruncateBytes(o.Command, maxText))
}

// addTable adds a table with a line for each property of each scenario. Unexpected results come first.
func (d *document) addTable(t *outcome.Tally) {
	d.addLines("| scenario | property | expected | got | |", "|---|---|---|---|---|")
	for _, first := range []bool{true, false} {
		for _, r := range t.Rows {
			for _, property := range r.ReportedProperties {
				if c := r.Cell(property); c != nil && (c.Count(isUnexpected) > 0) == first {
					d.addLines(tableLine(r, c))
				}
			}
		}
	}
	d.addLines("")
}

func isUnexpected(w outcome.ResultKey) bool { return !w.AsExpected && !w.Waiting }
func anyResult(outcome.ResultKey) bool      { return true }

// tableLine formats a property's results in all runs of a scenario.
func tableLine(r *outcome.Row, c *outcome.Cell) string {
	j, runs, informational, unexpected := c.ShownJudgement, c.Count(anyResult), c.Count(outcome.ResultKey.Informational) > 0, c.Count(isUnexpected)
	notExercised := c.Count(func(w outcome.ResultKey) bool { return w.Got == verdict.NotExercised })
	for _, o := range slices.Backward(r.QuotedRuns) {
		if first := o.JudgementOf(c.Property); first != nil && !first.AsExpected && !first.Pending() {
			j = *first
		}
	}
	got := j.Got.String()
	if j.Number != nil {
		got = outcome.FormatNumber(j.Number.Value)
	}
	if runs > 1 && informational {
		got = "violated in " + outcome.Rate(c.NumViolated, c.NumDecided)
	} else if j.Cause != "" {
		got += ": " + j.Cause
	}
	if j.Node != "" && (runs == 1 || !informational) {
		got += " at " + j.Node
	}
	mark := "as expected"
	switch {
	case j.Pending():
		mark = "depends on " + j.Number.Bound.Variant
	case unexpected > 0 && runs > 1:
		mark = fmt.Sprintf("**not as expected in %d of %d**", unexpected, runs)
	case unexpected > 0 && j.Unresolved():
		mark = "**inconclusive**"
	case unexpected > 0:
		mark = "**unexpected**"
	case informational:
		mark = "informational"
	case notExercised == 1 && runs == 1:
		mark = "not required"
	case runs > 1:
		mark = fmt.Sprintf("as expected, in %d runs", runs)
	}
	if notExercised > 0 && runs > 1 {
		mark += fmt.Sprintf("; %d did not exercise it", notExercised)
	}
	cells := []string{githubMarkdown(r.Scenario), githubMarkdown(c.Property), githubMarkdown(j.Expected), githubMarkdown(got)}
	return "| " + strings.Join(cells, " | ") + " | " + mark + " |"
}

// addSkips lists the skipped scenarios with the reasons.
func (d *document) addSkips(t *outcome.Tally) {
	hasHeading := false
	for _, r := range t.Rows {
		if r.Skipped == "" {
			continue
		}
		if !hasHeading {
			d.addLines("Skipped:", "")
		}
		hasHeading = true
		d.addLines("- " + githubMarkdown(r.Scenario) + ": " + githubMarkdown(r.Skipped))
	}
	if hasHeading {
		d.addLines("")
	}
}
