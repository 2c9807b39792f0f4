//go:build long

package checker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// comparisonTests matches the tests that compare the checker with porcupine or with very simple
// judges.
const comparisonTests = "Exhaustively|Against"

// causeTests matches the tests that compare causes with the tables of causes.
const causeTests = "TestCause|TestUnavailabilityCause|TestRefusedSets|TestSpareVotes|TestNoCause"

// TestMutants plants the mistakes in testdata/mutants.list in a copy of the checker and of package
// facts, and expects the tests to detect each one. All mutants are compiled in at once, so that
// every package is built only once. An environment variable selects the mutant. By default, every
// sixth mutant is tried.
func TestMutants(t *testing.T) {
	if out, err := exec.Command("go", "vet", "./...").CombinedOutput(); err != nil {
		t.Fatalf("the checker itself: %v\n%s", err, out)
	}
	functions := declaredFunctions(t)
	p := mutantBuild{t: t, dir: t.TempDir(), variants: map[string]map[int][]variant{}, binaries: map[string]string{}}
	all := readMutants(t)
	for i, m := range all {
		x, err := functions.apply(m)
		if err != nil {
			t.Fatal(err)
		}
		p.add(x, m.name, i+1)
	}
	p.write()
	for i, m := range all {
		if i%mutantStride != 0 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			tests := cmp.Or(m.tests, comparisonTests)
			if tests == "causes" {
				tests = causeTests
			}
			x, _ := functions.apply(m)
			dirs := packagesFor(x.path, m.tests)
			for _, dir := range dirs {
				p.build(t, dir)
			}
			t.Parallel()
			for _, dir := range dirs {
				if detector := p.run(t, dir, tests, i+1); detector != "" {
					t.Logf("detected by %s in %s", detector, dir)
					return
				}
			}
			t.Errorf("the mutant survived: no test detects the mistake: %s", m.mistake)
		})
	}
}

// packagesFor lists the packages whose tests may detect a mistake in a file, starting with those
// that usually detect it: the file's own package and this one, or all judges if all of them use the
// package. If the mutant names its tests, the file's own package comes first.
func packagesFor(file, tests string) []string {
	dir := filepath.Dir(file)
	switch filepath.Base(dir) {
	case "facts", "history":
		list := []string{"lease", ".", "cause", "spans", "liveness", "resource"}
		if filepath.Base(file) == "attempt.go" { // this file decides which votes belong together
			list[0], list[1] = list[1], list[0]
		}
		if tests != "" {
			list = slices.Insert(list, 0, dir)
		}
		return list
	case "mutex", "edn", ".":
		return []string{dir}
	case "spans": // package lease compares overlaps with brute force
		return []string{dir, "lease", "."}
	default:
		return []string{dir, "."}
	}
}

// mutantBuild builds all mutants as one overlay over the sources, and test binaries with the
// overlay.
type mutantBuild struct {
	t         *testing.T
	dir       string
	variants  map[string]map[int][]variant // by file and start of the function
	binaries  map[string]string            // by package
	unmutated sync.Map                     // results without a mutant, by package and tests
}

// variant is a mutated function.
type variant struct {
	name   string // name of the mutant
	mutant int    // number of the mutant, from 1
	text   string
}

func (p *mutantBuild) add(x mutatedFile, name string, mutant int) {
	if p.variants[x.path] == nil {
		p.variants[x.path] = map[int][]variant{}
	}
	p.variants[x.path][x.begin] = append(p.variants[x.path][x.begin], variant{name, mutant, x.function})
}

// mutantSelector is an additional source file for each package with mutants.
const mutantSelector = `package %s

import (
	"os"
	"strconv"
)

var mutant__, _ = strconv.Atoi(os.Getenv("CHECKER_MUTANT"))
`

// write writes the sources with all mutants, and the overlay file that refers to them.
func (p *mutantBuild) write() {
	overlay := map[string]string{}
	put := func(path, text string) {
		copied := filepath.Join(p.dir, fmt.Sprintf("%d-%s", len(overlay), filepath.Base(path)))
		if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
		original, err := filepath.Abs(path)
		if err != nil {
			p.t.Fatal(err)
		}
		overlay[original] = copied
	}
	for path, functions := range p.variants {
		source, err := os.ReadFile(path)
		if err != nil {
			p.t.Fatal(err)
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
		if err != nil {
			p.t.Fatal(err)
		}
		at := func(pos token.Pos) int { return files.Position(pos).Offset }
		text, end := "", 0
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && functions[at(fn.Pos())] != nil {
				text += string(source[end:at(fn.Pos())]) + dispatcher(fn, source, at, functions[at(fn.Pos())])
				end = at(fn.End())
			}
		}
		put(path, text+string(source[end:]))
		put(filepath.Join(filepath.Dir(path), "chosen_mutant.go"), fmt.Sprintf(mutantSelector, file.Name.Name))
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "overlay.json"), list, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// dispatcher returns the source of a function and its variants under different names, and of a
// function that calls the selected one. Variant 0 is the original. Generic functions are not
// supported, and none is mutated.
func dispatcher(fn *ast.FuncDecl, source []byte, at func(token.Pos) int, variants []variant) string {
	sourceOf := func(n ast.Node) string { return string(source[at(n.Pos()):at(n.End())]) }
	receiver, call := "", fn.Name.Name
	if fn.Recv != nil {
		receiver, call = "(x__ "+sourceOf(fn.Recv.List[0].Type)+") ", "x__."+call
	}
	var params, args []string
	for _, field := range fn.Type.Params.List {
		for range max(1, len(field.Names)) {
			arg := fmt.Sprintf("p%d__", len(args))
			params = append(params, arg+" "+sourceOf(field.Type))
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	results, callFormat := "", "%s; return"
	if fn.Type.Results != nil {
		results, callFormat = sourceOf(fn.Type.Results), "return %s"
	}
	callFormat = fmt.Sprintf(callFormat, call+"__%d("+strings.Join(args, ", ")+")")
	text := "func " + receiver + fn.Name.Name + "(" + strings.Join(params, ", ") + ") " + results + " {\nswitch mutant__ {\n"
	for _, v := range variants {
		text += fmt.Sprintf("case %d: "+callFormat+"\n", v.mutant, v.mutant)
	}
	text += fmt.Sprintf("default: "+callFormat+"\n", 0) + "}\n}\n"
	name := at(fn.Name.End()) - at(fn.Pos())
	for _, v := range variants {
		text += fmt.Sprintf("//line %s:1\n%s__%d%s\n", v.name, v.text[:name], v.mutant, v.text[name:])
	}
	original := sourceOf(fn)
	return text + "//line original:1\n" + original[:name] + "__0" + original[name:]
}

// build builds a package's tests with all mutants, once.
func (p *mutantBuild) build(t *testing.T, pkg string) {
	t.Helper()
	if p.binaries[pkg] != "" {
		return
	}
	binary := filepath.Join(p.dir, fmt.Sprintf("%d.test", len(p.binaries)))
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-w", "-o", binary, "-overlay", filepath.Join(p.dir, "overlay.json"), ".")
	build.Dir = pkg
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("a mutant does not compile: %v\n%s", err, out)
	}
	p.binaries[pkg] = binary
}

// run runs tests in a package with a mutant and returns the test that failed, or "". Without the
// mutant the tests must pass.
func (p *mutantBuild) run(t *testing.T, pkg, tests string, mutant int) string {
	t.Helper()
	if mutant != 0 {
		baseline, _ := p.unmutated.LoadOrStore(pkg+" "+tests, sync.OnceValue(func() string { return p.run(t, pkg, tests, 0) }))
		if failed := baseline.(func() string)(); failed != "" {
			t.Fatalf("without a mutant, %s in %s fails", failed, pkg)
		}
	}
	cmd := exec.Command(p.binaries[pkg], "-test.run", tests, "-test.failfast", "-test.timeout", "2m")
	cmd.Dir = pkg
	cmd.Env = append(os.Environ(), fmt.Sprint("CHECKER_MUTANT=", mutant))
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	if err == nil {
		return ""
	}
	return failedTest(string(out))
}

// failedTest returns the name of the failed test in the output of go test.
func failedTest(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			return strings.TrimSpace(name)
		}
	}
	return "a panic or a timeout"
}
