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

// Names in the directory of a book.
const (
	CardPage  = ScoreFile
	CardText  = "score.md"
	CardJSON  = "score.json"
	RunFolder = "runs"
)

// Scorecards is the cards of one call.
type Scorecards struct {
	Schema  int             `json:"schema"`
	Code    int             `json:"code"` // exit code of all
	Command string          `json:"command"`
	Version string          `json:"version"` // of lockpick
	Cards   []*outcome.Card `json:"scorecards"`
}

// JSON writes the book for machines.
func (b *Scorecards) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// CardHeadline is what came of a card, in a sentence.
func CardHeadline(c *outcome.Card) string {
	var failed, open []string
	for _, f := range c.Findings {
		for _, h := range f.Harms {
			to := &failed
			if h.Try != nil && h.Try.State != outcome.StateConfirmed {
				to = &open
			}
			if h.Held && !slices.Contains(*to, h.Property) {
				*to = append(*to, h.Property)
			}
		}
	}
	open = slices.DeleteFunc(open, func(p string) bool { return slices.Contains(failed, p) })
	text := fmt.Sprintf("%s keeps all that it is held to in these runs.", c.Lock)
	if len(failed) > 0 {
		text = fmt.Sprintf("%s violates %s, which it is held to.", c.Lock, display.List(failed))
	} else if len(open) > 0 {
		text = fmt.Sprintf("%s keeps what it is held to, as far as %s shows.", c.Lock, c.Tried)
	}
	if len(open) > 0 {
		text += fmt.Sprintf(" Violations of %s were seen %s.", display.List(open), seenOnly(c))
	}
	undecided := map[string]bool{}
	for _, d := range c.Open {
		undecided[d.Scenario] = true
	}
	if len(undecided) > 0 {
		text += fmt.Sprintf(" Of %s not all was decided.", display.Plural(len(undecided), "run"))
	}
	return text
}

// seenOnly says where what was not confirmed was seen.
func seenOnly(c *outcome.Card) string {
	if c.Tried == c.Backend {
		return "once, and not again"
	}
	return "in the simulation only"
}

// cardBasis is what a card was made of, in a sentence or two.
func cardBasis(c *outcome.Card) string {
	where := fmt.Sprintf("%s on %s", display.Plural(c.Runs, "run"), c.Backend)
	if c.Beside != "" {
		where += fmt.Sprintf(" and %d on %s", c.There, c.Beside)
	}
	text := where + fmt.Sprintf(", seed %d, each beside one with the scenario's own lock.", c.Seed)
	if d := c.Dice; d != nil {
		text += fmt.Sprintf(" %s of %s: %d seeds of each of %d draws.", display.Plural(d.Seeds*len(d.Draws), "random plan"), d.Scenario, d.Seeds, len(d.Draws))
	}
	switch {
	case c.Tried != "":
		text += fmt.Sprintf(" What failed was tried again on %s.", c.Tried)
	case c.Backend == "sim":
		text += " Nothing was tried on real servers (--try process, --beside process)."
	}
	return text
}

// draws are the columns of what dice found: all faults, and each sort of failures.
func draws(d *outcome.Dice) []string {
	out := []string{"all faults"}
	for _, w := range d.Draws {
		if w.Alone {
			out = append(out, w.Sort)
		}
	}
	return out
}

// shares are what came of a property with a sort of failures alone, and without it; or, in the
// first column, with all of them.
func shares(d *outcome.Dice, r outcome.DiceRow, sort string) (out []shared) {
	for k, w := range d.Draws {
		word := "without"
		switch {
		case w.Sort == "":
			word = ""
		case w.Alone:
			word = "alone"
		}
		if w.Sort == sort || w.Sort == "" && sort == draws(d)[0] {
			out = append(out, shared{word, r.Shares[k]})
		}
	}
	return out
}

// shared is a share with the word for how it was drawn.
type shared struct {
	Word string
	outcome.Share
}

// rated is a share in words.
func rated(s outcome.Share) string {
	if s.Runs == 0 {
		return "not exercised"
	}
	text := outcome.Rate(s.Violated, s.Runs)
	if s.Own > 0 {
		text += fmt.Sprintf("; own lock %d", s.Own)
	}
	return text
}

// cardBlame is which sorts of failures bring about what dice found of a property, in words; "":
// that can't be told.
func cardBlame(c *outcome.Card, f outcome.CardFinding, property string) string {
	if f.Draw == nil || c.Dice == nil {
		return ""
	}
	alone, needed := c.Dice.Blame(property)
	var parts []string
	if len(alone) > 0 {
		parts = append(parts, "seen with "+display.List(alone)+" alone")
	}
	if len(needed) > 0 {
		parts = append(parts, "rarer without "+display.List(needed))
	}
	return strings.Join(parts, ", ")
}

// CardTries says what came of a harm elsewhere; "": it was not tried.
func CardTries(t *outcome.Try) string {
	if t == nil {
		return ""
	}
	switch t.State {
	case outcome.StateConfirmed:
		return fmt.Sprintf("confirmed on %s (%s) after %s", t.Backend, t.Cause, display.Plural(t.Runs, "run"))
	case outcome.CannotRun:
		return fmt.Sprintf("can't be run on %s: %s", t.Backend, t.Why)
	}
	return fmt.Sprintf("not confirmed on %s, tried %s: %s", t.Backend, display.Times(t.Runs), t.Why)
}

// cardClaim says whether the lock's documentation promises a property.
func cardClaim(c *outcome.Card, property string) string {
	for _, r := range c.Rows {
		if r.Property == property && r.Claim != "" {
			return "Its documentation: " + r.Claim
		}
	}
	return "Its documentation does not promise it; every lock of the tier is held to it."
}

// cardBeside is what a run's own lock did, in words.
func cardBeside(f outcome.CardFinding) string {
	if f.Control == nil {
		return ""
	}
	if f.Control.Error != "" {
		return fmt.Sprintf("the scenario's own lock, %s, could not be run: %s", f.Control.Lock, display.FirstLine(f.Control.Error))
	}
	var parts []string
	for _, h := range f.Harms {
		parts = append(parts, fmt.Sprintf("%s %s", h.Property, h.Control))
	}
	return fmt.Sprintf("%s under the same: %s", f.Control.Lock, strings.Join(parts, ", "))
}

// Markdown writes the book for issues and wikis.
func (b *Scorecards) Markdown(w io.Writer) error {
	t := &text{}
	for _, c := range b.Cards {
		t.card(c)
	}
	t.printf("## What this can't tell\n\n%s\n\nRun again: `%s` (lockpick %s)\n", cardLimits, code(b.Command), b.Version)
	_, err := t.WriteTo(w)
	return err
}

// cardLimits is what a card can't tell.
const cardLimits = "Each mark speaks of these runs, with their seeds and under their faults. Where a property holds, no violation was found in them: no lock is called safe."

// text is Markdown.
type text struct{ bytes.Buffer }

func (t *text) printf(format string, args ...any) { fmt.Fprintf(t, format, args...) }

// row writes a row of a table; head is whether it is the first.
func (t *text) row(head bool, cells ...string) {
	t.printf("| %s |\n", strings.Join(cells, " | "))
	if head {
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
			cells = append(cells, m.of(c, column))
		}
		t.row(false, cells...)
	}
	t.printf("\n%s\n", cardLegend(used))
	t.dice(c)
	for _, p := range (cardView{}).Parts(c) {
		t.findings(p)
	}
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

func (t *text) findings(p part) {
	c := p.Card
	for i, f := range p.Findings {
		if i == 0 {
			t.printf("\n## %s\n", p.Title)
		}
		t.printf("\n### %s, seed %d (%s)\n\n", cardMarkdown(f.Scenario), f.Seed, f.Column)
		for _, h := range f.Harms {
			t.printf("- %s %s: %s%s\n", h.Property, h.Cause, cardMarkdown(h.Because), also(h))
			for _, more := range []string{CardTries(h.Try), cardBlame(c, f, h.Property), claimed(c, h)} {
				if more != "" {
					t.printf("  - %s\n", cardMarkdown(more))
				}
			}
		}
		if own := cardBeside(f); own != "" {
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

// cardLegend says what the marks that are used mean.
func cardLegend(used map[outcome.Mark]bool) string {
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

// cardMarkdown writes a text so that Markdown shows it as it is.
func cardMarkdown(s string) string { return escapes.Replace(display.Visible(s, longest)) }

//go:embed page.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

var cardTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("score").Funcs(template.FuncMap{
		"text":     func(s string) string { return display.Visible(s, longest) },
		"style":    func() template.CSS { return template.CSS(Style + pageStyle + sequence.Style) },
		"headline": CardHeadline, "basis": cardBasis, "draws": draws, "shares": shares, "rated": rated, "blame": cardBlame, "tries": CardTries, "claimed": claimed, "beside": cardBeside,
		"measured": measured, "measures": measures, "tone": tone, "marks": outcome.Marks, "limits": func() string { return cardLimits },
		"id": func(card int, parts ...any) string {
			return fmt.Sprintf("c%d-%s", card+1, strings.Trim(fmt.Sprint(parts...), "[]"))
		},
		"in":    measure.of,
		"sorts": sorts, "where": where,
		"cells":  cellsOf,
		"anchor": anchor,
	}).Parse(pageTemplate))
})

// part is findings under one heading.
type part struct {
	View        cardView
	Card        *outcome.Card
	Title, Note string
	Findings    []outcome.CardFinding
}

// Parts are the findings of a card, the gravest first.
func (v cardView) Parts(c *outcome.Card) (all []part) {
	for _, p := range []struct {
		mark        outcome.Mark
		title, note string
	}{
		{outcome.MarkFailed, "Violated, and must hold", ""},
		{outcome.Unconfirmed, "Seen " + seenOnly(c), "Real servers were asked, and did not show it, or can't run it."},
		{outcome.Alone, "Violated where nobody promised it, and the scenario's own lock keeps it", ""},
	} {
		findings := slices.DeleteFunc(slices.Clone(c.Findings), func(f outcome.CardFinding) bool { return markOf(f) != p.mark })
		all = append(all, part{v, c, p.title, p.note, findings})
	}
	return all
}

// markOf is the mark of what a finding shows.
func markOf(f outcome.CardFinding) outcome.Mark {
	switch {
	case !f.Held:
		return outcome.Alone
	case f.Confirmed():
		return outcome.MarkFailed
	}
	return outcome.Unconfirmed
}

// anchor is the id of a run's finding on the page.
func anchor(run string) string { return strings.NewReplacer("/", "-", "+", "-").Replace(run) }

// sorted is columns next to each other that are about one sort of failures.
type sorted struct {
	Sort    string
	Columns int
}

func sorts(c *outcome.Card) (all []sorted) {
	for _, column := range c.Columns {
		sort, _ := outcome.SortOfColumn(column)
		if n := len(all); n > 0 && all[n-1].Sort == sort {
			all[n-1].Columns++
			continue
		}
		all = append(all, sorted{sort, 1})
	}
	return all
}

// where is the backend that a column is on.
func where(c *outcome.Card, column string) string {
	if _, beside := outcome.SortOfColumn(column); beside {
		return c.Beside
	}
	return c.Backend
}

// cell is a cell of the matrix, with where its counterexample is read.
type cell struct {
	outcome.CardCell
	Column, Words string
	Run           string // of the finding; "": there is none
}

func cellsOf(c *outcome.Card, r outcome.CardRow) (out []cell) {
	for i, x := range r.Cells {
		k := cell{CardCell: x, Column: c.Columns[i], Words: grounds(x)}
		for _, f := range c.Findings {
			if f.Column == c.Columns[i] && k.Run == "" && slices.ContainsFunc(f.Harms, func(h outcome.Harm) bool { return h.Property == r.Property }) {
				k.Run = f.Run
			}
		}
		out = append(out, k)
	}
	return out
}

// grounds are what a mark rests on, in words.
func grounds(x outcome.CardCell) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{x.Failed - x.Unconfirmed, "violated, must hold"}, {x.Unconfirmed, "violated, and not confirmed"}, {x.Alone, "violated, own lock keeps it"},
		{x.Kept, "held, as it must"}, {x.Alike, "violated as with the own lock"}, {x.Open, "undecided"}, {x.Free, "held"},
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

// tone is the class of a mark.
func tone(m outcome.Mark) string {
	switch m {
	case outcome.MarkFailed:
		return "harm"
	case outcome.Unconfirmed, outcome.Open:
		return "doubt"
	case outcome.Kept, outcome.KeptAlike:
		return "fine"
	case outcome.Alone, outcome.Alike:
		return "told"
	}
	return "calm"
}

// cardView is what the page is made of.
type cardView struct {
	*Scorecards
	Pictures map[string]sequence.Diagram
}

// Picture is the diagram of a run; "": it has none.
func (v cardView) Picture(run string) template.HTML {
	d, there := v.Pictures[run]
	if !there {
		return ""
	}
	return template.HTML(sequence.SVG(d, sequence.SVGOptions{Embedded: true, Prefix: anchor(run) + "-", Page: run + "/report.html"})) // every text in it is escaped
}

// Caption is the story of a run in sentences.
func (v cardView) Caption(run string) string { return strings.Join(v.Pictures[run].Caption, " ") }

// Page writes the book as a page that stands alone, with the diagrams of its findings' runs.
func (b *Scorecards) Page(w io.Writer, pictures map[string]sequence.Diagram) error {
	if err := cardTemplate().Execute(w, cardView{b, pictures}); err != nil {
		return fmt.Errorf("draw scorecard: %w", err)
	}
	return nil
}

// measure is a row of numbers: those of the lock, and of the scenarios' own.
type measure struct {
	Name, unit string
	pick       func(outcome.CardNumbers) float64
}

func measures() []measure {
	return []measure{
		{"grants", "", func(n outcome.CardNumbers) float64 { return n.Grants }},
		{"longest time without a grant", " s", func(n outcome.CardNumbers) float64 { return n.Longest }},
		{"keys kept past their TTL", "", func(n outcome.CardNumbers) float64 { return n.Orphans }},
	}
}

func figure(x float64) string {
	if x == float64(int(x)) {
		return strconv.Itoa(int(x))
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// both are a lock's number and its control's.
func (m measure) both(lock, own outcome.CardNumbers) string {
	return fmt.Sprintf("%s%s (%s)", figure(m.pick(lock)), m.unit, figure(m.pick(own)))
}

// of is the number in a column; "–": it had no runs.
func (m measure) of(c *outcome.Card, column string) string {
	i := slices.IndexFunc(c.Measured, func(x *outcome.Measure) bool { return x.Column == column })
	if i < 0 {
		return "–"
	}
	return m.both(c.Measured[i].Lock, c.Measured[i].Own)
}

// measured are the numbers of a finding.
func measured(f outcome.CardFinding) (text string) {
	for _, m := range measures() {
		if text != "" {
			text += ", "
		}
		text += m.Name + " " + m.both(f.Numbers, f.Control.Numbers)
	}
	return text
}

// Print prints the book for people at a terminal.
func (b *Scorecards) Print(w io.Writer) {
	for i, c := range b.Cards {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printCard(w, c)
	}
}

func printCard(w io.Writer, c *outcome.Card) {
	in := display.Good
	if c.Code() == outcome.ExitUnexpected {
		in = display.Bad
	} else if c.Code() != outcome.ExitOK {
		in = display.Doubt
	}
	fmt.Fprintln(w, display.Paint(w, in, display.Wrap(display.Width(w)-1, 0, 0, CardHeadline(c))))
	display.PrintWrapped(w, 0, 0, cardBasis(c))
	fmt.Fprintln(w)
	printMatrix(w, c, false)
	if c.Beside != "" {
		fmt.Fprintf(w, "\non %s:\n", c.Beside)
		printMatrix(w, c, true)
	}
	for _, f := range c.Findings {
		printFinding(w, c, f)
	}
	for i, d := range c.Open {
		if i == 0 {
			fmt.Fprintln(w, "\nnot decided:")
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

// printMatrix prints the marks of a card on one of its backends, without the rows and columns
// in which nothing was judged, which the reasons for what was not run tell of.
func printMatrix(w io.Writer, c *outcome.Card, beside bool) {
	used := map[outcome.Mark]bool{}
	t := display.Table{{"property"}}
	var columns []int
	for k, column := range c.Columns {
		column, there := outcome.SortOfColumn(column)
		if there == beside && slices.ContainsFunc(c.Rows, func(r outcome.CardRow) bool { return ruled(r.Cells[k]) }) {
			columns, t[0] = append(columns, k), append(t[0], column)
		}
	}
	for _, r := range c.Rows {
		if !slices.ContainsFunc(columns, func(k int) bool { return ruled(r.Cells[k]) }) {
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
		narrow(t, display.Width(w)).Print(w)
		fmt.Fprintln(w)
		display.PrintWrapped(w, 0, 0, cardLegend(used))
	}
}

func ruled(x outcome.CardCell) bool { return x.Mark != outcome.Cannot && x.Mark != outcome.Idle }

// narrow cuts the heads of a table whose rows would be too long.
func narrow(t display.Table, width int) display.Table {
	for most := 10; most > 4; most-- {
		long := slices.ContainsFunc(t.Lines("", width), func(line string) bool { return strings.Contains(line, "\n") })
		if !long && utf8.RuneCountInString(t.Lines("", width)[0]) <= width {
			break
		}
		for i := range t[0] {
			t[0][i] = display.Fit(t[0][i], most)
		}
	}
	return t
}

func printFinding(w io.Writer, c *outcome.Card, f outcome.CardFinding) {
	sign, in := markOf(f), display.Doubt
	if sign == outcome.MarkFailed {
		in = display.Bad
	}
	fmt.Fprintf(w, "\n%s %s, seed %d (%s)\n", display.Paint(w, in, string(sign)), f.Scenario, f.Seed, f.Column)
	for _, h := range f.Harms {
		display.PrintWrapped(w, 2, 4, fmt.Sprintf("%s %s: %s", h.Property, h.Cause, h.Because))
		for _, more := range []string{CardTries(h.Try), cardBlame(c, f, h.Property)} {
			if more != "" {
				display.PrintWrapped(w, 4, 4, more)
			}
		}
	}
	if own := cardBeside(f); own != "" {
		display.PrintWrapped(w, 2, 4, own)
	}
	fmt.Fprintf(w, "  %s\n", f.Command)
}
