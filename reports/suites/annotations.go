package suites

import (
	"fmt"
	"io"
	"strings"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

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
