package locktest

import (
	"flag"
	"fmt"
	"os"

	"lockpick/harness/lock"
	"lockpick/harness/real"
)

// clientVerb is the argument by which the process backend starts the test's binary as a client.
const clientVerb = "__client"

// clients are the kinds that Process was given.
var clients []lock.Kind

// Process is for a TestMain whose tests run on real servers: it makes the test's binary a
// program of clients that use locks of these kinds, runs the tests, and exits.
//
//	func TestMain(m *testing.M) { locktest.Process(m, kind) }
//
// m is a *testing.M, or whatever runs the tests and what must be done before and after them.
func Process(m interface{ Run() int }, all ...lock.Kind) {
	if len(os.Args) > 1 && os.Args[1] == clientVerb {
		code := 0
		flag.CommandLine.Parse(os.Args[2:]) // its error ends the program
		if err := real.ClientMain(os.Stdin, os.Stdout, tableWith(all...)); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			code = 3
		}
		os.Exit(code)
	}
	clients = all
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // or each client takes a second to end under -race
	}
	os.Exit(m.Run())
}
