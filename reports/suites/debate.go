package suites

import (
	"fmt"

	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// party is one who made claims. The keys are those that a scenario file may name
// (scenario.Parties).
type party struct{ key, title, name, owns string }

var parties = []party{
	{"kleppmann", "Martin Kleppmann", "Kleppmann", "Kleppmann's"},
	{"antirez", "antirez (Salvatore Sanfilippo)", "antirez", "antirez's"},
	{"redis", "The Redis documentation", "the Redis documentation", "The Redis documentation's"},
}

// voice is what a party claimed, and what came of it.
type voice struct {
	party
	claims []claim
	tally  map[string]int // claims by verdict
}

// claim is one claim with its verdict.
type claim struct {
	scenario *Scenario
	verdict  string // upheld, refuted, open or not run
	sentence string
}

// Verdicts on a claim.
const (
	upheld   = "held"
	refuted  = "did not hold"
	open     = "open"
	notTried = "not run"
)

// debate sorts the claims by who made them. A scenario's expectations are the claim
// in the checker's words: it held in these runs if all came out as expected.
func (s *Suite) debate() []voice {
	var out []voice
	for _, p := range parties {
		v := voice{party: p, tally: map[string]int{}}
		for _, c := range s.Scenarios {
			if stance := c.Debate[p.key]; stance == scenario.Affirms || stance == scenario.Denies {
				x := p.judge(c, stance)
				v.claims = append(v.claims, x)
				v.tally[x.verdict]++
			}
		}
		if len(v.claims) > 0 {
			out = append(out, v)
		}
	}
	return out
}

// judge says what became of what a party said.
func (p party) judge(c *Scenario, stance string) claim {
	subject, runs := p.owns+" claim", "in this run"
	if stance == scenario.Denies {
		subject = "What " + p.name + " says against this claim"
	}
	if c.Runs > 1 {
		runs = fmt.Sprintf("in these %d runs", c.Runs)
	}
	x := claim{scenario: c}
	verb := ""
	switch state := c.State(); {
	case state == outcome.Skipped:
		x.verdict, x.sentence = notTried, subject+" was not put to the test: "+c.Skipped
	case state == "":
		x.verdict, x.sentence = notTried, subject+" was not put to the test: the suite ended before"
	case state == outcome.AsExpected && stance == scenario.Affirms:
		x.verdict, verb = upheld, "held "+runs
	case state == outcome.AsExpected:
		x.verdict, verb = refuted, "did not hold "+runs
	case state == outcome.Unexpected && stance == scenario.Affirms:
		x.verdict, verb = refuted, "did not hold "+runs
	default: // a claim that is refuted doesn't show that its contrary is true
		x.verdict, verb = open, "stays open "+runs
	}
	if verb != "" {
		x.sentence = subject + " " + verb
		if f := c.finding(); f != "" {
			x.sentence += ": " + f
		}
	}
	x.sentence += "."
	return x
}
