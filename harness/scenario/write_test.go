package scenario

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// checkRoundTrip checks that writing and reading a scenario, and writing it again, loses nothing.
// It returns the text.
func checkRoundTrip(t *testing.T, s Scenario) []byte {
	t.Helper()
	text, err := Write(s, "what comes first\nis a comment", testNames)
	if err != nil {
		t.Fatalf("%s: %v", s.ID(), err)
	}
	back, err := Parse("f.yaml", text, testNames)
	if err != nil || len(back) != 1 {
		t.Fatalf("%s: %v\n%s", s.ID(), err, text)
	}
	want := standaloneCopy(s)
	for property, e := range want.Expect { // files don't contain Implied
		e.Implied = back[0].Expect[property].Implied
		want.Expect[property] = e
	}
	checkSame(t, s.ID(), readBack(t, back[0]), readBack(t, want))
	second, err := Write(back[0], "what comes first\nis a comment", testNames)
	if err != nil || !bytes.Equal(text, second) {
		t.Errorf("%s: the second text is different, error %v\n%s\n%s", s.ID(), err, text, second)
	}
	return text
}

// The catalog is written and read back, with fixed and random plans.
func TestWrite(t *testing.T) {
	steps, seeds := 0, uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for _, all := range parsedCatalog(t) {
		for _, s := range all {
			checkRoundTrip(t, readBack(t, s))
			if s.Random == nil {
				continue
			}
			for seed := range seeds {
				drawn := readBack(t, s.WithRandomPlan(seed))
				checkRoundTrip(t, drawn)
				steps += len(drawn.Plan)
			}
		}
	}
	if steps < 150*int(seeds) {
		t.Errorf("only %d steps were drawn", steps)
	}
}

func TestWriteIsReadable(t *testing.T) {
	all, err := Parse("restart-forgets.yaml", catalog(t)["restart-forgets"], testNames)
	if err != nil {
		t.Fatal(err)
	}
	const want = `# what comes first
# is a comment
name: restart-forgets
claim: A node that restarts at once without its data votes a second time, and two clients hold the lock.
`
	text := string(checkRoundTrip(t, all[0]))
	if !strings.HasPrefix(text, want) {
		t.Errorf("unexpected beginning:\n%s", text)
	}
	for _, line := range []string{
		"lock: {retry: 20ms..100ms}\n", "workload: {think: 0s, cycles: 1}\n", "  c1: {reach: [n1, n2, n3], hold: 8s}\n", "  - when: {client: c1, event: acquired, after: 10ms}\n",
		"    fault: {kind: kill, targets: [n3], for: 10ms}\n", "  mutual-exclusion: {violated: restarted-and-forgot, node: n3}\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
}

func TestWriteRejectsInexpressibleScenario(t *testing.T) {
	s := randomScenario(t).WithRandomPlan(1).ScaledCopy(0.001)
	if text, err := Write(s, "", testNames); err == nil {
		t.Errorf("durations of microseconds were written:\n%s", text)
	}
}

// A share is written as a percentage that parses to the same bits.
func TestSharesRoundTripExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shares := []float64{0, 1, 0.5, 0.01, 0.001, 1e-9, 1e-300, 0.1, 0.999999, 5e-324}
	for range 20_000 {
		shares = append(shares, r.Float64(), r.Float64()*1e-3)
	}
	for _, x := range shares {
		text := formatPercent(x)
		digits, ok := strings.CutSuffix(text, "%")
		if back, err := strconv.ParseFloat(digits+"e-2", 64); !ok || err != nil || back != x {
			t.Fatalf("%v is written as %s, which parses to %v (%v)", x, text, back, err)
		}
	}
	for x, want := range map[float64]string{0: "0%", 1: "100%", 0.01: "1%", 0.005: "0.5%", 0.255: "25.5%", 0.6: "60%"} {
		if got := formatPercent(x); got != want {
			t.Errorf("%v is written as %s, want %s", x, got, want)
		}
	}
}

// Any scenario that Parse accepts doesn't change when it is written and read back, unless Write
// returns an error.
func FuzzWrite(f *testing.F) {
	files := catalog(f)
	for _, name := range []string{"restart-forgets", "random-faults", "gc-pause-after-acquire", "loss-is-told", "redlock-on-replicas", "unlimited-extension"} {
		f.Add(files[name], uint64(1))
	}
	f.Add([]byte(requiredKeys+"tags: [\"1\", null-1]\nclients: 3\n"), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		all, err := Parse("f.yaml", data, testNames)
		if err != nil || slices.ContainsFunc(all, func(s Scenario) bool { return len(s.Clients) > 50 }) {
			return
		}
		for _, s := range all[:min(len(all), 5)] {
			checkRoundTrip(t, readBack(t, s))
			if text, err := Write(s.WithRandomPlan(seed), "", testNames); err == nil {
				if _, err := Parse("f.yaml", text, testNames); err != nil {
					t.Errorf("%v\n%s", err, text)
				}
			}
		}
	})
}
