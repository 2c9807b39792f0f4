package locktest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/reports/sequence"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// tell reports what came of a subtest: an error of the test where it was not as expected.
func (r *run) tell(t *testing.T, c choice, o outcome.Outcome, said string) {
	t.Helper()
	if o.Code == outcome.ExitOK {
		t.Log(strings.Join(append(judged(o.Judgements, outcome.Judgement.Tells), printed(said)...), "\n"))
		return
	}
	parts := []string{fmt.Sprintf("%s, seed %d: %s", o.Scenario, o.Seed, c.Claim)}
	parts = append(parts, judged(o.Judgements, func(j outcome.Judgement) bool { return !j.AsExpected })...)
	if o.Error != "" {
		parts = append(parts, failed(o, stacks(said, packageOf(r.kind.New))))
	} else {
		parts = append(append(parts, r.diagram(o)...), printed(said)...)
	}
	for _, earlier := range o.Retried {
		parts = append(parts, "an earlier try did not count: "+earlier)
	}
	t.Errorf("\n%s\n\nrun again: %s\n%s", strings.Join(parts, "\n\n"), o.Command, keep(t, o.Dir))
}

// judged are judgements in words, those that are wanted. What has one reason stands together.
func judged(all []outcome.Judgement, wanted func(outcome.Judgement) bool) (out []string) {
	var because string
	for _, j := range all {
		if !wanted(j) || j.Follows != "" && j.AsExpected {
			continue
		}
		if n := len(out); n > 0 && j.Because == because {
			out[n-1] = strings.TrimSuffix(out[n-1], ": "+because) + "\n"
		} else {
			out = append(out, "")
		}
		because = j.Because
		out[len(out)-1] += j.String() + ": " + because
	}
	return out
}

// mostWhy bounds what is told of an error: each client may have one, with its stack.
const mostWhy = 2000

// failed is why a run could not be judged, and where the lock stood.
func failed(o outcome.Outcome, where string) string {
	why, _, _ := strings.Cut(o.Error, "; its stacks are in ")
	if len(why) > mostWhy {
		why = why[:mostWhy] + " …"
	}
	if strings.HasPrefix(why, campaign.TooLong) {
		why += "\nVirtual time goes on while goroutines wait for each other, for their timers or for the nodes. It stands still while one computes,\n" +
			"or waits for what is not in the simulation: a connection that Env.Dial did not make, or a channel or mutex from before New."
	}
	return strings.TrimSpace(why + "\n\n" + where)
}

// diagram draws the violation that was not expected, or else what happened.
func (r *run) diagram(o outcome.Outcome) []string {
	s, err := campaign.OpenStored(o.Dir, r.known)
	if err != nil {
		return []string{"no diagram: " + err.Error()}
	}
	v := checker.Check(s.History)
	for _, j := range o.Judgements {
		if x := v.Result(j.Property); x != nil && !j.AsExpected && x.Outcome == checker.Violated && x.Witness != nil {
			return []string{drawn(sequence.Of(s.History, x))}
		}
	}
	return []string{drawn(sequence.Tell(s.History, v))}
}

func drawn(d sequence.Diagram) string {
	return strings.TrimSpace(sequence.Text(d, sequence.DefaultWidth))
}

// mostPrinted bounds what is repeated of what the lock has printed: the end counts.
const mostPrinted = 4000

func printed(said string) []string {
	if said = strings.TrimSpace(said); said == "" {
		return nil
	}
	return []string{"The lock has printed:\n" + said[max(0, len(said)-mostPrinted):]}
}

// keepsArtifacts says whether this test was run with -artifacts.
func keepsArtifacts() bool {
	f := flag.Lookup("test.artifacts")
	return f != nil && f.Value.String() == "true"
}

// keep leaves a run's folder among the test's artifacts, where these are kept, and says where.
func keep(t *testing.T, dir string) string {
	t.Helper()
	if dir == "" {
		return ""
	}
	if !keepsArtifacts() {
		return "-artifacts keeps its record and report.html"
	}
	to := t.ArtifactDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		return "its record could not be kept: " + err.Error()
	}
	return "record and report.html: " + to
}
