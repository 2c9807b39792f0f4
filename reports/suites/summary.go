package suites

import (
	"fmt"
	"io"
	"strings"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// Limits of what is shown.
const (
	mostBytes   = 900 << 10 // GitHub refuses a summary of more than 1 MiB
	fewRuns     = 4         // scenarios up to which what was expected is drawn, too
	mostText    = 1 << 10   // of one text of a run: characters on the page, bytes elsewhere
	mostDrawing = 40 << 10  // Mermaid refuses more than 50,000 characters
	mostDrawn   = 20        // diagrams
)

// Summary writes what was gathered as a step's summary. drawing is the sequence
// diagram of a run: Mermaid's, or plain text; "" if there is none. It is asked only
// about runs whose diagram is shown, and may be nil.
func (r *GitHub) Summary(w io.Writer, drawing func(outcome.Outcome) string) error {
	d := &document{left: mostBytes}
	d.lines("## lockpick: "+r.verdict(), "")
	drawn := 0
	show := func(o outcome.Outcome) {
		if drawing == nil || drawn >= mostDrawn {
			return
		}
		if text := strings.Trim(drawing(o), "\n"); text != "" {
			drawn++
			d.drawing(text)
		}
	}
	for _, g := range r.groups {
		for _, o := range g.bad {
			if o.Skipped == "" {
				d.run(o)
				show(o)
			}
		}
		if more := g.runs - outcome.Fine(g.count) - g.count[outcome.Skipped] - len(g.bad); more > 0 {
			d.lines(fmt.Sprintf("… and %d more runs of %s that were not as expected.", more, plain(g.scenario)), "")
		}
	}
	if len(r.groups) <= fewRuns {
		for _, g := range r.groups {
			if g.good != nil {
				if g.good.FreeOnly() {
					d.lines(fmt.Sprintf("### %s: a violation, seed %d", plain(g.scenario), g.good.Seed), "", "Nothing was expected of it. Run it again:", "")
					d.fenced("sh", display.Clip(g.good.Command, mostText))
				} else {
					d.lines("### "+plain(g.scenario)+": a violation, as expected", "")
				}
				show(*g.good)
			}
		}
	}
	d.table(r)
	d.skips(r)
	d.lines("“holds” means only: no violation was found in these runs.")
	if _, err := io.WriteString(w, d.b.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func (r *GitHub) verdict() string {
	noun := "runs"
	if r.runs == 1 {
		noun = "run"
	}
	return strings.Join(append([]string{fmt.Sprintf("%d %s", r.runs, noun)}, outcome.Counted(r.count)...), ", ")
}

func (d *document) run(o outcome.Outcome) {
	d.lines(fmt.Sprintf("### %s: %s on %s, seed %d", strings.ToUpper(o.State()), plain(o.Scenario), plain(o.Backend), o.Seed), "")
	for _, j := range o.Judgements {
		if !j.AsExpected && !j.Waits() {
			d.lines("- **" + plain(j.String()) + "**: " + plain(j.Because))
		}
	}
	if o.Error != "" {
		d.lines("- error: " + plain(display.FirstLine(o.Error)))
	}
	for _, why := range o.Retried {
		d.lines("- tried again: " + plain(why))
	}
	d.lines("", "Run again:", "")
	d.fenced("sh", display.Clip(o.Command, mostText))
}

// table is each scenario with its properties, unexpected ones first.
func (d *document) table(r *GitHub) {
	d.lines("| scenario | property | expected | got | |", "|---|---|---|---|---|")
	for _, unexpected := range []bool{true, false} {
		for _, g := range r.groups {
			for _, row := range g.rows {
				if (row.unexpected > 0) == unexpected {
					d.lines(row.line(g))
				}
			}
		}
	}
	d.lines("")
}

func (r *githubRow) line(g *githubGroup) string {
	j := r.first
	got := j.Got.String()
	if j.Number != nil {
		got = outcome.Figure(j.Number.Value)
	}
	if r.runs > 1 && r.free {
		got = "violated in " + outcome.Rate(r.violated, r.decided)
	} else if j.Cause != "" {
		got += ": " + j.Cause
	}
	if j.Node != "" && (r.runs == 1 || !r.free) {
		got += " at " + j.Node
	}
	mark := "as expected"
	switch {
	case j.Waits():
		mark = "waits for " + j.Number.Bound.Than
	case r.unexpected > 0 && r.runs > 1:
		mark = fmt.Sprintf("**not as expected in %d of %d**", r.unexpected, r.runs)
	case r.unexpected > 0 && j.Open():
		mark = "**undecided**"
	case r.unexpected > 0:
		mark = "**unexpected**"
	case r.free:
		mark = "nothing expected"
	case r.idle == 1 && r.runs == 1:
		mark = "need not be"
	case r.runs > 1:
		mark = fmt.Sprintf("as expected, in %d runs", r.runs)
	}
	if r.idle > 0 && r.runs > 1 {
		mark += fmt.Sprintf("; %d did not exercise it", r.idle)
	}
	cells := []string{plain(g.scenario), plain(r.property), plain(r.expected), plain(got)}
	return "| " + strings.Join(cells, " | ") + " | " + mark + " |"
}

// skips lists what was not run, and why.
func (d *document) skips(r *GitHub) {
	head := false
	for _, g := range r.groups {
		if g.skipped == "" {
			continue
		}
		if !head {
			d.lines("Skipped:", "")
		}
		head = true
		d.lines("- " + plain(g.scenario) + ": " + plain(g.skipped))
	}
	if head {
		d.lines("")
	}
}
