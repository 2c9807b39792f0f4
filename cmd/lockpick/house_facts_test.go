package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHistoriesAreReadOnce checks that only package facts matches returns with calls and determines
// when faults start and end, so that a diagram and a verdict can't disagree. It checks that no code
// parses an event's cause, which is a sentence for people: data belongs in the event's fields.
func TestHistoriesAreReadOnce(t *testing.T) {
	parents := []string{"checker", "reports", "scenarios", "internal/bruteforce", "internal/histories"}
	exceptions := map[string]string{ // files that may break a rule, with the reason
		"reports/page/detail.go":            "describes a single event, independently of others",
		"internal/bruteforce/bruteforce.go": "an independent checker for tests, which may not share code with package facts",
		"internal/histories/histories.go":   "creates histories for tests of package facts",
		"checker/assumptions.go":            "a step's Proof contains the read-back text of a fault that hit nothing",
	}
	numFiles, violators := 0, map[string]bool{}
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		applies := slices.ContainsFunc(parents, func(parent string) bool { return name == parent || strings.HasPrefix(name, parent+"/") })
		for _, file := range p.GoFiles {
			if !applies && name+"/"+file != "harness/history/edn/write.go" {
				continue
			}
			numFiles++
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, violation := range ruleViolations(f) {
				violators[name+"/"+file] = true
				if exceptions[name+"/"+file] == "" {
					t.Errorf("%s/%s: %s", name, file, violation)
				}
			}
		}
	}
	for file := range exceptions {
		if !violators[file] {
			t.Errorf("%s has an unused exception", file)
		}
	}
	if numFiles < 50 || !violators["internal/bruteforce/bruteforce.go"] {
		t.Errorf("only %d files were checked", numFiles)
	}
}

// ruleViolations describes the places where a file breaks these rules.
func ruleViolations(f *ast.File) (all []string) {
	checkPairing := func(at string, e ast.Expr) {
		if x := sourceOf(e); slices.Contains([]string{"history.Invoke", "history.Begin", "history.End", `"invoke"`, `"begin"`, `"end"`}, x) {
			all = append(all, at+x+": package facts pairs events")
		}
	}
	for _, d := range f.Decls {
		causes := map[string]bool{} // variables that contain a cause
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					checkPairing("compares with ", n.X)
					checkPairing("compares with ", n.Y)
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					checkPairing("compares with ", e)
				}
			case *ast.KeyValueExpr:
				checkPairing("has a table by ", n.Key)
			case *ast.AssignStmt:
				for i, e := range n.Rhs {
					if x, ok := n.Lhs[i].(*ast.Ident); ok && hasCause(e, causes) {
						causes[x.Name] = true
					}
				}
			case *ast.SelectorExpr:
				if sourceOf(n) == "history.CameTrue" {
					all = append(all, "uses history.CameTrue: package facts has the effective deadlines")
				}
			case *ast.CallExpr:
				if isTextSearch(n) && slices.ContainsFunc(n.Args, func(e ast.Expr) bool { return hasCause(e, causes) }) {
					all = append(all, "parses a cause: put the data into a field")
				}
			}
			return true
		})
	}
	return all
}

// isTextSearch reports whether a call searches or parses text.
func isTextSearch(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if x, ok := s.X.(*ast.Ident); ok && x.Name == "fmt" {
		return strings.HasPrefix(s.Sel.Name, "Sscan")
	}
	for _, prefix := range []string{"Contains", "Has", "Index", "LastIndex", "Cut", "Split", "Fields", "Count", "EqualFold", "Match", "Find"} {
		if strings.HasPrefix(s.Sel.Name, prefix) && sourceOf(s.X) != "slices" {
			return true
		}
	}
	return false
}

// hasCause reports whether an expression contains an event's cause, or a variable in causes.
func hasCause(e ast.Expr, causes map[string]bool) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "Cause"
		case *ast.Ident:
			found = found || causes[n.Name]
		}
		return true
	})
	return found
}

// sourceOf returns the source text of an identifier, a qualified identifier or a literal, and ""
// for any other expression.
func sourceOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return sourceOf(e.X) + "." + e.Sel.Name
	}
	return ""
}

// TestReadersAreFound checks that ruleViolations reports forbidden code, and only that.
func TestReadersAreFound(t *testing.T) {
	for code, want := range map[string]int{
		`if e.Type == history.Invoke { open[e.Process] = e }`:                        1,
		`switch e.Type { case history.OK: case history.Begin, history.End: f() }`:    2,
		`_ = map[history.Type]string{history.Begin: "start-"}[e.Type]`:               1,
		`if e.Type != "end" { f() }`:                                                 1,
		`events := history.CameTrue(h.Events)`:                                       1,
		`if strings.Contains(f.End.Cause, " 0 keys") { f() }`:                        1,
		`if c := f.End.Cause; strings.HasPrefix(strings.ToLower(c), "lost") { f() }`: 1,
		`m := clockWords.FindStringSubmatch(e.Cause)`:                                1,
		`fmt.Sscanf(e.Cause, "%d keys", &n)`:                                         1,
		`call.Type = history.Invoke`:                                                 0,
		`if e.Type == history.OK && w.Cause == history.OpWrite { f() }`:              0,
		`s := words.Fit(e.Cause, 60) + strings.TrimSuffix(text, ": ")`:               0,
		`if slices.Contains(causes, r.Cause) { f() }`:                                0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "planted.go", "package p\nfunc planted() {\n"+code+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := ruleViolations(f); len(got) != want {
			t.Errorf("%s: found %q, want %d", code, got, want)
		}
	}
}
