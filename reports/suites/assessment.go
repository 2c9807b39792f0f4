package suites

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/figures"
	"lockpick/scenarios/outcome"
)

// Names of an assessment's folder in a store and of its files.
const (
	AssessmentFolder = "assessments"
	AssessmentPage   = "assess.html"
	AssessmentText   = "assess.md"
	AssessmentJSON   = "assess.json"
)

//go:embed assess.html.tmpl
var assessmentTemplate string

var assessmentPage = parseOnce("assessment", assessmentTemplate)

// WriteAssessment writes an assessment's page, Markdown and JSON to a folder of a store, and makes the pages
// of its runs link to it.
func WriteAssessment(folder string, a *outcome.Assessment) error {
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	var page, markdown bytes.Buffer
	v := newAssessmentView(a)
	if err := assessmentPage().Execute(&page, v); err != nil {
		return fmt.Errorf("render assessment: %w", err)
	}
	v.markdown(&markdown)
	if err := errors.Join(files.WriteIn(folder, AssessmentJSON, append(text, '\n')), files.WriteIn(folder, AssessmentPage, page.Bytes()), files.WriteIn(folder, AssessmentText, markdown.Bytes())); err != nil {
		return err
	}
	return linkRunsOf(filepath.Join(folder, "../.."), folder)
}

// WriteAssessmentMarkdown writes an assessment as Markdown.
func WriteAssessmentMarkdown(w io.Writer, a *outcome.Assessment) { newAssessmentView(a).markdown(w) }

// assessmentView is an assessment as text, for all formats.
type assessmentView struct {
	*outcome.Assessment
	Tone     string // CSS class of the headline
	Settings string
	Columns  []string // headings after the hazard
	Rows     []assessmentRow
	Figures  []assessmentFigure
	Sources  [][2]string // predicted value and its formula, by hazard
	Facts    [][2]string
	Index    string
}

type assessmentRow struct {
	Title   string
	Verdict string
	Mark    outcome.Mark
	Tone    string
	Cells   []assessmentCell // one per column
	Changes []outcome.Change
	Advice  string // instead of changes
}

type assessmentCell struct {
	Column, Text, Href string
}

// assessmentFigure shows how often a hazard broke the lock, by size.
type assessmentFigure struct {
	Title string
	Image template.HTML
}

// hazardMarks are the marks and CSS classes of the verdicts.
var hazardMarks = map[string][2]string{
	outcome.HazardSafe:         {"✓", "fine"},
	outcome.HazardAtRisk:       {"✗", "alarm"},
	outcome.HazardInconclusive: {"?", "open"},
	outcome.HazardNotTested:    {"?", "open"},
	outcome.HazardNotAssumed:   {"–", "faint"},
}

func newAssessmentView(a *outcome.Assessment) assessmentView {
	v := assessmentView{Assessment: a, Settings: settingsText(a), Index: storePrefix + IndexFile}
	if a.Code == outcome.ExitOK {
		v.Tone = "good"
	} else if a.Code == outcome.ExitUndecided {
		v.Tone = "calm"
	}
	v.Columns = slices.Clone(assessmentColumns)
	for _, label := range a.Alternatives {
		v.Columns = append(v.Columns, "with "+label)
	}
	for _, r := range a.Hazards {
		v.Rows = append(v.Rows, newAssessmentRow(a, r, v.Columns))
		if b := r.Bound; b != nil {
			if f := boundFigure(r.Name, b); f != nil {
				v.Figures = append(v.Figures, assessmentFigure{f.Title, template.HTML(f.Inline())})
			}
			if b.Edge != nil {
				text := fmt.Sprintf("%s = %s", b.Edge.Formula, b.Unit.Format(b.Edge.Nominal))
				if between := b.PredictionRange(); between != "" {
					text += "; with messages and retries " + between
				}
				v.Sources = append(v.Sources, [2]string{r.Title, text})
			}
		}
	}
	v.Facts = [][2]string{
		{"command", a.Command}, {"backend", a.Backend}, {"seeds", fmt.Sprintf("%d per value, from %d", a.Seeds, a.FirstSeed)},
		{"runs", display.GroupDigits(a.Runs)}, {"wall clock", fmt.Sprintf("%.1f s", a.Seconds)}, {"lockpick", a.Version}, {"exit code", fmt.Sprint(a.Code)},
	}
	return v
}

// settingsText describes the settings under test.
func settingsText(a *outcome.Assessment) string {
	d := a.Deployment
	fence := "no fencing tokens"
	if d.Fence {
		fence = "fencing tokens"
	}
	persistence := "fsync " + d.Persistence
	if d.Persistence == "none" {
		persistence = "no persistence"
	}
	text := fmt.Sprintf("%s; TTL %v, %s, %s, drift allowance %s, restart delay %v, %s", d.Lock, d.TTL, a.Topology, persistence, outcome.FormatPercent(100*d.Drift), d.RestartDelay, fence)
	if a.Server != "" {
		text += "; " + a.Server
	}
	if a.Scale != 0 {
		text += fmt.Sprintf("; all durations times %g, only a few values tried", a.Scale)
	}
	return text
}

// assessmentColumns are the columns before the alternatives.
var assessmentColumns = []string{"assumed", "safe up to", "breaks at (runs)", "predicted", "with fencing"}

const fencingColumn = 4

func newAssessmentRow(a *outcome.Assessment, r *outcome.HazardRow, columns []string) assessmentRow {
	mark := hazardMarks[r.Verdict]
	row := assessmentRow{Title: r.Title, Verdict: r.Verdict, Mark: outcome.Mark(mark[0]), Tone: mark[1], Changes: r.Changes}
	if r.Verdict == outcome.HazardAtRisk && len(r.Changes) == 0 {
		row.Advice = r.Advice
		if r.NumTried > 0 {
			row.Advice = "no setting helps; use " + r.Advice
		}
	}
	add := func(text, href string) {
		row.Cells = append(row.Cells, assessmentCell{columns[len(row.Cells)], text, href})
	}
	b := r.Bound
	if b == nil {
		add(cmp.Or(r.Assumed, r.Verdict), "")
		add("", "")
		add(r.Reason, "")
		add("", "")
	} else {
		add(r.Assumed, "")
		add(b.SafeText(), "")
		if v := r.CatalogViolations; len(v) > 0 && b.Verdict() != outcome.HazardAtRisk {
			add("in the catalog, below", runReport(v[0].Dir))
		} else {
			add(b.BreakText(), runReport(b.Dir))
		}
		add(b.PredictionText(), "")
	}
	add(fencedText(r))
	for i := range a.Alternatives {
		text := ""
		if i < len(r.Alternatives) && r.Alternatives[i] != nil {
			text = verdictText(r.Alternatives[i])
		}
		add(text, "")
	}
	return row
}

// runReport returns the page of a run directory, or "".
func runReport(dir string) string {
	if dir == "" {
		return ""
	}
	return path.Join(dir, "report.html")
}

// fencedText says whether fencing tokens protect the data, with a link to a counterexample.
func fencedText(r *outcome.HazardRow) (text, href string) {
	if r.Fenced == nil {
		return r.NotFenced, ""
	}
	return verdictText(r.Fenced), runReport(r.Fenced.Dir)
}

// verdictText is a bound's verdict with its reason.
func verdictText(b *outcome.Bound) string {
	switch verdict := b.Verdict(); {
	case verdict == outcome.HazardAtRisk:
		return "✗ " + b.BreakText()
	case verdict == outcome.HazardSafe && b.FirstUnsafe != nil && b.LessIsWorse:
		return "✓ " + b.SafeText()
	case verdict == outcome.HazardSafe && b.FirstUnsafe != nil:
		return "✓ up to " + b.SafeText()
	case verdict == outcome.HazardSafe:
		return "✓"
	default:
		return verdict
	}
}

// boundFigure plots how often each tested size broke the lock. It returns nil if only one was tested.
func boundFigure(name string, b *outcome.Bound) *figures.Figure {
	if len(b.Points) < 2 {
		return nil
	}
	points := slices.Clone(b.Points)
	if b.LessIsWorse { // the figure's axis goes from small to large
		slices.Reverse(points)
	}
	var values []float64
	var rates []figures.Rate
	for _, p := range points {
		values, rates = append(values, p.Value), append(rates, figures.Rate{K: p.NumViolated, N: p.NumRuns})
	}
	var limits *figures.Limits
	if e := b.Edge; e != nil {
		limits = &figures.Limits{Nominal: e.Nominal, AlwaysSafe: e.SafeLimit, AlwaysBreaks: e.FailureLimit}
	}
	return figures.ThresholdFigure(name, b.Answer(), strings.ToUpper(b.Noun[:1])+b.Noun[1:]+axisUnit(b.Unit), b.Unit == outcome.UnitNodes, values, rates, limits)
}

// axisUnit returns the unit as it follows an axis label.
func axisUnit(u outcome.BoundUnit) string {
	switch u {
	case outcome.UnitSeconds:
		return " (seconds)"
	case outcome.UnitPercent:
		return " (percent)"
	}
	return ""
}

// changeText describes a suggested change, with the flags that make it.
func changeText(c outcome.Change) string {
	text := fmt.Sprintf("%s (%s; verified by %s", c.Text, c.Flags, display.Plural(c.Runs, "run"))
	if c.Insufficient != "" {
		text += "; " + c.Insufficient + " is not enough"
	}
	return text + ")"
}

// randomText counts the violations in runs with random plans.
func randomText(p outcome.RandomRuns) string {
	where := "within what you expect"
	if !p.Inside {
		where = "without limits"
	}
	text := fmt.Sprintf("%d of %s %s", p.Violated, display.Plural(p.Runs, "run"), where)
	if p.Cause != "" {
		text += " (" + p.Cause + ")"
	}
	if p.Undecided > 0 {
		text += fmt.Sprintf(" (%d inconclusive)", p.Undecided)
	}
	return text
}

// catalogText describes the runs of the catalog.
func catalogText(c *outcome.CatalogSummary) string {
	text := fmt.Sprintf("Catalog with these settings: %s, %d skipped", display.Plural(c.Runs, "run"), c.Skipped)
	if c.Inconclusive > 0 {
		text += fmt.Sprintf(", %d inconclusive", c.Inconclusive)
	}
	return text + fmt.Sprintf("; safety violated in %d within what you expect, and in %d under other faults.", len(c.Violations), len(c.Outside))
}

// PrintAssessment prints an assessment for a terminal.
func PrintAssessment(w io.Writer, a *outcome.Assessment) {
	v := newAssessmentView(a)
	color := map[string]display.TextColor{"good": display.GoodText, "calm": display.DoubtText}[v.Tone]
	fmt.Fprintln(w, display.Paint(w, cmp.Or(color, display.BadText), display.Wrap(display.Width(w)-1, 0, 0, a.Headline)))
	display.PrintWrapped(w, 0, 0, v.Settings)
	fmt.Fprintln(w)
	v.printTable(w)
	for _, r := range v.Rows {
		text := r.Title + ": " + r.Advice
		for i, c := range r.Changes {
			joint := "change to "
			if i > 0 {
				joint = ", or "
			}
			text += fmt.Sprintf("%s%s (%s)", joint, c.Text, c.Flags)
		}
		if len(r.Changes) > 0 || r.Advice != "" {
			display.PrintWrapped(w, 0, 2, text)
		}
	}
	for i := range v.Alternatives {
		display.PrintWrapped(w, 0, 2, v.alternativeText(i))
	}
	for _, line := range v.remarks() {
		display.PrintWrapped(w, 0, 2, line)
	}
}

// printTable prints the columns that have something to say, without those of the alternatives.
func (v assessmentView) printTable(w io.Writer) {
	t := display.Table{{"hazard"}}
	var shown []int
	for i, name := range assessmentColumns {
		isEmpty := !slices.ContainsFunc(v.Rows, func(r assessmentRow) bool { return r.Cells[i].Text != "" })
		if isEmpty || i == fencingColumn && !v.anyFenced() {
			continue
		}
		if i == fencingColumn {
			name = strings.ReplaceAll(name, " ", "\n")
		}
		t[0], shown = append(t[0], name), append(shown, i)
	}
	for _, r := range v.Rows {
		cells := []string{string(r.Mark) + " " + r.Title}
		for _, i := range shown {
			text := r.Cells[i].Text
			if i == fencingColumn { // the mark alone, because lines are short
				text, _, _ = strings.Cut(text, " ")
			}
			cells = append(cells, text)
		}
		t = append(t, cells)
	}
	t.Print(w)
	fmt.Fprintln(w)
}

// anyFenced reports whether any hazard was measured with fencing tokens.
func (v assessmentView) anyFenced() bool {
	return slices.ContainsFunc(v.Hazards, func(r *outcome.HazardRow) bool { return r.Fenced != nil })
}

// alternativeText says which hazards break the lock with the i-th alternative settings.
func (v assessmentView) alternativeText(i int) string {
	var broken, open []string
	for _, r := range v.Hazards {
		switch {
		case i >= len(r.Alternatives):
		case r.Alternatives[i] == nil:
			open = append(open, r.Title)
		case r.Alternatives[i].Verdict() == outcome.HazardAtRisk:
			broken = append(broken, r.Title)
		case r.Alternatives[i].Verdict() != outcome.HazardSafe:
			open = append(open, r.Title)
		}
	}
	text := "With " + v.Alternatives[i] + ": safe from each hazard"
	if len(broken) > 0 {
		text = "With " + v.Alternatives[i] + ": at risk from " + display.List(broken)
	}
	if len(open) > 0 {
		text += "; not decided: " + display.List(open)
	}
	return text + "."
}

// CombinedText says what all changes together achieve, or returns "".
func (v assessmentView) CombinedText() string {
	c := v.Combined
	if c == nil {
		return ""
	}
	text := "All together (" + c.Flags + "): "
	switch {
	case len(c.Remaining) > 0:
		text += "still at risk from " + display.List(c.Remaining)
	case c.Violated > 0:
		text += fmt.Sprintf("safe from each hazard, but not from %s", display.Plural(c.Violated, "random combination"))
	default:
		text += "safe from each hazard and from random combinations"
	}
	return fmt.Sprintf("%s, in %s.", text, display.Plural(c.Runs, "run"))
}

// remarks are the sentences after the table.
func (v assessmentView) remarks() (all []string) {
	if v.Catalog != nil {
		all = append(all, catalogText(v.Catalog))
	}
	if len(v.RandomPlans) > 0 {
		text := "Random combinations of hazards: safety violated in "
		for i, p := range v.RandomPlans {
			if i > 0 {
				text += ", and in "
			}
			text += randomText(p)
		}
		all = append(all, text+".")
	}
	for _, r := range v.Hazards {
		if r.Reason != "" && r.Bound != nil {
			all = append(all, r.Title+" is inconclusive: "+r.Reason+".")
		}
		if len(r.CatalogViolations) > 0 {
			var texts []string
			for _, v := range r.CatalogViolations {
				texts = append(texts, v.Text)
			}
			all = append(all, r.Title+", in the catalog: "+strings.Join(texts, "; ")+".")
		}
	}
	if text := v.CombinedText(); text != "" {
		all = append(all, text)
	}
	for _, d := range v.Disagreement {
		all = append(all, "FINDING ABOUT LOCKPICK: measurement and prediction disagree: "+d+".")
	}
	if !v.Named {
		all = append(all, "The sizes are defaults. Name what can happen to you to count only that, as in --max-clock-jump 200ms --hazard power-loss.")
	}
	return append(append(all, v.Notes...), "Safe means that no run violated safety. Where smaller is worse, the size is a node's downtime or the lock's age at the power loss. (1 of 20): runs that violated safety, of those with this size.")
}

func (v assessmentView) markdown(w io.Writer) {
	fmt.Fprintf(w, "# Assessment of %s\n\n**%s**\n\n%s\n\n", markdown(v.Deployment.Lock), markdown(v.Headline), markdown(v.Settings))
	heads := append(append([]string{"hazard", "verdict"}, v.Columns...), "what to change")
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, r := range v.Rows {
		cells := []string{markdown(r.Title), string(r.Mark) + " " + r.Verdict}
		for _, c := range r.Cells {
			cells = append(cells, link(c.Text, c.Href))
		}
		change := markdown(r.Advice)
		for i, c := range r.Changes {
			if i > 0 {
				change += "; or "
			}
			change += markdown(changeText(c))
		}
		fmt.Fprintf(w, "| %s | %s |\n", strings.Join(cells, " | "), change)
	}
	fmt.Fprintln(w)
	for _, line := range v.remarks() {
		fmt.Fprintf(w, "- %s\n", markdown(line))
	}
	for _, p := range v.RandomPlans {
		if p.Dir != "" {
			fmt.Fprintf(w, "- Counterexample of a random combination: %s\n", link(p.Command, runReport(p.Dir)))
		}
	}
	if v.Catalog != nil {
		for _, c := range slices.Concat(v.Catalog.Violations, v.Catalog.Outside) {
			fmt.Fprintf(w, "- Violation in the catalog: %s\n", link(c.Text, runReport(c.Dir)))
		}
	}
	fmt.Fprint(w, "\n## Predictions\n\n")
	for _, s := range v.Sources {
		fmt.Fprintf(w, "- %s: %s\n", markdown(s[0]), markdown(s[1]))
	}
	fmt.Fprint(w, "\n## How it was run\n\n| | |\n|---|---|\n")
	for _, f := range v.Facts {
		fmt.Fprintf(w, "| %s | %s |\n", f[0], markdown(f[1]))
	}
}
