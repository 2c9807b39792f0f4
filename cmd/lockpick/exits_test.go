package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"lockpick/harness/history"
)

// exits runs lockpick and compares its exit code: "exits 64 run nothing". What it
// printed is there for stdout and stderr to match.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec("lockpick", args[1:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("lockpick %s: %v", strings.Join(args[1:], " "), err)
	}
	if got != want {
		ts.Fatalf("lockpick %s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// cutFile copies a file but for its last bytes: "cutfile FROM TO BYTES".
func cutFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: cutfile FROM TO BYTES")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	text := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text[:len(text)-n]), 0o644))
}

// steps sees that every planned step of a recorded run began on each of its
// targets, was read back, and ended.
func steps(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: steps FILE")
	}
	h, err := history.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, s := range h.Params.Steps {
		for _, target := range s.Targets {
			seen := map[history.Type]string{}
			for _, e := range h.Events {
				if e.Process == history.Nemesis && e.Step == s.Step && e.Node == target {
					seen[e.Type] = e.Cause
				}
			}
			if seen[history.Begin] == "" || seen[history.End] == "" {
				ts.Fatalf("step %d (%s): on %s was seen %q", s.Step, s.When, target, seen)
			}
		}
	}
	if len(h.Params.Steps) == 0 {
		ts.Fatalf("%s has no planned steps", args[0])
	}
}
