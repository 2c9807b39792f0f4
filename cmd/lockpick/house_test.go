package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// row says what a package may import, and why the line is drawn there.
type row struct {
	ours    []string // packages of this module; a trailing /… means all below
	third   []string // modules of others
	because string
}

// house is who may import whom. A package that is not in it may not exist.
var house = map[string]row{
	"redlock":           {nil, nil, "what people copy out must stand alone"},
	"redlock/redisnode": {[]string{"redlock"}, []string{goRedis}, "a node on the Redis client that most people use"},

	"harness/history": {nil, nil, "a leaf: everybody reads facts"},
	"harness/resp":    {[]string{"harness/history"}, nil, "reads lock commands off the wire, as facts"},
	"nemesis":         {[]string{"harness/history"}, nil, "a plan is data; what it needs are small interfaces"},

	"harness/lock":         {nil, nil, "interfaces and Env; a lock must not see faults or the resource"},
	"harness/lock/redlock": {[]string{"harness/lock", "redlock", "redlock/redisnode"}, []string{goRedis}, "adapters never import each other"},
	"harness/lock/broken":  {[]string{"harness/lock", "redlock/redisnode"}, []string{goRedis}, "a lock with a mistake is not the reference with a switch"},
	"harness/lock/kinds":   {[]string{"harness/lock", "harness/lock/redlock", "harness/lock/broken"}, nil, "name → factory, a map literal"},

	"harness/client": {[]string{"harness/history", "harness/lock"}, []string{goRedis}, "one client program for all backends"},
	"harness":        {[]string{"harness/history", "harness/lock", "harness/client", "nemesis"}, []string{yaml}, "the engine knows no backend, no checker, no report"},
	"harness/sim": {[]string{"harness", "harness/client", "harness/lock", "harness/history", "harness/resp", "nemesis"},
		[]string{lua}, "the simulation knows no real process and no judge"},
	"harness/real/proc": {nil, []string{xsys}, "child processes and the true clock"},
	"harness/real/link": {[]string{"harness/history", "harness/resp", "nemesis"}, []string{toxiproxy, prometheus, zerolog}, "links in front of any real node"},
	"harness/process": {[]string{"harness", "harness/client", "harness/lock", "harness/history", "harness/resp", "harness/real/…", "nemesis"},
		[]string{goRedis}, "backends never import each other"},

	"checker":         {[]string{"harness/history"}, []string{porcupine}, "judges facts only; can't see how they were made"},
	"scenarios":       {nil, nil, "embedded text"},
	"reports":         {[]string{"harness/history", "checker", "nemesis"}, nil, "draws what was recorded and judged"},
	"scenarios/suite": {[]string{"harness", "harness/history", "checker", "reports"}, nil, "the only judge"},
	"scenarios/sweep": {[]string{"harness", "scenarios/suite"}, nil, "many jobs in worker processes"},
	"cmd/lockpick": {[]string{"redlock", "harness", "harness/…", "checker", "nemesis", "reports", "scenarios", "scenarios/…"},
		[]string{cobra}, "the composition root"},
}

const (
	goRedis    = "github.com/redis/go-redis/v9"
	yaml       = "go.yaml.in/yaml/v3"
	lua        = "github.com/yuin/gopher-lua"
	xsys       = "golang.org/x/sys"
	toxiproxy  = "github.com/Shopify/toxiproxy/v2"
	prometheus = "github.com/prometheus/client_golang"
	zerolog    = "github.com/rs/zerolog"
	porcupine  = "github.com/anishathalye/porcupine"
	cobra      = "github.com/spf13/cobra"
	internal   = "github.com/rogpeppe/go-internal" // tests only
)

const module = "lockpick/"

type listed struct {
	ImportPath, Dir, Doc               string
	Standard                           bool
	GoFiles, TestGoFiles, XTestGoFiles []string
	IgnoredGoFiles                     []string
	Imports, TestImports, XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json", "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(out); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImportTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		r, ok := house[name]
		if !ok {
			t.Errorf("package %s is not in the import table: add its row and its reason, or remove it", name)
			continue
		}
		seen[name] = true
		for _, i := range p.Imports {
			if !r.allows(name, i) {
				t.Errorf("%s may not import %s: %s", name, i, r.because)
			}
		}
		for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
			if !r.allows(name, i) && !strings.HasPrefix(i, internal) {
				t.Errorf("tests of %s may not import %s: %s", name, i, r.because)
			}
		}
	}
	for name := range house {
		if !seen[name] {
			t.Errorf("package %s is in the import table and does not exist", name)
		}
	}
}

func (r row) allows(self, path string) bool {
	if !strings.Contains(path, ".") && !strings.HasPrefix(path, module) {
		return true // standard library
	}
	if ours, ok := strings.CutPrefix(path, module); ok {
		return ours == self || slices.ContainsFunc(r.ours, func(a string) bool {
			below, all := strings.CutSuffix(a, "…")
			return ours == a || all && strings.HasPrefix(ours, below)
		})
	}
	return slices.ContainsFunc(r.third, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

// Limits of size. What is longer hides more than one idea.
const (
	maxFile     = 500
	maxFunction = 70
)

func TestSizesAndDocs(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("package %s has no doc: its first sentence says what it does", p.ImportPath)
		}
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles, p.IgnoredGoFiles) {
			checkSizes(t, filepath.Join(p.Dir, f))
		}
	}
}

func checkSizes(t *testing.T, path string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if n := fset.File(f.Pos()).LineCount(); n > maxFile {
		t.Errorf("%s has %d lines, at most %d", path, n, maxFile)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > maxFunction {
			t.Errorf("%s: %s has %d lines, at most %d", path, fn.Name.Name, n, maxFunction)
		}
	}
}

// TestEngineHasNoClock holds the engine to Cluster.Now and Cluster.At: a look at
// the machine's clock would be wrong in virtual time.
func TestEngineHasNoClock(t *testing.T) {
	files, err := filepath.Glob("../../harness/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		// The manifest says when a run was started on the wall clock.
		if strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "manifest.go" {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if ok && x.Name == "time" && slices.Contains([]string{"Now", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Since", "Until", "Tick"}, s.Sel.Name) {
				t.Errorf("%s: time.%s: the engine uses Cluster.Now and Cluster.At only", fset.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
	}
}
