package suites

import (
	"bytes"
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
	var violated, unconfirmed []string
	for _, f := range c.Findings {
		for _, h := range f.Violations {
			to := &violated
			if h.Reproduction != nil && h.Reproduction.State != outcome.ReproductionConfirmed {
				to = &unconfirmed
			}
			if h.Required && !slices.Contains(*to, h.Property) {
				*to = append(*to, h.Property)
			}
		}
	}
	unconfirmed = slices.DeleteFunc(unconfirmed, func(p string) bool { return slices.Contains(violated, p) })
	text := fmt.Sprintf("%s satisfies everything required of it in these runs.", c.Lock)
	if len(violated) > 0 {
		text = fmt.Sprintf("%s violates %s, which is required of it.", c.Lock, display.List(violated))
	} else if len(unconfirmed) > 0 {
		text = fmt.Sprintf("%s satisfies what is required of it, as far as the runs on %s show.", c.Lock, c.RetryBackend)
	}
	if len(unconfirmed) > 0 {
		text += fmt.Sprintf(" Violations of %s were observed %s.", display.List(unconfirmed), unconfirmedBasis(c))
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

// randomPlanColumns returns the columns of the table of random plans: one for all faults and one for
// each kind of failure.
func randomPlanColumns(d *outcome.RandomPlans) []string {
	out := []string{"all faults"}
	for _, w := range d.FaultSets {
		if w.Only {
			out = append(out, w.Kind)
		}
	}
	return out
}

// shares returns a property's violation rates with one kind of failure alone and with all kinds except
// that one. For the first column, it returns the rate with all faults.
func shares(d *outcome.RandomPlans, r outcome.RandomPlansRow, kind string) (out []labeledShare) {
	for k, w := range d.FaultSets {
		word := "without"
		switch {
		case w.Kind == "":
			word = ""
		case w.Only:
			word = "alone"
		}
		if w.Kind == kind || w.Kind == "" && kind == randomPlanColumns(d)[0] {
			out = append(out, labeledShare{word, r.Shares[k]})
		}
	}
	return out
}

// labeledShare is a violation rate with a word that states how its faults were selected.
type labeledShare struct {
	Word string
	outcome.Share
}

func formatShare(s outcome.Share) string {
	if s.Runs == 0 {
		return "not exercised"
	}
	text := outcome.Rate(s.Violated, s.Runs)
	if s.ComparisonViolated > 0 {
		text += fmt.Sprintf("; comparison %d", s.ComparisonViolated)
	}
	return text
}

// failureKindsText states which kinds of failures cause a violation found by random plans, or returns ""
// if unknown.
func failureKindsText(c *outcome.Card, f outcome.CardFinding, property string) string {
	if f.FaultSet == nil || c.RandomPlans == nil {
		return ""
	}
	alone, needed := c.RandomPlans.Causes(property)
	var parts []string
	if len(alone) > 0 {
		parts = append(parts, "occurs with "+display.List(alone)+" alone")
	}
	if len(needed) > 0 {
		parts = append(parts, "rarer without "+display.List(needed))
	}
	return strings.Join(parts, ", ")
}

// DescribeReproduction describes the attempt to reproduce a violation. It returns "" if there was none.
func DescribeReproduction(t *outcome.Reproduction) string {
	if t == nil {
		return ""
	}
	switch t.State {
	case outcome.ReproductionConfirmed:
		return fmt.Sprintf("confirmed on %s (%s) after %s", t.Backend, t.Cause, display.Plural(t.Runs, "run"))
	case outcome.ReproductionImpossible:
		return fmt.Sprintf("cannot run on %s: %s", t.Backend, t.Why)
	}
	return fmt.Sprintf("not confirmed on %s after %s: %s", t.Backend, display.Plural(t.Runs, "run"), t.Why)
}

// cardClaim quotes the lock's documentation on a property or states that it does not promise the
// property.
func cardClaim(c *outcome.Card, property string) string {
	for _, r := range c.Rows {
		if r.Property == property && r.Claim != "" {
			return "Its documentation: " + r.Claim
		}
	}
	return "Its documentation does not promise it, but it is required of every lock of this tier."
}

// comparisonText describes the results of the comparison run, which uses the scenario's own lock.
func comparisonText(f outcome.CardFinding) string {
	if f.Comparison == nil {
		return ""
	}
	if f.Comparison.Error != "" {
		return fmt.Sprintf("comparison run with the scenario's own lock, %s, failed: %s", f.Comparison.Lock, display.FirstLine(f.Comparison.Error))
	}
	var parts []string
	for _, h := range f.Violations {
		parts = append(parts, fmt.Sprintf("%s %s", h.Property, h.Comparison))
	}
	return fmt.Sprintf("comparison run with %s: %s", f.Comparison.Lock, strings.Join(parts, ", "))
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
			cells = append(cells, m.value(c, column))
		}
		t.row(false, cells...)
	}
	t.printf("\n%s\n", cardLegend(used))
	t.randomPlans(c)
	for _, p := range (cardView{}).Parts(c) {
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
	d := c.RandomPlans
	if d == nil {
		return
	}
	t.printf("\n## Random plans\n\nHow often each property was violated in %s, with the 95%% interval: with all faults, with each kind of failure alone, and with all faults except that kind.\n\n", display.Plural(d.Seeds, "seed"))
	t.row(true, append([]string{"property"}, randomPlanColumns(d)...)...)
	for _, r := range d.Rows {
		cells := []string{r.Property}
		for _, sort := range randomPlanColumns(d) {
			var parts []string
			for _, s := range shares(d, r, sort) {
				parts = append(parts, display.Join(" ", s.Word, formatShare(s.Share)))
			}
			cells = append(cells, strings.Join(parts, "<br>"))
		}
		t.row(false, cells...)
	}
}

func (t *text) findings(p findingGroup) {
	c := p.Card
	for i, f := range p.Findings {
		if i == 0 {
			t.printf("\n## %s\n", p.Title)
		}
		t.printf("\n### %s, seed %d (%s)\n\n", cardMarkdown(f.Scenario), f.Seed, f.Column)
		for _, h := range f.Violations {
			t.printf("- %s %s: %s%s\n", h.Property, h.Cause, cardMarkdown(h.Because), otherScenariosText(h))
			for _, more := range []string{DescribeReproduction(h.Reproduction), failureKindsText(c, f, h.Property), claimOfRequired(c, h)} {
				if more != "" {
					t.printf("  - %s\n", cardMarkdown(more))
				}
			}
		}
		if own := comparisonText(f); own != "" {
			t.printf("- %s\n- %s\n", cardMarkdown(own), measuredText(f))
		}
		t.printf("\n`%s`\n", codeSpan(f.Command))
		if f.Run != "" {
			t.printf("\nThe run is stored in %s.\n", f.Run)
		}
	}
}

// claimOfRequired returns cardClaim's result for required properties and "" for others.
func claimOfRequired(c *outcome.Card, h outcome.Violation) string {
	if !h.Required {
		return ""
	}
	return cardClaim(c, h.Property)
}

func otherScenariosText(h outcome.Violation) string {
	if len(h.Also) == 0 {
		return ""
	}
	return cardMarkdown(fmt.Sprintf(" (also %s)", display.List(h.Also)))
}

// cardLegend explains the used marks.
func cardLegend(used map[outcome.Mark]bool) string {
	used[outcome.MarkHolds] = used[outcome.MarkHolds] || used[outcome.MarkMixed]
	used[outcome.MarkComparisonViolated] = used[outcome.MarkComparisonViolated] || used[outcome.MarkMixed]
	var parts []string
	for _, m := range outcome.Marks() {
		if used[outcome.Mark(m[0])] {
			parts = append(parts, m[0]+" "+m[1])
		}
	}
	return strings.Join(parts, " · ")
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
		"headline": CardHeadline, "basis": cardBasis, "draws": randomPlanColumns, "shares": shares, "rated": formatShare, "blame": failureKindsText, "tries": DescribeReproduction, "claimed": claimOfRequired, "beside": comparisonText,
		"measured": measuredText, "measures": measures, "tone": markClass, "marks": outcome.Marks, "limits": func() string { return cardLimits },
		"id": func(card int, parts ...any) string {
			return fmt.Sprintf("c%d-%s", card+1, strings.Trim(fmt.Sprint(parts...), "[]"))
		},
		"in":    measure.value,
		"sorts": columnGroups, "where": backendOf,
		"cells":  newCells,
		"anchor": anchor,
	}).Parse(pageTemplate))
})

// findingGroup is a list of findings with a common heading.
type findingGroup struct {
	View        cardView
	Card        *outcome.Card
	Title, Note string
	Findings    []outcome.CardFinding
}

// Parts groups a card's findings, the most severe first.
func (v cardView) Parts(c *outcome.Card) (all []findingGroup) {
	for _, p := range []struct {
		mark        outcome.Mark
		title, note string
	}{
		{outcome.MarkFailed, "Violated and required", ""},
		{outcome.MarkUnconfirmed, "Observed " + unconfirmedBasis(c), "Real servers did not reproduce these violations, or cannot run the scenario."},
		{outcome.MarkComparisonHolds, "Violated but not required; holds in the comparison run", ""},
	} {
		findings := slices.DeleteFunc(slices.Clone(c.Findings), func(f outcome.CardFinding) bool { return markOf(f) != p.mark })
		all = append(all, findingGroup{v, c, p.title, p.note, findings})
	}
	return all
}

func markOf(f outcome.CardFinding) outcome.Mark {
	switch {
	case !f.Required:
		return outcome.MarkComparisonHolds
	case f.Confirmed():
		return outcome.MarkFailed
	}
	return outcome.MarkUnconfirmed
}

// anchor returns the HTML id of a run's finding.
func anchor(run string) string { return strings.NewReplacer("/", "-", "+", "-").Replace(run) }

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

// cell is a cell of the matrix. Run is the run it links to.
type cell struct {
	outcome.CardCell
	Column, Words string
	Run           string // run of the first finding, or ""
}

func newCells(c *outcome.Card, r outcome.CardRow) (out []cell) {
	for i, x := range r.Cells {
		k := cell{CardCell: x, Column: c.Columns[i], Words: cellText(x)}
		for _, f := range c.Findings {
			if f.Column == c.Columns[i] && k.Run == "" && slices.ContainsFunc(f.Violations, func(h outcome.Violation) bool { return h.Property == r.Property }) {
				k.Run = f.Run
			}
		}
		out = append(out, k)
	}
	return out
}

// cellText describes the results that a mark stands for.
func cellText(x outcome.CardCell) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{x.NumFailed - x.NumUnconfirmed, "violated and required"}, {x.NumUnconfirmed, "violated, not confirmed"}, {x.NumComparisonHolds, "violated, but holds in the comparison run"},
		{x.NumHolds, "holds as required"}, {x.NumComparisonViolated, "violated, as in the comparison run"}, {x.NumUndecided, "inconclusive"}, {x.NumHoldsUnrequired, "holds"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if x.Why != "" {
		parts = append(parts, x.Why)
	}
	if len(parts) == 0 {
		return "not exercised"
	}
	return strings.Join(parts, ", ")
}

// markClass returns the CSS class for a mark.
func markClass(m outcome.Mark) string {
	switch m {
	case outcome.MarkFailed:
		return "violated"
	case outcome.MarkUnconfirmed, outcome.MarkUndecided:
		return "doubt"
	case outcome.MarkHolds, outcome.MarkMixed:
		return "fine"
	case outcome.MarkComparisonHolds, outcome.MarkComparisonViolated:
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
	return template.HTML(sequence.SVG(d, sequence.SVGOptions{Embedded: true, Prefix: anchor(run) + "-", Page: run + "/report.html"})) // all text in it is escaped
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
	fmt.Fprintln(w)
	printMatrix(w, c, false)
	if c.SecondBackend != "" {
		fmt.Fprintf(w, "\non %s:\n", c.SecondBackend)
		printMatrix(w, c, true)
	}
	for _, f := range c.Findings {
		printFinding(w, c, f)
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

// printMatrix prints a card's marks for one of its backends. It omits rows and columns without results,
// because the list of skipped scenarios explains these.
func printMatrix(w io.Writer, c *outcome.Card, onSecond bool) {
	used := map[outcome.Mark]bool{}
	t := display.Table{{"property"}}
	var columns []int
	for k, column := range c.Columns {
		column, there := outcome.SplitColumn(column)
		if there == onSecond && slices.ContainsFunc(c.Rows, func(r outcome.CardRow) bool { return isJudged(r.Cells[k]) }) {
			columns, t[0] = append(columns, k), append(t[0], column)
		}
	}
	for _, r := range c.Rows {
		if !slices.ContainsFunc(columns, func(k int) bool { return isJudged(r.Cells[k]) }) {
			continue
		}
		row := []string{r.Property}
		for _, k := range columns {
			row = append(row, string(r.Cells[k].Mark))
			used[r.Cells[k].Mark] = true
		}
		t = append(t, row)
	}
	if len(t) > 1 {
		shortenHeader(t, display.Width(w)).Print(w)
		fmt.Fprintln(w)
		display.PrintWrapped(w, 0, 0, cardLegend(used))
	}
}

func isJudged(x outcome.CardCell) bool {
	return x.Mark != outcome.MarkUnsupported && x.Mark != outcome.MarkNotExercised
}

// shortenHeader truncates the header cells of a table that is too wide.
func shortenHeader(t display.Table, width int) display.Table {
	for maxLen := 10; maxLen > 4; maxLen-- {
		isTooWide := slices.ContainsFunc(t.Lines("", width), func(line string) bool { return strings.Contains(line, "\n") })
		if !isTooWide && utf8.RuneCountInString(t.Lines("", width)[0]) <= width {
			break
		}
		for i := range t[0] {
			t[0][i] = display.Truncate(t[0][i], maxLen)
		}
	}
	return t
}

func printFinding(w io.Writer, c *outcome.Card, f outcome.CardFinding) {
	mark, color := markOf(f), display.DoubtText
	if mark == outcome.MarkFailed {
		color = display.BadText
	}
	fmt.Fprintf(w, "\n%s %s, seed %d (%s)\n", display.Paint(w, color, string(mark)), f.Scenario, f.Seed, f.Column)
	for _, h := range f.Violations {
		display.PrintWrapped(w, 2, 4, fmt.Sprintf("%s %s: %s", h.Property, h.Cause, h.Because))
		for _, more := range []string{DescribeReproduction(h.Reproduction), failureKindsText(c, f, h.Property)} {
			if more != "" {
				display.PrintWrapped(w, 4, 4, more)
			}
		}
	}
	if own := comparisonText(f); own != "" {
		display.PrintWrapped(w, 2, 4, own)
	}
	fmt.Fprintf(w, "  %s\n", f.Command)
}
