//go:build nightly && linux

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/harness/history"
	adapters "lockpick/harness/lock/exec"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// checkAdapter checks that an adapter passes "adapter check".
func checkAdapter(t *testing.T, binary, dir, command string) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"adapter", "check"}, strings.Fields(command)...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("adapter check %s: %v\n%s", command, err, out)
	}
}

// TestStarters checks that the adapters that "adapter new" writes pass "adapter check" unchanged.
func TestStarters(t *testing.T) {
	binary := build(t)
	for _, s := range adapters.Starters {
		t.Run(s.Lang, func(t *testing.T) {
			dir, folder := t.TempDir(), ""
			if s.Lang != "go" {
				folder = installAdapters(t, s.Lang)
			}
			if out, err := exec.Command(binary, "adapter", "new", "--lang", s.Lang, dir).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if s.Build != "" {
				words := strings.Fields(s.Build)
				cmd := exec.Command(words[0], words[1:]...)
				// Keep the dependencies that cargo has compiled. Drop GOFLAGS,
				// which are for this module.
				cacheDir := filepath.Join(folder, s.Lang, "starter")
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "CARGO_TARGET_DIR="+cacheDir)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", s.Build, err, out)
				}
				if s.Lang == "rust" {
					if err := os.Symlink(cacheDir, filepath.Join(dir, "target")); err != nil {
						t.Fatal(err)
					}
				}
			}
			// python3 may be a version manager's shim, which can't be checked.
			command := strings.Replace(s.Run, "python3", filepath.Join(folder, "python/.venv/bin/python"), 1)
			checkAdapter(t, binary, dir, command)
		})
	}
}

// baselineViolations maps adapters to the property that their library violates even without faults.
// node-redlock 5 counts the lease from before the first attempt, so an acquire with several attempts
// may return a lease that has ended.
var baselineViolations = map[string]string{"node-redlock-5": "valid-on-return"}

// TestShippedAdapters checks that each adapter in the repository passes "adapter check", and that
// its library passes a run without faults.
func TestShippedAdapters(t *testing.T) {
	binary := build(t)
	for _, s := range adapters.Libraries {
		t.Run(s.Name, func(t *testing.T) {
			command := s.Command(installAdapters(t, s.Set))
			checkAdapter(t, binary, ".", command)
			args := []string{"run", "baseline/", "--backend", "process", "--adapter", command}
			if property := baselineViolations[s.Name]; property != "" {
				args = append(args, "--expect", property+"=any")
			}
			code, all := outcomes(t, binary, args...)
			if code != 0 || len(all) != 1 {
				t.Errorf("exit code %d, %d runs", code, len(all))
			}
			checkOutcomes(t, all)
		})
	}
}

// TestExtensionsOnFailedNodesAreUnknown extends locks while most nodes are down. No node refuses,
// so the adapter must not answer not-held, although these libraries report failed nodes as
// refusals.
func TestExtensionsOnFailedNodesAreUnknown(t *testing.T) {
	binary := build(t)
	for _, s := range adapters.Libraries {
		options := map[string][]string{"rslock": nil, "pottery": {"--set", "lock.options.extensions=unlimited"}}
		extraArgs, ok := options[s.Name]
		if !ok {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			needRedis(t)
			args := []string{"run", "majority-down/", "--backend", "process", "--adapter", s.Command(installAdapters(t, s.Set)), "--set", "workload.extend=300ms"}
			_, all := outcomes(t, binary, append(args, extraArgs...)...)
			if len(all) != 1 {
				t.Fatalf("%d runs", len(all))
			}
			h, err := history.ReadFile(filepath.Join(all[0].Dir, campaign.PackedFile))
			if err != nil {
				t.Fatal(err)
			}
			numUnknown := 0
			for _, e := range h.Events {
				switch {
				case e.Op != history.OpExtend || strings.Contains(e.Process, "-"): // events on links belong to the nodes
				case e.Type == history.Fail:
					t.Errorf("event %d: %s", e.N, e.Cause)
				case e.Type == history.Info:
					numUnknown++
				}
			}
			if numUnknown == 0 {
				t.Error("no extension was attempted while nodes were down")
			}
		})
	}
}

// TestAdaptersWithStubs runs adapters whose libraries can't be installed here on stubs of the
// libraries. It tests only the adapters.
func TestAdaptersWithStubs(t *testing.T) {
	binary := build(t)
	root, err := filepath.Abs("../../harness/lock/exec/adapters")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DENO_NO_UPDATE_CHECK", "1")
	t.Setenv("DENO_DIR", t.TempDir())
	for _, s := range []struct {
		set      string
		build    string // "" means no build step
		commands []string
	}{
		{"ruby", "", []string{"ruby -I $stub redlock.rb"}},
		{"perl", "", []string{"perl -I $stub redis_distlock.pl"}},
		{"php", "", []string{"php -d include_path=$stub cheprasov.php"}},
		{"csharp", "mcs -out:$out/redlock.exe -r:System.Runtime.Serialization.dll -r:System.Xml.dll -r:System.Xml.Linq.dll Lockpick.cs RedLockNet.cs $stub/RedLockNet.cs",
			[]string{"mono $out/redlock.exe"}},
		{"cpp", "g++ -std=c++17 -I $stub -o $out/redlock redlock.cpp -lhiredis -pthread", []string{"$out/redlock lock", "$out/redlock continue"}},
		{"deno", "", []string{"$installed/deno run -A --no-config --no-lock --no-remote --import-map $stub/deno/imports.json redlock.js"}},
	} {
		t.Run(s.set, func(t *testing.T) {
			dirs := map[string]string{"stub": filepath.Join(root, "stub"), "out": t.TempDir(), "installed": filepath.Join(installAdapters(t, s.set), s.set)}
			expandVars := func(command string) string {
				return os.Expand(command, func(name string) string { return dirs[name] })
			}
			if words := strings.Fields(expandVars(s.build)); len(words) > 0 {
				cmd := exec.Command(words[0], words[1:]...)
				cmd.Dir = filepath.Join(root, s.set)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", s.build, err, out)
				}
			}
			for _, command := range s.commands {
				checkAdapter(t, binary, filepath.Join(root, s.set), expandVars(command))
			}
		})
	}
}

// TestRenewedInRuns runs libraries that extend their locks automatically, with holds longer than the
// TTL. Extensions that an adapter reports must be recorded and move the deadline. node-redlock's
// using() reports none.
func TestRenewedInRuns(t *testing.T) {
	binary := build(t)
	dir := t.TempDir()
	for name, command := range map[string]func(t *testing.T) string{
		"plain": func(t *testing.T) string { return linkToSelf(t, dir, adapterName) + " renews" },
		"using": func(t *testing.T) string { return adapters.Libraries[2].Command(installAdapters(t, "node")) },
	} {
		t.Run(name, func(t *testing.T) {
			needRedis(t)
			code, all := outcomes(t, binary, "run", "baseline/", "--backend", "process", "--adapter", command(t),
				"--set", "lock.ttl=2s", "--set", "workload.hold=5s", "--set", "workload.cycles=1", "--scale", "0.5")
			if code != 0 || len(all) != 1 {
				t.Fatalf("exit code %d, %d runs", code, len(all))
			}
			h, err := history.ReadFile(filepath.Join(all[0].Dir, campaign.PackedFile))
			if err != nil {
				t.Fatal(err)
			}
			deadlines, numRenewals := map[string]int64{}, 0
			for _, e := range h.Events {
				if e.Type != history.OK || strings.Contains(e.Process, "-") { // events on links carry no deadline
					continue
				}
				switch e.Op {
				case history.OpAcquire:
					deadlines[e.Process] = e.ValidUntil
				case history.OpExtend:
					if e.ValidUntil <= deadlines[e.Process] {
						t.Errorf("event %d: %s is renewed until %d, which is not later than %d", e.N, e.Process, e.ValidUntil, deadlines[e.Process])
					}
					deadlines[e.Process] = e.ValidUntil
					numRenewals++
				case history.OpWrite:
					if deadline := deadlines[e.Process]; deadline != 0 && e.T > deadline {
						t.Errorf("event %d: %s writes at %d, but its belief ended at %d", e.N, e.Process, e.T, deadlines[e.Process])
					}
				}
			}
			if (numRenewals > 0) != (name == "plain") {
				t.Errorf("recorded %d extensions", numRenewals)
			}
			for _, j := range all[0].Judgements {
				if j.Got == "violated" {
					t.Errorf("%s violated: %s", j.Property, j.Because)
				}
			}
		})
	}
}

var pausesAndCuts = flag.Int("pauses-and-cuts", 10, "number of runs per language in TestPausesAndCuts")

// TestPausesAndCuts checks that a correct lock behind an adapter stays correct while clients are
// paused and links are cut, and that no adapter fails.
func TestPausesAndCuts(t *testing.T) {
	binary := build(t)
	for _, lang := range []string{"node", "python"} {
		t.Run(lang, func(t *testing.T) {
			s, _ := adapters.FindStarter(lang)
			folder := installAdapters(t, lang)
			command := fmt.Sprintf("%s %s", strings.Fields(s.Run)[0], filepath.Join(folder, lang, strings.Fields(s.Run)[1]))
			command = strings.Replace(command, "python3", filepath.Join(folder, "python/.venv/bin/python"), 1)
			_, all := outcomes(t, binary, "run", "testdata/pauses-and-cuts.yaml", "--backend", "process", "--adapter", command,
				"--seeds", fmt.Sprint(*pausesAndCuts), "--jobs", flag.Lookup("test.parallel").Value.String())
			if len(all) != *pausesAndCuts {
				t.Errorf("%d runs, want %d", len(all), *pausesAndCuts)
			}
			for _, o := range all {
				if o.Error != "" {
					t.Errorf("seed %d: %s", o.Seed, o.Error)
				}
				for _, j := range o.Judgements {
					if j.Got == "violated" && j.Property != "resource-safety" { // a pause outlasts the lease
						t.Errorf("seed %d: %s violated: %s", o.Seed, j.Property, j.Because)
					}
				}
			}
		})
	}
}

// TestWrongAdaptersInRuns checks that a run reports the mistake of a faulty adapter, ends, and
// leaves neither processes nor folders behind.
func TestWrongAdaptersInRuns(t *testing.T) {
	needRedis(t)
	binary, dir := build(t), t.TempDir()
	adapter := linkToSelf(t, dir, adapterName)
	shim := filepath.Join(dir, "shim")
	if err := os.WriteFile(shim, []byte("#!/usr/bin/env -S "+adapter+"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		wrong, scenario string // scenario with flags
		code            int
		want            string // part of the output: an error, or the cause of a violation
	}{
		{"releases-nothing", "baseline/ --set lock.ttl=60s --expect fault-tolerance=holds", outcome.ExitUnexpected, "left-keys"},
		{"lies", "gc-pause-after-acquire/", outcome.ExitUnexpected, "given-shorter"},
		{"hangs-later", "baseline/", outcome.ExitUnexpected, "hung"},
		// Two seconds without answers must not be enough to blame the lock.
		{"is-silent-later", "baseline/ --scale 0.5", outcome.ExitBackend, "no answer to ping within"},
		{"garbage-later", "baseline/", outcome.ExitBackend, `violates the protocol: "redis: connected`},
		{"dies-later", "baseline/", outcome.ExitBackend, "panic: no more memory"},
		{"another-id-later", "baseline/", outcome.ExitBackend, "which was not asked"},
		{"answers-twice", "baseline/", outcome.ExitBackend, "which is an unknown request or was already answered"},
		{"long-lines-later", "baseline/", outcome.ExitBackend, "longer than 65536 bytes"},
		{"leaves-a-child", "baseline/", outcome.ExitOK, ""},
		{"by a shim", "wall-clock-forward/", outcome.ExitOK, ""}, // lockpick starts the program that the shim executes
	} {
		t.Run(c.wrong, func(t *testing.T) {
			command, tempDir := adapter+" "+c.wrong, t.TempDir()
			if c.wrong == "by a shim" {
				command = shim
			}
			args := append([]string{"run", "--backend", "process", "--adapter", command, "--store", t.TempDir(), "-v"}, strings.Fields(c.scenario)...)
			cmd := exec.Command(binary, args...)
			cmd.Env = append(os.Environ(), "TMPDIR="+tempDir)
			out, _ := cmd.CombinedOutput()
			code := cmd.ProcessState.ExitCode()
			if code != c.code && c.code == outcome.ExitUnexpected && strings.Contains(string(out), "the host stalled") {
				t.Log("the host stalled, so the result says nothing about the adapter")
			} else if code != c.code || !strings.Contains(string(out), c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.want, out)
			}
			if leftovers, err := os.ReadDir(tempDir); err != nil || len(leftovers) > 0 {
				t.Errorf("left behind: %v, %v", leftovers, err)
			}
			if leftovers, _ := exec.Command("pgrep", "-af", tempDir+"|"+adapter).Output(); len(leftovers) > 0 {
				t.Errorf("processes left behind:\n%s", leftovers)
			}
		})
	}
}
