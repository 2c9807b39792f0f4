//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// wildValues lists values with which forEachMutant replaces others.
var wildValues = []any{-1, json.Number("-9223372036854775808"), json.Number("9223372036854775807"), json.Number("18446744073709551615"), json.Number("1e300"),
	"", "../../../elsewhere/mine", "a\x00b", strings.Repeat("x", 1<<20), nil, true, []any{}, map[string]any{}, []any{nil}}

// forEachMutant calls do with every stride-th mutant of a JSON text. A mutant has a wild value in
// place of one value. forEachMutant returns the number of mutants, including skipped ones.
func forEachMutant(t *testing.T, text []byte, do func(description string, mutant []byte)) (n int) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var root any
	must(t, d.Decode(&root))
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(path+"."+key, v[key], func(x any) { v[key] = x })
			}
		case []any:
			for i := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), v[i], func(x any) { v[i] = x })
			}
		}
		if path == "" {
			return
		}
		for _, x := range wildValues {
			if n++; n%stride() != 0 {
				continue
			}
			set(x)
			mutant, err := json.Marshal(root)
			must(t, err)
			do(fmt.Sprintf("%s = %.30v", path, x), mutant)
		}
		set(v)
	}
	walk("", root, nil)
	return n
}

// runOnHostile runs a command on hostile input. It must either reject the input with a usage error,
// or accept it like any other run.
func runOnHostile(t *testing.T, description, command, dir string) (accepted bool) {
	t.Helper()
	code, _, errs := runLockpick(t, command, dir)
	refused := code == outcome.ExitUsage && strings.HasPrefix(errs, "error: ") && strings.Contains(errs, "hint: ")
	if code != outcome.ExitUsage {
		refused = slices.Contains([]int{outcome.ExitOK, outcome.ExitUnexpected, outcome.ExitUndecided}, code)
	}
	if !refused {
		t.Errorf("%s: %s: code %d\n%.1500s", description, command, code, errs)
	}
	return code != outcome.ExitUsage
}

// TestMutatedManifest replaces values in a real run.json, one at a time, with wild values.
func TestMutatedManifest(t *testing.T) {
	store, dir, _ := makeStoredRun(t, reportExample)
	f := newProtectedDir(t, store)
	text, err := os.ReadFile(filepath.Join(dir, campaign.ManifestFile))
	must(t, err)
	numAccepted, numDrawn := 0, 0
	n := forEachMutant(t, text, func(what string, mutant []byte) {
		must(t, os.WriteFile(filepath.Join(dir, campaign.ManifestFile), mutant, 0o644))
		if !runOnHostile(t, what, "check", dir) {
			return // the other commands read it with the same function
		}
		if numAccepted++; numAccepted%(1+10/stride()) == 0 {
			runOnHostile(t, what, "explain", dir)
			runOnHostile(t, what, "report", dir)
			numDrawn++
		}
		f.checkUnchanged(t, what)
	})
	if numTried := numAccepted * stride(); n < 1000 || numTried < 50 || numDrawn < 2 || numTried > n/5 {
		t.Errorf("unexpected numbers: %d mutants, %d accepted, %d drawn", n, numAccepted, numDrawn)
	}
}

// TestMutatedHistory mutates the first event of a real history, and some of the others.
func TestMutatedHistory(t *testing.T) {
	store, dir, _ := makeStoredRun(t, reportExample)
	f := newProtectedDir(t, store)
	path := unpackHistory(t, dir)
	text, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	n, numAccepted := 0, 0
	for i := 0; i < len(lines)-1; i += 1 + i*2 { // 0, 1, 4, 13, 40 …
		n += forEachMutant(t, lines[i], func(what string, mutant []byte) {
			mutatedText := slices.Concat(bytes.Join(lines[:i], nil), mutant, []byte("\n"), bytes.Join(lines[i+1:], nil))
			must(t, os.WriteFile(path, mutatedText, 0o644))
			what = fmt.Sprintf("line %d: %s", i+1, what)
			if !runOnHostile(t, what, "check", dir) {
				return
			}
			runOnHostile(t, what, "explain", dir)
			if numAccepted++; numAccepted%20 == 0 {
				runOnHostile(t, what, "report", dir)
			}
			f.checkUnchanged(t, what)
		})
	}
	if n < 500 || numAccepted*stride() < 100 {
		t.Errorf("only %d mutants, %d of them accepted", n, numAccepted)
	}
}

// TestMutatedOutcome mutates the outcome.json of a run and of a suite.
func TestMutatedOutcome(t *testing.T) {
	store, dir, suiteDir := makeStoredRun(t, reportExample)
	f := newProtectedDir(t, store)
	for _, d := range []string{dir, suiteDir} {
		path := filepath.Join(d, "outcome.json")
		text, err := os.ReadFile(path)
		must(t, err)
		k := 0
		n := forEachMutant(t, text, func(what string, mutant []byte) {
			if k++; d == dir && k%25 != 0 { // a run's outcome.json is read only when the whole run is drawn
				return
			}
			must(t, os.WriteFile(path, mutant, 0o644))
			runOnHostile(t, what, "report", d)
			f.checkUnchanged(t, what)
		})
		if n < 100 {
			t.Errorf("only %d mutants", n)
		}
		must(t, os.WriteFile(path, text, 0o644))
	}
}
