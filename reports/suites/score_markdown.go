package suites

import (
	"fmt"
	"io"
	"strings"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// Markdown writes the book for issues and wikis.
func (b *Scorecards) Markdown(w io.Writer) error {
	t := &text{w: w}
	for _, c := range b.Cards {
		t.card(c)
	}
	t.printf("## What this can't tell\n\n%s\n\nRun again: `%s` (lockpick %s)\n", cardLimits, code(b.Command), b.Version)
	return t.err
}

// Limits is what a card can't tell.
const cardLimits = "Each mark speaks of these runs, with their seeds and under their faults. Where a property holds, no violation was found in them: no lock is called safe."

// text writes, and keeps the first error.
type text struct {
	w   io.Writer
	err error
}

func (t *text) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.w, format, args...); t.err == nil {
		t.err = err
	}
}

// row writes a row of a table; head is whether it is the first.
func (t *text) row(head bool, cells ...string) {
	t.printf("| %s |\n", strings.Join(cells, " | "))
	if head {
		t.printf("|%s\n", strings.Repeat("---|", len(cells)))
	}
}

func (t *text) card(c *outcome.Card) {
	t.printf("# Scorecard of %s\n\n%s\n\n%s\n\n", cardMarkdown(c.Lock), cardMarkdown(CardHeadline(c)), cardMarkdown(CardBasis(c)))
	t.row(true, append([]string{"property"}, c.Columns...)...)
	used := map[outcome.Mark]bool{}
	for _, r := range c.Rows {
		cells := []string{r.Property}
		for _, x := range r.Cells {
			cells = append(cells, string(x.Mark))
			used[x.Mark] = true
		}
		t.row(false, cells...)
	}
	for _, m := range measures() {
		cells := []string{m.Name}
		for _, column := range c.Columns {
			cells = append(cells, m.of(c, column))
		}
		t.row(false, cells...)
	}
	t.printf("\n%s\n", CardLegend(used))
	t.dice(c)
	t.findings(c, "Violated, and must hold", func(f outcome.CardFinding) bool { return f.Held && f.Confirmed() })
	t.findings(c, "Seen "+seenOnly(c), func(f outcome.CardFinding) bool { return f.Held && !f.Confirmed() })
	t.findings(c, "Violated where nobody promised it, and the scenario's own lock keeps it", func(f outcome.CardFinding) bool { return !f.Held })
	if len(c.Open) > 0 {
		t.printf("\n## Not decided\n\n")
	}
	for _, d := range c.Open {
		t.printf("- %s, %s: %s\n", cardMarkdown(d.Scenario), d.Property, cardMarkdown(d.Because))
	}
	if len(c.Skipped) > 0 {
		t.printf("\n## Not run\n\n")
	}
	for _, s := range c.Skipped {
		t.printf("- %s: %s\n", display.Plural(len(s.Scenarios), "scenario"), cardMarkdown(s.Why))
	}
	for _, e := range c.Errors {
		t.printf("\nNot judged: %s\n", cardMarkdown(e))
	}
	t.printf("\n")
}

func (t *text) dice(c *outcome.Card) {
	d := c.Dice
	if d == nil {
		return
	}
	t.printf("\n## Random plans\n\nHow often each property was violated in %s of each draw, with the 95 %% interval: of all faults, of each sort of failure alone, and of all the others without it.\n\n", display.Plural(d.Seeds, "seed"))
	t.row(true, append([]string{"property"}, draws(d)...)...)
	for _, r := range d.Rows {
		cells := []string{r.Property}
		for _, sort := range draws(d) {
			var parts []string
			for _, s := range shares(d, r, sort) {
				parts = append(parts, display.Join(" ", s.Word, rated(s.Share)))
			}
			cells = append(cells, strings.Join(parts, "<br>"))
		}
		t.row(false, cells...)
	}
}

func (t *text) findings(c *outcome.Card, title string, is func(outcome.CardFinding) bool) {
	begun := false
	for _, f := range c.Findings {
		if !is(f) {
			continue
		}
		if !begun {
			t.printf("\n## %s\n", title)
			begun = true
		}
		t.printf("\n### %s, seed %d (%s)\n\n", cardMarkdown(f.Scenario), f.Seed, f.Column)
		for _, h := range f.Harms {
			t.printf("- %s %s: %s%s\n", h.Property, h.Cause, cardMarkdown(h.Because), also(h))
			for _, more := range []string{CardTries(h.Try), CardBlame(c, f, h.Property), claimed(c, h)} {
				if more != "" {
					t.printf("  - %s\n", cardMarkdown(more))
				}
			}
		}
		if own := CardBeside(f); own != "" {
			t.printf("- %s\n- %s\n", cardMarkdown(own), measured(f))
		}
		t.printf("\n`%s`\n", code(f.Command))
		if f.Run != "" {
			t.printf("\nKept in %s.\n", f.Run)
		}
	}
}

// claimed is Claim of what had to hold; "": nobody promised it.
func claimed(c *outcome.Card, h outcome.Harm) string {
	if !h.Held {
		return ""
	}
	return cardClaim(c, h.Property)
}

func also(h outcome.Harm) string {
	if len(h.Also) == 0 {
		return ""
	}
	return cardMarkdown(fmt.Sprintf(" (also %s)", display.List(h.Also)))
}

// Legend says what the marks that are used mean.
func CardLegend(used map[outcome.Mark]bool) string {
	used[outcome.Kept] = used[outcome.Kept] || used[outcome.KeptAlike]
	used[outcome.Alike] = used[outcome.Alike] || used[outcome.KeptAlike]
	var parts []string
	for _, m := range outcome.Marks() {
		if used[outcome.Mark(m[0])] {
			parts = append(parts, m[0]+" "+m[1])
		}
	}
	return strings.Join(parts, " · ")
}

// longest bounds a text from elsewhere.
const longest = 4096

var escapes = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "|", `\|`, "#", `\#`, "~", `\~`)

// code writes a text as it stands between backticks.
func code(s string) string { return strings.ReplaceAll(display.Visible(s, longest), "`", "'") }

// markdown writes a text so that Markdown shows it as it is.
func cardMarkdown(s string) string { return escapes.Replace(display.Visible(s, longest)) }
