//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// checkRefused checks that lockpick exits with a usage error and prints a hint.
func checkRefused(t *testing.T, description string, args ...string) (errs string) {
	t.Helper()
	code, _, errs := runLockpick(t, args...)
	if code != outcome.ExitUsage || !strings.HasPrefix(errs, "error: ") || !strings.Contains(errs, "hint: ") || len(errs) > 5000 {
		t.Errorf("%s: lockpick %s: code %d\n%.1000s", description, strings.Join(args, " "), code, errs)
	}
	return errs
}

// makeStoredRun runs a scenario in the catalog, and returns the store, the run's directory, and the
// directory of a suite with that run.
func makeStoredRun(t *testing.T, name string) (store, dir, suiteDir string) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "store")
	picks, err := choice{names: []string{name}}.scenarios()
	must(t, err)
	o := campaign.Execute(context.Background(), sim.New(kinds.All), campaign.Job{Scenario: picks[0].Scenario, Seed: 1, Backend: simulation, Store: store, Keep: campaign.KeepAll, Version: "v1"})
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	s := &suites.Suite{Store: store, Backend: simulation, Seed: 1, Seeds: 1, StartTime: time.Unix(1e9, 0)}
	s.Add(o)
	suiteDir, err = suites.Write(s)
	must(t, err)
	return store, o.Dir, suiteDir
}

// unpackHistory replaces a run's compressed history with the uncompressed file that exists during a run,
// and returns that file's path.
func unpackHistory(t *testing.T, dir string) string {
	t.Helper()
	text, err := campaign.HistoryText(dir)
	must(t, err)
	path := filepath.Join(dir, campaign.HistoryFile)
	must(t, os.WriteFile(path, text, 0o644))
	must(t, os.Remove(filepath.Join(dir, campaign.PackedFile)))
	return path
}

const reportExample = "gc-pause-after-acquire/" // it violates a property, so it has every report

// A protectedDir is a directory next to the store. No command may change it.
type protectedDir struct{ dir, file string }

func newProtectedDir(t *testing.T, store string) protectedDir {
	f := protectedDir{dir: filepath.Join(filepath.Dir(store), "elsewhere")}
	f.file = filepath.Join(f.dir, "mine")
	must(t, os.Mkdir(f.dir, 0o755))
	must(t, os.WriteFile(f.file, []byte("mine"), 0o644))
	return f
}

func (f protectedDir) checkUnchanged(t *testing.T, description string) {
	t.Helper()
	text, err := os.ReadFile(f.file)
	all, _ := os.ReadDir(f.dir)
	if string(text) != "mine" || err != nil || len(all) != 1 {
		t.Fatalf("%s: a directory outside the store changed: %.40q and %v (%v)", description, text, all, err)
	}
}

// TestReportsAreNotWrittenThroughLinks checks that a symbolic or hard link in a report's place is
// replaced, and that the file that it points to stays unchanged.
func TestReportsAreNotWrittenThroughLinks(t *testing.T) {
	store, dir, suiteDir := makeStoredRun(t, reportExample)
	f := newProtectedDir(t, store)
	replaceWithLink := func(path string, makeLink func(old, new string) error) {
		os.RemoveAll(path)
		must(t, makeLink(f.file, path))
	}
	for name, makeLink := range map[string]func(old, new string) error{"link": os.Symlink, "hard link": os.Link} {
		reports, err := os.ReadDir(dir)
		must(t, err)
		for _, r := range reports {
			if r.Name() != campaign.ManifestFile && r.Name() != campaign.PackedFile && r.Name() != "outcome.json" && !r.IsDir() {
				replaceWithLink(filepath.Join(dir, r.Name()), makeLink)
			}
		}
		if code, _, errs := runLockpick(t, "report", dir); code != 0 {
			t.Errorf("%s: %s", name, errs)
		}
		f.checkUnchanged(t, "report of a run with a "+name)
		figures := filepath.Join(dir, "figures")
		pictures, err := os.ReadDir(figures)
		must(t, err)
		for _, p := range pictures {
			replaceWithLink(filepath.Join(figures, p.Name()), makeLink)
		}
		if code, _, errs := runLockpick(t, "report", dir); code != 0 {
			t.Errorf("%s: %s", name, errs)
		}
		f.checkUnchanged(t, "figures with a "+name)
		for _, file := range []string{suites.PageFile, suites.TextFile, "../../" + suites.IndexFile} {
			replaceWithLink(filepath.Join(suiteDir, file), makeLink)
		}
		if code, _, errs := runLockpick(t, "report", suiteDir); code != 0 {
			t.Errorf("%s: %s", name, errs)
		}
		f.checkUnchanged(t, "report of a suite with a "+name)
	}
}

// TestDirectoriesMayNotBeLinks checks that commands don't write into a directory that is a link to
// another place.
func TestDirectoriesMayNotBeLinks(t *testing.T) {
	store, dir, suiteDir := makeStoredRun(t, reportExample)
	f := newProtectedDir(t, store)
	figures := filepath.Join(dir, "figures")
	must(t, os.RemoveAll(figures))
	must(t, os.Symlink(f.dir, figures))
	checkRefused(t, "figures", "report", dir)
	f.checkUnchanged(t, "figures")
	must(t, os.Remove(figures))

	for _, d := range []string{dir, suiteDir} { // move the whole directory elsewhere
		target := filepath.Join(t.TempDir(), "away")
		must(t, os.CopyFS(target, os.DirFS(d)))
		entriesBefore, _ := os.ReadDir(target)
		link := filepath.Join(filepath.Dir(d), "latest")
		must(t, os.Remove(link))
		must(t, os.Symlink(target, link))
		checkRefused(t, "latest", "report", link)
		if entriesAfter, _ := os.ReadDir(target); len(entriesAfter) != len(entriesBefore) {
			t.Errorf("the files changed from %v to %v", entriesBefore, entriesAfter)
		}
		must(t, os.Remove(link))
		must(t, os.Symlink(filepath.Base(d), link))
		if code, _, errs := runLockpick(t, "report", link); code != 0 {
			t.Errorf("latest is a link to its sibling: %s", errs)
		}
	}

	historyLink := filepath.Join(t.TempDir(), "history.jsonl")
	must(t, os.Link(unpackHistory(t, dir), historyLink))
	must(t, os.Symlink(f.dir, historyLink+".report"))
	checkRefused(t, "FILE.report", "report", historyLink)
	f.checkUnchanged(t, "FILE.report")

	scenarioDir := filepath.Dir(dir)
	must(t, os.RemoveAll(scenarioDir))
	must(t, os.Symlink(f.dir, scenarioDir))
	picks, err := choice{names: []string{reportExample}}.scenarios()
	must(t, err)
	for _, isLive := range []bool{false, true} {
		o := campaign.Execute(context.Background(), sim.New(kinds.All), campaign.Job{Scenario: picks[0].Scenario, Seed: 1, Backend: simulation, Store: store, Keep: campaign.KeepAll, Live: isLive})
		if o.Code != outcome.ExitUsage || !strings.Contains(o.Error, "is not a directory, or is a link") {
			t.Errorf("a run into a link: code %d, %s", o.Code, o.Error)
		}
		f.checkUnchanged(t, "a scenario's folder")
	}
	all := filepath.Join(store, suites.Folder)
	must(t, os.RemoveAll(all))
	must(t, os.Symlink(f.dir, all))
	if _, err := suites.Write(&suites.Suite{Store: store, StartTime: time.Unix(1e9, 0)}); err == nil {
		t.Error("a suite was written into a link")
	}
	f.checkUnchanged(t, "the suites' folder")
}

// TestNoCommandWaitsForAFile checks that commands refuse special files and huge files at once,
// wherever they read a file.
func TestNoCommandWaitsForAFile(t *testing.T) {
	store, dir, suiteDir := makeStoredRun(t, reportExample)
	f := newProtectedDir(t, store)
	must(t, os.Mkdir(filepath.Join(store, "odd"), 0o755))
	historyPath := filepath.Join(dir, campaign.PackedFile)
	for name, create := range map[string]func(path string) error{
		"a pipe":        func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device":      func(path string) error { return os.Symlink("/dev/zero", path) },
		"a directory":   func(path string) error { return os.Mkdir(path, 0o755) },
		"a file beyond": func(path string) error { return os.Symlink(f.file, path) },
		"6 GB": func(path string) error {
			must(t, os.WriteFile(path, nil, 0o644))
			return os.Truncate(path, 6<<30)
		},
	} {
		withReplaced := func(path string, check func()) {
			backup := path + ".kept"
			must(t, os.Rename(path, backup))
			must(t, create(path))
			check()
			must(t, os.RemoveAll(path))
			must(t, os.Rename(backup, path))
		}
		for _, file := range []string{campaign.ManifestFile, campaign.PackedFile} {
			withReplaced(filepath.Join(dir, file), func() { checkRefusedRun(t, name, dir, file) })
		}
		must(t, os.Rename(historyPath, historyPath+".kept")) // a run in progress
		must(t, create(filepath.Join(dir, campaign.HistoryFile)))
		checkRefusedRun(t, name, dir, campaign.HistoryFile)
		must(t, os.RemoveAll(filepath.Join(dir, campaign.HistoryFile)))
		must(t, os.Rename(historyPath+".kept", historyPath))
		withReplaced(filepath.Join(dir, "outcome.json"), func() {
			// An interrupted run has no outcome.json, so lockpick can do without.
			if code, _, errs := runLockpick(t, "report", dir); code != 0 {
				t.Errorf("%s as outcome.json: %d %s", name, code, errs)
			}
			must(t, suites.Index(store))
		})
		withReplaced(filepath.Join(suiteDir, "outcome.json"), func() {
			checkRefused(t, name+" as a suite's outcome.json", "report", suiteDir)
			must(t, suites.Index(store))
		})
		for _, file := range []string{"odd.yaml", "odd.jsonl", "odd.edn"} {
			path := filepath.Join(store, file)
			must(t, create(path))
			switch {
			case name == "a directory", name == "a file beyond" && file != "odd.yaml":
			case file == "odd.yaml":
				checkRefused(t, name, "run", path)
			default:
				checkRefused(t, name, "check", path)
				checkRefused(t, name, "explain", path)
			}
			must(t, os.RemoveAll(path))
		}
		f.checkUnchanged(t, name)
	}
	for _, device := range []string{"/dev/zero", "/dev/stdin", "/dev/tty", "/proc/self/mem"} {
		if _, err := os.Stat(device); err == nil {
			checkRefused(t, device, "run", device)
			checkRefused(t, device, "check", device)
		}
	}
}

// checkRefusedRun checks that every command refuses a run in which file is unacceptable.
func checkRefusedRun(t *testing.T, description, dir, file string) {
	t.Helper()
	for _, command := range []string{"check", "explain", "report", "replay"} {
		errs := checkRefused(t, description+" as "+file, command, dir)
		if description == "6 GB" && !strings.Contains(errs, "6442450944") {
			t.Errorf("the error does not contain the size: %s", errs)
		}
	}
}

func TestNoCommandWaitsForAReader(t *testing.T) {
	store := t.TempDir()
	pipe := filepath.Join(store, "junit")
	must(t, syscall.Mkfifo(pipe, 0o600))
	checkRefused(t, "a pipe without a reader", "run", reportExample, "--store", store, "--junit", pipe)
}

// TestImpossibleSuite checks that a suite's outcome.json with impossible values is refused.
func TestImpossibleSuite(t *testing.T) {
	_, _, suiteDir := makeStoredRun(t, reportExample)
	path := filepath.Join(suiteDir, suites.OutcomeFile)
	text, err := os.ReadFile(path)
	must(t, err)
	for _, replacement := range [][2]string{
		{`"code": 0`, `"code": 7`}, {`"seeds": 1`, `"seeds": -1`}, {`"runs": 1`, `"runs": 9223372036854775807`}, {`"events": `, `"events": -`},
		{`"schema": 1`, `"schema": 2`}, {`"seeds": 1`, `"rates": ["../../../x.svg"], "seeds": 1`}, {`"scenarios": [`, `"scenarios": [` + strings.Repeat("{},", 300_000)},
	} {
		changedText := strings.Replace(string(text), replacement[0], replacement[1], 1)
		if changedText == string(text) {
			t.Errorf("outcome.json does not contain %s", replacement[0])
		}
		must(t, os.WriteFile(path, []byte(changedText), 0o644))
		checkRefused(t, fmt.Sprintf("%.60s", replacement[1]), "report", suiteDir)
	}
}

// TestReplayRejectsInvalidManifest checks that replay validates run.json. A client whose name was a
// path once overwrote a file outside the store.
func TestReplayRejectsInvalidManifest(t *testing.T) {
	store, dir, _ := makeStoredRun(t, reportExample)
	f := newProtectedDir(t, store)
	path := filepath.Join(dir, campaign.ManifestFile)
	text, err := os.ReadFile(path)
	must(t, err)
	for _, backend := range []string{"sim", "process"} {
		changedText := strings.Replace(strings.Replace(string(text), `"name": "c1"`, `"name": "../../../elsewhere/mine"`, 1), `"backend": "sim"`, `"backend": "`+backend+`"`, 1)
		must(t, os.WriteFile(path, []byte(changedText), 0o644))
		errs := checkRefused(t, "client", "replay", dir)
		if !strings.Contains(errs, `run.json: scenario.clients[0].name: "../../../elsewhere/mine" is not a valid name for a client`) {
			t.Error(errs)
		}
		f.checkUnchanged(t, "replay")
	}
	var m map[string]any
	must(t, json.Unmarshal(text, &m))
	m["colour"] = "red"
	textWithUnknownField, err := json.Marshal(m)
	must(t, err)
	must(t, os.WriteFile(path, textWithUnknownField, 0o644))
	checkRefused(t, "an unknown field", "check", dir)
}
