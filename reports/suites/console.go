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

	numRuns      int               // number of runs
	numRetries   int               // number of discarded attempts
	currentRow   outcome.Row       // current scenario, while more seeds may follow
	rates        []rate            // rates for the previous scenarios
	rows         []outcome.Row     // for Finish to print
	detailedRuns []outcome.Outcome // for Finish to print
	skippedRuns  []outcome.Outcome
}

// Add adds an outcome. Outcomes of the same scenario must be consecutive, and skipped scenarios must
// come last.
func (c *Console) Add(o outcome.Outcome) {
	c.numRuns, c.numRetries = c.numRuns+1, c.numRetries+len(o.RetryReasons)
	if c.currentRow.Scenario != o.Scenario {
		c.endRow()
	}
	if o.Skipped != "" {
		c.skippedRuns = append(c.skippedRuns, o)
	}
	switch {
	case c.JSON:
		c.currentRow.Add(o)
		c.addJSON(o)
	case o.Skipped != "":
	case c.Suite.Seeds > 1:
		if c.currentRow.Add(o); c.currentRow.Runs == c.Suite.Seeds {
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
		c.detailedRuns = append(c.detailedRuns, o)
	}
}

// endRow prints the results of a scenario's seeds or stores them for Finish, if there is anything to
// report.
func (c *Console) endRow() {
	r := c.currentRow
	c.currentRow = outcome.Row{}
	violated := slices.ContainsFunc(r.Cells, func(c outcome.Cell) bool {
		return c.NumViolated > 0 && (c.Expected == "" || c.Expected == outcome.AnyOutcome)
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
	for _, o := range c.detailedRuns {
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
		t.WrapHeader(display.Width(c.W)).Print(c.W)
	}
	c.printSkipped()
	return nil
}

// printResult prints the number of runs in each state.
func (c *Console) printResult(code int) {
	var parts []string
	for _, s := range outcome.StatesBySeverity() {
		n := c.Suite.Counts[s]
		if s == outcome.StateSkipped {
			n = len(c.skippedRuns)
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome.StateText(s)))
		}
	}
	color := display.GoodText
	if code != outcome.ExitOK {
		color = display.BadText
	} else if c.Suite.Counts[outcome.StateInformational] > 0 {
		color = display.PlainText
	}
	if c.Verbose {
		fmt.Fprintln(c.W)
	}
	text := fmt.Sprintf("%s on %s, %s: %s", countNoun(c.numRuns, "run"), c.Suite.Backend, c.Suite.SeedRange(), strings.Join(parts, ", "))
	if c.numRetries == 1 {
		text += "; 1 retry"
	} else if c.numRetries > 1 {
		text += fmt.Sprintf("; %d retries", c.numRetries)
	}
	fmt.Fprintln(c.W, display.Paint(c.W, color, text))
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
	if len(c.skippedRuns) == 0 {
		return
	}
	fmt.Fprintln(c.W)
	var reasons []string
	count := map[string]int{}
	for _, o := range c.skippedRuns {
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
	printRetries := func() {
		for _, why := range o.RetryReasons {
			fmt.Fprintf(c.W, "    retried: %s\n", display.OneLine(why))
		}
	}
	switch {
	case c.isBrief(o):
		c.printLine(o)
		printRetries()
		return
	case state == outcome.StateInterrupted:
		fmt.Fprintf(c.W, "%s: %s\n", display.OneLine(o.Scenario), display.Paint(c.W, display.DoubtText, outcome.StateText(state)))
	case o.Code == outcome.ExitOK:
		fmt.Fprintln(c.W, display.OneLine(o.Scenario))
	default:
		color := display.BadText
		if state == outcome.StateUndecided {
			color = display.DoubtText
		}
		fmt.Fprintf(c.W, "%s: %s\n", display.OneLine(o.Scenario), display.Paint(c.W, color, strings.ToUpper(outcome.StateText(state))))
	}
	printRetries()
	if state != outcome.StateInterrupted {
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
		for _, why := range x.reasons {
			fmt.Fprintln(c.W, c.wrap(8, "        "+why))
		}
	}
	if o.StopReason != "" {
		fmt.Fprintf(c.W, "    %s\n", display.OneLine(o.StopReason))
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
	parts := DescribeResults(o)
	switch {
	case o.State() == outcome.StateInterrupted:
		parts = []string{outcome.StateInterrupted}
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
	case o.Code != outcome.ExitOK && o.State() != outcome.StateUndecided && strings.HasPrefix(part, strings.ToUpper(outcome.StateText(o.State()))):
		return display.Paint(c.W, display.BadText, part)
	case o.Code != outcome.ExitOK && strings.HasPrefix(part, strings.ToUpper(outcome.StateText(o.State()))), strings.Contains(part, " violated"):
		return display.Paint(c.W, display.DoubtText, part)
	}
	return part
}

// remark describes the result for one or more properties, with the reasons.
type remark struct {
	text    string
	reasons []string
}

// remarks describes the properties that have an expectation or were violated. Violations with the same
// cause share a remark, and so do other consecutive results with the same reason. A property implied
// by another property is omitted if neither is violated.
func remarks(o outcome.Outcome) (all []remark) {
	findings := o.Findings()
	var pending []outcome.Judgement // consecutive judgements with the same result and reason
	flush := func() {
		if len(pending) == 0 {
			return
		}
		text := pending[0].String()
		if len(pending) > 1 {
			text = fmt.Sprintf("%s %s", propertyNames(pending), pending[0].Got)
		}
		all, pending = append(all, remark{text, []string{pending[0].Because}}), nil
	}
	for _, j := range o.Judgements {
		lead := o.JudgementOf(j.ImpliedBy)
		switch {
		case j.Got == verdict.Violated && j.Number == nil:
			if i := slices.IndexFunc(findings, func(f outcome.Finding) bool { return f.Property == j.Property }); i >= 0 {
				flush()
				all = append(all, findingRemark(findings[i]))
			}
		case !j.Reportable(), j.ImpliedBy != "" && j.AsExpected && lead != nil && lead.Got != verdict.Violated:
		case j.Got == verdict.Holds && j.AsExpected:
			flush()
			all = append(all, remark{text: singleLine(j).String()})
		default:
			if j = singleLine(j); len(pending) > 0 && (pending[0].Because != j.Because || pending[0].Got != j.Got) {
				flush()
			}
			pending = append(pending, j)
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
			p.reasons = append(p.reasons, display.OneLine(j.Because))
		}
	}
	if c := f.Confirmation; c != nil {
		p.reasons = append(p.reasons, fmt.Sprintf("cause %s: %s", c.State, display.OneLine(c.Why)))
	}
	return p
}

// DescribeResults describes each result of a run in a few words.
func DescribeResults(o outcome.Outcome) (all []string) {
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

const maxRunsShown = 5

// printRow prints the results of a scenario with many seeds.
func (c *Console) printRow(r outcome.Row) {
	fmt.Fprintf(c.W, "%-44s %d seeds: %s\n", r.Scenario, r.Runs, strings.Join(outcome.DescribeCounts(r.Counts), ", "))
	causes := display.Table{{"", "", ""}} // cause, number of seeds, and the command of the shortest example
	for _, x := range r.Causes {
		causes = append(causes, []string{x.Cause, fmt.Sprint(x.Runs), x.Shortest.Command})
	}
	lines := causes.Lines("      ", display.Width(c.W))[1:]
	for _, property := range checker.Properties() {
		if x := r.Cell(property); x != nil && (x.NumViolated > 0 || x.Expected != "" && x.HasRate(c.Suite.Backend)) {
			text := fmt.Sprintf("%s violated in %s", property, c.Suite.shareText(*x))
			if x.NumViolated > 0 {
				text = display.Paint(c.W, display.DoubtText, text)
			}
			if x.NumUnexercised > 0 && x.HasRate(c.Suite.Backend) {
				text += fmt.Sprintf("; %d did not exercise it", x.NumUnexercised)
			}
			fmt.Fprintln(c.W, "    "+text)
		}
		for i, x := range r.Causes {
			if x.Property == property {
				fmt.Fprintln(c.W, lines[i])
			}
		}
	}
	shown := r.FailedRuns(maxRunsShown)
	for _, o := range shown {
		fmt.Fprintf(c.W, "    seed %d: %s\n    run again: %s\n", o.Seed, strings.Join(DescribeResults(o), "; "), o.Command)
	}
	if more := r.Runs - outcome.CountPassed(r.Counts) - len(shown); more > 0 {
		fmt.Fprintf(c.W, "    … and %d more\n", more)
	}
}

// rate states how often a scenario violated a property, with the 95 % interval.
type rate struct {
	Scenario     string  `json:"scenario"`
	Property     string  `json:"property"`
	Runs         int     `json:"runs"` // number of conclusive runs
	Violated     int     `json:"violated"`
	NotExercised int     `json:"notExercised,omitempty"` // number of runs without an occasion to violate it
	Rate         float64 `json:"rate"`
	Low          float64 `json:"low"`
	High         float64 `json:"high"`
}

// ratesOf returns the rates for the properties with enough conclusive runs.
func ratesOf(r outcome.Row, backend string) (rates []rate) {
	for _, name := range checker.Properties() {
		if c := r.Cell(name); c != nil && (c.Expected != "" || c.NumViolated > 0) && c.HasRate(backend) {
			low, high := outcome.Wilson(c.NumViolated, c.NumDecided)
			rates = append(rates, rate{r.Scenario, name, c.NumDecided, c.NumViolated, c.NumUnexercised, float64(c.NumViolated) / float64(c.NumDecided), low, high})
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
	prefix := ","
	if c.numRuns == 1 {
		prefix = beginJSON
	}
	text, err := json.MarshalIndent(o, "    ", "  ")
	if err != nil {
		panic(err) // cannot fail for plain data
	}
	fmt.Fprintf(c.W, "%s\n    %s", prefix, text)
}

// endJSON prints the totals at the end of JSON output.
func (c *Console) endJSON(code int) error {
	totals := struct {
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
		totals.Causes = causes
	}
	text, err := json.MarshalIndent(totals, "", "  ")
	if err != nil {
		return err
	}
	prefix := "\n  ],"
	if c.numRuns == 0 {
		prefix = beginJSON + "],"
	}
	_, err = fmt.Fprintf(c.W, "%s%s\n", prefix, text[1:])
	return err
}

// secondJudgeTexts describes the second judge's possible results for the whole history.
var secondJudgeTexts = map[verdict.Outcome]string{
	verdict.Holds:     "consistent with a lease lock",
	verdict.Violated:  "not consistent with any lease lock",
	verdict.Undecided: "not run, or the record is too long for its search",
}

// PrintVerdict prints judgements with their reasons and witnesses. It prints the reason only once for
// consecutive properties that share it. hasSecond reports whether a second judge was available.
func PrintVerdict(w io.Writer, v verdict.Verdict, js []outcome.Judgement, hasSecond bool) {
	inLiveness := false
	for len(js) > 0 {
		js = slices.Clone(js)
		n := 0
		for ; n < len(js); n++ {
			if js[n] = singleLine(js[n]); js[n].Because != js[0].Because {
				break
			}
			if !inLiveness && checker.Liveness(js[n].Property) {
				fmt.Fprintln(w, "liveness, as far as the faults allow it:")
				inLiveness = true
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
	if hasSecond {
		fmt.Fprintf(w, "second judge (porcupine): %s\n", secondJudgeTexts[v.Second])
	}
}
