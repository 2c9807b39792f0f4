//go:build long && !windows

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestActionRuns runs the action's scripts as a job would, and checks the action's outputs against
// their effects. The first job builds lockpick, and the others use that binary.
func TestActionRuns(t *testing.T) {
	var buildOutputs map[string]string
	for name, c := range map[string]struct {
		inputs  map[string]string
		verdict string
		code    int
	}{
		"ok":         {map[string]string{"scenarios": "minority-down/ skewed-clock*", "seeds": "2"}, "ok", 0},
		"unexpected": {map[string]string{"scenarios": "minority-down/", "args": "--set=lock.ttl=9s\n--expect=mutual-exclusion=violated\n"}, "unexpected", 1},
		"hostile":    {map[string]string{"scenarios": "$(touch${IFS}pwned) `touch pwned` \"; touch pwned; \"", "args": "$(touch pwned)"}, "failed", 64},
	} {
		t.Run(name, func(t *testing.T) {
			job := t.TempDir()
			outputs, code := runAction(t, job, c.inputs, buildOutputs)
			if buildOutputs == nil {
				buildOutputs = map[string]string{"build.bin": outputs["build.bin"]}
			}
			if code != c.code || outputs["run.verdict"] != c.verdict || outputs["run.code"] != fmt.Sprint(c.code) {
				t.Errorf("exit code %d, outputs %v", code, outputs)
			}
			if _, err := os.Stat(filepath.Join(job, "pwned")); err == nil {
				t.Error("an input was executed")
			}
			if c.code == 64 {
				return
			}
			for output, content := range map[string]string{"run.report": ".html", "run.junit": "<testsuites"} {
				if text, err := os.ReadFile(filepath.Join(job, outputs[output])); err != nil || !bytes.Contains(text, []byte(content)) {
					t.Errorf("%s: %v", output, err)
				}
			}
			if text, err := os.ReadFile(filepath.Join(job, "summary.md")); err != nil || !bytes.HasPrefix(text, []byte("## lockpick: ")) {
				t.Errorf("summary: %v\n%s", err, text)
			}
		})
	}
}

// runAction runs the action's scripts in order until one fails, as GitHub's runner does. It skips
// the build step if buildOutputs contains that step's outputs from an earlier job.
func runAction(t *testing.T, job string, inputs, buildOutputs map[string]string) (outputs map[string]string, code int) {
	t.Helper()
	root := repositoryRoot(t)
	a := readAction(t, root)
	outputs = maps.Clone(buildOutputs)
	if outputs == nil {
		outputs = map[string]string{}
	}
	expression := regexp.MustCompile(`\$\{\{ *([a-z_.]+) *\}\}`)
	value := func(name string) string {
		kind, key, _ := strings.Cut(name, ".")
		switch input, ok := inputs[key]; {
		case name == "github.action_path":
			return filepath.Dir(filepath.Join(root, actionFile))
		case kind == "inputs" && ok:
			return input
		case kind == "inputs":
			return a.Inputs[key].Default
		}
		return outputs[strings.Replace(key, ".outputs.", ".", 1)]
	}
	for i, s := range a.Runs.Steps {
		if s.Run == "" || s.ID == "build" && buildOutputs != nil {
			continue
		}
		file := filepath.Join(job, fmt.Sprint("output", i))
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
		cmd.Dir = job
		cmd.Env = append(os.Environ(), "GITHUB_ACTIONS=true", "GITHUB_OUTPUT="+file, "GITHUB_STEP_SUMMARY="+filepath.Join(job, "summary.md"))
		for k, v := range s.Env {
			cmd.Env = append(cmd.Env, k+"="+expression.ReplaceAllStringFunc(v, func(m string) string { return value(expression.FindStringSubmatch(m)[1]) }))
		}
		output, err := cmd.CombinedOutput()
		if code = cmd.ProcessState.ExitCode(); err != nil && code < 1 {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(file) // a step may have no outputs
		for line := range strings.Lines(string(text)) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			outputs[s.ID+"."+k] = v
		}
		if code != 0 {
			t.Logf("%s: exit code %d\n%s", s.Name, code, output)
			return outputs, code
		}
	}
	return outputs, code
}
