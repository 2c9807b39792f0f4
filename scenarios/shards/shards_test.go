package shards

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

func TestParse(t *testing.T) {
	for _, x := range []struct{ text, env, want string }{
		{"3/8", "", "3/8"},
		{"auto", "CI_NODE_INDEX=2 CI_NODE_TOTAL=5", "2/5"},
		{"auto/8", "JOB_COMPLETION_INDEX=0", "1/8"},
		{"auto", "JOB_COMPLETION_INDEX=7 LOCKPICK_SHARDS=8", "8/8"},
		{"auto/8", "SLURM_ARRAY_TASK_ID=8 SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=7", "8/8"},
		{"auto", "LOCKPICK_SLOT=x1y2z3 LOCKPICK_NODE=x1y2z3 LOCKPICK_SHARDS=8", "1/8"},
		{"auto", "LOCKPICK_SLOT=7 LOCKPICK_NODE=x1y2z3 LOCKPICK_SHARDS=8", "8/8"},
		{"auto", "LOCKPICK_SLOT=x9 LOCKPICK_NODE=x1y2z3 LOCKPICK_SHARDS=8", "error: no number"},
		{"auto/8", "SLURM_ARRAY_TASK_ID=0", "error: no shard 0"},
		{"auto", "SLURM_ARRAY_TASK_ID=1", "error: set LOCKPICK_SHARDS"},
		{"auto", "", "error: nothing in the environment"},
		{"0/8", "", "error: no shard 0"},
		{"9/8", "", "error: no shard 9"},
		{"1/1001", "", "error: no shard"},
		{"1", "", "error: how many"},
		{"1/x", "", "error: how many"},
		{"/8", "", "error: is no shard"},
		{"", "", "error: is no shard"},
	} {
		env := map[string]string{}
		for _, v := range strings.Fields(x.env) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		k, n, err := Parse(x.text, func(name string) string { return env[name] })
		got := fmt.Sprintf("%d/%d", k, n)
		if err != nil {
			got = "error: " + err.Error()
		}
		want, failed := strings.CutPrefix(x.want, "error: ")
		if failed != (err != nil) || !strings.Contains(got, want) {
			t.Errorf("%q with %q is %s, want %s", x.text, x.env, got, x.want)
		}
	}
}

// sweep is a head of shard k of n, of two scenarios.
func sweep(k, n, seeds int) Head {
	return Head{Shard: k, Of: n, Version: "v1", Backend: "sim", Seed: 5, Seeds: seeds,
		Scenarios: []Scenario{{Scenario: scenario.Scenario{Name: "a"}}, {Scenario: scenario.Scenario{Name: "b", Variant: "c"}}}}
}

// outcomeOf is what came of a sweep's run.
func outcomeOf(h Head, i int) outcome.Outcome {
	return outcome.Outcome{Schema: 1, Scenario: h.Scenarios[i/h.Seeds].Scenario.ID(), Seed: h.Seed + uint64(i%h.Seeds), Events: i}
}

// write makes a shard's file, whose runs end in reverse order.
func write(t *testing.T, store string, h Head) string {
	t.Helper()
	path, err := Write(store, h, func(done func(int, outcome.Outcome)) error {
		for j := h.Runs() - 1; j >= 0; j-- {
			o := outcomeOf(h, h.Run(j))
			o.Dir = filepath.Join(store, "a", fmt.Sprint(j))
			done(j, o)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEach: whatever the number of shards, even more than there are runs, each run is there once
// and in its place.
func TestEach(t *testing.T) {
	for n := 1; n <= 9; n++ {
		store := filepath.Join(t.TempDir(), "store")
		if err := os.Mkdir(store, 0o755); err != nil {
			t.Fatal(err)
		}
		runs := 0
		for k := n; k >= 1; k-- {
			runs += sweep(k, n, 3).Runs()
			write(t, store, sweep(k, n, 3))
		}
		s, err := Read([]string{filepath.Dir(store)})
		if err != nil || runs != s.Total() || s.Missing() != nil {
			t.Fatalf("%d shards: %d runs, %v", n, runs, err)
		}
		next := 0
		if err := s.Each(func(i int, o outcome.Outcome) {
			if i != next || o.Events != i || !strings.HasPrefix(o.Dir, filepath.Join(store, "a")) {
				t.Errorf("%d shards: run %d, want %d: %+v", n, i, next, o)
			}
			next++
		}); err != nil || next != 6 {
			t.Errorf("%d shards: %d runs, %v", n, next, err)
		}
	}
}

// TestNothingIsLeft: a shard that did not end has no file, nor is there one beside it.
func TestNothingIsLeft(t *testing.T) {
	store := t.TempDir()
	stop := errors.New("stop")
	if _, err := Write(store, sweep(1, 2, 3), func(done func(int, outcome.Outcome)) error {
		done(0, outcomeOf(sweep(1, 2, 3), 0))
		return stop
	}); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(store, Folder)); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if _, err := Read([]string{store}); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// TestRefusals: what is not whole, or not of one sweep, is named.
func TestRefusals(t *testing.T) {
	other := func(change func(*Head)) func(*testing.T, string, string) {
		return func(t *testing.T, store, _ string) {
			h := sweep(2, 2, 3)
			change(&h)
			write(t, store, h)
		}
	}
	edit := func(change func([]byte) []byte) func(*testing.T, string, string) {
		return func(t *testing.T, _, first string) {
			text, err := os.ReadFile(first)
			if err == nil {
				err = os.WriteFile(first, change(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	line := func(i int) func([]byte) []byte {
		return func(text []byte) []byte {
			return bytes.Join(slices.Delete(bytes.SplitAfter(text, []byte("\n")), i, i+1), nil)
		}
	}
	upTo := func(i int) func([]byte) []byte {
		return func(text []byte) []byte { return bytes.Join(bytes.SplitAfter(text, []byte("\n"))[:i], nil) }
	}
	again := func(i int) func([]byte) []byte {
		return func(text []byte) []byte {
			all := bytes.SplitAfter(text, []byte("\n"))
			return bytes.Join(slices.Insert(all, i, all[i]), nil)
		}
	}
	for name, x := range map[string]struct {
		damage func(t *testing.T, store, first string)
		want   string
	}{
		"another version":      {other(func(h *Head) { h.Version = "v2" }), "different sweeps: version"},
		"another backend":      {other(func(h *Head) { h.Backend = "process" }), "different sweeps: backend"},
		"other seeds":          {other(func(h *Head) { h.Seed = 6 }), "3 seeds from 6 on"},
		"other scenarios":      {other(func(h *Head) { h.Scenarios[0].Scenario.Name = "x" }), "scenarios are not the same"},
		"another number":       {other(func(h *Head) { h.Of = 3 }), "3 shards"},
		"cut":                  {edit(func(text []byte) []byte { return text[:len(text)-20] }), "cut"},
		"cut at a line":        {edit(line(4)), "its end is not there"},
		"cut at an outcome":    {edit(upTo(3)), "it has 2 of 3 outcomes"},
		"a line less":          {edit(line(2)), "should stand"},
		"a line less, at last": {edit(line(3)), "it has 2 of 3 outcomes"},
		"a line twice":         {edit(again(3)), "more in it than 3 outcomes"},
		"two ends":             {edit(again(4)), "goes on after its end"},
		"an end that lies":     {edit(func(text []byte) []byte { return bytes.Replace(text, []byte(`{"end":3}`), []byte(`{"end":4}`), 1) }), "its end tells of 4 outcomes, and it has 3"},
		"an end too early": {edit(func(text []byte) []byte {
			return append(bytes.Join(bytes.SplitAfter(text, []byte("\n"))[:2], nil), `{"end":1}`+"\n"...)
		}), "it has 1 of 3 outcomes"},
		"no outcome": {edit(func(text []byte) []byte {
			return bytes.Replace(text, []byte(`{"schema":1,"scenario":"a"`), []byte(`{"schema:1,"scenario":"a"`), 1)
		}), "outcome 1 of 3: "},
		"another shard's number": {edit(func(text []byte) []byte { return bytes.Replace(text, []byte(`"shard":1`), []byte(`"shard":2`), 1) }), "should stand"},
		"no head":                {edit(line(0)), "no shard 0 of 0"},
		"empty":                  {edit(func([]byte) []byte { return nil }), "EOF"},
		"a head that lies":       {edit(func(text []byte) []byte { return bytes.Replace(text, []byte("v1"), []byte("v3"), 1) }), "digest"},
		"of another version":     {edit(func(text []byte) []byte { return bytes.Replace(text, []byte(`"schema":1`), []byte(`"schema":2`), 1) }), "schema 2"},
		"twice": {func(t *testing.T, store, first string) {
			text, err := os.ReadFile(first)
			if err == nil {
				err = os.WriteFile(filepath.Join(filepath.Dir(first), "0123456789ab-9-of-9.jsonl"), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "twice"},
		"twice, and not the same": {func(t *testing.T, store, first string) {
			text, err := os.ReadFile(first)
			if err == nil {
				err = os.WriteFile(filepath.Join(filepath.Dir(first), "0123456789ab-1-of-2.jsonl"), bytes.Replace(text, []byte(`"events":0`), []byte(`"events":7`), 1), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "twice"},
		"a folder elsewhere":     {edit(func(text []byte) []byte { return bytes.Replace(text, []byte(`"dir":"`), []byte(`"dir":"../../`), 1) }), "is not in the store"},
		"another seed's outcome": {edit(func(text []byte) []byte { return bytes.Replace(text, []byte(`"seed":7`), []byte(`"seed":8`), 1) }), "should stand"},
		"another outcome's form": {edit(func(text []byte) []byte { return bytes.Replace(text, []byte(`"code":0`), []byte(`"code":5`), 1) }), "no exit code"},
	} {
		store := t.TempDir()
		first := write(t, store, sweep(1, 2, 3))
		x.damage(t, store, first)
		s, err := Read([]string{store})
		if err == nil {
			if s.Missing() != nil {
				write(t, store, sweep(2, 2, 3))
				s, err = Read([]string{store})
			}
		}
		if err == nil {
			err = s.Each(func(int, outcome.Outcome) {})
		}
		if err == nil || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), ".jsonl") {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}
