package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// hostileText is text that an attacker might put into a key, a file name or an error.
const hostileText = "a\n::error::forged\r\n  ::warning::forged\u0085::debug::\u2028::notice::\u2029\u202e\x1b[2J##[error]forged"

// commandPattern matches text that GitHub's runner or a terminal would execute instead of showing.
var commandPattern = regexp.MustCompile(`(?m)^[\pZ\s]*::|##\[|[\x00-\x08\x0b-\x1f\x7f-\x9f\x{2028}\x{2029}\x{202a}-\x{202e}\x{2066}-\x{2069}]`)

var invisiblePattern = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f-\x9f\x{2028}\x{2029}\x{202e}]`)

// TestForeignTextIsEscaped checks that input can't contain commands for GitHub's runner or forge
// lines of output.
func TestForeignTextIsEscaped(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_STEP_SUMMARY", "")
	store := t.TempDir()
	for _, args := range [][]string{
		{"check", filepath.Join(store, hostileText)},
		{"report", filepath.Join(store, hostileText)},
		{"run", hostileText},
		{"run", "baseline/", "--set", hostileText},
		{"run", "baseline/", "--set", "lock.ttl=" + hostileText},
		{"run", "baseline/", "--set", "lock.kind=" + hostileText},
		{"run", "baseline/", "--backend", "process", "--adapter", hostileText},
		{"run", "baseline/", "--expect", hostileText},
		{hostileText},
	} {
		code, out, errs := runLockpick(t, args...)
		if code == 0 || commandPattern.MatchString(out) || commandPattern.MatchString(errs) {
			t.Errorf("%.40q: %d\n%q\n%q", args, code, out, errs)
		}
		for line := range strings.Lines(errs) {
			if !strings.HasPrefix(line, "error: ") && !strings.HasPrefix(line, "hint: ") && !strings.HasPrefix(line, "    ") {
				t.Errorf("%.40q: forged line: %q", args, line)
			}
		}
	}
}

func hostileOutcome() outcome.Outcome {
	return outcome.Outcome{Scenario: hostileText, Backend: "sim", Code: outcome.ExitUnexpected, Command: hostileText, Dir: hostileText, Error: hostileText, Hint: hostileText, StopReason: hostileText, RetryReasons: []string{hostileText},
		Judgements: []outcome.Judgement{{Property: verdict.MutualExclusion, Expected: "holds", Got: verdict.Violated, Cause: hostileText, Node: hostileText, Because: hostileText,
			Confirmation: &outcome.Confirmation{Why: hostileText}}}}
}

// TestHostileOutcomeForgesNoLines checks that hostile text does not change the number of lines that
// run prints.
func TestHostileOutcomeForgesNoLines(t *testing.T) {
	outputFor := func(o outcome.Outcome) string {
		var b strings.Builder
		a := &app{out: &output{w: &b, github: true}, errOut: &output{w: &b, github: true}}
		c := suites.Console{W: a.out, Suite: &suites.Suite{Seeds: 1}, Named: true, Diagram: diagram}
		c.Add(o)
		must(t, c.Finish(o.Code))
		a.printVerdict(verdict.Verdict{}, o.Judgements)
		return b.String()
	}
	o := hostileOutcome()
	o.Error = "" // the error of a panic has several lines
	text, err := json.Marshal(o)
	must(t, err)
	quotedHostile, err := json.Marshal(hostileText)
	must(t, err)
	var harmlessOutcome outcome.Outcome
	must(t, json.Unmarshal([]byte(strings.ReplaceAll(string(text), string(quotedHostile), `"`+strings.Repeat("x", len(hostileText))+`"`)), &harmlessOutcome))
	got, want := outputFor(o), outputFor(harmlessOutcome)
	if strings.Count(got, "\n") != strings.Count(want, "\n") || commandPattern.MatchString(got) {
		t.Errorf("got\n%s\nwant as many lines as in\n%s", got, want)
	}
	if got := outputFor(hostileOutcome()); commandPattern.MatchString(got) {
		t.Errorf("%q", got)
	}
}

// TestHostileOutcomeInReportsForCI checks that each line of annotations is a single command with
// escaped data, and that JUnit files contain no invisible characters.
func TestHostileOutcomeInReportsForCI(t *testing.T) {
	var all outcome.Tally
	all.Add(hostileOutcome())
	var b strings.Builder
	if err := suites.GitHubAnnotations(commandOutput{&output{w: &b, github: true}}, &all); err != nil {
		t.Fatal(err)
	}
	command, rest, _ := strings.Cut(b.String(), "\n")
	if !strings.HasPrefix(command, "::error title=") || rest != "" || invisiblePattern.MatchString(command) || strings.Count(command, "%0A") > 3 {
		t.Errorf("%q", b.String())
	}
	file := filepath.Join(t.TempDir(), "junit.xml")
	must(t, writeTo(file, os.O_TRUNC, func(w io.Writer) error { return suites.WriteJUnit(w, &all, nil) }))
	text, err := os.ReadFile(file)
	if must(t, err); invisiblePattern.Match(text) {
		t.Errorf("%q", text)
	}
}

// TestCommandsInPieces checks that commands are escaped even if they are split between writes.
func TestCommandsInPieces(t *testing.T) {
	for splitAt := range len(hostileText) {
		var b strings.Builder
		o := &output{w: &b, github: true}
		_, err := o.Write([]byte(hostileText[:splitAt]))
		_, err2 := o.Write([]byte(hostileText[splitAt:]))
		if errors.Join(err, err2) != nil || regexp.MustCompile(`(?m)^\s*::`).MatchString(b.String()) {
			t.Errorf("split at %d: %q", splitAt, b.String())
		}
	}
	var b strings.Builder
	o := &output{w: &b, github: true}
	if o.Write([]byte("a::b c: ##x [y]\n- ::z\n")); b.String() != "a::b c: ##x [y]\n- ::z\n" {
		t.Errorf("%q", b.String())
	}
}
