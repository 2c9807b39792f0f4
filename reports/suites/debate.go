package suites

import (
	"fmt"
	"strings"

	"lockpick/harness/scenario"
	"lockpick/reports/words"
	"lockpick/scenarios/outcome"
)

// party is one who made claims. The keys are those that a scenario file may name
// (scenario.Parties).
type party struct{ key, title, owns string }

var parties = []party{
	{"kleppmann", "Martin Kleppmann", "Kleppmann's"},
	{"antirez", "antirez (Salvatore Sanfilippo)", "antirez's"},
	{"redis", "The Redis documentation", "The Redis documentation's"},
}

// voice is what a party claimed, and what came of it.
type voice struct {
	Title, Sum string
	Claims     []claim
}

// claim is one claim with its verdict.
type claim struct {
	*Scenario
	verdict, Sentence string
	Symbol, Href      string
}

// Verdicts on a claim.
const (
	upheld   = "reproduced"
	refuted  = "not reproduced"
	open     = "open"
	notTried = "not run"
)

// marks of a verdict on a claim.
var verdictMarks = map[string]string{upheld: "✓", refuted: "✗", open: "?", notTried: "–"}

// debate sorts the claims by who made them. A scenario's expectations are the claim
// in the checker's words: it held in these runs if all came out as expected.
func (s *Suite) debate(has there) []voice {
	var out []voice
	for _, p := range parties {
		v := voice{Title: p.title}
		tally := map[string]int{}
		for _, c := range s.Scenarios {
			stance := c.Debate[p.key]
			if stance != scenario.Affirms && stance != scenario.Denies {
				continue
			}
			x := p.judge(c, stance)
			x.Symbol, x.Href = verdictMarks[x.verdict], has.page(c.Dir, "#story")
			v.Claims = append(v.Claims, x)
			tally[x.verdict]++
		}
		var parts []string
		for _, verdict := range []string{upheld, refuted, open, notTried} {
			if n := tally[verdict]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, verdict))
			}
		}
		v.Sum = fmt.Sprintf("%s: %s.", words.Plural(len(v.Claims), "claim"), strings.Join(parts, ", "))
		if len(v.Claims) > 0 {
			out = append(out, v)
		}
	}
	return out
}

// judge says what became of what a party said.
func (p party) judge(c *Scenario, stance string) claim {
	subject, runs := p.owns+" claim", "in this run"
	if stance == scenario.Denies {
		subject = p.owns + " objection"
	}
	if c.Runs > 1 {
		runs = fmt.Sprintf("in these %d runs", c.Runs)
	}
	x := claim{Scenario: c}
	verb := ""
	switch state := c.State(); {
	case state == outcome.Skipped:
		x.verdict, x.Sentence = notTried, subject+" was not put to the test: "+c.Skipped
	case state == "":
		x.verdict, x.Sentence = notTried, subject+" was not put to the test: the suite ended before"
	case state == outcome.AsExpected && stance == scenario.Affirms:
		x.verdict, verb = upheld, "was reproduced "+runs
	case state == outcome.AsExpected:
		x.verdict, verb = refuted, "was not reproduced "+runs
	case state == outcome.Unexpected && stance == scenario.Affirms:
		x.verdict, verb = refuted, "was not reproduced "+runs
	default: // a claim that is refuted doesn't show that its contrary is true
		x.verdict, verb = open, "stays open "+runs
	}
	if verb != "" {
		x.Sentence = subject + " " + verb
		if f := c.finding(); f != "" {
			x.Sentence += ": " + f
		}
	}
	x.Sentence += "."
	return x
}
