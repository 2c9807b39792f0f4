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

var update = flag.Bool("update", false, "rewrite the expected results in golden files and READMEs")

// TestMain makes the test binary act as lockpick in scripts, and as the workers and clients that
// lockpick starts.
func TestMain(m *testing.M) {
	testscript.Main(foreground{m}, programs)
}

// foreground runs the tests without ignoring signals. If they are started with nohup or a shell's
// &, some signals are ignored, and child processes would inherit that.
type foreground struct{ *testing.M }

func (f foreground) Run() int {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	defer func() { os.RemoveAll(buildDir) }() // no effect if buildDir is ""
	return f.M.Run()
}

var buildDir string

// programs maps each name under which the test binary may be started to the program that it acts as.
var programs = map[string]func(){"lockpick": main, tracerName: runTracer, shapesName: runShapes}

// TestScripts runs the scripts in testdata/script, one per topic.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			self, err := exec.LookPath("lockpick") // where testscript put the test binary
			e.Setenv("LOCKPICK_DIR", filepath.Dir(self))
			e.Setenv("GOGC", os.Getenv("GOGC")) // as in make test
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": runExits, "cutfile": cutFile, "steps": checkSteps, "votes": checkVotes},
	})
}
