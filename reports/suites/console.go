package suites

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// Console prints the outcomes of many runs: the result, runs that the user asked for by name or that
// were not as expected, a summary by property, and the skipped runs. With Verbose, it additionally
// prints a line as soon as a run, or all seeds of a scenario, are done. With JSON, it prints each
// outcome as JSON as soon as the run is done, and totals at the end. For many seeds it keeps only sums
// in memory.
type Console struct {
	W       io.Writer
	Suite   *Suite // totals of the same runs
	Named   bool   // the user named scenarios, so draw violations
	Verbose bool
	Quiet   bool
	JSON    bool
	Diagram func(o outcome.Outcome, width int) string // returns "" if there is no diagram
	Erase   func()                                    // clears the progress line; called before printing

	runs    int               // number of runs
	retries int               // number of discarded attempts
	row     outcome.Row       // current scenario, while more seeds may follow
	rates   []rate            // rates for the previous scenarios
	rows    []outcome.Row     // for Finish to print
	shown   []outcome.Outcome // for Finish to print
	skipped []outcome.Outcome
}

// Add adds an outcome. Outcomes of the same scenario must be consecutive, and skipped scenarios must
// come last.
func (c *Console) Add(o outcome.Outcome) {
	c.runs, c.retries = c.runs+1, c.retries+len(o.Retried)
	if c.row.Scenario != o.Scenario {
		c.endRow()
	}
	if o.Skipped != "" {
		c.skipped = append(c.skipped, o)
	}
	switch {
	case c.JSON:
		c.row.Add(o)
		c.addJSON(o)
	case o.Skipped != "":
	case c.Suite.Seeds > 1:
		if c.row.Add(o); c.row.Runs == c.Suite.Seeds {
			c.endRow()
		}
	default:
		c.addRun(o)
	}
}

// addRun prints a line about a run if Verbose is set, and stores the run if Finish must print details.
func (c *Console) addRun(o outcome.Outcome) {
	if c.Verbose {
		c.Erase()
		c.printLine(o)
	}
	if c.Named && !c.Quiet || o.Code != outcome.ExitOK || c.Named && o.InformationalOnly() {
		c.shown = append(c.shown, o)
	}
}

// endRow prints the results of a scenario's seeds or stores them for Finish, if there is anything to
// report.
func (c *Console) endRow() {
	r := c.row
	c.row = outcome.Row{}
	violated := slices.ContainsFunc(r.Cells, func(c outcome.Cell) bool {
		return c.Violated > 0 && (c.Expected == "" || c.Expected == outcome.AnyOutcome)
	})
	switch {
	case c.JSON:
		c.rates = append(c.rates, ratesOf(r, c.Suite.Backend)...)
	case r.Runs == 0 || !c.isDetailed() && outcome.CountPassed(r.Counts) == r.Runs && !violated:
	case c.Verbose:
		c.Erase()
		c.printRow(r)
	default:
		c.rows = append(c.rows, r)
	}
}

// Finish prints the result, the details and the summary. code is the overall exit code.
func (c *Console) Finish(code int) error {
	c.endRow()
	if c.JSON {
		return c.endJSON(code)
	}
	c.printResult(code)
	blank := true // print a blank line before the next run
	for _, o := range c.shown {
		long := !c.isBrief(o)
		if blank || long {
			fmt.Fprintln(c.W)
		}
		c.printRun(o)
		blank = long
	}
	for _, r := range c.rows {
		fmt.Fprintln(c.W)
		c.printRow(r)
	}
	if c.Quiet {
		return nil
	}
	if t := c.Suite.summary(); !c.isDetailed() && len(t) > 1 {
		fmt.Fprintln(c.W)
		t.WrapHead(display.Width(c.W)).Print(c.W)
	}
	c.printSkipped()
	return nil
}

// printResult prints the number of runs in each state.
func (c *Console) printResult(code int) {
	var parts []string
	for _, s := range outcome.StatesBySeverity() {
		n := c.Suite.Counts[s]
		if s == outcome.Skipped {
			n = len(c.skipped)
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome.StateText(s)))
		}
	}
	in := display.Good
	if code != outcome.ExitOK {
		in = display.Bad
	} else if c.Suite.Counts[outcome.Informational] > 0 {
		in = display.Plain
	}
	if c.Verbose {
		fmt.Fprintln(c.W)
	}
	text := fmt.Sprintf("%s on %s, %s: %s", countNoun(c.runs, "run"), c.Suite.Backend, c.Suite.SeedRange(), strings.Join(parts, ", "))
	if c.retries == 1 {
		text += "; 1 retry"
	} else if c.retries > 1 {
		text += fmt.Sprintf("; %d retries", c.retries)
	}
	fmt.Fprintln(c.W, display.Paint(c.W, in, text))
}

// countNoun formats a count with a noun. It uses no thousands separators, so that programs can parse
// the count.
func countNoun(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// printSkipped prints each skipped run or, if the output is not detailed, the number of skipped runs
// by reason.
func (c *Console) printSkipped() {
	if len(c.skipped) == 0 {
		return
	}
	fmt.Fprintln(c.W)
	var reasons []string
	count := map[string]int{}
	for _, o := range c.skipped {
		if c.isDetailed() {
			fmt.Fprintf(c.W, "%-43s skipped: %s\n", display.OneLine(o.Scenario), display.OneLine(o.Skipped))
		} else if count[o.Skipped]++; count[o.Skipped] == 1 {
			reasons = append(reasons, o.Skipped)
		}
	}
	for _, why := range reasons {
		fmt.Fprintln(c.W, c.wrap(4, fmt.Sprintf("skipped %d: %s", count[why], display.OneLine(why))))
	}
}

// numbersRow is the name of the summary's row for bounded numbers.
const numbersRow = "measured numbers"

// Columns of the summary.
const (
	colHolds           = "holds"
	colViolated        = "violated as expected"
	colInformational   = "violated, informational"
	colNotInComparison = "violated, not in comparison"
	colNotExercised    = "not exercised"
	colUndecided       = "inconclusive"
	colUnexpected      = "unexpected"
)

// summary returns a table of the number of results by property and column, without empty rows and
// columns. It fits on one screen.
func (s *Suite) summary() display.Table {
	count := map[[2]string]int{}
	for _, c := range s.Scenarios {
		for _, cell := range c.Cells {
			row := cell.Property
			if cell.Number != "" {
				row = numbersRow
			}
			for w, n := range cell.Results {
				if w.Reportable() {
					count[[2]string{row, columnOf(w)}] += n
					count[[2]string{row}] += n
					count[[2]string{"", columnOf(w)}] += n
				}
			}
		}
	}
	t := display.Table{{"property"}}
	for _, col := range []string{colHolds, colViolated, colInformational, colNotInComparison, colNotExercised, colUndecided, colUnexpected} {
		if count[[2]string{"", col}] > 0 {
			t[0] = append(t[0], col)
		}
	}
	for _, row := range append(checker.Properties(), numbersRow) {
		if count[[2]string{row}] == 0 {
			continue
		}
		cells := []string{row}
		for _, col := range t[0][1:] {
			cells = append(cells, fmt.Sprint(count[[2]string{row, col}]))
		}
		t = append(t, cells)
	}
	return t
}

func columnOf(w outcome.ResultKey) string {
	switch {
	case w.AsExpected && w.Got == verdict.Holds:
		return colHolds
	case w.Unresolved():
		return colUndecided
	case !w.AsExpected:
		return colUnexpected
	case w.Informational() && w.ComparisonDiffers():
		return colNotInComparison
	case w.Informational():
		return colInformational
	case w.Got == verdict.Violated:
		return colViolated
	}
	return colNotExercised
}

// isDetailed reports whether to print each run.
func (c *Console) isDetailed() bool { return (c.Named || c.Verbose) && !c.Quiet }

// isBrief reports whether a single line is enough for a run.
func (c *Console) isBrief(o outcome.Outcome) bool {
	return o.Code == outcome.ExitOK && !(c.isDetailed() && c.Named && o.Violated())
}

// printRun prints a run's results with the reasons, the diagram, and the command to rerun it.
func (c *Console) printRun(o outcome.Outcome) {
	state := o.State()
	discards := func() {
		for _, why := range o.Retried {
			fmt.Fprintf(c.W, "    retried: %s\n", display.OneLine(why))
		}
	}
	switch {
	case c.isBrief(o):
		c.printLine(o)
		discards()
		return
	case state == outcome.Interrupted:
		fmt.Fprintf(c.W, "%s: %s\n", display.OneLine(o.Scenario), display.Paint(c.W, display.Doubt, outcome.StateText(state)))
	case o.Code == outcome.ExitOK:
		fmt.Fprintln(c.W, display.OneLine(o.Scenario))
	default:
		in := display.Bad
		if state == outcome.Undecided {
			in = display.Doubt
		}
		fmt.Fprintf(c.W, "%s: %s\n", display.OneLine(o.Scenario), display.Paint(c.W, in, strings.ToUpper(outcome.StateText(state))))
	}
	discards()
	if state != outcome.Interrupted {
		c.explain(o)
	}
	if o.Hint != "" {
		fmt.Fprintf(c.W, "    hint: %s\n", display.OneLine(o.Hint))
	}
	if o.Dir != "" {
		fmt.Fprintf(c.W, "    record:    %s\n", display.OneLine(o.Dir))
	}
	fmt.Fprintf(c.W, "    run again: %s\n", display.OneLine(o.Command))
}

// explain prints a run's results with the reasons, and the diagram.
func (c *Console) explain(o outcome.Outcome) {
	for _, x := range remarks(o) {
		fmt.Fprintln(c.W, c.colorPart(o, c.wrap(6, "    "+x.text)))
		for _, why := range x.why {
			fmt.Fprintln(c.W, c.wrap(8, "        "+why))
		}
	}
	if o.Stopped != "" {
		fmt.Fprintf(c.W, "    %s\n", display.OneLine(o.Stopped))
	}
	if o.Error != "" {
		fmt.Fprintf(c.W, "    error: %s\n", strings.ReplaceAll(strings.TrimSpace(o.Error), "\n", "\n    "))
	}
	if o.Dir == "" || c.Diagram == nil {
		return
	}
	if text := c.Diagram(o, display.Width(c.W)); text != "" {
		fmt.Fprintf(c.W, "\n%s\n\n", strings.TrimRight(text, "\n"))
	}
}

// wrap breaks text into lines that fit the terminal. It indents all lines except the first by indent.
func (c *Console) wrap(indent int, text string) string {
	n := display.Columns(c.W)
	if n == 0 {
		return text
	}
	body := strings.TrimLeft(text, " ")
	lead := len(text) - len(body)
	return text[:lead] + display.Wrap(max(n, 40)-1, lead, indent, body)
}

// printLine prints a run on one line or, if that is too long, on one line per result.
func (c *Console) printLine(o outcome.Outcome) {
	o.Scenario = display.OneLine(o.Scenario)
	parts := Brief(o)
	switch {
	case o.State() == outcome.Interrupted:
		parts = []string{outcome.Interrupted}
	case o.Code != outcome.ExitOK:
		parts = append([]string{strings.ToUpper(outcome.StateText(o.State()))}, parts...)
	}
	room := cmp.Or(display.Columns(c.W), 120) - 44
	if one := strings.Join(parts, "; "); len(one) <= room {
		parts = []string{one}
	}
	name, column := o.Scenario, 43
	if slices.ContainsFunc(parts, func(p string) bool { return len(p) > room }) { // does not fit next to the name
		fmt.Fprintln(c.W, name)
		name, column = "", 3
	}
	for _, text := range parts {
		fmt.Fprintf(c.W, "%-*s %s\n", column, name, c.colorPart(o, text))
		name = ""
	}
}

// colorPart colors a part of a run's line if it states a violation or an unexpected outcome.
func (c *Console) colorPart(o outcome.Outcome, part string) string {
	switch {
	case o.Code != outcome.ExitOK && o.State() != outcome.Undecided && strings.HasPrefix(part, strings.ToUpper(outcome.StateText(o.State()))):
		return display.Paint(c.W, display.Bad, part)
	case o.Code != outcome.ExitOK && strings.HasPrefix(part, strings.ToUpper(outcome.StateText(o.State()))), strings.Contains(part, " violated"):
		return display.Paint(c.W, display.Doubt, part)
	}
	return part
}

// remark describes the result for one or more properties, with the reasons.
type remark struct {
	text string
	why  []string
}

// remarks describes the properties that have an expectation or were violated. Violations with the same
// cause share a remark, and so do other consecutive results with the same reason. A property implied
// by another property is omitted if neither is violated.
func remarks(o outcome.Outcome) (all []remark) {
	findings := o.Findings()
	var open []outcome.Judgement // consecutive judgements with the same result and reason
	flush := func() {
		if len(open) == 0 {
			return
		}
		text := open[0].String()
		if len(open) > 1 {
			text = fmt.Sprintf("%s %s", propertyNames(open), open[0].Got)
		}
		all, open = append(all, remark{text, []string{open[0].Because}}), nil
	}
	for _, j := range o.Judgements {
		lead := o.JudgementOf(j.Follows)
		switch {
		case j.Got == verdict.Violated && j.Number == nil:
			if i := slices.IndexFunc(findings, func(f outcome.Finding) bool { return f.Property == j.Property }); i >= 0 {
				flush()
				all = append(all, findingRemark(findings[i]))
			}
		case !j.Reportable(), j.Follows != "" && j.AsExpected && lead != nil && lead.Got != verdict.Violated:
		case j.Got == verdict.Holds && j.AsExpected:
			flush()
			all = append(all, remark{text: singleLine(j).String()})
		default:
			if j = singleLine(j); len(open) > 0 && (open[0].Because != j.Because || open[0].Got != j.Got) {
				flush()
			}
			open = append(open, j)
		}
	}
	flush()
	return all
}

// findingRemark describes a finding: the reason, the resulting damage, and whether the cause was
// confirmed.
func findingRemark(f outcome.Finding) remark {
	p := remark{display.OneLine(f.String()), []string{display.OneLine(f.Because)}}
	for _, j := range f.Related {
		if j.Cause == verdict.LockBroken {
			p.why = append(p.why, display.OneLine(j.Because))
		}
	}
	if c := f.Confirmation; c != nil {
		p.why = append(p.why, fmt.Sprintf("cause %s: %s", c.State, display.OneLine(c.Why)))
	}
	return p
}

// DescribeResults describes each result of a run in a few words.
func Brief(o outcome.Outcome) (all []string) {
	for _, p := range remarks(o) {
		all = append(all, p.text)
	}
	if o.Error != "" && len(all) == 0 {
		return strings.SplitN(o.Error, "\n", 2)[:1]
	}
	return all
}

// singleLine returns j with every text on a single line, because texts may quote untrusted data.
func singleLine(j outcome.Judgement) outcome.Judgement {
	for _, s := range []*string{&j.Property, &j.Expected, &j.Cause, &j.Node, &j.Because} {
		*s = display.OneLine(*s)
	}
	return j
}

// propertyNames lists the properties of the judgements.
func propertyNames(js []outcome.Judgement) string {
	if len(js) >= len(checker.Properties())-1 { // HolderNotified applies to few locks
		return fmt.Sprintf("all %d properties", len(js))
	}
	var out []string
	for _, j := range js {
		out = append(out, j.Property)
	}
	return strings.Join(out, ", ")
}

const maxShown = 5

// printRow prints the results of a scenario with many seeds.
func (c *Console) printRow(r outcome.Row) {
	fmt.Fprintf(c.W, "%-44s %d seeds: %s\n", r.Scenario, r.Runs, strings.Join(outcome.DescribeCounts(r.Counts), ", "))
	causes := display.Table{{"", "", ""}} // cause, number of seeds, and the command of the shortest example
	for _, x := range r.Causes {
		causes = append(causes, []string{x.Cause, fmt.Sprint(x.Runs), x.Shortest.Command})
	}
	lines := causes.Lines("      ", display.Width(c.W))[1:]
	for _, property := range checker.Properties() {
		if x := r.Cell(property); x != nil && (x.Violated > 0 || x.Expected != "" && x.HasRate(c.Suite.Backend)) {
			text := fmt.Sprintf("%s violated in %s", property, c.Suite.share(*x))
			if x.Violated > 0 {
				text = display.Paint(c.W, display.Doubt, text)
			}
			if x.NotExercised > 0 && x.HasRate(c.Suite.Backend) {
				text += fmt.Sprintf("; %d did not exercise it", x.NotExercised)
			}
			fmt.Fprintln(c.W, "    "+text)
		}
		for i, x := range r.Causes {
			if x.Property == property {
				fmt.Fprintln(c.W, lines[i])
			}
		}
	}
	shown := r.FailedRuns(maxShown)
	for _, o := range shown {
		fmt.Fprintf(c.W, "    seed %d: %s\n    run again: %s\n", o.Seed, strings.Join(Brief(o), "; "), o.Command)
	}
	if more := r.Runs - outcome.CountPassed(r.Counts) - len(shown); more > 0 {
		fmt.Fprintf(c.W, "    … and %d more\n", more)
	}
}

// rate states how often a scenario violated a property, with the 95 % interval.
type rate struct {
	Scenario string  `json:"scenario"`
	Property string  `json:"property"`
	Runs     int     `json:"runs"` // number of conclusive runs
	Violated int     `json:"violated"`
	Idle     int     `json:"notExercised,omitempty"` // number of runs without an occasion to violate it
	Rate     float64 `json:"rate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// ratesOf returns the rates for the properties with enough conclusive runs.
func ratesOf(r outcome.Row, backend string) (rates []rate) {
	for _, name := range checker.Properties() {
		if c := r.Cell(name); c != nil && (c.Expected != "" || c.Violated > 0) && c.HasRate(backend) {
			low, high := outcome.Wilson(c.Violated, c.Decided)
			rates = append(rates, rate{r.Scenario, name, c.Decided, c.Violated, c.NotExercised, float64(c.Violated) / float64(c.Decided), low, high})
		}
	}
	return rates
}

// scenarioCause adds the scenario to a cause, for JSON output.
type scenarioCause struct {
	Scenario string `json:"scenario"`
	outcome.Cause
}

const beginJSON = "{\n  \"schema\": 1,\n  \"outcomes\": ["

func (c *Console) addJSON(o outcome.Outcome) {
	c.Erase()
	before := ","
	if c.runs == 1 {
		before = beginJSON
	}
	text, err := json.MarshalIndent(o, "    ", "  ")
	if err != nil {
		panic(err) // cannot fail for plain data
	}
	fmt.Fprintf(c.W, "%s\n    %s", before, text)
}

// endJSON prints the totals at the end of JSON output.
func (c *Console) endJSON(code int) error {
	end := struct {
		Rates  []rate `json:"rates,omitempty"`
		Causes any    `json:"causes,omitempty"` // nil for a single seed
		Code   int    `json:"code"`
	}{Rates: c.rates, Code: code}
	if c.Suite.Seeds > 1 {
		causes := []scenarioCause{}
		for _, s := range c.Suite.Scenarios {
			for _, x := range s.Causes {
				causes = append(causes, scenarioCause{s.ID(), x})
			}
		}
		end.Causes = causes
	}
	text, err := json.MarshalIndent(end, "", "  ")
	if err != nil {
		return err
	}
	before := "\n  ],"
	if c.runs == 0 {
		before = beginJSON + "],"
	}
	_, err = fmt.Fprintf(c.W, "%s%s\n", before, text[1:])
	return err
}

// secondJudgeTexts describes the second judge's possible results for the whole history.
var secondJudge = map[verdict.Outcome]string{
	verdict.Holds:     "consistent with a lease lock",
	verdict.Violated:  "not consistent with any lease lock",
	verdict.Undecided: "not run, or the record is too long for its search",
}

// PrintVerdict prints judgements with their reasons and witnesses. It prints the reason only once for
// consecutive properties that share it. hasSecond reports whether a second judge was available.
func PrintVerdict(w io.Writer, v verdict.Verdict, js []outcome.Judgement, second bool) {
	live := false
	for len(js) > 0 {
		js = slices.Clone(js)
		n := 0
		for ; n < len(js); n++ {
			if js[n] = singleLine(js[n]); js[n].Because != js[0].Because {
				break
			}
			if !live && checker.Liveness(js[n].Property) {
				fmt.Fprintln(w, "liveness, as far as the faults allow it:")
				live = true
			}
			fmt.Fprintln(w, js[n])
		}
		fmt.Fprintf(w, "    %s\n", js[0].Because)
		for _, j := range js[:n] {
			if r := v.Result(j.Property); r != nil && r.Witness != nil {
				fmt.Fprintf(w, "    witness: events %v\n", r.Witness.Events)
			}
		}
		js = js[n:]
	}
	if second {
		fmt.Fprintf(w, "second judge (porcupine): %s\n", secondJudge[v.Second])
	}
}
