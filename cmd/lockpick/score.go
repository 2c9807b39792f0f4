package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/docker"
	"lockpick/harness"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/reports/words"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

// scoreFlags are the flags of score.
type scoreFlags struct {
	backend string
	seed    uint64
	store   string
	json    bool
}

func (a *app) scoreCmd() *cobra.Command {
	f := &scoreFlags{}
	c := &cobra.Command{
		Use:   "score LOCK…",
		Short: "put locks under the whole catalogue, and tell what each keeps under which failures",
		Long: `Put locks under the whole catalogue, beside each scenario's own lock, and print a
scorecard of each in Markdown: a row for each property, a column for each sort of
failure, and what was violated with the command that shows it.

LOCK is KIND or KIND:OPTION=VALUE,…, see lockpick help locks. The exit code is 1 where
one fails what its tier holds it to.`,
		Example: `  lockpick score redsync
  lockpick score redislock rueidis:caching=yes --json`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("score takes locks, got none"), "one of "+strings.Join(kinds.Names(), ", "))
			}
			return nil
		},
		RunE:              func(c *cobra.Command, args []string) error { return a.score(c.Context(), f, args) },
		ValidArgsFunction: completes(false, kinds.Names),
	}
	fs := c.Flags()
	fs.StringVarP(&f.backend, "backend", "b", backendNames[0], "where to run: "+strings.Join(backendNames, ", "))
	fs.Uint64Var(&f.seed, "seed", 1, "what all that is random is drawn from")
	fs.StringVar(&f.store, "store", defaultStore(), "folder that keeps the runs that were not as expected (LOCKPICK_STORE)")
	fs.BoolVar(&f.json, "json", false, "print the scorecards as JSON")
	return c
}

func (a *app) score(ctx context.Context, f *scoreFlags, locks []string) error {
	var cards []*card
	code := outcome.ExitOK
	for _, lock := range locks {
		a.code = outcome.ExitOK
		c, err := a.card(ctx, f, lock)
		if err != nil {
			return err
		}
		cards = append(cards, c)
		code = outcome.Worse(code, a.code)
	}
	a.code = code
	if f.json {
		if err := printJSON(a.out, map[string]any{"schema": 1, "code": code, "scorecards": cards}); err != nil {
			return err
		}
	} else {
		for i, c := range cards {
			if i > 0 {
				fmt.Fprintln(a.out)
			}
			c.print(a.out)
		}
	}
	return ctx.Err()
}

// card runs one lock under the catalogue.
func (a *app) card(ctx context.Context, f *scoreFlags, lock string) (_ *card, err error) {
	run := &runFlags{backend: f.backend, seed: f.seed, seeds: 1, jobs: 1, store: f.store, lock: lock, patience: patience, json: true, quiet: true, reports: reportsNone, sparing: true}
	if err := run.otherLock(); err != nil {
		return nil, err
	}
	chosen, err := choice{}.scenarios()
	if err != nil {
		return nil, err
	}
	chosen, not := run.withLock(chosen)
	b, err := backend(f.backend, docker.Config{})
	if err != nil {
		return nil, err
	}
	if c, ok := b.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	if err := run.scaleAll(chosen); err != nil {
		return nil, err
	}
	a.tidies()
	able := probe(ctx, b)
	if c := able[harness.CanRun]; !c.Available {
		return nil, unable(fmt.Errorf("backend %s can't run here: %s", b.Name(), c.Reason), c.Remedy)
	}
	if err := suite.CanWrite(f.store); err != nil {
		return nil, noStore(err)
	}
	started := time.Now()
	ci, err := newCI("")
	if err != nil {
		return nil, err
	}
	r := &report{app: a, ci: ci, flags: run, tally: tally{}, started: started, suite: run.suiteOf(chosen, nil, started)}
	for _, u := range not {
		r.skip(u.Scenario, u.lacks())
	}
	chosen = run.able(chosen, able, r)
	if err := prepare(ctx, b, chosen, a.errs); err != nil {
		return nil, err
	}
	r.runAll(ctx, b, chosen)
	return newCard(lock, f, chosen, r), nil
}

// card is what came of one lock.
type card struct {
	Lock    string                     `json:"lock"`
	Backend string                     `json:"backend"`
	Seed    uint64                     `json:"seed"`
	Code    int                        `json:"code"`
	Runs    int                        `json:"runs"`
	Cells   map[string]map[string]cell `json:"cells"` // by property and sort of failure
	Skipped map[string]int             `json:"skipped,omitempty"`
	Errors  []string                   `json:"errors,omitempty"`
}

// cell is what came of a property under one sort of failure.
type cell struct {
	Kept      int    `json:"kept"`      // runs in which it held, as it had to
	Failed    []harm `json:"failed"`    // it had to hold
	Alone     []harm `json:"alone"`     // nobody promised it, but the scenario's own lock keeps it
	Alike     []harm `json:"alike"`     // the scenario's own lock fails likewise
	Undecided int    `json:"undecided"` // and those that had no occasion
	Free      int    `json:"free"`      // it held where nobody promised it
}

// harm is one violation.
type harm struct {
	Scenario string `json:"scenario"`
	Cause    string `json:"cause"`
	Because  string `json:"because"`
	Command  string `json:"command"`
}

// columns are the sorts of failures, and what has none or more than one.
const (
	noFailure = "none"
	several   = "several"
	otherSort = "other"
)

func newCard(lock string, f *scoreFlags, chosen []pick, r *report) *card {
	c := &card{Lock: lock, Backend: f.backend, Seed: f.seed, Code: r.code, Runs: len(chosen), Cells: map[string]map[string]cell{}, Skipped: map[string]int{}}
	for _, o := range r.skipped {
		c.Skipped[o.Skipped]++
	}
	for i := range chosen {
		o, ran := r.outcomes[i]
		if !ran {
			continue
		}
		if o.Error != "" {
			c.Errors = append(c.Errors, o.Scenario+": "+words.FirstLine(o.Error))
		}
		for _, j := range o.Judgements {
			if j.Number == nil {
				c.add(column(chosen[i].Scenario), o, j)
			}
		}
	}
	return c
}

// column is the sort of failures that a scenario is about.
func column(s scenario.Scenario) string {
	switch models := s.Models(); {
	case len(models) > 1:
		return several
	case len(models) == 1:
		return models[0]
	case len(s.Plan) > 0 || s.Random != nil:
		return otherSort
	}
	return noFailure
}

func (c *card) add(column string, o outcome.Outcome, j outcome.Judgement) {
	if c.Cells[j.Property] == nil {
		c.Cells[j.Property] = map[string]cell{}
	}
	x := c.Cells[j.Property][column]
	found := harm{o.Scenario, j.Cause, j.Because, o.Command}
	promised := j.Expected == string(checker.Holds)
	switch {
	case j.Got == checker.Violated && promised:
		x.Failed = append(x.Failed, found)
	case j.Alone():
		x.Alone = append(x.Alone, found)
	case j.Got == checker.Violated:
		x.Alike = append(x.Alike, found)
	case j.Got == checker.Holds && promised:
		x.Kept++
	case j.Got == checker.Holds:
		x.Free++
	case promised:
		x.Undecided++
	}
	c.Cells[j.Property][column] = x
}

// symbol is a cell in one mark, the gravest first.
func (x cell) symbol() string {
	switch {
	case len(x.Failed) > 0:
		return "✗"
	case len(x.Alone) > 0:
		return "▲"
	case x.Kept > 0 && len(x.Alike) > 0:
		return "✓ ○"
	case x.Kept > 0:
		return "✓"
	case len(x.Alike) > 0:
		return "○"
	case x.Undecided > 0:
		return "?"
	case x.Free > 0:
		return "·"
	}
	return "–"
}

// print writes the scorecard in Markdown.
func (c *card) print(w io.Writer) {
	fmt.Fprintf(w, "# Scorecard of %s\n\n%d runs on %s, seed %d, each beside one with the scenario's own lock.\n\n", c.Lock, c.Runs, c.Backend, c.Seed)
	var columns []string
	for _, row := range c.Cells {
		for column := range row {
			if !slices.Contains(columns, column) {
				columns = append(columns, column)
			}
		}
	}
	rank := func(column string) int { return slices.Index([]string{several, otherSort, noFailure}, column) }
	slices.SortFunc(columns, func(a, b string) int { // what has no failure first, several last
		if d := rank(a) - rank(b); d != 0 && (a == noFailure || b == noFailure) {
			return -d
		} else if d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	fmt.Fprintf(w, "| property | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, property := range checker.Properties() {
		row, any := c.Cells[property]
		if !any {
			continue
		}
		fmt.Fprintf(w, "| %s |", property)
		for _, column := range columns {
			fmt.Fprintf(w, " %s |", row[column].symbol())
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "\n✓ holds, as it must · ✗ violated, and must hold · ▲ violated, and the scenario's own lock keeps it, which nobody promised of every lock · "+
		"○ violated, as with the scenario's own lock · ? undecided, or no occasion · · holds, though nobody promised it · – not looked at")
	c.list(w, "Violated, and must hold", func(x cell) []harm { return x.Failed })
	c.list(w, "Violated, and the scenario's own lock keeps it", func(x cell) []harm { return x.Alone })
	if len(c.Skipped) > 0 {
		fmt.Fprint(w, "\n## Not run\n\n")
		for _, why := range slices.Sorted(maps.Keys(c.Skipped)) {
			fmt.Fprintf(w, "- %s: %s\n", words.Plural(c.Skipped[why], "scenario"), strings.TrimPrefix(why, lockLack+": "))
		}
	}
	for _, e := range c.Errors {
		fmt.Fprintf(w, "\nNot judged: %s\n", e)
	}
}

// list writes the findings of all cells, by property.
func (c *card) list(w io.Writer, title string, of func(cell) []harm) {
	begun := false
	for _, property := range checker.Properties() {
		for _, column := range slices.Sorted(maps.Keys(c.Cells[property])) {
			for _, x := range of(c.Cells[property][column]) {
				if !begun {
					fmt.Fprintf(w, "\n## %s\n\n", title)
					begun = true
				}
				fmt.Fprintf(w, "- %s, %s: %s: %s  \n  `%s`\n", property, column, cmp.Or(x.Cause, "no cause"), x.Because, x.Command)
			}
		}
	}
}
