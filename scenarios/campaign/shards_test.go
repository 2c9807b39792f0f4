package campaign

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
	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

func TestParseShard(t *testing.T) {
	for text, want := range map[string]string{
		"3/8":    "3/8",
		"auto":   "error: is not a shard",
		"auto/8": "error: is not a shard",
		"0/8":    "error: no shard 0",
		"9/8":    "error: no shard 9",
		"1/1001": "error: no shard",
		"1":      "error: lacks the number",
		"1/x":    "error: lacks the number",
		"/8":     "error: is not a shard",
		"":       "error: is not a shard",
	} {
		k, n, err := ParseShard(text)
		got := fmt.Sprintf("%d/%d", k, n)
		if err != nil {
			got = "error: " + err.Error()
		}
		words, failed := strings.CutPrefix(want, "error: ")
		if failed != (err != nil) || !strings.Contains(got, words) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// testHeader returns the header of shard k of n, with two scenarios.
func testHeader(k, n, seeds int) ShardHeader {
	return ShardHeader{Shard: k, Shards: n, Version: "v1", Backend: "sim", Seed: 5, Seeds: seeds,
		Scenarios: []Pick{{Found: scenarios.Found{Scenario: scenario.Scenario{Name: "a"}}}, {Found: scenarios.Found{Scenario: scenario.Scenario{Name: "b", Variant: "c"}}}}}
}

// shardOutcome returns the outcome of the sweep's run i.
func shardOutcome(h ShardHeader, i int) outcome.Outcome {
	return outcome.Outcome{Schema: 1, Scenario: h.Scenarios[i/h.Seeds].Scenario.ID(), Seed: h.Seed + uint64(i%h.Seeds), Events: i}
}

// writeTestShard writes a shard whose runs end in reverse order.
func writeTestShard(t *testing.T, store string, h ShardHeader) string {
	t.Helper()
	path, err := WriteShard(store, h, func(done func(int, outcome.Outcome)) error {
		for j := h.Runs() - 1; j >= 0; j-- {
			o := shardOutcome(h, h.RunIndex(j))
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

// Each visits every run once and in order, even if there are more shards than runs.
func TestSweepEach(t *testing.T) {
	for n := 1; n <= 9; n++ {
		store := filepath.Join(t.TempDir(), "store")
		if err := os.Mkdir(store, 0o755); err != nil {
			t.Fatal(err)
		}
		runs := 0
		for k := n; k >= 1; k-- {
			runs += testHeader(k, n, 3).Runs()
			writeTestShard(t, store, testHeader(k, n, 3))
		}
		s, err := ReadShards(t.Context(), filepath.Dir(store))
		if err != nil || runs != s.Total() || s.Missing() != nil {
			t.Fatalf("%d shards: %d runs, %v", n, runs, err)
		}
		next := 0
		if err := s.Each(t.Context(), func(i int, o outcome.Outcome) {
			if i != next || o.Events != i || !strings.HasPrefix(o.Dir, filepath.Join(store, "a")) {
				t.Errorf("%d shards: run %d, want %d: %+v", n, i, next, o)
			}
			next++
		}); err != nil || next != 6 {
			t.Errorf("%d shards: %d runs, %v", n, next, err)
		}
	}
}

func TestFailedShardLeavesNoFile(t *testing.T) {
	store := t.TempDir()
	stop := errors.New("stop")
	if _, err := WriteShard(store, testHeader(1, 2, 3), func(done func(int, outcome.Outcome)) error {
		done(0, shardOutcome(testHeader(1, 2, 3), 0))
		return stop
	}); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(store, shardFolder)); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if _, err := ReadShards(t.Context(), store); !errors.Is(err, errNoShard) {
		t.Error(err)
	}
}

// checkRejected writes the first of two shards, damages the store, and adds the second shard if it
// is missing. Reading the shards must fail with an error that contains want and names a file.
func checkRejected(t *testing.T, want string, damage func(store, first string)) {
	t.Helper()
	store := t.TempDir()
	first := writeTestShard(t, store, testHeader(1, 2, 3))
	damage(store, first)
	s, err := ReadShards(t.Context(), store)
	if err == nil && s.Missing() != nil {
		writeTestShard(t, store, testHeader(2, 2, 3))
		_, err = ReadShards(t.Context(), store)
	}
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ".jsonl") {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestReadShardsOfDifferentSweeps(t *testing.T) {
	for want, change := range map[string]func(*ShardHeader){
		"different sweeps: versions":     func(h *ShardHeader) { h.Version = "v2" },
		"different sweeps: backends":     func(h *ShardHeader) { h.Backend = "process" },
		"3 seeds from 6":                 func(h *ShardHeader) { h.Seed = 6 },
		"4 seeds from 5":                 func(h *ShardHeader) { h.Seeds = 4 },
		" shards and ":                   func(h *ShardHeader) { h.Shards = 3 },
		"their scenarios differ (":       func(h *ShardHeader) { h.Scenarios[0].Scenario.Name = "x" },
		"sweeps: their scenarios differ": func(h *ShardHeader) { h.Overrides = []string{"lock.ttl=5s"} },
	} {
		checkRejected(t, want, func(store, _ string) {
			h := testHeader(2, 2, 3)
			change(&h)
			writeTestShard(t, store, h)
		})
	}
}

// A duplicate shard is rejected whether or not its content is the same.
func TestReadShardsDuplicate(t *testing.T) {
	for _, events := range []string{"0", "7"} {
		checkRejected(t, "duplicate shard 1", func(_, first string) {
			text, err := os.ReadFile(first)
			if err == nil {
				text = bytes.Replace(text, []byte(`"events":0`), []byte(`"events":`+events), 1)
				err = os.WriteFile(filepath.Join(filepath.Dir(first), "0123456789ab-1-of-2.jsonl"), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Each file has a header, three outcomes and an end line.
func TestReadShardsDamaged(t *testing.T) {
	type lines = [][]byte
	replace := func(old, new string) func(lines) lines {
		return func(all lines) lines {
			text := bytes.Join(all, nil)
			if !bytes.Contains(text, []byte(old)) {
				t.Fatalf("no %s in %s", old, text)
			}
			return lines{bytes.Replace(text, []byte(old), []byte(new), 1)}
		}
	}
	for name, x := range map[string]struct {
		damage func(lines) lines
		want   string
	}{
		"empty":                       {func(lines) lines { return nil }, "the file is empty"},
		"no header":                   {func(l lines) lines { return l[1:] }, "no shard 0 of 0"},
		"modified header":             {replace("v1", "v3"), "digest"},
		"another schema":              {replace(`"schema":1`, `"schema":2`), "schema 2"},
		"another shard's number":      {replace(`"shard":1`, `"shard":2`), ", found "},
		"truncated header":            {func(l lines) lines { return lines{l[0][:99]} }, "truncated in the middle of a line"},
		"truncated after the header":  {func(l lines) lines { return l[:1] }, "truncated: 0 of 3 outcomes"},
		"truncated outcome":           {func(l lines) lines { return append(l[:2], l[2][:50]) }, "truncated in the middle of a line"},
		"truncated after an outcome":  {func(l lines) lines { return l[:3] }, "truncated: 2 of 3 outcomes"},
		"missing end line":            {func(l lines) lines { return l[:4] }, "the end line is missing"},
		"truncated end line":          {func(l lines) lines { return append(l[:4], l[4][:5]) }, "truncated in the middle of a line"},
		"missing outcome":             {func(l lines) lines { return append(l[:2], l[3:]...) }, ", found "},
		"missing last outcome":        {func(l lines) lines { return append(l[:3], l[4:]...) }, "truncated: 2 of 3 outcomes"},
		"duplicate outcome":           {func(l lines) lines { return slices.Insert(l, 3, l[3]) }, "more than 3 outcomes"},
		"two end lines":               {func(l lines) lines { return append(l[:5], l[4]) }, "data after the end line"},
		"wrong count in the end line": {replace(`{"end":3}`, `{"end":4}`), "the end line counts 4 outcomes, but there are 3"},
		"early end line":              {func(l lines) lines { return append(l[:2], []byte("{\"end\":1}\n")) }, "truncated: 1 of 3 outcomes"},
		"invalid outcome":             {replace(`"scenario":"a"`, `"scenario:"a"`), "outcome 1 of 3: "},
		"another seed":                {replace(`"seed":7`, `"seed":8`), ", found "},
		"another scenario":            {replace(`"scenario":"a"`, `"scenario":"b"`), ", found "},
		"invalid exit code":           {replace(`"code":0`, `"code":5`), "is not an exit code"},
		"folder outside the store":    {replace(`"dir":"`, `"dir":"../../`), "is not in the store"},
	} {
		t.Run(name, func(t *testing.T) {
			checkRejected(t, x.want, func(_, first string) {
				text, err := os.ReadFile(first)
				if err == nil {
					err = os.WriteFile(first, bytes.Join(x.damage(bytes.SplitAfter(text, []byte("\n"))), nil), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// The shard folder, a shard and the path to a run must not be symbolic links.
func TestReadShardsRefusesLinks(t *testing.T) {
	for _, pathOf := range []func(store, first string) string{
		func(store, _ string) string { return filepath.Join(store, shardFolder) },
		func(_, first string) string { return first },
		func(store, _ string) string { return filepath.Join(store, "a") },
		func(store, _ string) string { return filepath.Join(store, "a", "0") },
	} {
		store := t.TempDir()
		first := writeTestShard(t, store, testHeader(1, 2, 3))
		writeTestShard(t, store, testHeader(2, 2, 3))
		link, target := pathOf(store, first), filepath.Join(t.TempDir(), "away")
		if err := errors.Join(os.MkdirAll(filepath.Join(store, "a", "0"), 0o755), os.Rename(link, target), os.Symlink(target, link)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadShards(t.Context(), store); err == nil || !strings.Contains(err.Error(), link+" is a symbolic link, which is not allowed") {
			t.Errorf("%s: %v", link, err)
		}
	}
}
