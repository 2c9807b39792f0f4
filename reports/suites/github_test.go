package suites

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

func mermaidDiagram(outcome.Outcome) string { return "sequenceDiagram\n  c1->>n1: acquire\n" }

func testOutcomes() []outcome.Outcome {
	holds := outcome.Judgement{Property: verdict.MutualExclusion, Expected: "holds", Got: verdict.Holds, Because: "no two at once, in 15 grants", AsExpected: true}
	violated := outcome.Judgement{Property: verdict.MutualExclusion, Expected: "holds", Got: verdict.Violated, Cause: verdict.RestartedAndForgot, Node: "n3",
		Because: "c1 and c2 believed from 1.2 s to 3.4 s"}
	expected := violated
	expected.Expected, expected.AsExpected = "violated", true
	unknown := outcome.Judgement{Property: verdict.ResourceSafety, Expected: "holds", Got: verdict.Undecided, Because: "the pause did not take effect"}
	one := func(name string, code int, js ...outcome.Judgement) outcome.Outcome {
		return outcome.Outcome{Scenario: name, Backend: "sim", Seed: 1, Code: code, Judgements: js, Command: "lockpick run " + name + "/ --seed 1"}
	}
	broken := one("broken", outcome.ExitBug)
	broken.Error = "panic: no such thing\ngoroutine 1"
	skipped := one("needs-disk", outcome.ExitOK)
	skipped.Skipped = "no power-loss: /dev/fuse is missing"
	idle := outcome.Judgement{Property: verdict.DeadlockFreedom, Expected: "holds", Got: verdict.NotExercised, Because: "no client died"}
	allowed := idle
	allowed.AsExpected = true
	return []outcome.Outcome{one("baseline", outcome.ExitOK, holds), one("meant-to-break", outcome.ExitOK, expected),
		one("restart-forgets", outcome.ExitUnexpected, violated), one("vacuous", outcome.ExitUndecided, holds, unknown), broken, skipped,
		one("drawn", outcome.ExitOK, holds, allowed), one("named", outcome.ExitUndecided, holds, idle)}
}

func hostileOutcomes() []outcome.Outcome {
	evil := "a|b `c` ```\n## <script>alert(1)</script> [x](http://y) @me #1 %0A ::error::x, \x1b[31m \xff \u202e"
	return []outcome.Outcome{{Scenario: evil, Backend: "sim", Code: outcome.ExitUnexpected, Command: evil, Error: evil,
		Judgements: []outcome.Judgement{{Property: evil, Expected: evil, Got: verdict.Violated, Cause: evil, Node: evil, Because: evil}}}}
}

func tallyOf(outcomes []outcome.Outcome) *outcome.Tally {
	t := &outcome.Tally{}
	for _, o := range outcomes {
		t.Add(o)
	}
	return t
}

func TestGoldenGithub(t *testing.T) {
	for name, outcomes := range map[string][]outcome.Outcome{"suite": testOutcomes(), "expected": testOutcomes()[:2], "hostile": hostileOutcomes(), "seeds": outcomesOfSeeds(100)} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := GitHubSummary(&b, tallyOf(outcomes), mermaidDiagram); err != nil {
				t.Fatal(err)
			}
			golden(t, "github/"+name+".md", b.Bytes())
			b.Reset()
			if err := GitHubAnnotations(&b, tallyOf(outcomes)); err != nil {
				t.Fatal(err)
			}
			golden(t, "github/"+name+".txt", b.Bytes())
			if n := strings.Count(b.String(), "\n"); n > maxAnnotations || n != strings.Count("\n"+b.String(), "\n::error ") {
				t.Errorf("got %d annotations (at most %d allowed), or other lines:\n%s", n, maxAnnotations, b.String())
			}
		})
	}
}

func outcomesOfSeeds(n int) []outcome.Outcome {
	var out []outcome.Outcome
	for i := range n {
		o := testOutcomes()[2*(i%2)]
		o.Scenario, o.Seed = "many", uint64(i+1)
		out = append(out, o)
	}
	return out
}

// Each of up to nine runs has its own annotation. If there are more, the last annotation states how many
// runs are not shown.
func TestAnnotationLimit(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 9: 9, 10: 9, 50: 9} {
		var outcomes []outcome.Outcome
		for i := range n {
			o := testOutcomes()[2]
			o.Scenario = fmt.Sprint("s", i)
			outcomes = append(outcomes, o)
		}
		var b bytes.Buffer
		if err := GitHubAnnotations(&b, tallyOf(outcomes)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.String(), "\n"); got != want {
			t.Errorf("%d runs: %d annotations, want %d", n, got, want)
		}
		if n > 9 && !strings.Contains(b.String(), fmt.Sprintf("and %d more", n-8)) {
			t.Errorf("%d runs: the last annotation does not state how many are not shown:\n%s", n, b.String())
		}
	}
}

// A summary is truncated at the end of a line and outside any code block.
func TestSummarySizeLimit(t *testing.T) {
	for pad := range 5 {
		var outcomes []outcome.Outcome
		for i := range 3000 {
			o := testOutcomes()[2]
			o.Scenario = fmt.Sprintf("s%d-%s", i, strings.Repeat("x", 300+11*pad))
			outcomes = append(outcomes, o)
		}
		var b bytes.Buffer
		if err := GitHubSummary(&b, tallyOf(outcomes), mermaidDiagram); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if len(text) > maxBytes || len(text) < maxBytes-2000 {
			t.Errorf("summary has %d bytes, limit %d", len(text), maxBytes)
		}
		if !strings.HasSuffix(text, "**Truncated at 900 KiB.** See the run directories for the rest.\n") {
			t.Errorf("no note on truncation at the end: %q", text[len(text)-200:])
		}
		if open := strings.Count(text, "```"); open%2 != 0 {
			t.Errorf("odd number of fences: %d", open)
		}
	}
}

// Text from a run cannot end a table cell, start a line, or contain HTML.
func TestGitHubMarkdown(t *testing.T) {
	for in, want := range map[string]string{
		"a|b":      `a\|b`,
		"<b>&":     "&lt;b&gt;&amp;",
		"a\nb\x00": `a b\\x00`,
		"`x`":      "\\`x\\`",
	} {
		if got := githubMarkdown(in); got != want {
			t.Errorf("githubMarkdown(%q) is %s, want %s", in, got, want)
		}
	}
}
