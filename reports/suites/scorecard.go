package suites

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

// Names in a folder of scorecards.
const (
	CardPage  = ScoreFile
	CardText  = "score.md"
	CardJSON  = "score.json"
	RunFolder = "runs"
)

// Scorecards is the result of one invocation.
type Scorecards struct {
	Schema  int             `json:"schema"`
	Code    int             `json:"code"` // exit code
	Command string          `json:"command"`
	Version string          `json:"version"` // of lockpick
	Cards   []*outcome.Card `json:"scorecards"`
}

func (b *Scorecards) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// CardHeadline summarizes a card in one to three sentences.
func CardHeadline(c *outcome.Card) string {
	var violated, unconfirmed, unrequired []string
	for _, f := range c.Findings {
		for _, h := range f.Violations {
			to := &violated
			switch {
			case !h.Required:
				to = &unrequired
			case isUnconfirmed(h):
				to = &unconfirmed
			}
			if !slices.Contains(*to, h.Property) {
				*to = append(*to, h.Property)
			}
		}
	}
	unconfirmed = slices.DeleteFunc(unconfirmed, func(p string) bool { return slices.Contains(violated, p) })
	unrequired = slices.DeleteFunc(unrequired, func(p string) bool { return slices.Contains(violated, p) || slices.Contains(unconfirmed, p) })
	text := fmt.Sprintf("%s satisfies everything required of it in these runs.", c.Lock)
	if len(violated) > 0 {
		text = fmt.Sprintf("%s violates %s, which is required of it.", c.Lock, display.List(violated))
	} else if len(unconfirmed) > 0 {
		text = fmt.Sprintf("%s satisfies what is required of it, as far as the runs on %s show.", c.Lock, c.RetryBackend)
	}
	if len(unconfirmed) > 0 {
		text += fmt.Sprintf(" Violations of %s were observed %s.", display.List(unconfirmed), unconfirmedBasis(c))
	}
	if len(unrequired) > 0 {
		text += fmt.Sprintf(" Where %s %s not required, runs violated what the comparison run satisfied.", display.List(unrequired), isOrAre(len(unrequired)))
	}
	inconclusive := map[string]bool{}
	for _, d := range c.Undecided {
		inconclusive[d.Scenario] = true
	}
	if len(inconclusive) > 0 {
		verb := "were"
		if len(inconclusive) == 1 {
			verb = "was"
		}
		text += fmt.Sprintf(" %s %s inconclusive.", display.Plural(len(inconclusive), "run"), verb)
	}
	return text
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// isUnconfirmed reports whether a violation was retried, or can't be, and was not seen again.
func isUnconfirmed(h outcome.Violation) bool {
	return h.Reproduction != nil && h.Reproduction.State != outcome.ReproductionConfirmed
}

// cardSetup describes what a card applies to, as labels with their texts.
func cardSetup(c *outcome.Card) [][2]string {
	settings := "the catalog's settings"
	if len(c.Settings) > 0 {
		var parts []string
		for _, s := range c.Settings {
			parts = append(parts, settingText(s))
		}
		settings = strings.Join(parts, ", ")
	}
	if c.Scale > 0 {
		settings += fmt.Sprintf(", durations × %g on real servers", c.Scale)
	}
	const notRecorded = "not recorded"
	return [][2]string{{"settings", settings}, {"topology", cmp.Or(c.Topology, notRecorded)}, {"server", cmp.Or(strings.Join(c.Servers, "; "), notRecorded)}}
}

// settingText describes an override such as lock.ttl=5s.
func settingText(override string) string {
	key, value, _ := strings.Cut(override, "=")
	switch key {
	case "lock.ttl":
		return "TTL " + value
	case "lock.drift":
		return "drift " + value
	case "topology.persistence":
		return "persistence " + value
	case "topology.nodes":
		return value + " nodes"
	}
	return override
}

// unconfirmedBasis states where unconfirmed violations were observed.
func unconfirmedBasis(c *outcome.Card) string {
	if c.RetryBackend == c.Backend {
		return "once, but not again"
	}
	return "only in the simulation"
}

// cardBasis describes the runs that a card is based on.
func cardBasis(c *outcome.Card) string {
	where := fmt.Sprintf("%s on %s", display.Plural(c.Runs, "run"), c.Backend)
	if c.SecondBackend != "" {
		where += fmt.Sprintf(" and %d on %s", c.SecondBackendRuns, c.SecondBackend)
	}
	text := where + fmt.Sprintf(", seed %d, each with a comparison run of the scenario's own lock.", c.Seed)
	if d := c.RandomPlans; d != nil {
		text += fmt.Sprintf(" %s of %s: %d seeds for each of %d sets of faults.", display.Plural(d.Seeds*len(d.FaultSets), "random plan"), d.Scenario, d.Seeds, len(d.FaultSets))
	}
	switch {
	case c.RetryBackend != "":
		text += fmt.Sprintf(" Violations were retried on %s.", c.RetryBackend)
	case c.Backend == "sim":
		text += " No runs were done on real servers (--try process, --beside process)."
	}
	return text
}

// faultSetName names a set of faults.
func faultSetName(w outcome.FaultSet) string {
	kind := w.Kind
	if kind == "other" {
		kind = "other faults"
	}
	switch {
	case kind == "":
		return "all faults"
	case w.Only:
		return "only " + kind
	}
	return "all but " + kind
}

// randomPlansNote says which properties random plans did not violate, or why the card has no results of
// random plans.
func randomPlansNote(c *outcome.Card) string {
	d := c.RandomPlans
	switch {
	case d == nil:
		return "No random plans were run."
	case d.Seeds < outcome.MinSeeds:
		verb := "say"
		if d.Seeds == 1 {
			verb = "says"
		}
		return fmt.Sprintf("The rates of violations are omitted, because %s for each set of faults %s too little about them (%s, with 95%% confidence). Use --seeds %d or more.",
			display.Plural(d.Seeds, "seed"), verb, outcome.Rate(0, d.Seeds), outcome.MinSeeds)
	}
	var clean, unexercised []string
	for _, r := range d.Rows {
		least, most := decidedRange(r)
		switch {
		case isViolatedRow(r):
		case most == 0:
			unexercised = append(unexercised, r.Property)
		case least < d.Seeds:
			clean = append(clean, fmt.Sprintf("%s (decided in only %d to %d of them)", r.Property, least, most))
		default:
			clean = append(clean, r.Property)
		}
	}
	var sentences []string
	if len(clean) > 0 {
		sentences = append(sentences, fmt.Sprintf("Never violated in %d seeds for each set of faults (%s, with 95%% confidence): %s.", d.Seeds, outcome.Rate(0, d.Seeds), display.List(clean)))
	}
	if len(unexercised) > 0 {
		sentences = append(sentences, fmt.Sprintf("Not exercised: %s.", display.List(unexercised)))
	}
	return strings.Join(sentences, " ")
}

func isViolatedRow(r outcome.RandomPlansRow) bool {
	return slices.ContainsFunc(r.Shares, func(s outcome.Share) bool { return s.Violated > 0 })
}

// decidedRange returns the least and the largest number of runs with one set of faults that decided
// whether a property holds.
func decidedRange(r outcome.RandomPlansRow) (least, most int) {
	for i, s := range r.Shares {
		if i == 0 || s.Runs < least {
			least = s.Runs
		}
		most = max(most, s.Runs)
	}
	return least, most
}

// randomPlansTable returns a table of the properties that random plans violated, with a column for each
// set of faults. It returns nil if there are none, or too few random plans.
func randomPlansTable(c *outcome.Card) (rows [][]string) {
	d := c.RandomPlans
	if d == nil || d.Seeds < outcome.MinSeeds {
		return nil
	}
	for _, r := range d.Rows {
		if !isViolatedRow(r) {
			continue
		}
		row := []string{r.Property}
		if !r.Required {
			row[0] += " (not required)"
		}
		for _, s := range r.Shares {
			row = append(row, formatShare(s))
		}
		rows = append(rows, row)
	}
	if rows == nil {
		return nil
	}
	header := []string{"property"}
	for _, w := range d.FaultSets {
		header = append(header, faultSetName(w))
	}
	return slices.Insert(rows, 0, header)
}

// randomPlansCaption explains the table of random plans.
const randomPlansCaption = "Runs of random plans that violated a property, of those that decided it (violations in the comparison runs in parentheses):"

func formatShare(s outcome.Share) string {
	if s.Runs == 0 {
		return "–"
	}
	text := fmt.Sprintf("%d of %d", s.Violated, s.Runs)
	if s.ComparisonViolated > 0 {
		text += fmt.Sprintf(" (%d)", s.ComparisonViolated)
	}
	return text
}

// Markdown writes the scorecards as Markdown for issues and wikis.
func (b *Scorecards) Markdown(w io.Writer) error {
	t := &text{}
	for _, c := range b.Cards {
		t.card(c)
	}
	t.printf("## Limits\n\n%s\n\nRun again: `%s` (lockpick %s)\n", cardLimits, codeSpan(b.Command), b.Version)
	_, err := t.WriteTo(w)
	return err
}

const cardLimits = "Each mark applies to these runs, with their seeds and faults. “Holds” means that no violation was found in them. It does not mean that a lock is safe."

// text builds Markdown.
type text struct{ bytes.Buffer }

func (t *text) printf(format string, args ...any) { fmt.Fprintf(t, format, args...) }

// row writes a table row. isHeader is set for the first row.
func (t *text) row(isHeader bool, cells ...string) {
	t.printf("| %s |\n", strings.Join(cells, " | "))
	if isHeader {
		t.printf("|%s\n", strings.Repeat("---|", len(cells)))
	}
}

func (t *text) card(c *outcome.Card) {
	t.printf("# Scorecard of %s\n\n%s\n\n%s\n\n", cardMarkdown(c.Lock), cardMarkdown(CardHeadline(c)), cardMarkdown(cardBasis(c)))
	for _, x := range cardSetup(c) {
		t.printf("- %s: %s\n", x[0], cardMarkdown(x[1]))
	}
	t.printf("\n")
	t.row(true, append([]string{"property"}, c.Columns...)...)
	for _, r := range c.Rows {
		cells := []string{r.Property}
		for _, x := range r.Cells {
			cells = append(cells, display.Join(", ", cellCount(x, " of "), x.Note()))
		}
		t.row(false, cells...)
	}
	for _, m := range measures() {
		cells := []string{m.Name}
		for _, column := range c.Columns {
			cells = append(cells, m.value(c, column))
		}
		t.row(false, cells...)
	}
	t.printf("\n")
	for _, m := range cardLegend(c) {
		t.printf("- %s: %s\n", m[0], m[1])
	}
	for i, g := range untested(c) {
		if i == 0 {
			t.printf("\nNot tested:\n\n")
		}
		t.printf("- %s: %s\n", cardMarkdown(g.Why), cardMarkdown(g.where()))
	}
	t.randomPlans(c)
	for _, p := range counterexamples(c, "") {
		t.findings(p)
	}
	if len(c.Undecided) > 0 {
		t.printf("\n## Inconclusive\n\n")
	}
	for _, d := range c.Undecided {
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

func (t *text) randomPlans(c *outcome.Card) {
	t.printf("\n## Random plans\n")
	for i, row := range randomPlansTable(c) {
		if i == 0 {
			t.printf("\n%s\n\n", randomPlansCaption)
		}
		t.row(i == 0, row...)
	}
	if note := randomPlansNote(c); note != "" {
		t.printf("\n%s\n", note)
	}
}

func (t *text) findings(p findingGroup) {
	c := p.Card
	for i, g := range p.Causes {
		if i == 0 {
			t.printf("\n## %s\n", p.Title)
		}
		f := g.Shown
		t.printf("\n### %s\n\nShortest run: %s, seed %d (%s)\n\n", g.Title(), cardMarkdown(f.Scenario), f.Seed, f.Column)
		for _, h := range f.Violations {
			t.printf("- %s %s: %s\n", h.Property, h.Cause, cardMarkdown(h.Because))
			for _, more := range []string{DescribeReproduction(h.Reproduction), failureKindsText(c, f, h.Property), claimOfRequired(c, h), g.AlsoIn(h)} {
				if more != "" {
					t.printf("  - %s\n", cardMarkdown(more))
				}
			}
		}
		if own := comparisonText(f); own != "" {
			t.printf("- %s\n- %s\n", cardMarkdown(own), measuredText(f))
		}
		for _, others := range g.Summaries() {
			t.printf("- %s\n", cardMarkdown(others))
		}
		t.printf("\n`%s`\n", codeSpan(f.Command))
		if f.Run != "" {
			t.printf("\nThe run is stored in %s.\n", f.Run)
		}
	}
}

// cardLegend explains the states that occur on a card.
func cardLegend(c *outcome.Card) (legend [][2]string) {
	used := map[outcome.Mark]bool{}
	for _, r := range c.Rows {
		for _, x := range r.Cells {
			used[x.State()] = true
		}
	}
	for _, m := range []struct {
		mark       outcome.Mark
		form, text string
	}{
		{outcome.MarkHolds, "✓ n", "required, and held in n runs"},
		{outcome.MarkViolated, "✗ k of n", "violated in k of the n runs that decided it"},
		{outcome.MarkComparisonViolated, "○ k of n", "violated in k of the n runs that decided it, as by any lock of its kind: not required there, and the scenario's own lock does not satisfy it either"},
		{outcome.MarkNotTested, "–", "not tested; the reasons are below"},
	} {
		if used[m.mark] {
			legend = append(legend, [2]string{m.form, m.text})
		}
	}
	return legend
}

// columnNames names columns. If both backends' columns for a kind of failure are among them, it names the
// kind once.
func columnNames(c *outcome.Card, columns []string) (names []string) {
	for _, column := range columns {
		kind, onSecond := outcome.SplitColumn(column)
		isListed := func(backend string) bool { return slices.Contains(columns, c.ColumnOn(kind, backend)) }
		switch {
		case c.SecondBackend == "":
			names = append(names, column)
		case !isListed(c.SecondBackend):
			names = append(names, kind+" on "+c.Backend)
		case !isListed(c.Backend):
			names = append(names, column)
		case !onSecond:
			names = append(names, kind)
		}
	}
	return names
}

// cellCount formats a cell's mark with its counts, such as "✗ 3 of 12".
func cellCount(x outcome.CardCell, of string) string {
	count, decided := x.Count()
	switch m := x.State(); m {
	case outcome.MarkNotTested:
		return string(m)
	case outcome.MarkHolds:
		return fmt.Sprintf("%s %d", m, count)
	default:
		return fmt.Sprintf("%s %d%s%d", m, count, of, decided)
	}
}

// untestedGroup lists what was not tested for one reason.
type untestedGroup struct {
	Why   string
	Where []string
}

func (g *untestedGroup) where() string { return strings.Join(g.Where, "; ") }

// untested lists the cells without a result by reason. Rows and columns that lack results for a single
// reason are listed as a whole.
func untested(c *outcome.Card) (all []*untestedGroup) {
	add := func(why, where string) {
		g := outcome.GetOrAdd(&all, func(g *untestedGroup) bool { return g.Why == why }, untestedGroup{Why: why})
		g.Where = append(g.Where, where)
	}
	done := map[[2]int]bool{}
	whole := func(cells [][2]int, where string) { // lists the cells if they share one reason
		why := ""
		for _, at := range cells {
			x := c.Rows[at[0]].Cells[at[1]]
			switch {
			case done[at]:
			case x.State() != outcome.MarkNotTested || why != "" && x.Untested() != why:
				return
			default:
				why = x.Untested()
			}
		}
		if why == "" {
			return
		}
		add(why, where)
		for _, at := range cells {
			done[at] = true
		}
	}
	row := func(i int) (cells [][2]int) {
		for k := range c.Rows[i].Cells {
			cells = append(cells, [2]int{i, k})
		}
		return cells
	}
	for i, r := range c.Rows {
		whole(row(i), r.Property)
	}
	for k, column := range c.Columns {
		var cells [][2]int
		for i := range c.Rows {
			cells = append(cells, [2]int{i, k})
		}
		whole(cells, "everything under "+column)
	}
	for i, r := range c.Rows {
		whole(row(i), r.Property)
		for k, x := range r.Cells {
			var columns []string
			for l := k; l < len(r.Cells); l++ {
				if y := r.Cells[l]; !done[[2]int{i, l}] && y.State() == outcome.MarkNotTested && x.State() == y.State() && x.Untested() == y.Untested() {
					columns = append(columns, c.Columns[l])
					done[[2]int{i, l}] = true
				}
			}
			if len(columns) > 0 {
				add(x.Untested(), r.Property+" under "+display.List(columnNames(c, columns)))
			}
		}
	}
	return all
}

// maxCardTextLen limits the length of untrusted text, in characters.
const maxCardTextLen = 4096

var cardEscapes = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "|", `\|`, "#", `\#`, "~", `\~`)

// codeSpan formats text for use between backticks.
func codeSpan(s string) string {
	return strings.ReplaceAll(display.Sanitize(s, maxCardTextLen), "`", "'")
}

// cardMarkdown escapes text for Markdown.
func cardMarkdown(s string) string { return cardEscapes.Replace(display.Sanitize(s, maxCardTextLen)) }

//go:embed page.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

var cardTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("score").Funcs(template.FuncMap{
		"text":     func(s string) string { return display.Sanitize(s, maxCardTextLen) },
		"style":    func() template.CSS { return template.CSS(Style + pageStyle + sequence.Style) },
		"headline": CardHeadline, "setup": cardSetup, "basis": cardBasis, "legend": cardLegend, "untested": untested, "dice": randomPlansTable, "diceNote": randomPlansNote, "diceCaption": func() string { return randomPlansCaption },
		"blame": failureKindsText, "tries": DescribeReproduction, "claimed": claimOfRequired, "beside": comparisonText,
		"measured": measuredText, "measures": measures, "limits": func() string { return cardLimits },
		"id": func(card int, parts ...any) string {
			return fmt.Sprintf("c%d-%s", card+1, strings.Trim(fmt.Sprint(parts...), "[]"))
		},
		"in":    measure.value,
		"sorts": columnGroups, "where": backendOf,
		"cells": cardView.Cells,
	}).Parse(pageTemplate))
})

// columnGroup is a number of adjacent columns for the same kind of failure.
type columnGroup struct {
	Sort    string
	Columns int
}

func columnGroups(c *outcome.Card) (all []columnGroup) {
	for _, column := range c.Columns {
		sort, _ := outcome.SplitColumn(column)
		if n := len(all); n > 0 && all[n-1].Sort == sort {
			all[n-1].Columns++
			continue
		}
		all = append(all, columnGroup{sort, 1})
	}
	return all
}

func backendOf(c *outcome.Card, column string) string {
	if _, onSecond := outcome.SplitColumn(column); onSecond {
		return c.SecondBackend
	}
	return c.Backend
}

// cell is a cell of the matrix.
type cell struct {
	outcome.CardCell
	Column, Count, Words, Tone string
	Cause                      string // HTML id of the first cause of a violation, or ""
}

// Cells returns the cells of a row.
func (v cardView) Cells(c *outcome.Card, r outcome.CardRow) (out []cell) {
	parts := v.Parts(c)
	for i, x := range r.Cells {
		k := cell{CardCell: x, Column: c.Columns[i], Count: cellCount(x, " of "), Words: cellText(x), Tone: cellTone(x)}
		for _, p := range parts {
			for _, g := range p.Causes {
				if k.Cause == "" && slices.ContainsFunc(g.all, func(f outcome.CardFinding) bool {
					return f.Column == k.Column && slices.ContainsFunc(f.Violations, func(h outcome.Violation) bool { return h.Property == r.Property })
				}) {
					k.Cause = g.ID
				}
			}
		}
		out = append(out, k)
	}
	return out
}

// cellText describes a cell's results.
func cellText(x outcome.CardCell) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{x.NumFailed - x.NumUnconfirmed, "violated and required"}, {x.NumUnconfirmed, "violated, not confirmed"}, {x.NumComparisonHolds, "violated and not required, but held in the comparison run"},
		{x.NumHolds, "required and held"}, {x.NumComparisonViolated, "violated, as by any lock of its kind"}, {x.NumUndecided, "inconclusive"}, {x.NumHoldsUnrequired, "held, but not required"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if x.Why != "" && len(parts) == 0 {
		parts = append(parts, x.Why)
	}
	if len(parts) == 0 {
		return "not exercised"
	}
	return strings.Join(parts, ", ")
}

// cellTone returns the CSS class of a cell.
func cellTone(x outcome.CardCell) string {
	switch x.State() {
	case outcome.MarkViolated:
		if x.Note() != "" {
			return "doubt"
		}
		return "violated"
	case outcome.MarkHolds:
		return "fine"
	case outcome.MarkComparisonViolated:
		return "noted"
	}
	return "calm"
}

// cardView is the data for the page template.
type cardView struct {
	*Scorecards
	Pictures map[string]sequence.Diagram
}

// Picture returns a run's diagram, or "" if there is none.
func (v cardView) Picture(run string) template.HTML {
	d, there := v.Pictures[run]
	if !there {
		return ""
	}
	return template.HTML(sequence.SVG(d, sequence.SVGOptions{Embedded: true, Prefix: strings.NewReplacer("/", "-", "+", "-").Replace(run) + "-", Page: run + "/report.html"})) // all text in it is escaped
}

// Caption returns the caption of a run's diagram.
func (v cardView) Caption(run string) string { return strings.Join(v.Pictures[run].Caption, " ") }

// Page writes the scorecards as a self-contained HTML page with the diagrams of the findings' runs.
func (b *Scorecards) Page(w io.Writer, diagrams map[string]sequence.Diagram) error {
	if err := cardTemplate().Execute(w, cardView{b, diagrams}); err != nil {
		return fmt.Errorf("render scorecard: %w", err)
	}
	return nil
}

// measure is a table row with the lock's number, and the number from the comparison runs, in each column.
type measure struct {
	Name, unit string
	number     func(outcome.CardNumbers) float64
}

func measures() []measure {
	return []measure{
		{"grants", "", func(n outcome.CardNumbers) float64 { return n.Grants }},
		{"longest time without a grant", " s", func(n outcome.CardNumbers) float64 { return n.MaxUnavailable }},
		{"keys kept past their TTL", "", func(n outcome.CardNumbers) float64 { return n.OrphanKeys }},
	}
}

func formatNumber(x float64) string {
	if x == float64(int(x)) {
		return strconv.Itoa(int(x))
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// formatBoth formats the lock's number, followed by the comparison run's number in parentheses.
func (m measure) formatBoth(lock, comparison outcome.CardNumbers) string {
	return fmt.Sprintf("%s%s (%s)", formatNumber(m.number(lock)), m.unit, formatNumber(m.number(comparison)))
}

// value formats the numbers for a column. It returns "–" if the column has no runs.
func (m measure) value(c *outcome.Card, column string) string {
	i := slices.IndexFunc(c.Measurements, func(x *outcome.Measurement) bool { return x.Column == column })
	if i < 0 {
		return "–"
	}
	return m.formatBoth(c.Measurements[i].Lock, c.Measurements[i].Comparison)
}

// measuredText lists a finding's numbers.
func measuredText(f outcome.CardFinding) (text string) {
	for _, m := range measures() {
		if text != "" {
			text += ", "
		}
		text += m.Name + " " + m.formatBoth(f.Numbers, f.Comparison.Numbers)
	}
	return text
}

// Print prints the scorecards for a terminal.
func (b *Scorecards) Print(w io.Writer) {
	for i, c := range b.Cards {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printCard(w, c)
	}
}

func printCard(w io.Writer, c *outcome.Card) {
	color := display.GoodText
	if c.Code() == outcome.ExitUnexpected {
		color = display.BadText
	} else if c.Code() != outcome.ExitOK {
		color = display.DoubtText
	}
	fmt.Fprintln(w, display.Paint(w, color, display.Wrap(display.Width(w)-1, 0, 0, CardHeadline(c))))
	display.PrintWrapped(w, 0, 0, cardBasis(c))
	for _, x := range cardSetup(c) {
		display.PrintWrapped(w, 0, 2, x[0]+": "+x[1])
	}
	fmt.Fprintln(w)
	printMatrix(w, c, false)
	if c.SecondBackend != "" {
		fmt.Fprintf(w, "\non %s:\n", c.SecondBackend)
		printMatrix(w, c, true)
	}
	printLegend(w, c)
	printRandomPlans(w, c)
	for _, p := range counterexamples(c, "") {
		for i, g := range p.Causes {
			if i == 0 {
				fmt.Fprintf(w, "\n%s:\n", p.Title)
			}
			printCause(w, c, g, p.Confirmed)
		}
	}
	for i, d := range c.Undecided {
		if i == 0 {
			fmt.Fprintln(w, "\ninconclusive:")
		}
		display.PrintWrapped(w, 2, 4, fmt.Sprintf("%s: %s: %s", d.Scenario, d.Property, d.Because))
	}
	for i, s := range c.Skipped {
		if i == 0 {
			fmt.Fprintln(w, "\nnot run:")
		}
		display.PrintWrapped(w, 2, 4, fmt.Sprintf("%d: %s", len(s.Scenarios), s.Why))
	}
	for _, e := range c.Errors {
		display.PrintWrapped(w, 0, 2, "not judged: "+e)
	}
}

// printMatrix prints a card's results on one of its backends. It omits rows and columns without results,
// because the list of what was not tested explains these.
func printMatrix(w io.Writer, c *outcome.Card, onSecond bool) {
	var columns []int
	header := []string{"property"}
	for k, column := range c.Columns {
		column, there := outcome.SplitColumn(column)
		if there == onSecond && slices.ContainsFunc(c.Rows, func(r outcome.CardRow) bool { return isTested(r.Cells[k]) }) {
			columns, header = append(columns, k), append(header, column)
		}
	}
	matrix := func(of string) display.Table {
		t := display.Table{slices.Clone(header)}
		for _, r := range c.Rows {
			if !slices.ContainsFunc(columns, func(k int) bool { return isTested(r.Cells[k]) }) {
				continue
			}
			row := []string{r.Property}
			for _, k := range columns {
				row = append(row, cellCount(r.Cells[k], of)+noteSymbols[r.Cells[k].Note()])
			}
			t = append(t, row)
		}
		return t
	}
	t := matrix(" of ")
	if isTooWide(t, display.Width(w)) {
		t = matrix("/")
	}
	if len(t) > 1 {
		shortenHeader(t, display.Width(w)).Print(w)
	}
}

// noteSymbols mark cells with a note on a terminal, where there is no room for the note.
var noteSymbols = map[string]string{outcome.NoteUnconfirmed: "*", outcome.NoteNotRequired: "†"}

func isTested(x outcome.CardCell) bool { return x.State() != outcome.MarkNotTested }

// printLegend prints the legend and the list of what was not tested.
func printLegend(w io.Writer, c *outcome.Card) {
	fmt.Fprintln(w)
	for _, m := range cardLegend(c) {
		display.PrintWrapped(w, 0, 4, m[0]+": "+m[1])
	}
	notes := map[string]bool{}
	for _, r := range c.Rows {
		for _, x := range r.Cells {
			notes[x.Note()] = true
		}
	}
	for _, note := range []string{outcome.NoteUnconfirmed, outcome.NoteNotRequired} {
		if notes[note] {
			display.PrintWrapped(w, 0, 4, noteSymbols[note]+": "+note)
		}
	}
	for i, g := range untested(c) {
		if i == 0 {
			fmt.Fprintln(w, "\nnot tested:")
		}
		display.PrintWrapped(w, 2, 4, g.Why+": "+g.where())
	}
}

// printRandomPlans prints the random plans that violated a property, and a summary of the others.
func printRandomPlans(w io.Writer, c *outcome.Card) {
	fmt.Fprintln(w, "\nrandom plans:")
	table := randomPlansTable(c)
	for i, row := range table {
		if i == 0 {
			continue
		}
		var counts []string
		for k, count := range row[1:] {
			if !strings.HasPrefix(count, "0 of ") && count != "–" {
				counts = append(counts, table[0][k+1]+" "+count)
			}
		}
		display.PrintWrapped(w, 2, 4, row[0]+" violated: "+strings.Join(counts, ", "))
	}
	if note := randomPlansNote(c); note != "" {
		display.PrintWrapped(w, 2, 2, note)
	}
}

func isTooWide(t display.Table, width int) bool {
	lines := t.Lines("", width)
	return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "\n") }) || utf8.RuneCountInString(lines[0]) > width
}

// shortenHeader truncates the header cells of a table that is too wide.
func shortenHeader(t display.Table, width int) display.Table {
	for maxLen := 10; maxLen > 4 && isTooWide(t, width); maxLen-- {
		for i := range t[0][1:] { // the first column is wide anyway
			t[0][i+1] = display.Truncate(t[0][i+1], maxLen)
		}
	}
	return t
}

func printCause(w io.Writer, c *outcome.Card, g *causeGroup, confirmed bool) {
	color, f := display.DoubtText, g.Shown
	if confirmed {
		color = display.BadText
	}
	fmt.Fprintf(w, "\n%s\n", display.Paint(w, color, display.Wrap(display.Width(w)-1, 0, 0, g.Title())))
	display.PrintWrapped(w, 2, 4, fmt.Sprintf("shortest run: %s, seed %d (%s)", f.Scenario, f.Seed, f.Column))
	for _, h := range f.Violations {
		display.PrintWrapped(w, 2, 4, fmt.Sprintf("%s %s: %s", h.Property, h.Cause, h.Because))
		for _, more := range []string{DescribeReproduction(h.Reproduction), failureKindsText(c, f, h.Property), g.AlsoIn(h)} {
			if more != "" {
				display.PrintWrapped(w, 4, 4, more)
			}
		}
	}
	if own := comparisonText(f); own != "" {
		display.PrintWrapped(w, 2, 4, own)
	}
	for _, others := range g.Summaries() {
		display.PrintWrapped(w, 2, 4, others)
	}
	fmt.Fprintf(w, "  %s\n", f.Command)
}
