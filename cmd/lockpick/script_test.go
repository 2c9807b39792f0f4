package main

import (
	"flag"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite what the scripts compare with")

// TestMain makes the test binary double as lockpick, for scripts and for the
// workers and clients that lockpick starts of itself.
func TestMain(m *testing.M) {
	testscript.Main(m, programs)
}

// programs is what the test binary is where it is called by one of these names.
var programs = map[string]func(){"lockpick": main, tracerName: traces, shapesName: runsShapes}

// TestScripts are conversations with the command line, one file a topic.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			self, err := exec.LookPath("lockpick") // where testscript has put it
			e.Setenv("LOCKPICK_DIR", filepath.Dir(self))
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "cutfile": cutFile, "steps": steps, "votes": votes},
	})
}
