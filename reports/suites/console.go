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

// Console prints the outcomes of many runs for people: the result first, then the runs that were named
// or were not as expected, then a summary by property, and what was skipped last. Verbose prints a line
// for each run, or scenario of many seeds, as soon as it is there. JSON prints outcomes for machines,
// each at once, and at the end what they come to: of a sweep nothing but sums stays in memory.
type Console struct {
	W       io.Writer
	Suite   *Suite // what is settled of the same runs
	Named   bool   // scenarios were named: what they show is drawn
	Verbose bool
	Quiet   bool
	JSON    bool
	Diagram func(o outcome.Outcome, width int) string // "": there is none
	Erase   func()                                    // makes room for what is printed while runs go on

	runs    int               // that were added
	tries   int               // that did not count
	row     outcome.Row       // of the last scenario, while more of its seeds may come
	rates   []rate            // of those before it
	rows    []outcome.Row     // that are printed at the end
	shown   []outcome.Outcome // likewise
	skipped []outcome.Outcome
}

// Add takes the next outcome. Those of one scenario come one after the other, and skipped ones last.
func (c *Console) Add(o outcome.Outcome) {
	c.runs, c.tries = c.runs+1, c.tries+len(o.Retried)
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

// addRun prints a run's line, if each run is to have one, and notes whether the end tells more of it.
func (c *Console) addRun(o outcome.Outcome) {
	if c.Verbose {
		c.Erase()
		c.line(o)
	}
	if c.Named && !c.Quiet || o.Code != outcome.ExitOK || c.Named && o.FreeOnly() {
		c.shown = append(c.shown, o)
	}
}

// endRow prints what came of a scenario's seeds, or notes it for the end, if there is something to say.
func (c *Console) endRow() {
	r := c.row
	c.row = outcome.Row{}
	harm := slices.ContainsFunc(r.Cells, func(c outcome.Cell) bool {
		return c.Violated > 0 && (c.Expected == "" || c.Expected == outcome.AnyOutcome)
	})
	switch {
	case c.JSON:
		c.rates = append(c.rates, ratesOf(r, c.Suite.Backend)...)
	case r.Runs == 0 || !c.detailed() && outcome.Fine(r.Counts) == r.Runs && !harm:
	case c.Verbose:
		c.Erase()
		c.printRow(r)
	default:
		c.rows = append(c.rows, r)
	}
}

// Finish prints the rest, and the result; code is the exit code of all.
func (c *Console) Finish(code int) error {
	c.endRow()
	if c.JSON {
		return c.endJSON(code)
	}
	c.printResult(code)
	blank := true // the next run begins with a blank line
	for _, o := range c.shown {
		long := !c.brief(o)
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
	if t := c.Suite.summary(); !c.detailed() && len(t) > 1 {
		fmt.Fprintln(c.W)
		t.Fitting(display.Width(c.W)).Print(c.W)
	}
	c.printSkipped()
	return nil
}

// printResult prints how many runs came to what.
func (c *Console) printResult(code int) {
	var parts []string
	for _, s := range outcome.WorstFirst() {
		n := c.Suite.Counts[s]
		if s == outcome.Skipped {
			n = len(c.skipped)
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	in := display.Good
	if code != outcome.ExitOK {
		in = display.Bad
	} else if c.Suite.Counts[outcome.NothingExpected] > 0 {
		in = display.Plain
	}
	if c.Verbose {
		fmt.Fprintln(c.W)
	}
	text := fmt.Sprintf("%s on %s, %s: %s", counted(c.runs, "run"), c.Suite.Backend, c.Suite.SeedRange(), strings.Join(parts, ", "))
	if c.tries == 1 {
		text += "; 1 try was discarded"
	} else if c.tries > 1 {
		text += fmt.Sprintf("; %d tries were discarded", c.tries)
	}
	fmt.Fprintln(c.W, display.Paint(c.W, in, text))
}

// counted is a number of things whose digits programs can read.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// printSkipped prints what was skipped: each run where runs are listed, else how many for each reason.
func (c *Console) printSkipped() {
	if len(c.skipped) == 0 {
		return
	}
	fmt.Fprintln(c.W)
	var reasons []string
	count := map[string]int{}
	for _, o := range c.skipped {
		if c.detailed() {
			fmt.Fprintf(c.W, "%-43s skipped: %s\n", display.OneLine(o.Scenario), display.OneLine(o.Skipped))
		} else if count[o.Skipped]++; count[o.Skipped] == 1 {
			reasons = append(reasons, o.Skipped)
		}
	}
	for _, why := range reasons {
		fmt.Fprintln(c.W, c.broken(4, fmt.Sprintf("skipped %d: %s", count[why], display.OneLine(why))))
	}
}

// numbersRow is the row of all measured numbers that have a bound.
const numbersRow = "measured numbers"

// Columns of a summary.
const (
	colHolds     = "holds"
	colViolated  = "violated as expected"
	colFree      = "violated, nothing expected"
	colAlone     = "violated, the control not"
	colIdle      = "not exercised"
	colUndecided = "undecided"
	colOther     = "unexpected"
)

// summary counts on one screen how often each property came out in which way, without the rows and
// columns in which there is nothing.
func (s *Suite) summary() display.Table {
	count := map[[2]string]int{}
	for _, c := range s.Scenarios {
		for _, cell := range c.Cells {
			row := cell.Property
			if cell.Number != "" {
				row = numbersRow
			}
			for w, n := range cell.Ways {
				if w.Tells() {
					count[[2]string{row, columnOf(w)}] += n
					count[[2]string{row}] += n
					count[[2]string{"", columnOf(w)}] += n
				}
			}
		}
	}
	t := display.Table{{"property"}}
	for _, col := range []string{colHolds, colViolated, colFree, colAlone, colIdle, colUndecided, colOther} {
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

func columnOf(w outcome.Way) string {
	switch {
	case w.AsExpected && w.Got == verdict.Holds:
		return colHolds
	case w.Open():
		return colUndecided
	case !w.AsExpected:
		return colOther
	case w.Free() && w.Alone():
		return colAlone
	case w.Free():
		return colFree
	case w.Got == verdict.Violated:
		return colViolated
	}
	return colIdle
}

// detailed reports whether each run is printed: those that were named are, and all that are verbose.
func (c *Console) detailed() bool { return (c.Named || c.Verbose) && !c.Quiet }

// brief reports whether a line says all there is to say of a run.
func (c *Console) brief(o outcome.Outcome) bool {
	return o.Code == outcome.ExitOK && !(c.detailed() && c.Named && o.Violated())
}

// printRun prints a run with all that a reader wants to know of it: what came of each property and
// why, the diagram, and how to have the run again.
func (c *Console) printRun(o outcome.Outcome) {
	state := o.State()
	discards := func() {
		for _, why := range o.Retried {
			fmt.Fprintf(c.W, "    discarded, and tried again: %s\n", display.OneLine(why))
		}
	}
	switch {
	case c.brief(o):
		c.line(o)
		discards()
		return
	case state == outcome.Interrupted:
		fmt.Fprintf(c.W, "%s: %s\n", display.OneLine(o.Scenario), display.Paint(c.W, display.Doubt, state))
	case o.Code == outcome.ExitOK:
		fmt.Fprintln(c.W, display.OneLine(o.Scenario))
	default:
		in := display.Bad
		if state == outcome.Undecided {
			in = display.Doubt
		}
		fmt.Fprintf(c.W, "%s: %s\n", display.OneLine(o.Scenario), display.Paint(c.W, in, strings.ToUpper(state)))
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

// explain prints what came of a run's properties and why, and draws it.
func (c *Console) explain(o outcome.Outcome) {
	for _, x := range remarks(o) {
		fmt.Fprintln(c.W, c.colored(o, c.broken(6, "    "+x.text)))
		for _, why := range x.why {
			fmt.Fprintln(c.W, c.broken(8, "        "+why))
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

// broken breaks a text into lines that fit a terminal, all but the first indented anew.
func (c *Console) broken(indent int, text string) string {
	n := display.Columns(c.W)
	if n == 0 {
		return text
	}
	body := strings.TrimLeft(text, " ")
	lead := len(text) - len(body)
	return text[:lead] + display.Wrap(max(n, 40)-1, lead, indent, body)
}

// line is a run in one line, or where that gets too long in one for each property.
func (c *Console) line(o outcome.Outcome) {
	o.Scenario = display.OneLine(o.Scenario)
	parts := Brief(o)
	switch {
	case o.State() == outcome.Interrupted:
		parts = []string{outcome.Interrupted}
	case o.Code != outcome.ExitOK:
		parts = append([]string{strings.ToUpper(o.State())}, parts...)
	}
	room := cmp.Or(display.Columns(c.W), 120) - 44
	if one := strings.Join(parts, "; "); len(one) <= room {
		parts = []string{one}
	}
	name, column := o.Scenario, 43
	if slices.ContainsFunc(parts, func(p string) bool { return len(p) > room }) { // beside the name it does not fit
		fmt.Fprintln(c.W, name)
		name, column = "", 3
	}
	for _, text := range parts {
		fmt.Fprintf(c.W, "%-*s %s\n", column, name, c.colored(o, text))
		name = ""
	}
}

// colored is a part of a run's line, in the color of what it says.
func (c *Console) colored(o outcome.Outcome, part string) string {
	switch {
	case o.Code != outcome.ExitOK && o.State() != outcome.Undecided && strings.HasPrefix(part, strings.ToUpper(o.State())):
		return display.Paint(c.W, display.Bad, part)
	case o.Code != outcome.ExitOK && strings.HasPrefix(part, strings.ToUpper(o.State())), strings.Contains(part, " violated"):
		return display.Paint(c.W, display.Doubt, part)
	}
	return part
}

// remark is what came of one or more properties of a run, and why.
type remark struct {
	text string
	why  []string
}

// remarks are what came of the properties that something was expected of, or that were violated.
// What one cause violates is one remark, and so is what is undecided for one reason. A property that
// follows another adds nothing if both held.
func remarks(o outcome.Outcome) (all []remark) {
	findings := o.Findings()
	var open []outcome.Judgement // one after the other, all for one reason
	flush := func() {
		if len(open) == 0 {
			return
		}
		text := open[0].String()
		if len(open) > 1 {
			text = fmt.Sprintf("%s %s", properties(open), open[0].Got)
		}
		all, open = append(all, remark{text, []string{open[0].Because}}), nil
	}
	for _, j := range o.Judgements {
		lead := o.Of(j.Follows)
		switch {
		case j.Got == verdict.Violated && j.Number == nil:
			if i := slices.IndexFunc(findings, func(f outcome.Finding) bool { return f.Property == j.Property }); i >= 0 {
				flush()
				all = append(all, remarkOf(findings[i]))
			}
		case !j.Tells(), j.Follows != "" && j.AsExpected && lead != nil && lead.Got != verdict.Violated:
		case j.Got == verdict.Holds && j.AsExpected:
			flush()
			all = append(all, remark{text: printable(j).String()})
		default:
			if j = printable(j); len(open) > 0 && (open[0].Because != j.Because || open[0].Got != j.Got) {
				flush()
			}
			open = append(open, j)
		}
	}
	flush()
	return all
}

// remarkOf explains a finding: the reason, the harm it led to, and whether its cause was confirmed.
func remarkOf(f outcome.Finding) remark {
	p := remark{display.OneLine(f.String()), []string{display.OneLine(f.Because)}}
	for _, j := range f.With {
		if j.Cause == verdict.LockBroken {
			p.why = append(p.why, display.OneLine(j.Because))
		}
	}
	if c := f.Confirmation; c != nil {
		p.why = append(p.why, fmt.Sprintf("cause %s: %s", c.State, display.OneLine(c.Why)))
	}
	return p
}

// Brief says in few words what came of a run.
func Brief(o outcome.Outcome) (all []string) {
	for _, p := range remarks(o) {
		all = append(all, p.text)
	}
	if o.Error != "" && len(all) == 0 {
		return strings.SplitN(o.Error, "\n", 2)[:1]
	}
	return all
}

// printable is a judgement whose texts, which quote data, are one line each.
func printable(j outcome.Judgement) outcome.Judgement {
	for _, s := range []*string{&j.Property, &j.Expected, &j.Cause, &j.Node, &j.Because} {
		*s = display.OneLine(*s)
	}
	return j
}

// properties names those of judgements.
func properties(js []outcome.Judgement) string {
	if len(js) >= len(checker.Properties())-1 { // holder-told is of few locks
		return fmt.Sprintf("all %d properties", len(js))
	}
	var out []string
	for _, j := range js {
		out = append(out, j.Property)
	}
	return strings.Join(out, ", ")
}

const mostShown = 5

// printRow prints what came of a scenario's seeds.
func (c *Console) printRow(r outcome.Row) {
	fmt.Fprintf(c.W, "%-44s %d seeds: %s\n", r.Scenario, r.Runs, strings.Join(outcome.Counted(r.Counts), ", "))
	causes := display.Table{{"", "", ""}} // with how many seeds they broke what, and the command that shows it soonest
	for _, x := range r.Causes {
		causes = append(causes, []string{x.Cause, fmt.Sprint(x.Runs), x.Shortest.Command})
	}
	lines := causes.Lines("      ", display.Width(c.W))[1:]
	for _, property := range checker.Properties() {
		if x := r.Cell(property); x != nil && (x.Violated > 0 || x.Expected != "" && x.Rated(c.Suite.Backend)) {
			text := fmt.Sprintf("%s violated in %s", property, c.Suite.share(*x))
			if x.Violated > 0 {
				text = display.Paint(c.W, display.Doubt, text)
			}
			if x.Idle > 0 && x.Rated(c.Suite.Backend) {
				text += fmt.Sprintf("; %d did not exercise it", x.Idle)
			}
			fmt.Fprintln(c.W, "    "+text)
		}
		for i, x := range r.Causes {
			if x.Property == property {
				fmt.Fprintln(c.W, lines[i])
			}
		}
	}
	shown := r.NotFine(mostShown)
	for _, o := range shown {
		fmt.Fprintf(c.W, "    seed %d: %s\n    run again: %s\n", o.Seed, strings.Join(Brief(o), "; "), o.Command)
	}
	if more := r.Runs - outcome.Fine(r.Counts) - len(shown); more > 0 {
		fmt.Fprintf(c.W, "    … and %d more\n", more)
	}
}

// rate is how often a property of a scenario was violated, with its 95 % interval.
type rate struct {
	Scenario string  `json:"scenario"`
	Property string  `json:"property"`
	Runs     int     `json:"runs"` // that decided it
	Violated int     `json:"violated"`
	Idle     int     `json:"notExercised,omitempty"` // runs that gave no occasion to violate it
	Rate     float64 `json:"rate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// ratesOf says how often each property of a scenario was violated, where that is a rate.
func ratesOf(r outcome.Row, backend string) (rates []rate) {
	for _, name := range checker.Properties() {
		if c := r.Cell(name); c != nil && (c.Expected != "" || c.Violated > 0) && c.Rated(backend) {
			low, high := outcome.Wilson(c.Violated, c.Decided)
			rates = append(rates, rate{r.Scenario, name, c.Decided, c.Violated, c.Idle, float64(c.Violated) / float64(c.Decided), low, high})
		}
	}
	return rates
}

// broke is a cause of a scenario, for machines.
type broke struct {
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
		panic(err) // plain data
	}
	fmt.Fprintf(c.W, "%s\n    %s", before, text)
}

// endJSON prints what all came to.
func (c *Console) endJSON(code int) error {
	end := struct {
		Rates  []rate `json:"rates,omitempty"`
		Causes any    `json:"causes,omitempty"` // nil where there is one seed
		Code   int    `json:"code"`
	}{Rates: c.rates, Code: code}
	if c.Suite.Seeds > 1 {
		causes := []broke{}
		for _, s := range c.Suite.Scenarios {
			for _, x := range s.Causes {
				causes = append(causes, broke{s.ID(), x})
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

// secondly is what the second judge says of the whole record.
var secondly = map[verdict.Outcome]string{
	verdict.Holds:     "one lease lock could have given these answers",
	verdict.Violated:  "no lease lock could have given these answers",
	verdict.Undecided: "not asked, or the record is too long for its search",
}

// PrintVerdict prints a verdict and what was expected of it; second is whether a second judge was there
// to be asked. A reason that is true of the whole run is said once.
func PrintVerdict(w io.Writer, v verdict.Verdict, js []outcome.Judgement, second bool) {
	live := false
	for len(js) > 0 {
		js = slices.Clone(js)
		n := 0
		for ; n < len(js); n++ {
			if js[n] = printable(js[n]); js[n].Because != js[0].Because {
				break
			}
			if !live && checker.Liveness(js[n].Property) {
				fmt.Fprintln(w, "liveness, where the faults allow it:")
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
		fmt.Fprintf(w, "second judge (porcupine): %s\n", secondly[v.Second])
	}
}
