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

// row says what a package may import, and why the line is drawn there.
type row struct {
	ours    string // packages of this module; a trailing /… means all below
	third   string // modules of others
	tests   string // what its tests may import besides
	because string
}

// house is who may import whom. A package that is not in it may not exist.
var house = map[string]row{
	"redlock":        {because: "what people copy out must stand alone"},
	"redlock/script": {because: "one text of each step for whoever talks to nodes"},
	"redlock/advice": {because: "one word on passwords, ACLs and certificates for both drivers"},
	"redlock/wire": {ours: "redlock redlock/advice redlock/script", third: "", tests: redistest + " redlock/redisnode " + goRedis,
		because: "a node on a connection of its own; standard library only"},
	"redlock/redisnode": {ours: "redlock redlock/advice redlock/script", third: goRedis, tests: redistest,
		because: "a node on the Redis client that most people use"},
	redistest: {ours: "redlock/redisnode", third: goRedis, because: "real servers for tests that stand below the harness"},

	"harness/owned":         {third: xsys, because: "a leaf: whoever makes what a kill could leave names it after itself"},
	"harness/files":         {ours: "harness/owned", because: "whoever opens what others may have left opens it here"},
	"harness/history":       {ours: "harness/files harness/history/peaks", because: "next to a leaf: everybody reads facts"},
	"harness/history/peaks": {because: "a tree over numbers, which knows of no history"},
	"harness/resp":          {ours: "harness/history", because: "reads lock commands off the wire, as facts"},
	"harness/history/edn":   {ours: "harness/files harness/history harness/history/facts", tests: goEDN + " harness/history/story checker checker/mutex", because: "translates other people's facts into ours, and judges nothing"},
	"harness/history/facts": {ours: "harness/history", tests: "harness/history/story", because: "one reading of a history for all who judge, draw or translate it; it judges nothing"},
	"harness/history/story": {ours: "harness/history", because: "histories that people can write, for the tests of several rooms"},
	"nemesis":               {ours: "harness/history", because: "a plan is data; what it needs are small interfaces"},

	"harness/shortage": {because: "from an error to what to do about it, whoever had it"},

	"harness/lock": {because: "interfaces and Env; a lock must not see faults or the resource"},
	"harness/lock/redlock": {ours: "harness/lock redlock redlock/redisnode redlock/wire", third: goRedis,
		tests: redistest + " harness/history harness/resp", because: "adapters never import each other"},
	"harness/lock/broken": {ours: "harness/lock redlock redlock/redisnode", third: goRedis, tests: redistest,
		because: "shares the reference's arithmetic, not its course: a mistake is no switch in the reference"},
	"harness/lock/single": {ours: "harness/lock redlock redlock/redisnode", third: goRedis, tests: redistest,
		because: "adapters never import each other; the node's steps and the arithmetic of leases are the reference's"},
	"harness/lock/redsync": {ours: "harness/lock redlock/redisnode", third: redsync + " " + goRedis, tests: redistest,
		because: "a library as it is published; adapters never import each other"},
	"harness/lock/redislock": {ours: "harness/lock redlock redlock/redisnode", third: redislock + " " + goRedis, tests: redistest,
		because: "a library as it is published; adapters never import each other"},
	"harness/lock/rueidis": {ours: "harness/lock", third: rueidisPkg, tests: redistest,
		because: "a library as it is published, with the client that it is a part of; adapters never import each other"},
	"harness/lock/shapes": {ours: "harness/lock redlock redlock/redisnode", third: goRedis,
		because: "fixtures of tests, in no table of kinds; adapters never import each other"},
	"harness/lock/exec":          {ours: "harness/lock", because: "the protocol of adapters in other languages, and the lock that one has"},
	"harness/lock/exec/adapters": {because: "embedded text, in other languages"},
	"harness/lock/kinds": {ours: "harness/lock harness/lock/…", tests: redistest,
		because: "name → factory, a map literal"},

	"harness/client": {ours: "harness/history harness/lock", third: goRedis, because: "one client program for all backends"},
	"harness/scenario": {ours: "harness/client harness/files harness/history harness/lock nemesis", third: yamlPkg,
		because: "an experiment as data and as a file, for whoever runs, judges or draws it; it runs nothing"},
	"harness": {ours: "harness/client harness/history harness/scenario nemesis",
		because: "the engine knows no backend, no checker, no report, and no file"},
	"harness/sim": {ours: "harness harness/scenario harness/client harness/lock harness/history harness/resp harness/sim/node nemesis", tests: goRedis,
		because: "the simulation knows no real process and no judge"},
	"harness/sim/node":    {ours: "harness/history harness/resp", third: lua, because: "a Redis node that knows no network, and no time but its own clock"},
	"harness/real/server": {ours: "harness/resp", tests: "harness/real/proc", because: "what redis-servers are asked and told, whatever they run as"},
	"harness/real/failover": {ours: "harness/scenario harness/real/server",
		because: "one course of a failover for all real nodes; it knows no process, no container and no link"},
	"harness/real/store": {ours: "harness/lock", because: "what servers other than Redis are started with and asked, whatever they run as"},
	"harness/real/proc":  {ours: "harness/files harness/owned harness/real/server harness/real/store harness/resp", third: xsys, because: "child processes and the true clock"},
	"harness/real/adapter": {ours: "harness/lock harness/lock/exec harness/real/proc harness/real/store", third: xsys,
		because: "starts adapters and tries them; what they say is package lock/exec's"},
	"harness/real/clock": {third: xsys, tests: "harness/real/proc", because: "wrong clocks for any process that a caller traces"},
	"harness/real/link": {ours: "harness/history harness/resp harness/shortage nemesis", tests: "harness/real/proc",
		third: toxiproxy + " " + prometheus + " " + zerolog + " " + xsys, because: "links in front of any real node"},
	"harness/real/life": {ours: "harness/history harness/real/clock harness/resp", tests: "harness/real/link harness/real/proc",
		because: "what nodes tell of their keys, as facts; it knows links by what these tell it"},
	"harness/real/contender": {ours: "harness/client harness/history harness/lock harness/real/proc",
		because: "what a client and its harness say to each other, wherever the client runs"},
	"harness/real/skew": {ours: "harness/history harness/real/clock harness/real/contender harness/real/proc harness/real/wire harness/resp nemesis",
		because: "clocks are turned and read back the same, wherever the process runs"},
	"harness/real/network": {ours: "harness/scenario harness/history harness/lock harness/real/life harness/real/link harness/real/proc harness/real/store harness/real/wire harness/resp nemesis",
		because: "faults of links are the same in front of any real node"},
	"harness/real/runs": {ours: "harness harness/client harness/history harness/scenario harness/real/contender harness/real/disk harness/real/failover harness/real/network harness/real/proc harness/real/server harness/real/skew nemesis",
		because: "what a run does is the same on all real backends; it starts no server and no client"},
	"harness/real/packets": {ours: "nemesis", third: nftables + " " + xsys, tests: "harness/history harness/real/link harness/real/proc", because: "loss below any real node's connections, whatever they carry"},
	"harness/real/wire":    {because: "calls to a part of lockpick that runs elsewhere, whatever is called"},
	"harness/real/disk":    {ours: "harness/real/proc nemesis", third: goFuse + " " + xsys, because: "a disk below any real node"},
	"harness/conformance": {ours: "harness/resp", tests: miniredis + " harness/sim/node harness/real/proc harness/real/clock harness/real/disk",
		because: "stories know no server; its tests tell them to each, below any network"},
	"harness/process": {ours: "harness harness/scenario harness/client harness/lock harness/lock/exec harness/history harness/resp harness/real/… harness/shortage nemesis", tests: goRedis,
		because: "backends never import each other"},

	"harness/locktest": {ours: "harness harness/client harness/history harness/lock harness/lock/kinds harness/process harness/real/contender harness/scenario harness/sim nemesis checker reports/sequence scenarios scenarios/outcome scenarios/suite scenarios/sweep",
		because: "puts together for a test what cmd/lockpick does for a terminal; nobody imports it but authors of locks"},

	"docker/engine": {ours: "harness/owned harness/shortage nemesis", third: dockerPkg, because: "all calls of the Docker engine; knows no run"},
	"docker": {ours: "docker/engine harness harness/scenario harness/client harness/files harness/history harness/lock harness/lock/exec harness/owned harness/real/… harness/resp harness/shortage nemesis", third: dockerPkg,
		because: "backends never import each other"},

	"checker": {ours: "harness/history harness/history/facts checker/…",
		tests: "harness/history/story " + porcupine, because: "the table of properties; judges facts only, and can't see how they were made"},
	"checker/verdict": {ours: "harness/history harness/history/facts", because: "what judges answer, as data: next to a leaf"},
	"checker/spans":   {ours: "harness/history/facts", because: "reckons with time; knows no property"},
	"checker/windows": {ours: "harness/history harness/history/facts checker/spans checker/verdict", tests: "checker/histories",
		because: "what overlaps, for whoever judges that; it knows no cause"},
	"checker/lease": {ours: "harness/history harness/history/facts checker/spans checker/verdict checker/windows",
		tests: "checker/bruteforce checker/histories checker/second", because: "the fast procedure; it sees neither what clients believed nor the second judge"},
	"checker/second": {ours: "harness/history harness/history/facts checker/verdict", third: porcupine, tests: "checker checker/histories",
		because: "the second judge; it shares no line with the first"},
	"checker/cause": {ours: "harness/history harness/history/facts checker/verdict", tests: "harness/history/story", because: "why two had one lock, by what nodes told; it can't see who says that they had"},
	"checker/liveness": {ours: "harness/history harness/history/facts harness/history/peaks checker/spans checker/verdict checker/windows", tests: "checker/histories",
		because: "what faults allow, and who was promised a lock; it judges no safety"},
	"checker/resource":    {ours: "harness/history harness/history/facts checker/spans checker/verdict", tests: "checker/bruteforce checker/histories", because: "judges by the resource's log; what nodes did is nothing to it"},
	"checker/assumptions": {ours: "harness/history harness/history/facts checker/spans", tests: "checker/histories", because: "whether a run shows anything comes before what it shows"},
	"checker/histories":   {ours: "harness/history harness/history/facts harness/history/story", because: "histories made by dice, for the tests of several rooms"},
	"checker/bruteforce":  {ours: "harness/history", because: "the judge of last resort in tests: it shares no line with the checker, with the facts or with porcupine's questions"},
	"scenarios":           {ours: "harness/files harness/scenario", because: "embedded text, and what somebody means by a name of it; it runs nothing"},
	"reports":             {ours: "harness/files harness/history harness/history/edn checker scenarios/outcome reports/…", tests: "harness/history/story", because: "puts together what the packages below draw"},
	"checker/mutex": {ours: "harness/history harness/history/facts checker/verdict", tests: porcupine + " checker",
		because: "the lock without leases, of other people's histories; knows no window and no deadline"},
	"reports/figures": {ours: "harness/history harness/history/facts nemesis reports/palette reports/words scenarios/outcome", third: gonumPlot, tests: "checker harness/history/story harness harness/scenario harness/sim harness/lock/kinds harness/lock/broken scenarios",
		because: "draws what was measured"},
	"reports/palette": {because: "one meaning a colour, everywhere"},
	"reports/words":   {because: "one way to say a time, a count or a stranger's text, everywhere"},
	"reports/sequence": {ours: "harness/history harness/history/facts checker checker/verdict nemesis reports/palette reports/words", tests: "harness/history/story harness harness/scenario harness/sim harness/lock/kinds harness/lock/broken scenarios",
		because: "draws what was recorded and judged"},
	"reports/page": {ours: "harness/history harness/history/facts checker checker/verdict nemesis scenarios/outcome reports/palette reports/sequence reports/words", tests: "harness/scenario harness/history/story",
		because: "puts on one page what others have judged and drawn"},
	"reports/suites": {ours: "harness/files harness/owned checker checker/verdict reports/figures reports/palette reports/words scenarios/outcome", third: gzipPkg,
		because: "sums up outcomes and links to the runs' reports; judges and draws none"},
	"reports/score": {ours: "checker/verdict reports/sequence reports/suites reports/words scenarios/outcome scenarios/score", tests: "checker harness/history/story harness/lock",
		because: "puts scorecards on a page, in the suites' look; judges and draws none"},
	"reports/timeline": {ours: "harness/history harness/history/facts checker checker/verdict nemesis reports/words", tests: "harness/history/story harness harness/scenario harness/sim harness/lock/kinds harness/lock/broken scenarios",
		because: "lays out what was recorded and judged, for a page"},
	"reports/github":    {ours: "scenarios/outcome checker checker/verdict reports/words", because: "a table of outcomes for people who look at a job"},
	"reports/junit":     {ours: "scenarios/outcome checker checker/verdict reports/words", because: "a table of outcomes in a form that others read"},
	"scenarios/outcome": {ours: "harness/scenario harness/history checker checker/verdict", because: "what came of a run as data, for those who judge and those who report"},
	"scenarios/score": {ours: "harness/scenario harness/lock nemesis checker checker/verdict scenarios/outcome", tests: "harness/lock/kinds",
		because: "what a lock keeps, summed up from outcomes; it runs and judges none"},
	"scenarios/envelope": {ours: "checker/verdict harness/client harness/scenario reports/words scenarios/outcome", tests: "harness/lock/kinds harness/sim scenarios/suite",
		because: "searches among values of faults; whoever calls it runs and judges them"},
	"scenarios/hunt": {ours: "checker harness/files harness/owned scenarios/outcome scenarios/shrink",
		because: "remembers what was run and found; it runs and judges nothing"},
	"scenarios/exhaust": {tests: "harness/history harness/lock harness/lock/broken harness/lock/redlock harness/lock/redsync harness/resp harness/sim/node redlock",
		because: "a model of the lock, which knows no line of it; its tests hold the one to the other"},
	"scenarios/exhaust/story": {ours: "checker/verdict harness/client harness/scenario nemesis redlock scenarios/exhaust scenarios/outcome", tests: "harness/lock/kinds harness/process harness/real/contender harness/sim scenarios/suite",
		because: "from a path of the model to a scenario; whoever calls it runs and judges that"},
	"scenarios/shrink": {ours: "checker/verdict harness/client harness/history harness/history/facts harness/scenario nemesis reports/words scenarios/outcome", tests: "harness/lock/kinds harness/sim scenarios scenarios/suite",
		because: "searches among scenarios; whoever calls it runs and judges them"},
	"scenarios/shards": {ours: "harness/files harness/scenario scenarios/outcome",
		because: "divides runs among machines and puts outcomes together; it runs and judges none"},
	"scenarios/suite": {ours: "harness harness/scenario harness/files harness/history harness/history/facts harness/lock harness/lock/broken harness/owned harness/history/edn harness/shortage checker checker/verdict reports scenarios/outcome", tests: "harness/lock/kinds harness/sim scenarios", because: "the only judge"},
	"scenarios/sweep": {ours: "harness harness/files harness/owned harness/shortage scenarios/outcome scenarios/suite", tests: "harness/scenario", because: "many jobs in worker processes"},
	"cmd/lockpick": {ours: "redlock docker harness harness/… checker checker/mutex checker/verdict nemesis reports reports/… scenarios scenarios/…", third: cobraPkg + " " + unitsPkg + " " + xsys, tests: goEDN + " " + yamlPkg + " " + linter + " " + browserPkg + " " + cdpPkg,
		because: "the composition root"},
}

const redistest = "redlock/redisnode/redistest"

const (
	goRedis    = "github.com/redis/go-redis/v9"
	yamlPkg    = "go.yaml.in/yaml/v3"
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

// module is the module's path with a slash, whatever it was renamed to.
var module = strings.TrimSuffix(reflect.TypeFor[outcome.Outcome]().PkgPath(), "scenarios/outcome")

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
			if !r.allows(name, i) && !allowed(r.tests+" "+internal, i) {
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
	return path == module+self || allowed(r.ours+" "+r.third, path)
}

// allowed reports whether a list of packages and modules has an import path.
func allowed(list, path string) bool {
	path = strings.TrimPrefix(path, module)
	return slices.ContainsFunc(strings.Fields(list), func(a string) bool {
		below, all := strings.CutSuffix(a, "…")
		return path == a || all && strings.HasPrefix(path, below) || strings.Contains(a, ".") && strings.HasPrefix(path, a+"/")
	})
}

// Limits of size. What is longer hides more than one idea.
const (
	maxFile     = 1000
	maxFunction = 70
	maxMethods  = 25 // of a type, tests aside: what has more is a package
)

func TestSizesAndDocs(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("package %s has no doc: its first sentence says what it does", p.ImportPath)
		}
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles, p.IgnoredGoFiles) {
			checkSizes(t, filepath.Join(p.Dir, f))
		}
		for name, n := range methods(t, p) {
			if n > maxMethods {
				t.Errorf("%s.%s has %d methods, at most %d", p.ImportPath, name, n, maxMethods)
			}
		}
	}
}

// methods counts those of each type of a package, as it is built here.
func methods(t *testing.T, p listed) map[string]int {
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
			of := fn.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if index, ok := of.(*ast.IndexExpr); ok {
				of = index.X
			}
			if id, ok := of.(*ast.Ident); ok {
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

// TestEngineHasNoClock holds the engine to Cluster.Now and Cluster.At: a look at
// the machine's clock would be wrong in virtual time.
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
				t.Errorf("%s: time.%s: the engine uses Cluster.Now and Cluster.At only", fset.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
	}
}

// TestFilesAreOpenedInOnePlace: what may come from others is opened by package files,
// which waits for nothing, reads no more than it should, and leaves no directory.
// Only what is made anew, under a name that nobody else has, is made here.
func TestFilesAreOpenedInOnePlace(t *testing.T) {
	rooms := []string{"cmd/lockpick", "harness", "harness/scenario", "harness/history", "scenarios", "reports", "checker", "nemesis"}
	forbidden := map[string][]string{
		"os":       {"Open", "OpenFile", "Create", "CreateTemp", "WriteFile", "ReadFile", "ReadDir", "DirFS", "Truncate", "Link", "OpenRoot", "OpenInRoot"},
		"filepath": {"Walk", "WalkDir", "Glob", "EvalSymlinks"},
		"template": {"ParseFiles", "ParseGlob"},
		"http":     {"Dir", "FileServer", "ServeFile"},
	}
	seen := 0
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		below := slices.ContainsFunc(rooms, func(room string) bool {
			return name == room || room != "harness" && strings.HasPrefix(name, room+"/")
		})
		if !below {
			continue
		}
		for _, file := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			seen++
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
					t.Errorf("%s: %s.%s: open it by package harness/files", fset.Position(s.Pos()), x.Name, s.Sel.Name)
				}
				return true
			})
		}
	}
	if seen < 100 {
		t.Errorf("%d files were looked at", seen)
	}
}
