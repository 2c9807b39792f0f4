package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// catalog returns the catalog's files by name. It reads them from disk because this package can't
// import package scenarios.
func catalog(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../scenarios/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".yaml")] = data
	}
	return files
}

// parseCatalogOnce parses the catalog once for all tests.
var parseCatalogOnce = sync.OnceValues(func() (map[string][]Scenario, error) {
	paths, err := filepath.Glob("../../scenarios/*.yaml")
	if err != nil {
		return nil, err
	}
	files := map[string][]Scenario{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		if files[strings.TrimSuffix(name, ".yaml")], err = Parse(name, data, testNames); err != nil {
			return nil, err
		}
	}
	return files, nil
})

// parsedCatalog returns the scenarios of each file. Tests share them and must not change them.
func parsedCatalog(t *testing.T) map[string][]Scenario {
	t.Helper()
	files, err := parseCatalogOnce()
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	return files
}

func TestCatalog(t *testing.T) {
	ids := map[string]bool{}
	for file, all := range parsedCatalog(t) {
		for _, s := range all {
			if s.Name != file {
				t.Errorf("%s.yaml contains a scenario with the name %s", file, s.Name)
			}
			if ids[s.ID()] {
				t.Errorf("duplicate scenario %s", s.ID())
			}
			ids[s.ID()] = true
			if len(s.Tags) < 2 || s.Claim == "" || s.Source == "" {
				t.Errorf("%s: claim %q, source %q, tags %v", s.ID(), s.Claim, s.Source, s.Tags)
			}
			if strings.ContainsAny(s.Claim, "\n") || !strings.HasSuffix(s.Claim, ".") {
				t.Errorf("%s: the claim is not one sentence: %q", s.ID(), s.Claim)
			}
		}
	}
	checkDebates(t)
	for _, id := range []string{
		"baseline", "gc-pause-after-acquire/fenced", "gc-pause-after-acquire/check-and-set", "foreign-release/plain-del",
		"foreign-release", "pause-before-check/no-check", "pause-while-acquiring/no-elapsed-check", "restart-forgets",
		"delayed-restart", "disjoint-views/quorum-half", "holder-crashes", "delayed-release-kills-retry/fresh-value",
		"extend-to-finish", "unlimited-extension/limited", "fence-forgets",
		"slow-network", "slow-acquire/no-elapsed-check", "delayed-write/fenced", "holder-cut-off/dropped", "sequential-or-multiplexed/sequential",
	} {
		if !ids[id] {
			t.Errorf("the catalog has no scenario %s", id)
		}
	}
}

// A scenario for a broken lock must expect a violation, because otherwise nothing would show that
// the lock is broken. Every expected violation must name its cause.
func TestCatalogExpectations(t *testing.T) {
	for _, all := range parsedCatalog(t) {
		for _, s := range all {
			violated := false
			for property, e := range s.Expect {
				if e.Want == "violated" {
					violated = true
					if e.Cause == "" && e.LeadProperty == "" {
						t.Errorf("%s: the expected violation of %s has no cause", s.ID(), property)
					}
				}
			}
			if s.Lock.Kind == brokenLock && !violated {
				t.Errorf("%s: no expectation catches the mistake %s", s.ID(), s.Lock.Mistake)
			}
		}
	}
}

// In restart-forgets, delayed-restart and clock-jump, a single node decides: two clients run one
// cycle each, and their quorums share only that node.
func TestSharedNodeQuorums(t *testing.T) {
	files := parsedCatalog(t)
	for _, name := range []string{"restart-forgets", "delayed-restart", "clock-jump"} {
		s := files[name][0]
		checkSame(t, name+": reach", [][]string{s.Clients[0].Reach, s.Clients[1].Reach}, [][]string{{"n1", "n2", "n3"}, {"n3", "n4", "n5"}})
		checkSame(t, name+": hold", []time.Duration{s.Clients[0].Hold.Min, s.Clients[1].Hold.Min}, []time.Duration{8 * time.Second, time.Second})
		checkSame(t, name+": start", s.Clients[1].Start.String(), "c1 acquired")
		checkSame(t, name+": step", s.Plan[0].When.String(), "10ms after c1 acquired")
		if len(s.Clients) != 2 || s.Workload.Cycles != 1 || s.Lock.RetryMin != 20*ms || s.Lock.RetryMax != 100*ms {
			t.Errorf("%s: the quorums don't share exactly one node: %+v", name, s)
		}
	}
}

// checkDebates checks that a party's stance is recorded only if the scenario's source mentions the
// party, and that every party appears.
func checkDebates(t *testing.T) {
	t.Helper()
	names := map[string]string{"kleppmann": "Kleppmann", "antirez": "antirez", "redis": "Redis documentation"}
	numStances := map[string]int{}
	files := parsedCatalog(t)
	for _, all := range files {
		for _, s := range all {
			for _, other := range s.Cures {
				if files[other] == nil || other == s.Name {
					t.Errorf("%s: cures lists the unknown scenario %s", s.ID(), other)
				}
			}
			for party := range s.Debate {
				numStances[party]++
				if !strings.Contains(s.Source, names[party]) {
					t.Errorf("%s: %s is in the debate but not in the source", s.ID(), party)
				}
			}
		}
	}
	for _, party := range parties() {
		if numStances[party] < 5 {
			t.Errorf("%s has a stance on only %d claims", party, numStances[party])
		}
	}
}
