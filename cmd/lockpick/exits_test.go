package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"lockpick/harness/history"
	"lockpick/nemesis"
)

// runExits is a script command that runs lockpick and checks its exit code, as in "exits 64 run
// nothing". Then stdout and stderr can match the output.
func runExits(ts *testscript.TestScript, neg bool, args []string) {
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

// cutFile is a script command that copies a file without its last bytes: "cutfile FROM TO BYTES".
func cutFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: cutfile FROM TO BYTES")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	text := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text[:len(text)-n]), 0o644))
}

// checkSteps is a script command that checks a recorded run: each step of the plan started on each of its
// targets, was verified, and ended.
func checkSteps(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: steps FILE")
	}
	h, err := history.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, s := range h.Params.Steps {
		for _, target := range s.Targets {
			eventTypes := map[history.Type]string{}
			for _, e := range h.Events {
				if e.Process == history.Nemesis && e.Step == s.Step && e.Node == target {
					eventTypes[e.Type] = e.Cause
				}
			}
			hasEnd := s.Fault != nemesis.Drop // dropping a message has no end event
			if eventTypes[history.Begin] == "" || hasEnd && eventTypes[history.End] == "" {
				ts.Fatalf("step %d (%s): on %s the history has %q", s.Step, s.Trigger, target, eventTypes)
			}
		}
	}
	if len(h.Params.Steps) == 0 {
		ts.Fatalf("%s has no planned steps", args[0])
	}
}

// checkVotes is a script command that checks a recorded run: before each successful acquire returned, a
// quorum's replies had arrived on the links.
func checkVotes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: votes FILE")
	}
	h, err := history.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	grants, problem := countGrants(h)
	if grants == 0 || problem != "" {
		ts.Fatalf("%s: %d grants; %s", args[0], grants, problem)
	}
}

// countGrants counts the grants in a run. If an acquire returned before a quorum's replies arrived,
// why describes it.
func countGrants(h *history.History) (grants int, problem string) {
	for _, g := range h.Events {
		if g.Op != history.OpAcquire || g.Type != history.OK {
			continue
		}
		grants++
		numVotes := 0
		for _, e := range h.Events {
			if e.Op == history.OpSet && e.Type == history.OK && e.Token == g.Token && e.AnsweredAt > 0 && e.AnsweredAt <= g.T {
				numVotes++
			}
		}
		if numVotes < h.Params.Quorum {
			problem = fmt.Sprintf("session %s acquired at %d ns with %d votes", g.Session, g.T, numVotes)
		}
	}
	return grants, problem
}
