// Package adapter starts the programs that have a lock under test (package lock/exec), and
// puts one to the test before it takes part in runs.
//
// Its nouns are Program, an adapter as a child of this process, and Check, one thing that an
// adapter must do.
//
// Deliberately missing: the protocol (package lock/exec), and the client, which has the
// program's pipes in a run.
package adapter

// Check is one thing that an adapter must do.
type Check struct {
	Name    string
	Why     error  // what is wrong, and what to do; nil: nothing
	Saw     string // what was measured
	Skipped string // why it was not made
}
