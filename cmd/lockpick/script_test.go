package main

import (
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite what the scripts compare with")

// TestMain makes the test binary double as lockpick, for scripts and for the
// workers and clients that lockpick starts of itself.
func TestMain(m *testing.M) {
	testscript.Main(foreground{m}, programs)
}

// foreground has the tests hear what whoever starts them with nohup, or behind a shell's &, has
// them ignore; what they start would ignore it, too.
type foreground struct{ *testing.M }

func (f foreground) Run() int {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	defer func() { os.RemoveAll(builtIn) }() // nothing, where it is ""
	return f.M.Run()
}

// builtIn is the folder of the binary that build makes.
var builtIn string

// programs is what the test binary is where it is called by one of these names.
var programs = map[string]func(){"lockpick": main, tracerName: traces, shapesName: runsShapes}

// TestScripts are conversations with the command line, one file a topic.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			self, err := exec.LookPath("lockpick") // where testscript has put it
			e.Setenv("LOCKPICK_DIR", filepath.Dir(self))
			e.Setenv("GOGC", os.Getenv("GOGC")) // as make test sets it
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "cutfile": cutFile, "steps": steps, "votes": votes},
	})
}
