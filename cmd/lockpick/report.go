package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/scenario"
	"lockpick/reports/sequence"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// report collects what came of the runs, in the order of the catalogue, and prints it when all are
// done: the result first, then the runs that were named or were not as expected, then a summary by
// property, and what was skipped last. With --verbose it also prints a line for each run as soon
// as that run and all before it are done.
type report struct {
	*app
	ci      *ci
	flags   *runFlags
	started time.Time

	mu       sync.Mutex
	total    int
	ended    int
	tries    int // that did not count
	keeps    int // runs made again to be kept, and those that are
	kept     int
	recent   []time.Time             // when the last runs ended, for the time that is left
	outcomes map[int]outcome.Outcome // those that are not printed yet
	answer   answer                  // what is printed for machines
	skipped  []outcome.Outcome
	compared campaign.Comparison
	printed  int
	shown    []outcome.Outcome // runs that are printed at the end
	sum      outcome.Row       // of the scenario whose seeds are being printed
	sums     []outcome.Row     // of scenarios whose seeds are done, printed at the end
	live     *progress         // nil: there is none
	failed   func()            // told of the first run that came otherwise or failed; nil: nobody asked
	dir      string            // of the run that ended last
	page     string            // what there is to look at
	suite    *suites.Suite
}

func (r *report) skip(s scenario.Scenario, lacks []harness.Capability) {
	o := outcome.Outcome{Schema: 1, Scenario: s.ID(), Backend: r.flags.backend, Skipped: reasons(lacks)}
	if r.required(lacks) || slices.ContainsFunc(lacks, func(c harness.Capability) bool { return c.Unknown }) {
		o.Code = outcome.ExitBackend
	}
	r.skipped = append(r.skipped, o)
}

func (r *report) required(lacks []harness.Capability) bool {
	if lacks[0].Name == lockLack { // no machine has it
		return false
	}
	return slices.Contains(r.flags.require, "all") || slices.ContainsFunc(lacks, func(c harness.Capability) bool {
		return slices.Contains(r.flags.require, c.Name)
	})
}

// done takes an outcome, and passes on those whose turn it is.
func (r *report) done(i int, o outcome.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[i] = o
	r.ended++
	r.recent = append(r.recent[max(0, len(r.recent)-recentRuns+1):], time.Now())
	r.dir = o.Dir
	r.tries += len(o.Retried)
	for _, i := range r.compared.Settle(r.outcomes, i) {
		r.code = outcome.Worse(r.code, r.outcomes[i].Code)
		r.suite.Add(r.outcomes[i])
		if s := r.outcomes[i].State(); r.failed != nil && (s == outcome.Unexpected || s == outcome.Failed) {
			r.failed()
		}
	}
	for {
		o, ok := r.outcomes[r.printed]
		if !ok || r.compared.Waits(r.printed) {
			return
		}
		r.ci.tally.Add(o)
		delete(r.outcomes, r.printed)
		r.printed++
		if r.flags.json {
			r.live.erase()
			r.answer.add(o)
			continue
		}
		if r.flags.seeds == 1 {
			r.show(o)
			continue
		}
		r.sum.Add(o)
		if r.printed%r.flags.seeds == 0 {
			r.showSeeds()
		}
	}
}

// show prints a run's line, if each run is to have one, and notes whether the end tells more of it.
func (r *report) show(o outcome.Outcome) {
	if r.flags.verbose {
		r.live.erase()
		r.printer().line(o)
	}
	if r.flags.named && !r.flags.quiet || o.Code != outcome.ExitOK || r.flags.named && o.FreeOnly() {
		r.shown = append(r.shown, o)
	}
}

// printer prints runs for people.
type printer struct {
	w     io.Writer
	flags *runFlags
}

func (r *report) printer() printer { return printer{r.out, r.flags} }

// brief reports whether a line says all there is to say of a run.
func (p printer) brief(o outcome.Outcome) bool {
	return o.Code == outcome.ExitOK && !(p.detailed() && p.flags.named && o.Violated())
}

// print prints a run with all that a reader wants to know of it: what came of each property and
// why, the diagram, and how to have the run again.
func (p printer) print(o outcome.Outcome) {
	state := o.State()
	switch {
	case p.brief(o):
		p.line(o)
		p.discards(o)
		return
	case state == outcome.Interrupted:
		fmt.Fprintf(p.w, "%s: %s\n", oneLine(o.Scenario), painted(p.w, doubt, state))
	case o.Code == outcome.ExitOK:
		fmt.Fprintln(p.w, oneLine(o.Scenario))
	default:
		in := alarm
		if state == outcome.Undecided {
			in = doubt
		}
		fmt.Fprintf(p.w, "%s: %s\n", oneLine(o.Scenario), painted(p.w, in, strings.ToUpper(state)))
	}
	p.discards(o)
	if state != outcome.Interrupted {
		p.explain(o)
	}
	if o.Hint != "" {
		fmt.Fprintf(p.w, "    hint: %s\n", oneLine(o.Hint))
	}
	if o.Dir != "" {
		fmt.Fprintf(p.w, "    record:    %s\n", oneLine(o.Dir))
	}
	fmt.Fprintf(p.w, "    run again: %s\n", oneLine(o.Command))
}

// discards prints why earlier tries of a run do not count.
func (p printer) discards(o outcome.Outcome) {
	for _, why := range o.Retried {
		fmt.Fprintf(p.w, "    discarded, and tried again: %s\n", oneLine(why))
	}
}

// explain prints what came of a run's properties and why, and draws it.
func (p printer) explain(o outcome.Outcome) {
	for _, x := range parts(o) {
		fmt.Fprintln(p.w, p.coloured(o, p.broken(6, "    "+x.text)))
		for _, why := range x.why {
			fmt.Fprintln(p.w, p.broken(8, "        "+why))
		}
	}
	if o.Stopped != "" {
		fmt.Fprintf(p.w, "    %s\n", oneLine(o.Stopped))
	}
	if o.Error != "" {
		fmt.Fprintf(p.w, "    error: %s\n", strings.ReplaceAll(strings.TrimSpace(o.Error), "\n", "\n    "))
	}
	if o.Dir == "" {
		return
	}
	if text := p.diagram(o); text != "" {
		fmt.Fprintf(p.w, "\n%s\n\n", strings.TrimRight(text, "\n"))
	}
}

// diagram is the run's sequence diagram: as it stands in the store, or drawn anew where the terminal
// has another width.
func (p printer) diagram(o outcome.Outcome) string {
	text := sequenceOf(o)
	if n := width(p.w); text != "" && n != sequence.DefaultWidth {
		if s, err := campaign.OpenStored(o.Dir, stored()); err == nil {
			return sequence.Text(sequence.Tell(s.History, checker.Check(s.History)), n)
		}
	}
	return text
}

// broken breaks a text into lines that fit a terminal, all but the first indented anew.
func (p printer) broken(indent int, text string) string {
	n := columns(p.w)
	if n == 0 {
		return text
	}
	body := strings.TrimLeft(text, " ")
	lead := len(text) - len(body)
	return text[:lead] + within(max(n, 40)-1, lead, indent, body)
}

// line is a run in one line, or where that gets too long in one for each property.
func (p printer) line(o outcome.Outcome) {
	o.Scenario = oneLine(o.Scenario)
	parts := summary(o)
	switch {
	case o.State() == outcome.Interrupted:
		parts = []string{outcome.Interrupted}
	case o.Code != outcome.ExitOK:
		parts = append([]string{strings.ToUpper(o.State())}, parts...)
	}
	room := cmp.Or(columns(p.w), 120) - 44
	if one := strings.Join(parts, "; "); len(one) <= room {
		parts = []string{one}
	}
	name, column := o.Scenario, 43
	if slices.ContainsFunc(parts, func(p string) bool { return len(p) > room }) { // beside the name it does not fit
		fmt.Fprintln(p.w, name)
		name, column = "", 3
	}
	for _, text := range parts {
		fmt.Fprintf(p.w, "%-*s %s\n", column, name, p.coloured(o, text))
		name = ""
	}
}

// coloured is a part of a run's line, in the colour of what it says.
func (p printer) coloured(o outcome.Outcome, part string) string {
	switch in := doubt; {
	case o.Code != outcome.ExitOK && strings.HasPrefix(part, strings.ToUpper(o.State())):
		if o.State() != outcome.Undecided {
			in = alarm
		}
		return painted(p.w, in, part)
	case strings.Contains(part, " violated"):
		return painted(p.w, in, part)
	}
	return part
}

// detailed reports whether each run is printed: those that were named are, and all with --verbose.
func (p printer) detailed() bool { return (p.flags.named || p.flags.verbose) && !p.flags.quiet }

// part is what came of one or more properties of a run, and why.
type part struct {
	text string
	why  []string
}

// parts are what came of the properties that something was expected of, or that were violated.
// What one cause violates is one part, and so is what is undecided for one reason. A property that
// follows another adds nothing if both held.
func parts(o outcome.Outcome) (all []part) {
	findings := o.Findings()
	var open []outcome.Judgement // one after the other, all for one reason
	flush := func() {
		if len(open) == 0 {
			return
		}
		t := together{open[0].Because, open}
		text := open[0].String()
		if len(open) > 1 {
			text = fmt.Sprintf("%s %s", t.names(), open[0].Got)
		}
		all, open = append(all, part{text, []string{t.because}}), nil
	}
	for _, j := range o.Judgements {
		lead := o.Of(j.Follows)
		switch {
		case j.Got == verdict.Violated && j.Number == nil:
			if i := slices.IndexFunc(findings, func(f outcome.Finding) bool { return f.Property == j.Property }); i >= 0 {
				flush()
				all = append(all, partOf(findings[i]))
			}
		case !j.Tells(), j.Follows != "" && j.AsExpected && lead != nil && lead.Got != verdict.Violated:
		case j.Got == verdict.Holds && j.AsExpected:
			flush()
			all = append(all, part{text: printable(j).String()})
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

// partOf explains a finding: the reason, the harm it led to, and whether its cause was confirmed.
func partOf(f outcome.Finding) part {
	p := part{oneLine(f.String()), []string{oneLine(f.Because)}}
	for _, j := range f.With {
		if j.Cause == verdict.LockBroken {
			p.why = append(p.why, oneLine(j.Because))
		}
	}
	if c := f.Confirmation; c != nil {
		p.why = append(p.why, fmt.Sprintf("cause %s: %s", c.State, oneLine(c.Why)))
	}
	return p
}

// summary says in few words what came of a run.
func summary(o outcome.Outcome) (all []string) {
	for _, p := range parts(o) {
		all = append(all, p.text)
	}
	if o.Error != "" && len(all) == 0 {
		return strings.SplitN(o.Error, "\n", 2)[:1]
	}
	return all
}

// finish prints the result, and settles the exit code.
func (r *report) finish(ctx context.Context) error {
	cause := context.Cause(ctx)
	defer func() {
		if r.page != "" && context.Cause(ctx) != errUnread {
			fmt.Fprintf(r.errs, "report: %s\n", r.page)
		}
	}()
	for _, o := range r.skipped {
		r.code = outcome.Worse(r.code, o.Code)
	}
	if r.total == 0 && len(r.skipped) > 0 {
		r.code = outcome.Worse(r.code, outcome.ExitBackend)
	}
	switch {
	case cause == errUnread:
		r.code = outcome.Worse(r.code, outcome.ExitBackend)
	case cause != nil:
		r.code = outcome.ExitInterrupt
		fmt.Fprintf(r.errs, "%v after %d of %d runs; what they left is in %s\n", cause, r.ended-r.suite.Counts[outcome.Interrupted], r.total, r.flags.store)
	case r.ended < r.total:
		fmt.Fprintf(r.errs, "stopped at the first run that was not as expected: %d of %d runs are done\n", r.ended, r.total)
	}
	for _, i := range slices.Sorted(maps.Keys(r.outcomes)) { // they came after one that did not end
		r.ci.tally.Add(r.outcomes[i])
		r.late(r.outcomes[i])
	}
	for _, o := range r.skipped {
		r.ci.tally.Add(o)
	}
	if err := r.ci.render(); err != nil {
		return err
	}
	if err := r.keep(r.ended < r.total || r.suite.Counts[outcome.Interrupted] > 0); err != nil {
		defer r.complain(err) // after the result, which there is all the same
		r.code = outcome.Worse(r.code, codeOf(err))
	}
	if err := r.ci.finish(r.errs); r.flags.json {
		r.code = outcome.Worse(r.code, codeOf(err))
		return cmp.Or(r.endAnswer(), err)
	} else if err != nil {
		return err
	}
	r.showSeeds() // of a scenario that was interrupted
	r.printAll()
	return nil
}

// printAll prints the result, what there is to know of single runs, a summary, and what was skipped.
func (r *report) printAll() {
	r.printSum()
	p := r.printer()
	blank := true // the next run begins with a blank line
	for _, o := range r.shown {
		long := !p.brief(o)
		if blank || long {
			fmt.Fprintln(r.out)
		}
		p.print(o)
		blank = long
	}
	for _, s := range r.sums {
		fmt.Fprintln(r.out)
		r.printSeeds(s)
	}
	if r.flags.quiet {
		return
	}
	if t := r.columns(); !r.printer().detailed() && len(t) > 0 {
		fmt.Fprintln(r.out)
		printTable(r.out, t.table().fitting(width(r.out)))
	}
	r.printSkipped()
}

// late takes a run that ended although one before it in the catalogue did not.
func (r *report) late(o outcome.Outcome) {
	switch {
	case r.flags.json:
		r.answer.add(o)
	case r.flags.seeds == 1:
		r.show(o)
	case r.flags.seeds > 1:
		if o.Scenario != r.sum.Scenario {
			r.showSeeds()
		}
		r.sum.Add(o)
	}
}

// endAnswer prints the rest for machines.
func (r *report) endAnswer() error {
	for _, o := range r.skipped {
		r.answer.add(o)
	}
	if r.flags.seeds > 1 {
		return r.answer.end(r.causes(), r.code)
	}
	return r.answer.end(nil, r.code)
}

// printSum prints how many runs came to what.
func (r *report) printSum() {
	var parts []string
	for _, s := range outcome.WorstFirst() {
		n := r.suite.Counts[s]
		if s == outcome.Skipped {
			n = len(r.skipped)
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	noun, runs := "runs", r.ended+len(r.skipped)
	if runs == 1 {
		noun = "run"
	}
	in := good
	if r.code != outcome.ExitOK {
		in = alarm
	} else if r.suite.Counts[outcome.NothingExpected] > 0 {
		in = plain
	}
	if r.flags.verbose {
		fmt.Fprintln(r.out)
	}
	fmt.Fprintf(r.out, "%s\n", painted(r.out, in, fmt.Sprintf("%d %s on %s, %s: %s%s", runs, noun, r.flags.backend, r.suite.SeedRange(), strings.Join(parts, ", "), r.discarded())))
}

// discarded says how many tries did not count; "": all did.
func (r *report) discarded() string {
	switch r.tries {
	case 0:
		return ""
	case 1:
		return "; 1 try was discarded"
	}
	return fmt.Sprintf("; %d tries were discarded", r.tries)
}

// columnCounts are how often each property came out in which way in all runs, by property and column: a
// summary on one screen.
type columnCounts map[string]map[string]int

// numbersRow is the row of all measured numbers that have a bound.
const numbersRow = "measured numbers"

// Columns of a tally.
const (
	colHolds     = "holds"
	colViolated  = "violated as expected"
	colFree      = "violated, nothing expected"
	colAlone     = "violated, the control not"
	colIdle      = "not exercised"
	colUndecided = "undecided"
	colOther     = "unexpected"
)

// columns counts what came of each property in all runs of the suite.
func (r *report) columns() columnCounts {
	t := columnCounts{}
	for _, s := range r.suite.Scenarios {
		for _, c := range s.Cells {
			row := c.Property
			if c.Number != "" {
				row = numbersRow
			}
			for w, n := range c.Ways {
				if !w.Tells() {
					continue
				}
				if t[row] == nil {
					t[row] = map[string]int{}
				}
				t[row][columnOf(w)] += n
			}
		}
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

// table leaves out rows and columns in which there is nothing.
func (t columnCounts) table() table {
	head := []string{"property"}
	for _, col := range []string{colHolds, colViolated, colFree, colAlone, colIdle, colUndecided, colOther} {
		for _, counts := range t {
			if counts[col] > 0 && !slices.Contains(head, col) {
				head = append(head, col)
			}
		}
	}
	out := table{head}
	for _, row := range append(checker.Properties(), numbersRow) {
		if t[row] == nil {
			continue
		}
		cells := []string{row}
		for _, col := range head[1:] {
			cells = append(cells, fmt.Sprint(t[row][col]))
		}
		out = append(out, cells)
	}
	return out
}

// printSkipped prints what was skipped: each run where runs are listed, else how many for each
// reason.
func (r *report) printSkipped() {
	if len(r.skipped) == 0 {
		return
	}
	fmt.Fprintln(r.out)
	if r.printer().detailed() {
		for _, o := range r.skipped {
			fmt.Fprintf(r.out, "%-43s skipped: %s\n", oneLine(o.Scenario), oneLine(o.Skipped))
		}
		return
	}
	var reasons []string
	count := map[string]int{}
	for _, o := range r.skipped {
		if count[o.Skipped]++; count[o.Skipped] == 1 {
			reasons = append(reasons, o.Skipped)
		}
	}
	for _, why := range reasons {
		fmt.Fprintln(r.out, r.printer().broken(4, fmt.Sprintf("skipped %d: %s", count[why], oneLine(why))))
	}
}

// together are judgements of one run that have the same reason.
type together struct {
	because string
	js      []outcome.Judgement
}

// folded puts judgements with the same reason together: one that is true of the whole run is
// said once.
func folded(js []outcome.Judgement) []together {
	var out []together
	for _, j := range js {
		j = printable(j)
		if n := len(out); n > 0 && out[n-1].because == j.Because {
			out[n-1].js = append(out[n-1].js, j)
			continue
		}
		out = append(out, together{j.Because, []outcome.Judgement{j}})
	}
	return out
}

// names are those of the properties.
func (t together) names() string {
	if len(t.js) >= len(checker.Properties())-1 { // holder-told is of few locks
		return fmt.Sprintf("all %d properties", len(t.js))
	}
	var out []string
	for _, j := range t.js {
		out = append(out, j.Property)
	}
	return strings.Join(out, ", ")
}

// answer prints outcomes as JSON, each at once, and at the end what they come to: of a sweep
// nothing but sums stays in memory.
type answer struct {
	to      io.Writer
	backend string
	n       int // outcomes that are printed
	sum     outcome.Row
	rates   []rate
}

// add prints an outcome. Those of one scenario come one after the other.
func (a *answer) add(o outcome.Outcome) {
	before := ",\n    "
	if a.n == 0 {
		before = "{\n  \"schema\": 1,\n  \"outcomes\": [\n    "
	}
	a.n++
	if o.Scenario != a.sum.Scenario {
		a.next()
	}
	a.sum.Add(o)
	text, err := json.MarshalIndent(o, "    ", "  ")
	if err != nil {
		panic(err) // plain data
	}
	fmt.Fprintf(a.to, "%s%s", before, text)
}

// next begins the sum of another scenario.
func (a *answer) next() {
	a.rates, a.sum = append(a.rates, ratesOf(a.sum, a.backend)...), outcome.Row{}
}

// end prints what all came to; causes is nil where there is one seed.
func (a *answer) end(causes any, code int) error {
	a.next()
	before := "\n  ],"
	if a.n == 0 {
		before = "{\n  \"schema\": 1,\n  \"outcomes\": [],"
	}
	text, err := json.MarshalIndent(struct {
		Rates  []rate `json:"rates,omitempty"`
		Causes any    `json:"causes,omitempty"`
		Code   int    `json:"code"`
	}{a.rates, causes, code}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.to, "%s%s\n", before, text[1:])
	return err
}
