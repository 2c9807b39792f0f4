package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeIsShort limits the README to what people can read in five minutes.
func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(text))); n > 1200 {
		t.Errorf("README.md has %d words, at most 1,200: move text about a package into its README", n)
	}
}

// TestGuaranteesNameScenarios checks that every scenario named in the lock's documentation exists,
// and that each row under "Guarantees" and "Assumptions" names one.
func TestGuaranteesNameScenarios(t *testing.T) {
	name := regexp.MustCompile("`([a-z0-9]+(?:-[a-z0-9]+)+(?:/[a-z0-9-]*)?)`")
	for path, minNames := range map[string]int{"redlock/README.md": 30, "redlock/coming-from-redsync.md": 10} {
		text, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Fatal(err)
		}
		numNamed, heading := 0, ""
		for line := range strings.Lines(string(text)) {
			matches := name.FindAllStringSubmatch(line, -1)
			for _, m := range matches {
				numNamed++
				if _, err := (choice{names: []string{m[1]}}).scenarios(); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			if h, ok := strings.CutPrefix(line, "## "); ok {
				heading = strings.TrimSpace(h)
			}
			row := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| guarantee ") && !strings.HasPrefix(line, "| assumption ")
			if row && (heading == "Guarantees" || heading == "Assumptions") && len(matches) == 0 {
				t.Errorf("%s: no scenario shows: %s", path, line)
			}
		}
		if numNamed < minNames {
			t.Errorf("%s names %d scenarios, want %d", path, numNamed, minNames)
		}
	}
}

// TestReadmeLinks checks that each link between the project's documents points to an existing file and,
// if it has a fragment, to an existing heading.
func TestReadmeLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	anchor := regexp.MustCompile(`[^a-z0-9 -]`)
	for _, path := range []string{"README.md", "CONTRIBUTING.md", ".ci/README.md", "redlock/README.md", "redlock/coming-from-redsync.md", "harness/README.md", "harness/lock/README.md",
		"harness/lock/exec/adapters/README.md", "reports/scorecards/README.md",
		"scenarios/exhaust/README.md", "nemesis/README.md", "checker/README.md", "docker/README.md", "cmd/lockpick/README.md"} {
		text, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := filepath.Join("../..", filepath.Dir(path), m[1])
			if m[1] == "" {
				to = filepath.Join("../..", path)
			}
			targetText, err := os.ReadFile(to)
			if info, statErr := os.Stat(to); statErr != nil || m[2] != "" && (err != nil || info.IsDir()) {
				t.Errorf("%s links to %s, which does not exist", path, m[0])
				continue
			}
			hasHeading := m[2] == ""
			for line := range strings.Lines(string(targetText)) {
				if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
					hasHeading = hasHeading || strings.ReplaceAll(anchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-") == m[2]
				}
			}
			if !hasHeading {
				t.Errorf("%s links to the heading %s of %s, which does not exist", path, m[2], to)
			}
		}
	}
}

// checkReadme checks that the generated blocks in a README have the given contents. -update
// rewrites them.
func checkReadme(t *testing.T, path string, blocks map[string]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, block := range blocks {
		mark := regexp.MustCompile(`(?s)(<!-- begin ` + regexp.QuoteMeta(name) + ` -->\n).*?(<!-- end -->)`)
		if !mark.MatchString(want) {
			t.Errorf("%s has no block %q", path, name)
		}
		want = mark.ReplaceAllStringFunc(want, func(m string) string {
			parts := mark.FindStringSubmatch(m)
			return parts[1] + block + parts[2]
		})
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Errorf("%s is out of date: run go test -tags 'long containers' ./cmd/lockpick -run '^%s$' -update\n%s", path, t.Name(), want)
		return
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func lockpick(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("lockpick", args...) // TestMain put it on PATH
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lockpick %v: %v\n%s%s", args, err, out, errs.String())
	}
	return string(out)
}

// TestWhereToLook checks that each function, method, type and variable named in the table of
// harness/README.md is declared in the file named before it.
func TestWhereToLook(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, table, _ := strings.Cut(read("harness/README.md"), "## Where to look")
	table, _, _ = strings.Cut(table, "\n## ")
	checked := 0
	for line := range strings.Lines(table) {
		file := ""
		for i, word := range strings.Split(line, "`") {
			switch {
			case i%2 == 0 || strings.HasPrefix(word, "--"):
			case regexp.MustCompile(`[A-Z]{4}`).MatchString(word): // as in KIND.go
				file = ""
			case strings.HasSuffix(word, ".go") && strings.Contains(word, "/"):
				file = word
			case file == "" || strings.Contains(word, "/"):
			default:
				name := regexp.QuoteMeta(word)
				if receiver, method, ok := strings.Cut(word, "."); ok {
					name = `func \(\w+ \*?` + receiver + `\) ` + method + `\(`
				} else {
					name = `((func|type|var|const) |\t)` + name + `\b`
				}
				if !regexp.MustCompile(`(?m)^` + name).MatchString(read(file)) {
					t.Errorf("%s does not declare %s", file, word)
				}
				checked++
			}
		}
	}
	if checked < 10 {
		t.Errorf("the table names only %d declarations", checked)
	}
}
