package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"go.yaml.in/yaml/v3"
)

const actionFile = ".github/actions/lockpick/action.yml"

// action is the part of a composite action that is needed to run its steps.
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

func repositoryRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestActionLints runs actionlint on the project's own workflows, on a workflow that uses the
// action, and on the example in the README.
func TestActionLints(t *testing.T) {
	root := repositoryRoot(t)
	workflow, err := os.ReadFile("testdata/workflow.yml")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]byte{"testdata/workflow.yml": workflow, "README.md": []byte(readmeBlock(t, "../../README.md", "uses: OWNER/lockpick"))}
	workflows, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, path := range workflows {
		if texts[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range texts {
		for _, e := range lint(t, root, text) {
			t.Errorf("%s: %v", name, e)
		}
	}
	for original, mistake := range map[string]string{"seeds: 20": "sides: 20", "outputs.verdict": "outputs.verdikt"} {
		if len(lint(t, root, bytes.Replace(workflow, []byte(original), []byte(mistake), 1))) == 0 {
			t.Errorf("actionlint accepts %s", mistake)
		}
	}
}

// lint returns actionlint's errors in a workflow of this repository.
func lint(t *testing.T, root string, text []byte) []*actionlint.Error {
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

// TestActionPins checks that workflows and actions refer to other actions by commit: unlike a tag, a
// commit always means the same code.
func TestActionPins(t *testing.T) {
	root := repositoryRoot(t)
	var files []string
	for _, pattern := range []string{".github/workflows/*.yml", ".github/actions/*/action.yml"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		files = append(files, paths...)
	}
	usesPattern := regexp.MustCompile(`(?m)^[ -]*uses: *(.*)$`)
	pinnedPattern := regexp.MustCompile(`^(\./\S*|[\w-]+/[\w/.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range usesPattern.FindAllStringSubmatch(string(text), -1) {
			if !pinnedPattern.MatchString(m[1]) {
				t.Errorf("%s: %s is not pinned: want OWNER/NAME@COMMIT # v1.2.3", filepath.Base(path), m[1])
			}
		}
	}
}

// readmeBlock returns the YAML block that contains the given words in a README.
func readmeBlock(t *testing.T, path, words string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
		if bytes.Contains(m[1], []byte(words)) {
			return string(m[1])
		}
	}
	t.Fatalf("%s has no YAML with %q", path, words)
	return ""
}

// TestReadmeGitLab checks that the GitLab job keeps the JUnit file that lockpick writes.
func TestReadmeGitLab(t *testing.T) {
	var jobs map[string]struct {
		Script    []string
		Artifacts struct {
			Paths   []string
			Reports struct{ JUnit string }
		}
	}
	if err := yaml.Unmarshal([]byte(readmeBlock(t, "README.md", "junit:")), &jobs); err != nil {
		t.Fatal(err)
	}
	j := jobs["locks"]
	if file := j.Artifacts.Reports.JUnit; file == "" || !strings.Contains(strings.Join(j.Script, "\n"), "--junit "+file) {
		t.Errorf("the job keeps %q: %v", file, j)
	}
}

// TestActionScriptsHaveNoExpressions checks that user input never becomes part of a script.
func TestActionScriptsHaveNoExpressions(t *testing.T) {
	for _, s := range readAction(t, repositoryRoot(t)).Runs.Steps {
		if strings.Contains(s.Run, "${{") {
			t.Errorf("%s: script contains an expression; pass it through env", s.Name)
		}
		if s.Run != "" && s.Shell != "bash" {
			t.Errorf("%s has no shell", s.Name)
		}
	}
}
