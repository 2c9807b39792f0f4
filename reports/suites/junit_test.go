package suites

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

const diagram = "  seconds   client c1   locks n1–n5\n  2.449     ├── acquire ─>│\n"

func testDiagram(outcome.Outcome) string { return diagram }

// everyResult returns runs with every kind of result.
func everyResult() []outcome.Outcome {
	holds := outcome.Judgement{Property: verdict.MutualExclusion, Expected: "holds", Got: verdict.Holds, Because: "no two at once, in 15 grants", AsExpected: true}
	violated := outcome.Judgement{Property: verdict.MutualExclusion, Expected: "holds", Got: verdict.Violated, Cause: verdict.RestartedAndForgot, Node: "n3",
		Because: "c1 and c2 believed from 1.2 s to 3.4 s"}
	number := outcome.Judgement{Property: verdict.Grants, Expected: ">= 3", Got: verdict.Violated, Because: "grants is 2", Number: &outcome.Number{Value: 2}}
	waits := outcome.Judgement{Property: "split-vote-rate", Expected: "< 0.2 * no-jitter", Got: verdict.Undecided, Because: "it is compared with no-jitter",
		Number: &outcome.Number{Pending: true}}
	unknown := outcome.Judgement{Property: verdict.ResourceSafety, Expected: "holds", Got: verdict.Undecided, Because: "the pause did not take effect"}
	expected := violated
	expected.Expected, expected.AsExpected = "violated", true
	noExpectation := outcome.Judgement{Property: verdict.BoundedHold, Got: verdict.Holds, AsExpected: true}
	one := func(name string, code int, js ...outcome.Judgement) outcome.Outcome {
		return outcome.Outcome{Scenario: name, Backend: "sim", Seed: 1, Code: code, Judgements: js, Seconds: 0.25, Command: "lockpick run " + name + "/ --seed 1"}
	}
	retried := one("retried", outcome.ExitOK, holds)
	retried.Backend, retried.RetryReasons = "process", []string{"mutual-exclusion was expected to be violated and held (store/a)"}
	broken := one("broken", outcome.ExitBug)
	broken.Error = "panic: no such thing\ngoroutine 1"
	skipped := one("needs-disk", outcome.ExitOK)
	skipped.Skipped = "no power-loss: /dev/fuse is missing"
	required := skipped
	required.Scenario, required.Code = "must-have-disk", outcome.ExitBackend
	bad := one("restart-forgets", outcome.ExitUnexpected, violated, number, noExpectation)
	bad.Dir = "store/restart-forgets/1"
	idle := outcome.Judgement{Property: verdict.DeadlockFreedom, Expected: "holds", Got: verdict.NotExercised, Because: "no client died"}
	allowed := idle
	allowed.AsExpected = true
	return []outcome.Outcome{one("baseline", outcome.ExitOK, holds, noExpectation), bad, one("meant-to-break", outcome.ExitOK, expected), one("vacuous", outcome.ExitUndecided, holds, unknown),
		one("split-vote", outcome.ExitOK, waits), broken, skipped, required, retried,
		one("drawn", outcome.ExitOK, holds, allowed), one("named", outcome.ExitUndecided, holds, idle)}
}

func TestGoldenJunit(t *testing.T) {
	seeds := []outcome.Outcome{}
	for i := range 10 {
		o := everyResult()[i%2]
		o.Scenario, o.Seed = "many", uint64(i+1)
		seeds = append(seeds, o)
	}
	for i := range 3 { // two of three runs exercise the property
		o := everyResult()[9]
		if o.Seed = uint64(i + 1); i > 0 {
			o.Judgements[1].Got = verdict.Holds
		}
		seeds = append(seeds, o)
	}
	for name, outcomes := range map[string][]outcome.Outcome{"suite": everyResult(), "seeds": seeds, "hostile": hostileRun(), "empty": nil} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := WriteJUnit(&b, tallyOf(outcomes), testDiagram); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata/junit", name+".xml")
			if *update {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), want) {
				t.Errorf("output differs from %s:\n%s", path, b.Bytes())
			}
			validate(t, path)
		})
	}
}

// validate checks a file against the schema with xmllint, because there is no validator in pure Go.
func validate(t *testing.T, path string) {
	t.Helper()
	tool, err := exec.LookPath("xmllint")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("xmllint is missing, but required in CI: .ci/setup installs it")
		}
		t.Skip("xmllint is missing: apt-get install libxml2-utils")
	}
	if out, err := exec.Command(tool, "--nonet", "--noout", "--schema", "testdata/junit/jenkins-junit.xsd", path).CombinedOutput(); err != nil {
		t.Errorf("%s is not valid: %v\n%s", path, err, out)
	}
}

// This test shows that validate can fail.
func TestSchemaRejectsUnknownAttributes(t *testing.T) {
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Skip("xmllint is missing")
	}
	text, err := os.ReadFile("testdata/junit/suite.xml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.xml")
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("classname="), []byte("class=")), 0o644); err != nil {
		t.Fatal(err)
	}
	if exec.Command("xmllint", "--nonet", "--noout", "--schema", "testdata/junit/jenkins-junit.xsd", path).Run() == nil {
		t.Error("xmllint accepted a file with unknown attributes")
	}
}

func hostileRun() []outcome.Outcome {
	evil := "]]> <script>&\"' \x00\x1b[31m\x9b \xff \ufffe \U0001f512 \r\n"
	return []outcome.Outcome{{Scenario: evil, Backend: evil, Code: outcome.ExitUnexpected, Command: evil, Dir: evil, RetryReasons: []string{evil}, StopReason: evil, Error: evil,
		Judgements: []outcome.Judgement{{Property: evil, Expected: evil, Got: verdict.Violated, Cause: evil, Node: evil, Because: evil}}}}
}

// Megabytes of text in any field are truncated.
func TestJUnitTruncatesLongText(t *testing.T) {
	long := strings.Repeat("é", 1<<19)
	o := hostileRun()[0]
	o.Scenario, o.Command, o.Error, o.RetryReasons = long, long, long+"\n"+long, []string{long}
	o.Judgements[0].Property, o.Judgements[0].Because = long, long
	var b bytes.Buffer
	if err := WriteJUnit(&b, tallyOf([]outcome.Outcome{o}), func(outcome.Outcome) string { return long }); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 300<<10 {
		t.Errorf("file has %d bytes, want at most 300 KiB", b.Len())
	}
	parseJUnit(t, &b)
}

// The file for many seeds is not much larger than the file for one run.
func TestJUnitFileSizeWithManySeeds(t *testing.T) {
	numDrawn := 0
	r := &outcome.Tally{}
	for i := range 10_000 {
		o := everyResult()[1]
		o.Seed = uint64(i)
		o.RetryReasons = []string{"no violation"}
		r.Add(o)
	}
	var b bytes.Buffer
	if err := WriteJUnit(&b, r, func(outcome.Outcome) string { numDrawn++; return diagram }); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 16<<10 || numDrawn > 2*maxDetails {
		t.Errorf("file has %d bytes, or %d diagrams were drawn", b.Len(), numDrawn)
	}
	if !strings.Contains(b.String(), "10000 runs: 0 as expected, 10000 unexpected; showing the first 3") {
		t.Errorf("file does not state the number of runs:\n%s", b.String())
	}
	parseJUnit(t, &b)
}

func parseJUnit(t *testing.T, r io.Reader) {
	t.Helper()
	for d := xml.NewDecoder(r); ; {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteJUnitError(t *testing.T) {
	if err := WriteJUnit(failingWriter{}, tallyOf(everyResult()), nil); err == nil || !strings.Contains(err.Error(), "write junit file: no space left") {
		t.Error(err)
	}
}

// The rate for a property without an expectation counts all conclusive runs, including runs where the
// property holds.
func TestRatesCountAllRuns(t *testing.T) {
	tally := &outcome.Tally{}
	for i := range 100 {
		j := outcome.Judgement{Property: verdict.ResourceSafety, Got: verdict.Holds, AsExpected: true}
		if i < 3 {
			j.Got = verdict.Violated
		}
		tally.Add(outcome.Outcome{Scenario: "many", Backend: "sim", Seed: uint64(i + 1), Judgements: []outcome.Judgement{j}})
	}
	var junit, github strings.Builder
	if err := errors.Join(WriteJUnit(&junit, tally, nil), GitHubSummary(&github, tally, nil)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{junit.String(), github.String()} {
		if !strings.Contains(text, "violated in 3 of 100") {
			t.Errorf("output does not contain the rate 3 of 100:\n%s", text)
		}
	}
}
