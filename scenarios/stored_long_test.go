//go:build long

package scenarios_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"testing"

	goedn "olympos.io/encoding/edn"

	"lockpick/checker"
	"lockpick/checker/mutex"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/edn"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// For each scenario in the catalog, the stored history gives the same verdict as the run, and other
// tools can read it. The nightly test writes the reports too.
func TestStoredRuns(t *testing.T) {
	reports := campaign.KeepNone
	if nightly {
		reports = campaign.KeepAll
	}
	store := t.TempDir()
	for _, s := range choose(t) {
		o := campaign.Execute(context.Background(), sim.New(kinds.All), campaign.Job{Scenario: s.Scenario, Seed: 2, Store: store, Keep: campaign.KeepAll, Reports: reports})
		if o.Error != "" {
			t.Fatalf("%s: %s", s.ID(), o.Error)
		}
		t.Run(s.ID(), func(t *testing.T) {
			h := rejudge(t, o)
			var text bytes.Buffer
			if err := edn.Write(&text, h); err != nil {
				t.Fatal(err)
			}
			readAsJepsen(t, text.Bytes(), o.Verdict)
		})
	}
}

// rejudge reads a run's stored history and judges it. The verdict must equal the one for the history
// in memory, and no property may hold unless the run exercised it.
func rejudge(t *testing.T, o outcome.Outcome) *history.History {
	t.Helper()
	h, err := history.ReadFile(filepath.Join(o.Dir, campaign.PackedFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range o.Verdict.Results {
		if (r.Occasions > 0) != (r.Outcome == verdict.Holds || r.Outcome == verdict.Violated) && r.Outcome != verdict.Undecided {
			t.Errorf("%s %s with %d occasions", r.Property, r.Outcome, r.Occasions)
		}
	}
	if v := checker.Check(h); !reflect.DeepEqual(v, o.Verdict) || len(h.Events) != o.Events {
		t.Errorf("from disk\n%+v\nfrom memory\n%+v", v, o.Verdict)
	}
	return h
}

// readAsJepsen reads a history with a third-party library, as Jepsen's tools would, and judges it
// like a history recorded by Jepsen.
func readAsJepsen(t *testing.T, text []byte, v verdict.Verdict) {
	t.Helper()
	d := goedn.NewDecoder(bytes.NewReader(text))
	last, calls := int64(0), map[int64]goedn.Keyword{}
	acquires := false
	for n := int64(0); ; n++ {
		var op map[goedn.Keyword]any
		if err := d.Decode(&op); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		at, _ := op["time"].(int64)
		if op["index"] != n || at < last {
			t.Fatalf("line %d: index %v, time %d after %d", n+1, op["index"], at, last)
		}
		last = at
		p, client := op["process"].(int64)
		if !client {
			continue
		}
		f := op["f"].(goedn.Keyword)
		acquires = acquires || f == "acquire"
		if op["type"] == goedn.Keyword("invoke") {
			if calls[p] != "" {
				t.Fatalf("line %d: process %d calls again before its call has returned", n+1, p)
			}
			calls[p] = f
		} else if calls[p] != f {
			t.Fatalf("line %d: process %d returns from %s, but called %q", n+1, p, f, calls[p])
		} else {
			calls[p] = ""
		}
	}
	if !acquires {
		return
	}
	reread, _, err := edn.Read(bytes.NewReader(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	got, want := checker.Check(reread, verdict.MutualExclusion).Results[0], v.Result(verdict.MutualExclusion)
	if want.Outcome == verdict.Undecided || got.Outcome == verdict.Undecided {
		return
	}
	ops, _, err := edn.Operations(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if m := mutex.Check(mutex.OwnerMutex, ops).Results[0]; m.Outcome != got.Outcome && !(m.Outcome == verdict.Holds && got.Outcome == verdict.NotExercised) {
		t.Errorf("as %s: %s (%s), as a lease: %s (%s)", m.Property, m.Outcome, m.Because, got.Outcome, got.Because)
	}
	// Jepsen's format has no TTL, so the history exercises fewer properties.
	if (got.Outcome == verdict.Violated) != (want.Outcome == verdict.Violated) || got.Outcome == verdict.Holds && want.Outcome != verdict.Holds {
		t.Errorf("as a Jepsen history: %s (%s), as our own: %s (%s)", got.Outcome, got.Because, want.Outcome, want.Because)
	}
}
