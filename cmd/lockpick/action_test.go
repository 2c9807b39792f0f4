package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"go.yaml.in/yaml/v3"
)

const actionFile = ".github/actions/lockpick/action.yml"

// action is a composite action, as far as its steps are run here.
type action struct {
	Inputs  map[string]struct{ Default string }
	Outputs map[string]struct{ Value string }
	Runs    struct{ Steps []actionStep }
}

type actionStep struct {
	ID, Name, Uses, Run, Shell string
	Env                        map[string]string
}

func readAction(t *testing.T, root string) action {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, actionFile))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// Our workflows, one that uses the action, and the README's are what GitHub takes.
func TestActionLints(t *testing.T) {
	root := repository(t)
	uses, err := os.ReadFile("testdata/workflow.yml")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]byte{"testdata/workflow.yml": uses, "README.md": []byte(readmeBlock(t, "uses: OWNER/lockpick"))}
	ours, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || len(ours) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, path := range ours {
		if texts[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range texts {
		for _, e := range linted(t, root, text) {
			t.Errorf("%s: %v", name, e)
		}
	}
	for old, wrong := range map[string]string{"seeds: 20": "sides: 20", "outputs.verdict": "outputs.verdikt"} {
		if len(linted(t, root, bytes.Replace(uses, []byte(old), []byte(wrong), 1))) == 0 {
			t.Errorf("%s was not found wrong", wrong)
		}
	}
}

// linted is what actionlint says of a workflow of this repository.
func linted(t *testing.T, root string, text []byte) []*actionlint.Error {
	t.Helper()
	p, err := actionlint.NewProject(root)
	if err != nil {
		t.Fatal(err)
	}
	l, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	errs, err := l.Lint(filepath.Join(root, ".github/workflows/x.yml"), text, p)
	if err != nil {
		t.Fatal(err)
	}
	return errs
}

// readmeBlock is the YAML of the README in which some words stand.
func readmeBlock(t *testing.T, words string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
		if bytes.Contains(m[1], []byte(words)) {
			return string(m[1])
		}
	}
	t.Fatalf("README.md has no YAML with %q", words)
	return ""
}

// GitLab's job keeps the file that it has lockpick write.
func TestReadmeGitLab(t *testing.T) {
	var jobs map[string]struct {
		Script    []string
		Artifacts struct {
			Paths   []string
			Reports struct{ JUnit string }
		}
	}
	if err := yaml.Unmarshal([]byte(readmeBlock(t, "junit:")), &jobs); err != nil {
		t.Fatal(err)
	}
	j := jobs["locks"]
	if file := j.Artifacts.Reports.JUnit; file == "" || !strings.Contains(strings.Join(j.Script, "\n"), "--junit "+file) {
		t.Errorf("it keeps %q: %v", file, j)
	}
}

// What a user writes never becomes part of a script.
func TestActionScriptsHoldNoExpressions(t *testing.T) {
	for _, s := range readAction(t, repository(t)).Runs.Steps {
		if strings.Contains(s.Run, "${{") {
			t.Errorf("%s: an expression in its script: pass it by env", s.Name)
		}
		if s.Run != "" && s.Shell != "bash" {
			t.Errorf("%s has no shell", s.Name)
		}
	}
}

// The action's scripts do in a job's folder what its outputs say.
func TestActionRuns(t *testing.T) {
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
			outputs, code := runAction(t, job, c.inputs)
			if code != c.code || outputs["run.verdict"] != c.verdict || outputs["run.code"] != fmt.Sprint(c.code) {
				t.Errorf("exit code %d, outputs %v", code, outputs)
			}
			if _, err := os.Stat(filepath.Join(job, "pwned")); err == nil {
				t.Error("an input was executed")
			}
			if c.code == 64 {
				return
			}
			for output, holds := range map[string]string{"run.report": ".html", "run.junit": "<testsuites"} {
				if text, err := os.ReadFile(filepath.Join(job, outputs[output])); err != nil || !bytes.Contains(text, []byte(holds)) {
					t.Errorf("%s: %v", output, err)
				}
			}
			if text, err := os.ReadFile(filepath.Join(job, "summary.md")); err != nil || !bytes.HasPrefix(text, []byte("## lockpick: ")) {
				t.Errorf("summary: %v\n%s", err, text)
			}
		})
	}
}

// runAction runs the steps that are scripts, in order, as GitHub's runner does: up to
// the first that fails.
func runAction(t *testing.T, job string, inputs map[string]string) (outputs map[string]string, code int) {
	t.Helper()
	root := repository(t)
	a := readAction(t, root)
	outputs = map[string]string{}
	expression := regexp.MustCompile(`\$\{\{ *([a-z_.]+) *\}\}`)
	value := func(name string) string {
		kind, rest, _ := strings.Cut(name, ".")
		switch in, given := inputs[rest]; {
		case name == "github.action_path":
			return filepath.Dir(filepath.Join(root, actionFile))
		case kind == "inputs" && given:
			return in
		case kind == "inputs":
			return a.Inputs[rest].Default
		}
		return outputs[strings.Replace(rest, ".outputs.", ".", 1)]
	}
	for i, s := range a.Runs.Steps {
		if s.Run == "" {
			continue
		}
		file := filepath.Join(job, fmt.Sprint("output", i))
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
		cmd.Dir = job
		cmd.Env = append(os.Environ(), "GITHUB_ACTIONS=true", "GITHUB_OUTPUT="+file, "GITHUB_STEP_SUMMARY="+filepath.Join(job, "summary.md"))
		for k, v := range s.Env {
			cmd.Env = append(cmd.Env, k+"="+expression.ReplaceAllStringFunc(v, func(m string) string { return value(expression.FindStringSubmatch(m)[1]) }))
		}
		said, err := cmd.CombinedOutput()
		if code = cmd.ProcessState.ExitCode(); err != nil && code < 1 {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(file) // a step may have none
		for line := range strings.Lines(string(text)) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			outputs[s.ID+"."+k] = v
		}
		if code != 0 {
			t.Logf("%s: exit code %d\n%s", s.Name, code, said)
			return outputs, code
		}
	}
	return outputs, code
}
