package scenario

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/harness/lock"
	"lockpick/nemesis"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testNames contains the names used by the tests.
var testNames = KnownNames{
	Backends: []string{"sim", "process"},
	Locks:    []string{"broken", "failover", "hardened", "redislock", "redlock", "redsync", "rueidis", "single"},
	Mistakes: mistakes,
	Kinds: map[string]lock.Kind{
		"broken": {Prefix: "b:", Belief: lock.ByNothing, Can: lock.Features{Reenter: true}, Quorum: func(nodes int) int { return nodes },
			Options: []lock.Option{{Name: "how", Doc: "it breaks", Values: []string{"softly", "loudly"}}}},
		"redsync": {Options: []lock.Option{{Name: "fail-fast", Doc: "fail at the first no", Values: []string{"no", "yes"}}}},
		"hardened": {Options: []lock.Option{{Name: "quarantine", Doc: "it waits", Values: []string{"no", "yes"}}, {Name: "repair", Doc: "it sets keys again", Values: []string{"no", "yes"}},
			{Name: "context", Doc: "it has a context", Values: []string{"no", "taken", "late"}}, {Name: "late-timers", Doc: "they are late", Values: []string{"no", "yes"}}}},
	},
	Properties: []string{"mutual-exclusion", "lease-linearizable", "resource-safety", "fencing-order", "deadlock-freedom", "fault-tolerance", "bounded-hold", "valid-on-return"},
	Numbers:    []string{"grants", "unavailable-share", "split-vote-rate", "unavailable-longest", "validity-left-min"},
	Causes: []string{
		"expired-early", "granted-late", "restarted-and-forgot", "deleted-by-other", "overwritten", "never-set",
		"given-shorter", "client-clock", "clocks-disagree", "unexplained", "lock-broken", "overrun", "fence-broken", "extended-too-often", "holder-refused",
		"lost-unsynced", "failed-over", "overlap", "left-keys", "split-vote", "too-few-votes", "hung", "notified-late", "returned-late", "waited-long", "outlived-ttl", "lost-early", "token-twice",
	},
}

// requiredKeys contains the required keys of a scenario.
const requiredKeys = "name: x\nclaim: Something.\nsource: nobody\n"

// The archives in testdata/scenario-errors contain pairs of files: CASE.yaml and CASE.err, the
// complete error message. CASE.part is a file without the three lines of requiredKeys.
func TestParseErrors(t *testing.T) {
	archives, err := filepath.Glob("testdata/scenario-errors/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range archives {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, f := range a.Files {
			want[f.Name] = string(f.Data)
		}
		out := &txtar.Archive{Comment: a.Comment}
		for _, f := range a.Files {
			name, kind, _ := strings.Cut(f.Name, ".")
			text := string(f.Data)
			switch kind {
			case "err":
				continue
			case "part":
				text = requiredKeys + text
			}
			got := parseError(t, name, text)
			out.Files = append(out.Files, f, txtar.File{Name: name + ".err", Data: []byte(got)})
			if !*update && got != want[name+".err"] {
				t.Errorf("%s: %s:\ngot\n%s\nwant\n%s", filepath.Base(path), name, got, want[name+".err"])
			}
		}
		if *update {
			if err := os.WriteFile(path, txtar.Format(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// parseError parses text and returns the error. Comments of the form "# --set key=value" at the
// beginning of the text are overrides.
func parseError(t *testing.T, name, text string) string {
	t.Helper()
	var sets []string
	for line := range strings.Lines(text) {
		if s, ok := strings.CutPrefix(line, "# --set "); ok {
			sets = append(sets, strings.TrimSpace(s))
		}
	}
	_, err := ParseWithOptions(name+".yaml", []byte(text), testNames, ParseOptions{Overrides: sets}, nil)
	if err == nil {
		t.Errorf("%s: no error", name)
		return ""
	}
	var e *Error
	if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Hint == "" {
		t.Errorf("%s: not a scenario error with a position and a hint: %#v", name, err)
	}
	return kindListRemover.Replace(err.Error()) + "\n"
}

// kindListRemover replaces the lists of fault kinds, so that a new kind doesn't change the golden
// files.
var kindListRemover = func() *strings.Replacer {
	var kinds []string
	for _, k := range nemesis.Kinds {
		kinds = append(kinds, k.Name)
	}
	return strings.NewReplacer(strings.Join(nemesis.Choices(), ", "), "DRAWN FAULTS", strings.Join(kinds, ", "), "FAULTS")
}()

func TestParseRejectsInvalidText(t *testing.T) {
	for name, data := range map[string][]byte{
		"too large":  []byte(requiredKeys + "# " + strings.Repeat("x", MaxFile)),
		"not UTF-8":  []byte(requiredKeys + "tags: [\xff]"),
		"empty":      nil,
		"blank":      []byte(" \n\n"),
		"a comment":  []byte("# nothing"),
		"NUL":        []byte("name: \x00"),
		"anchor":     []byte("a: *" + strings.Repeat("x", 5000)),
		"long plan":  []byte(requiredKeys + "plan: [" + strings.Repeat("{}, ", 5000) + "]"),
		"long range": []byte(requiredKeys + "workload: {hold: " + strings.Repeat("0", 5000) + "2s..1s}"),
		"deep":       []byte(strings.Repeat("[", 100_000)),
		"deep block": []byte(strings.Repeat("- ", 100_000)),
	} {
		_, err := Parse("f.yaml", data, testNames)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		} else if len(e.Error()) > 1000 {
			t.Errorf("%s: the message has %d bytes", name, len(e.Error()))
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), "lock.ttl=5s")
	}
	archives, _ := filepath.Glob("testdata/scenario-errors/*.txtar")
	for _, path := range archives {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range a.Files {
			f.Add(requiredKeys+string(x.Data), "plan.1.fault.for=20s")
		}
	}
	f.Fuzz(func(t *testing.T, text, set string) {
		all, err := ParseWithOptions("f.yaml", []byte(text), testNames, ParseOptions{Overrides: []string{set}}, nil)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("not a scenario error: %v", err)
			}
			if e.Line < 1 || e.Column < 1 || e.Message == "" || e.Error() == "" {
				t.Fatalf("the error has no position: %#v", e)
			}
			return
		}
		for _, s := range all {
			if s.Lock.Timeout >= s.Lock.TTL/2 || s.Topology.Nodes < 1 || len(s.Clients) < 1 || s.Limit <= 0 {
				t.Fatalf("an impossible scenario was accepted: %+v", s)
			}
			s.ScaledCopy(0.1)
		}
	})
}

// mistakes lists the mistakes of package lock/broken, which this package doesn't import.
var mistakes = []string{
	"absolute-expiry", "context-by-ticker", "context-by-timer", "deadline-rounded-up", "delay-without-bound",
	"drift-added", "driver-time-out", "elapsed-by-wall-clock", "elapsed-not-subtracted", "elapsed-since-the-call", "expiry-despite-refusal",
	"extension-adds-to-deadline", "extension-adds-to-ttl", "extension-below-quorum", "extension-by-wall-clock",
	"extension-drops-expiry", "extension-elapsed-not-subtracted", "extension-in-two-steps", "extension-only-checks",
	"extension-overwrites", "extension-rounded-down", "extension-rounded-up", "extension-sets-missing-key", "extension-unheard", "extension-without-drift",
	"extension-without-token-check", "fence-by-client", "fence-by-wall-clock", "fence-deleted-with-key",
	"fence-from-one-node", "fence-not-written-back", "forgets-failed-nodes", "loss-is-released",
	"milliseconds-as-seconds", "no-drift-margin", "no-elapsed-check", "no-expiry", "no-jitter", "no-release-on-failure",
	"plain-del", "quorum-half", "quorum-rounded-up", "quorum-too-large", "reads-late-answers", "release-by-prefix",
	"release-on-quorum", "release-only-acknowledged", "renewal-gives-up", "renews-after-failed-release",
	"renews-by-wall-clock", "renews-too-late", "returns-late", "same-jitter", "same-value-for-clients",
	"same-value-for-holds", "same-value-for-retries", "set-goes-on", "set-without-nx", "silence-is-a-vote",
	"silence-is-not-held", "takes-over-by-timestamp", "tells-late", "ttl-in-wrong-unit", "ttl-rounded-down",
	"ttl-rounded-up", "unbounded-extension", "undo-by-plain-del", "undone-by-the-callers-context", "votes-add-up",
	"waits-for-all", "wall-clock-deadline", "weak-token", "yes-to-own-value",
}
