// Package score writes scorecards as a page that stands alone, as Markdown and as JSON.
//
// A Book is the cards of one call. The page has a matrix for each card, what random plans
// came to, and each counterexample with its sequence diagram.
//
// Deliberately missing: judging, which is scenarios/score's, and runs.
package suites

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// Names in the directory of a book.
const (
	CardPage  = ScoreFile
	CardText  = "score.md"
	CardJSON  = "score.json"
	RunFolder = "runs"
)

// Book is the cards of one call.
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

// Headline is what came of a card, in a sentence.
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

// Basis is what a card was made of, in a sentence or two.
func CardBasis(c *outcome.Card) string {
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

// Blame is which sorts of failures bring about what dice found of a property, in words; "":
// that can't be told.
func CardBlame(c *outcome.Card, f outcome.CardFinding, property string) string {
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

// Tries says what came of a harm elsewhere; "": it was not tried.
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

// Claim says whether the lock's documentation promises a property.
func cardClaim(c *outcome.Card, property string) string {
	for _, r := range c.Rows {
		if r.Property == property && r.Claim != "" {
			return "Its documentation: " + r.Claim
		}
	}
	return "Its documentation does not promise it; every lock of the tier is held to it."
}

// Beside is what a run's own lock did, in words.
func CardBeside(f outcome.CardFinding) string {
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
