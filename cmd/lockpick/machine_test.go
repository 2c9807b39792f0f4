package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	goedn "olympos.io/encoding/edn"

	"lockpick/checker"
	"lockpick/checker/mutex"
	"lockpick/harness/history"
	"lockpick/harness/history/edn"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/reports"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

// What every run of the catalogue leaves is what other tools take, and what it was judged by.
func TestStoredRuns(t *testing.T) {
	t.Parallel()
	all, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	for _, s := range all {
		o := suite.Execute(context.Background(), sim.New(kinds.All), suite.Job{Scenario: s.Scenario, Seed: 2, Store: store, Keep: suite.KeepAll})
		if o.Error != "" {
			t.Fatalf("%s: %s", s.ID(), o.Error)
		}
		t.Run(s.ID(), func(t *testing.T) {
			h := judgedAgain(t, o)
			jepsen(t, filepath.Join(o.Dir, reports.EDNFile), h, o.Verdict)
			traced(t, filepath.Join(o.Dir, reports.TraceFile), h)
		})
	}
}

// judgedAgain reads the stored history of a run, which was judged from memory: who judges it again
// must come to the very same verdict. What was never put to the test does not hold.
func judgedAgain(t *testing.T, o outcome.Outcome) *history.History {
	t.Helper()
	h, err := history.ReadFile(filepath.Join(o.Dir, suite.PackedFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range o.Verdict.Results {
		if (r.Occasions > 0) != (r.Outcome == checker.Holds || r.Outcome == checker.Violated) && r.Outcome != checker.Undecided {
			t.Errorf("%s %s with %d occasions", r.Property, r.Outcome, r.Occasions)
		}
	}
	if v := checker.Check(h); !reflect.DeepEqual(v, o.Verdict) || len(h.Events) != o.Events {
		t.Errorf("from disk\n%+v\nfrom memory\n%+v", v, o.Verdict)
	}
	return h
}

// jepsen reads a history as Jepsen's tools do, by a library that isn't ours, and then
// judges it as one of Jepsen's.
func jepsen(t *testing.T, path string, h *history.History, v checker.Verdict) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := goedn.NewDecoder(bytes.NewReader(text))
	last, open := int64(0), map[int64]goedn.Keyword{}
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
			if open[p] != "" {
				t.Fatalf("line %d: process %d calls while it has called", n+1, p)
			}
			open[p] = f
		} else if open[p] != f {
			t.Fatalf("line %d: process %d returns from %s, called %q", n+1, p, f, open[p])
		} else {
			open[p] = ""
		}
	}
	if !acquires {
		return
	}
	back, _, err := edn.Read(bytes.NewReader(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	got, want := checker.Check(back, checker.MutualExclusion).Results[0], v.Result(checker.MutualExclusion)
	if want.Outcome == checker.Undecided || got.Outcome == checker.Undecided {
		return
	}
	ops, _, err := edn.Operations(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if m := mutex.Check(mutex.OwnerMutex, ops).Results[0]; m.Outcome != got.Outcome && !(m.Outcome == checker.Holds && got.Outcome == checker.NotExercised) {
		t.Errorf("as %s it is %s (%s), as a lease %s (%s)", m.Property, m.Outcome, m.Because, got.Outcome, got.Because)
	}
	// Jepsen's knows no TTL, and so of fewer occasions.
	if (got.Outcome == checker.Violated) != (want.Outcome == checker.Violated) || got.Outcome == checker.Holds && want.Outcome != checker.Holds {
		t.Errorf("as Jepsen's it is %s (%s), as ours %s (%s)", got.Outcome, got.Because, want.Outcome, want.Because)
	}
}

// traced sees that each begin has its end, that stamps never go back on a thread, and
// that what is meant is there.
func traced(t *testing.T, path string, h *history.History) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []struct {
			Name, Ph string
			TS       float64
			PID, TID int
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	open, last, phases, threads := map[string][]string{}, map[string]float64{}, map[string]int{}, map[string]bool{}
	for i, e := range file.TraceEvents {
		id := fmt.Sprint(e.PID, "/", e.TID)
		if e.Ph == "C" {
			id += e.Name
		}
		phases[e.Ph]++
		switch {
		case e.Ph == "M":
			threads[id] = true
			continue
		case e.TS < last[id] || e.TS*1000 > float64(h.Events[len(h.Events)-1].T)+1000:
			t.Fatalf("event %d: %s at %f after %f on %s", i, e.Name, e.TS, last[id], id)
		case e.Ph != "C" && !threads[id]:
			t.Fatalf("event %d: %s on a thread without a name", i, e.Name)
		}
		last[id] = e.TS
		stack := open[id]
		switch e.Ph {
		case "B":
			if len(stack) > 0 {
				t.Fatalf("event %d: %s begins within %s on %s", i, e.Name, stack, id)
			}
			open[id] = append(stack, e.Name)
		case "E":
			if len(stack) == 0 || stack[len(stack)-1] != e.Name {
				t.Fatalf("event %d: %s ends on %s, where %v is open", i, e.Name, id, stack)
			}
			open[id] = stack[:len(stack)-1]
		}
	}
	for id, stack := range open {
		if len(stack) > 0 {
			t.Errorf("%s: %v never ends", id, stack)
		}
	}
	calls := 0
	for _, e := range h.Events {
		if e.Type == history.Invoke && strings.HasPrefix(e.Process, "c") && !strings.Contains(e.Process, "-") {
			calls++
		}
	}
	if phases["B"] < calls || phases["B"] != phases["E"] || phases["i"] == 0 {
		t.Errorf("%d calls, and %v", calls, phases)
	}
}
