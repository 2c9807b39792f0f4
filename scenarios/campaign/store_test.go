package campaign

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/scenarios"
)

// A run directory that can't be completed is removed.
func TestFailedRunDirectoryLeavesNothing(t *testing.T) {
	store := t.TempDir()
	unwritable := scenario.Scenario{Name: "s", Scale: math.NaN()}
	d := &runDir{store: store, manifest: scenario.Manifest{Scenario: unwritable}}
	if err := d.create(); err == nil {
		t.Fatal("a manifest that can't be encoded was written")
	}
	if left, err := os.ReadDir(filepath.Join(store, "s")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Files of earlier versions may contain the old name of a cause.
func TestOldCauseIsRead(t *testing.T) {
	o, err := parseOutcome([]byte(`{"schema":1,"judgements":[{"property":"mutual-exclusion","got":"violated","cause":"told-late","expected":"violated: told-late"}]}`))
	if err != nil || o.Judgements[0].Cause != verdict.NotifiedLate || o.Judgements[0].Expected != "violated: notified-late" {
		t.Errorf("outcome.json: got %+v, %v", o.Judgements, err)
	}
	h, err := parseFuzz([]byte(`{"schema":1,"scenarios":["a"],"runs":1,"next":1,"finds":[{"property":"mutual-exclusion","cause":"told-late","runs":1}]}`))
	if err != nil || h.Findings[0].Cause != verdict.NotifiedLate {
		t.Errorf("hunt.json: got %+v, %v", h, err)
	}
	expect := map[string]scenario.Expectation{verdict.MutualExclusion: {Want: wantViolated, Cause: "told-late"}}
	head := ShardHeader{Schema: shardSchema, Shard: 1, Shards: 1, Seeds: 1, Scenarios: []Pick{{Found: scenarios.Found{Scenario: scenario.Scenario{Expect: expect}}}}}
	head.Digest = head.digest()
	line, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	if head, err = parseHeader(line); err != nil || head.Scenarios[0].Expect[verdict.MutualExclusion].Cause != verdict.NotifiedLate {
		t.Errorf("shard header: got %+v, %v", head.Scenarios, err)
	}
}
