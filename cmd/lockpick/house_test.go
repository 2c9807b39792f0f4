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
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockpick/scenarios/outcome"
)

// An importRule says what a package may import, and why.
type importRule struct {
	module   string // packages of this module; a trailing /… includes all below
	external string // third-party modules
	tests    string // additional imports of its tests
	reason   string
}

// importTable must contain every package.
var importTable = map[string]importRule{
	"redlock":           {module: "redlock/driver", reason: "people copy the folder, so it is self-contained"},
	"redlock/driver":    {reason: "for authors of drivers: the interfaces of a node, the Lua scripts, and advice on passwords, ACLs and certificates"},
	"redlock/redisnode": {module: "redlock/driver", external: goRedis, tests: "redlock redlock/wire " + redistest, reason: "a node on the Redis client that most people use"},
	redistest:           {module: "redlock/redisnode", external: goRedis, reason: "real servers for tests below the harness"},
	"redlock/wire": {module: "redlock/driver", tests: "redlock " + redistest + " redlock/redisnode " + goRedis,
		reason: "a node on its own connection; standard library only"},
	"harness": {module: "harness/client harness/history harness/scenario nemesis",
		reason: "the engine knows no backends, checkers, reports or files"},
	"harness/client":  {module: "harness/history harness/lock", external: goRedis, reason: "one client program for all backends"},
	"harness/history": {module: "internal/files", reason: "a leaf, since everything reads histories"},
	"harness/history/edn": {module: "internal/files harness/history harness/history/facts", tests: goEDN + " internal/histories checker checker/mutex checker/verdict",
		reason: "translates histories to and from Jepsen's format, and judges nothing"},
	"harness/history/facts": {module: "harness/history", tests: "internal/histories",
		reason: "the single interpretation of a history for checkers, diagrams and translations; it judges nothing"},
	"harness/lock": {reason: "interfaces and Env; a lock must not see faults or the resource"},
	"harness/lock/broken": {module: "harness/lock redlock redlock/driver redlock/redisnode", external: goRedis, tests: redistest,
		reason: "shares the reference's arithmetic but not its steps: a mistake is not a switch in the reference"},
	"harness/lock/exec":  {module: "harness/lock", reason: "the protocol of adapters in other languages, the lock behind it, and the adapters that ship"},
	"harness/lock/kinds": {module: "harness/lock harness/lock/…", tests: redistest, reason: "name → factory, a map literal"},
	"harness/lock/redislock": {module: "harness/lock redlock redlock/redisnode", external: redislock + " " + goRedis, tests: redistest,
		reason: "a library as published; adapters never import each other"},
	"harness/lock/redlock": {module: "harness/lock redlock redlock/redisnode redlock/wire", external: goRedis, tests: redistest + " harness/history harness/resp",
		reason: "adapters never import each other"},
	"harness/lock/redsync": {module: "harness/lock redlock/redisnode", external: redsync + " " + goRedis, tests: redistest,
		reason: "a library as published; adapters never import each other"},
	"harness/lock/rueidis": {module: "harness/lock", external: rueidisPkg, tests: redistest,
		reason: "a library as published, with the client it belongs to; adapters never import each other"},
	"harness/lock/single": {module: "harness/lock redlock redlock/redisnode", external: goRedis, tests: redistest,
		reason: "adapters never import each other; the steps on a node and the arithmetic of leases are the reference's"},
	"harness/locktest": {module: "harness harness/client harness/history harness/history/facts harness/lock harness/lock/kinds harness/process harness/real harness/scenario harness/sim nemesis checker checker/verdict reports/sequence scenarios scenarios/outcome scenarios/campaign", tests: goRedis + " " + redsync + " " + redsync + "/redis " + redsync + "/redis/goredis/v9 " + redislock,
		reason: "does in a test what cmd/lockpick does on a terminal; only authors of locks import it"},
	"harness/process": {module: "harness harness/real harness/scenario harness/client harness/lock harness/lock/exec harness/history harness/resp harness/real/… internal/files nemesis", tests: goRedis,
		reason: "backends never import each other"},
	"harness/real": {module: "harness/scenario harness/real/proc harness/lock harness/lock/exec harness/client harness/history harness/real/vdso harness/resp nemesis harness/real/keylife harness/real/proxy harness harness/real/fuse", external: xsys,
		reason: "shared by the real backends; it starts no server and no client"},
	"harness/real/fuse": {module: "harness/real/proc nemesis", external: goFuse + " " + xsys, reason: "a disk for any real node"},
	"harness/real/keylife": {module: "harness/history harness/real/vdso harness/resp", tests: "harness/real/proxy harness/real/proc",
		reason: "what nodes report about their keys, as facts"},
	"harness/real/packets": {module: "nemesis", external: nftables + " " + xsys, tests: "harness/history harness/real/proxy harness/real/proc",
		reason: "drops packets below any real node's connections"},
	"harness/real/proc": {module: "harness/resp harness/lock internal/files", external: xsys,
		reason: "child processes, including servers, and the true clock"},
	"harness/real/proxy": {module: "harness/history harness/resp internal/files nemesis", external: toxiproxy + " " + prometheus + " " + zerolog + " " + xsys, tests: "harness/real/proc",
		reason: "links in front of any real node"},
	"harness/real/vdso": {external: xsys, tests: "harness/real/proc", reason: "changes the clock of any process that a caller traces"},
	"harness/resp":      {module: "harness/history", reason: "reads lock commands off the wire, as facts"},
	"harness/scenario": {module: "harness/client internal/files harness/history harness/lock nemesis", external: yamlPkg,
		reason: "an experiment as data and as a file; it runs nothing"},
	"harness/sim": {module: "harness harness/scenario harness/client harness/lock harness/history harness/resp harness/sim/node nemesis", tests: goRedis,
		reason: "the simulation knows no real processes and no checker"},
	"harness/sim/node": {module: "harness/history harness/resp", external: lua, tests: miniredis + " harness/real/proc harness/real/vdso harness/real/fuse",
		reason: "a Redis node without a network, whose only time is its own clock"},
	"nemesis": {module: "harness/history", reason: "a plan is data; it needs only small interfaces"},
	"docker": {module: "docker/engine harness harness/real harness/scenario harness/client internal/files harness/history harness/lock harness/lock/exec harness/real/… harness/resp nemesis", external: dockerPkg,
		reason: "backends never import each other"},
	"docker/engine": {module: "internal/files nemesis", external: dockerPkg, reason: "all calls to the Docker engine; knows nothing about runs"},
	"checker": {module: "harness/history harness/history/facts checker/… checker/spans", tests: "internal/bruteforce internal/histories " + porcupine + " internal/histories",
		reason: "the table of properties; it checks facts only, and can't see how they were recorded"},
	"checker/cause": {module: "harness/history harness/history/facts checker/verdict", tests: "internal/histories",
		reason: "why two clients held one lock, from the nodes' reports; it can't see what the clients claim"},
	"checker/lease": {module: "harness/history harness/history/facts checker/spans checker/verdict", tests: "internal/bruteforce internal/histories checker/second",
		reason: "the fast checker; it sees neither clients' beliefs nor the second checker"},
	"checker/liveness": {module: "harness/history harness/history/facts checker/spans checker/verdict", tests: "internal/histories",
		reason: "liveness as far as the faults allow it; it judges no safety"},
	"checker/mutex": {module: "harness/history harness/history/facts checker/verdict", tests: porcupine + " checker",
		reason: "locks without leases, in foreign histories; it knows no windows and no deadlines"},
	"checker/resource": {module: "harness/history harness/history/facts checker/spans checker/verdict", tests: "internal/bruteforce internal/histories",
		reason: "judges by the resource's log only, not by nodes"},
	"checker/second": {module: "harness/history harness/history/facts checker/verdict", external: porcupine, tests: "checker internal/histories",
		reason: "the second checker; it shares no code with the first"},
	"checker/spans": {module: "harness/history/facts harness/history checker/verdict", tests: "internal/histories",
		reason: "arithmetic on spans of time and windows of sessions; knows no property and no cause"},
	"checker/verdict": {module: "harness/history harness/history/facts", reason: "verdicts as data; almost a leaf"},
	"scenarios": {module: "internal/files harness/scenario",
		tests:  goEDN + " checker checker/mutex checker/verdict harness harness/history harness/history/edn harness/history/facts harness/lock harness/lock/broken harness/lock/kinds harness/sim reports/sequence reports/timeline scenarios scenarios/campaign scenarios/outcome",
		reason: "embedded text, looked up by name; it runs nothing"},
	"scenarios/campaign": {module: "checker/verdict harness/client harness/scenario reports/display reports/figures reports/sequence reports/suites scenarios scenarios/outcome checker internal/files harness/history harness/history/facts nemesis harness harness/lock harness/lock/broken harness/history/edn reports checker/mutex", tests: "harness/lock/kinds harness/sim",
		reason: "runs many scenarios and judges them; cmd passes in the command that starts workers"},
	"scenarios/exhaust": {module: "checker/verdict harness/client harness/scenario nemesis redlock reports/display scenarios/outcome", tests: "harness/history harness/lock harness/lock/broken harness/lock/redlock redlock/driver harness/lock/redsync harness/resp harness/sim/node harness/lock/kinds harness/process harness/real harness/sim scenarios/campaign",
		reason: "a model of the lock that shares no code with it; its tests compare the two"},
	"scenarios/outcome": {module: "harness/scenario harness/history checker checker/verdict harness/lock nemesis", tests: "harness/lock/kinds",
		reason: "outcomes and scorecards as data, for campaigns and reports"},
	"reports": {module: "internal/files harness/history harness/history/edn checker scenarios/outcome reports/…", tests: "internal/histories",
		reason: "assembles the output of the packages below"},
	"reports/display": {module: "harness/history checker/verdict", reason: "how every report writes a time, a count, a name, a color, or why a key ended"},
	"reports/figures": {module: "harness/history harness/history/facts nemesis reports/display scenarios/outcome", external: gonumPlot, tests: "checker checker/verdict internal/histories harness harness/scenario harness/sim harness/lock/kinds harness/lock/broken scenarios",
		reason: "draws measurements"},
	"reports/page": {module: "harness/history harness/history/facts checker checker/verdict nemesis scenarios/outcome reports/display reports/sequence", tests: "harness/scenario internal/histories",
		reason: "combines verdicts and drawings of other packages on one page"},
	"reports/sequence": {module: "harness/history harness/history/facts checker/verdict nemesis reports/display", tests: "checker internal/histories harness harness/scenario harness/sim harness/lock/kinds harness/lock/broken scenarios",
		reason: "draws a checked history"},
	"reports/suites": {module: "internal/files checker checker/verdict reports/figures reports/display scenarios/outcome reports/sequence", external: gzipPkg, tests: "internal/histories harness/lock",
		reason: "renders outcomes of many runs in every format; judges and draws none"},
	"reports/timeline": {module: "harness/history harness/history/facts checker checker/verdict nemesis reports/display", tests: "internal/histories harness harness/scenario harness/sim harness/lock/kinds harness/lock/broken scenarios",
		reason: "lays out a checked history for a page"},
	"internal/bruteforce": {module: "harness/history",
		reason: "an independent checker for tests; it shares no code with the checker, facts or porcupine's model"},
	"internal/files":     {external: xsys, reason: "opens all untrusted files, and creates all files that a kill could leave behind"},
	"internal/histories": {module: "harness/history", reason: "random and handwritten histories for tests"},
	"internal/shapes": {module: "harness/lock redlock redlock/driver redlock/redisnode", external: goRedis,
		reason: "locks for tests, in no table of kinds; adapters never import each other"},
	"cmd/lockpick": {module: "redlock docker harness harness/… checker checker/mutex checker/verdict nemesis reports reports/… scenarios scenarios/… internal/files", external: cobraPkg + " " + pflagPkg + " " + unitsPkg + " " + xsys + " " + yamlPkg, tests: "internal/shapes " + goEDN + " " + linter + " " + browserPkg + " " + cdpPkg,
		reason: "the composition root"},
}

const redistest = "redlock/redisnode/redistest"

const (
	goRedis    = "github.com/redis/go-redis/v9"
	yamlPkg    = "go.yaml.in/yaml/v3"
	pflagPkg   = "github.com/spf13/pflag"
	redsync    = "github.com/go-redsync/redsync/v4"
	redislock  = "github.com/bsm/redislock"
	rueidisPkg = "github.com/redis/rueidis"
	lua        = "github.com/yuin/gopher-lua"
	xsys       = "golang.org/x/sys"
	toxiproxy  = "github.com/Shopify/toxiproxy/v2"
	prometheus = "github.com/prometheus/client_golang"
	zerolog    = "github.com/rs/zerolog"
	porcupine  = "github.com/anishathalye/porcupine"
	dockerPkg  = "github.com/docker/docker github.com/containerd/errdefs"
	goFuse     = "github.com/hanwen/go-fuse/v2"
	nftables   = "github.com/google/nftables"
	gonumPlot  = "gonum.org/v1/plot"
	cobraPkg   = "github.com/spf13/cobra"
	unitsPkg   = "github.com/docker/go-units"
	gzipPkg    = "github.com/klauspost/compress"
	miniredis  = "github.com/alicebob/miniredis/v2" // tests only
	browserPkg = "github.com/chromedp/chromedp"     // tests only
	cdpPkg     = "github.com/chromedp/cdproto"      // tests only
	goEDN      = "olympos.io/encoding/edn"          // tests only
	linter     = "github.com/rhysd/actionlint"      // tests only
	internal   = "github.com/rogpeppe/go-internal"  // tests only
)

// module is the module path with a trailing slash. It is correct even if the module is renamed.
var module = strings.TrimSuffix(reflect.TypeFor[outcome.Outcome]().PkgPath(), "scenarios/outcome")

type goPackage struct {
	ImportPath, Dir, Doc               string
	Standard                           bool
	GoFiles, TestGoFiles, XTestGoFiles []string
	IgnoredGoFiles                     []string
	Imports, TestImports, XTestImports []string
}

func listPackages(t *testing.T) []goPackage {
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
	var all []goPackage
	for d := json.NewDecoder(out); ; {
		var p goPackage
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
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		r, ok := importTable[name]
		if !ok {
			t.Errorf("package %s is not in the import table: add a row with the reason, or remove it", name)
			continue
		}
		seen[name] = true
		for _, i := range p.Imports {
			if !r.allows(name, i) {
				t.Errorf("%s may not import %s: %s", name, i, r.reason)
			}
		}
		for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
			if !r.allows(name, i) && !isAllowed(r.tests+" "+internal, i) {
				t.Errorf("tests of %s may not import %s: %s", name, i, r.reason)
			}
		}
	}
	for name := range importTable {
		if !seen[name] {
			t.Errorf("package %s is in the import table but does not exist", name)
		}
	}
}

func (r importRule) allows(self, path string) bool {
	if !strings.Contains(path, ".") && !strings.HasPrefix(path, module) {
		return true // standard library
	}
	return path == module+self || isAllowed(r.module+" "+r.external, path)
}

// isAllowed reports whether a list of packages and modules covers an import path.
func isAllowed(list, path string) bool {
	path = strings.TrimPrefix(path, module)
	return slices.ContainsFunc(strings.Fields(list), func(a string) bool {
		prefix, isPrefix := strings.CutSuffix(a, "…")
		return path == a || isPrefix && strings.HasPrefix(path, prefix) || strings.Contains(a, ".") && strings.HasPrefix(path, a+"/")
	})
}

// Size limits. Code that exceeds them contains more than one idea.
const (
	maxFile     = 1000
	maxFunction = 70
	maxMethods  = 25 // of a type, without tests; a type with more should be a package
)

func TestSizesAndDocs(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" {
			t.Errorf("package %s has no doc comment", p.ImportPath)
		}
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles, p.IgnoredGoFiles) {
			checkSizes(t, filepath.Join(p.Dir, f))
		}
		for name, n := range countMethods(t, p) {
			if n > maxMethods {
				t.Errorf("%s.%s has %d methods, at most %d", p.ImportPath, name, n, maxMethods)
			}
		}
	}
}

// countMethods counts the methods of each type in a package, on this platform.
func countMethods(t *testing.T, p goPackage) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			receiver := fn.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if index, ok := receiver.(*ast.IndexExpr); ok {
				receiver = index.X
			}
			if id, ok := receiver.(*ast.Ident); ok {
				all[id.Name]++
			}
		}
	}
	return all
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

// TestEngineHasNoClock checks that the engine uses Cluster.Now and Cluster.At instead of package
// time. The machine's clock would be wrong in virtual time.
func TestEngineHasNoClock(t *testing.T) {
	files, err := filepath.Glob("../../harness/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
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
				t.Errorf("%s: time.%s: the engine must use Cluster.Now or Cluster.At", fset.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
	}
}

// TestFilesAreOpenedInOnePlace checks that only package files opens untrusted files. It never
// blocks, limits how much it reads, and does not leave its directory. Other packages may only
// create new files under unique names.
func TestFilesAreOpenedInOnePlace(t *testing.T) {
	parents := []string{"cmd/lockpick", "harness", "harness/scenario", "harness/history", "scenarios", "reports", "checker", "nemesis"}
	forbidden := map[string][]string{
		"os":       {"Open", "OpenFile", "Create", "CreateTemp", "WriteFile", "ReadFile", "ReadDir", "DirFS", "Truncate", "Link", "OpenRoot", "OpenInRoot"},
		"filepath": {"Walk", "WalkDir", "Glob", "EvalSymlinks"},
		"template": {"ParseFiles", "ParseGlob"},
		"http":     {"Dir", "FileServer", "ServeFile"},
	}
	numFiles := 0
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		applies := slices.ContainsFunc(parents, func(parent string) bool {
			return name == parent || parent != "harness" && strings.HasPrefix(name, parent+"/")
		})
		if !applies {
			continue
		}
		for _, file := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			numFiles++
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := s.X.(*ast.Ident); ok && slices.Contains(forbidden[x.Name], s.Sel.Name) {
					t.Errorf("%s: %s.%s: open files with package internal/files", fset.Position(s.Pos()), x.Name, s.Sel.Name)
				}
				return true
			})
		}
	}
	if numFiles < 100 {
		t.Errorf("only %d files were checked", numFiles)
	}
}
