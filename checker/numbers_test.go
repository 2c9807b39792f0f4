package checker

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// Every number in a verdict in testdata is listed in Numbers, and every number in Numbers occurs in
// one of them.
func TestNumbersAreNamed(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, measured, _ := strings.Cut(string(text), "-- verdict --")
		for line := range strings.Lines(measured) {
			words := strings.Fields(line)
			if len(words) < 2 || strings.HasSuffix(words[0], ":") || line[0] == ' ' || strings.HasPrefix(words[0], "fault-") {
				continue
			}
			if _, err := strconv.ParseFloat(words[1], 64); err != nil {
				continue
			}
			seen[words[0]] = true
			if !slices.Contains(Numbers(), words[0]) {
				t.Errorf("%s: Numbers does not list %s", path, words[0])
			}
		}
	}
	for _, n := range verdict.Numbers {
		if !seen[n.Name] {
			t.Errorf("no verdict in testdata contains %s", n.Name)
		}
		if n.Meaning == "" {
			t.Errorf("%s has no meaning", n.Name)
		}
	}
}

func TestStallNumbers(t *testing.T) {
	n := Check(parseHistory(t, `params clients=c1 nodes=n1
0 c1 begin client
1 nemesis begin stall node=machine
1.5 nemesis end stall node=machine
3 nemesis begin stall node=machine
3.25 nemesis end stall node=machine
9 harness end run`)).Numbers
	if n[verdict.StalledSeconds] != 0.75 || n[verdict.StalledMax] != 0.5 {
		t.Errorf("%v s in total, longest %v s", n[verdict.StalledSeconds], n[verdict.StalledMax])
	}
}

// A fault that ended at the instant at which it began was active.
func TestInstantFaultOnHeldLock(t *testing.T) {
	n := Check(parseHistory(t, `params clients=c1 nodes=n1
step 1 clock-jump n1 at 2 s
0 c1 begin client
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 until=5
2 nemesis begin clock-jump node=n1 step=1
2 nemesis end clock-jump node=n1 step=1
9 harness end run`)).Numbers
	if n[faultNumber(1, faultOnHeld)] != 1 || n[faultNumber(1, faultReadBack)] != 1 {
		t.Errorf("got %v on a held lock and %v read back, want 1 each", n[faultNumber(1, faultOnHeld)], n[faultNumber(1, faultReadBack)])
	}
}
