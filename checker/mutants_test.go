package checker

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is a planted mistake: old is replaced by new in one function.
type mutant struct {
	name     string
	mistake  string
	tests    string // the tests that must detect the mistake, "" for comparisonTests
	function string // Type.Method or the name of a function
	old, new string // without indentation
}

// mutatedFile is a source file with a mutant.
type mutatedFile struct {
	path     string // relative to this package's directory
	text     string
	begin    int    // offset of the original function
	function string // source of the mutated function
}

// functionsByName maps names to functions of the checker and of package history.
type functionsByName map[string][]function

type function struct {
	path       string
	file       []byte
	begin, end int
}

// readMutants reads testdata/mutants.list.
func readMutants(t *testing.T) (all []mutant) {
	t.Helper()
	text, err := os.ReadFile("testdata/mutants.list")
	if err != nil {
		t.Fatal(err)
	}
	for stanza := range strings.SplitSeq(string(text), "\n\n") {
		stanza = withoutComments(stanza)
		if stanza == "" {
			continue
		}
		m, err := parseMutant(stanza)
		if err != nil {
			t.Fatalf("testdata/mutants.list: %v in:\n%s", err, stanza)
		}
		all = append(all, m)
	}
	return all
}

func withoutComments(stanza string) string {
	lines := strings.Split(strings.TrimSpace(stanza), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") }), "\n")
}

func parseMutant(stanza string) (m mutant, err error) {
	first, rest, _ := strings.Cut(stanza, "\n")
	m.name, m.mistake, _ = strings.Cut(first, ": ")
	if tests, ok := strings.CutPrefix(rest, "tests: "); ok {
		m.tests, rest, _ = strings.Cut(tests, "\n")
	}
	change, ok := strings.CutPrefix(rest, "func ")
	if !ok {
		return m, fmt.Errorf("no line begins with %q", "func ")
	}
	m.function, change, _ = strings.Cut(change, ":")
	oldText, newText, ok := strings.Cut(change, "=>")
	m.old, m.new = unindent(strings.TrimSpace(oldText)), unindent(strings.TrimSpace(newText))
	if !ok || m.name == "" || m.mistake == "" || m.function == "" || m.old == "" || m.old == m.new {
		return m, fmt.Errorf("want NAME: MISTAKE, then func FUNCTION: OLD => NEW")
	}
	return m, nil
}

func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimLeft(l, " \t")
	}
	return strings.Join(lines, "\n")
}

// declaredFunctions reads all functions that a mutant may change.
func declaredFunctions(t *testing.T) functionsByName {
	t.Helper()
	all := functionsByName{}
	for _, root := range []string{".", "../harness/history"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return all.read(path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func (all functionsByName) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			name := nameOf(fn)
			all[name] = append(all[name], function{path, text, files.Position(fn.Pos()).Offset, files.Position(fn.End()).Offset})
		}
	}
	return nil
}

// nameOf returns Type.Method for a method, even if the receiver is a pointer or generic.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	for {
		switch x := receiver.(type) {
		case *ast.StarExpr:
			receiver = x.X
		case *ast.IndexExpr:
			receiver = x.X
		case *ast.IndexListExpr:
			receiver = x.X
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

// apply plants a mutant. Its old text must occur exactly once in all functions of its name
// together.
func (all functionsByName) apply(m mutant) (mutatedFile, error) {
	var found []mutatedFile
	var counts []string
	for _, f := range all[m.function] {
		body := unindent(string(f.file[f.begin:f.end]))
		n := strings.Count(body, m.old)
		counts = append(counts, fmt.Sprintf("%d times in the one in %s", n, f.path))
		for range n {
			body := strings.Replace(body, m.old, m.new, 1)
			found = append(found, mutatedFile{f.path, string(f.file[:f.begin]) + body + string(f.file[f.end:]), f.begin, body})
		}
	}
	if len(found) != 1 {
		return mutatedFile{}, fmt.Errorf("mutant %s: func %s must contain this text once, but contains it %s:\n%s",
			m.name, m.function, cmp.Or(strings.Join(counts, ", "), "nowhere: there is no such function"), m.old)
	}
	return found[0], nil
}

// Every mutant applies exactly once, the result can be parsed, and names and mistakes are unique.
func TestMutantsApply(t *testing.T) {
	functions := declaredFunctions(t)
	seen := map[string]string{}
	all := readMutants(t)
	if len(all) < 100 {
		t.Errorf("only %d mutants", len(all))
	}
	for _, m := range all {
		for _, text := range []string{m.name, m.mistake} {
			if seen[text] != "" {
				t.Errorf("%s and %s share a text: %s", seen[text], m.name, text)
			}
			seen[text] = m.name
		}
		x, err := functions.apply(m)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), x.path, x.text, 0); err != nil {
			t.Errorf("mutant %s: %v", m.name, err)
		}
	}
}

// A missing or ambiguous text or function causes an error that names the mutant.
func TestInapplicableMutants(t *testing.T) {
	dir := t.TempDir()
	all := functionsByName{}
	for name, text := range map[string]string{
		"a.go": "package p\n\nfunc (x *T[K]) Less() bool {\n\tif x.a < x.b {\n\t\treturn x.a < x.b\n\t}\n\treturn x.c\n}\n",
		"b.go": "package q\n\nfunc Twin() int { return 1 }\n",
		"c.go": "package r\n\nfunc Twin() int { return 1 + 1 }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := all.read(path); err != nil {
			t.Fatal(err)
		}
	}
	for stanza, want := range map[string]string{
		"m: x\nfunc T.Less: return x.c => return !x.c":                              "",
		"m: x\nfunc T.Less:\n\tif x.a < x.b {\n\treturn x.a\n=>\n\tif x.a {\n\tx.a": "",
		"m: x\nfunc Twin: 1 + 1 => 2":                                               "",
		"m: x\nfunc T.Less: x.a < x.b => x.a > x.b":                                 "2 times",
		"m: x\nfunc T.Less: x.d => x.a":                                             "0 times",
		"m: x\nfunc T.More: x.c => x.a":                                             "no such function",
		"m: x\nfunc Twin: return 1 => return 2":                                     "1 times in the one in",
	} {
		m, err := parseMutant(stanza)
		if err != nil {
			t.Fatal(err)
		}
		_, err = all.apply(m)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "mutant m")) {
			t.Errorf("%s\ngot: %v", stanza, err)
		}
	}
	for _, stanza := range []string{"m: x", "m: x\nfunc F: a", "m\nfunc F: a => b", "m: x\nfunc F: a => a", "m: x\nF: a => b"} {
		if m, err := parseMutant(stanza); err == nil {
			t.Errorf("%q was read as %+v", stanza, m)
		}
	}
}
