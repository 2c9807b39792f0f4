//go:build long && !windows

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/scenarios/campaign"
)

// buildWithNewFaults builds lockpick with two additional kinds of fault, and returns the binary's
// path. limp, the example in CONTRIBUTING.md, lasts for a while; forget is instantaneous. Each
// consists of a file in package nemesis, a file in the backend that supports it, and an entry in
// the table of kinds.
func buildWithNewFaults(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	kindsFile := filepath.Join(root, "nemesis", "kinds.go")
	text, err := os.ReadFile(kindsFile)
	if err != nil {
		t.Fatal(err)
	}
	const line = "var Kinds = []Kind{"
	if strings.Count(string(text), line) != 1 {
		t.Fatalf("%s does not have %q once", kindsFile, line)
	}
	dir := t.TempDir()
	newKindsFile := filepath.Join(dir, "kinds.go")
	if err := os.WriteFile(newKindsFile, []byte(strings.Replace(string(text), line, line+"limp, forget, ", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	overlayFiles := map[string]string{kindsFile: newKindsFile}
	example, err := txtar.ParseFile("testdata/contributing/fault.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []string{"nemesis/limp.go", "harness/sim/limp.go"} {
		j := slices.IndexFunc(example.Files, func(f txtar.File) bool { return f.Name == at })
		path := filepath.Join(dir, fmt.Sprintf("limp%d.go", i))
		if err := os.WriteFile(path, example.Files[j].Data, 0o644); err != nil {
			t.Fatal(err)
		}
		overlayFiles[filepath.Join(root, at)] = path
	}
	for name, at := range map[string]string{"nemesis": "nemesis", "sim": "harness/sim"} {
		overlayFiles[filepath.Join(root, at, "forget.go")] = filepath.Join(root, "cmd/lockpick/testdata/madeup", name+"_forget.go")
	}
	overlay, err := json.Marshal(map[string]any{"Replace": overlayFiles})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "lockpick")
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// newFaultsScenario is the file of a scenario with both faults.
const newFaultsScenario = "testdata/madeup/limps.yaml"

func checkContains(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in %.2000s", w, text)
		}
	}
}

// TestNewFaultNeedsOneFile checks that new kinds of fault appear in help, are validated, drawn and
// verified, occur in random plans, and are reported as missing on backends that don't support them.
func TestNewFaultNeedsOneFile(t *testing.T) {
	binary, store := buildWithNewFaults(t), t.TempDir()
	runBinary := func(t *testing.T, code int, args ...string) string {
		t.Helper()
		cmd := exec.Command(binary, args...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code {
			t.Fatalf("lockpick %s: exit code %d, want %d:\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), code, out)
		}
		return string(out)
	}
	t.Run("help", func(t *testing.T) {
		checkContains(t, runBinary(t, 0, "help", "faults"), "makes a node answer every request late", "power: limp-node", "power: forget-node")
		checkContains(t, runBinary(t, 0, "show", "--schema"), `"limp"`, `"forget"`)
		checkContains(t, runBinary(t, 64, "run", newFaultsScenario, "--set", "plan.1.fault.by=1s"), `the limp fault has no field "by"`, "^", "hint: leave it out")
	})
	t.Run("drawn", func(t *testing.T) {
		runBinary(t, 0, "run", newFaultsScenario, "--store", store)
		run := filepath.Join(store, "limps", "latest")
		checkContains(t, runBinary(t, 0, "explain", run), "n1 begins to limp", "n1 limped from", "n5 forgets everything", "n5 forgot everything (was run_id", "░ paused")
		report, err := os.ReadFile(filepath.Join(run, "report.html"))
		if err != nil {
			t.Fatal(err)
		}
		checkContains(t, string(report), "limping node: n1", "emptied node: n5", `"limp n1`, `"forget n5`, "read back: PING through c2-n1: PONG after 1.00")
		eventTypes := eventTypesByFault(t, filepath.Join(run, campaign.PackedFile))
		if want := map[string]string{"limp": "begin end ", "forget": "begin "}; !maps.Equal(eventTypes, want) {
			t.Errorf("the history has %v, want %v", eventTypes, want)
		}
		runBinary(t, 0, "check", run)
		checkContains(t, runBinary(t, 0, "replay", run), "the same history, byte for byte")
	})
	t.Run("dice", func(t *testing.T) {
		drawnKinds := map[string]string{}
		for _, seed := range []string{"1", "2"} {
			runBinary(t, 0, "run", newFaultsScenario+"/dice", "--seed", seed, "--store", store)
			maps.Copy(drawnKinds, eventTypesByFault(t, filepath.Join(store, "limps+dice", "latest", campaign.PackedFile)))
		}
		if len(drawnKinds) != 2 {
			t.Errorf("random plans drew %v", drawnKinds)
		}
	})
	t.Run("other-backends", func(t *testing.T) {
		var capabilities map[string][]harness.Capability
		if err := json.Unmarshal([]byte(runBinary(t, 0, "doctor", "--json")), &capabilities); err != nil {
			t.Fatal(err)
		}
		for backend, all := range capabilities {
			for _, name := range []string{"limp-node", "forget-node"} {
				i := slices.IndexFunc(all, func(c harness.Capability) bool { return c.Name == name })
				if i < 0 || all[i].Available != (backend == simulation) || !all[i].Available && (all[i].Reason == "" || all[i].Remedy == "") {
					t.Errorf("doctor on %s of %s: %+v", name, backend, all)
				}
			}
			switch {
			case backend == simulation:
			case all[0].Available:
				checkContains(t, runBinary(t, 3, "run", newFaultsScenario, "--backend", backend, "--store", store), "skipped", "limp-node: ", "forget-node: ")
			default:
				checkContains(t, runBinary(t, 3, "run", newFaultsScenario, "--backend", backend, "--store", store), all[0].Reason)
			}
		}
	})
}

// eventTypesByFault lists the event types, except invocations, of each kind of fault in a history.
func eventTypesByFault(t *testing.T, path string) map[string]string {
	t.Helper()
	h, err := history.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, e := range h.Events {
		if e.Process == history.Nemesis && e.Type != history.Invoke && e.Op != history.OpClock {
			types[e.Op] += string(e.Type) + " "
		}
	}
	return types
}
