package sequence

import (
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

func TestDiagramStatesWhyRunIsInconclusive(t *testing.T) {
	h := &history.History{Params: history.Params{Scenario: "s"}, Events: []history.Event{{N: 1, Process: history.Harness, Type: history.Begin, Op: history.OpRun}}}
	text := Text(ForVerdict(h, verdict.Verdict{Assumption: "c1 never started"}), DefaultWidth)
	if !strings.Contains(text, "s: inconclusive\n") || !strings.Contains(text, "Inconclusive: c1 never started.") {
		t.Errorf("got:\n%s", text)
	}
}
