// Package adapter starts the programs that have a lock under test (package lock/exec), and
// puts one to the test before it takes part in runs.
//
// Its nouns are Program, an adapter as a child of this process, and Step, a part of the smoke test.
//
// Deliberately missing: the protocol (package lock/exec), and the client, which has the
// program's pipes in a run. Whether the library keeps its lock is for runs to find out.
package real

// Step is what came of one step of the smoke test.
type SmokeStep struct {
	Name     string
	Expected string // with the limit
	Got      string
	Failed   bool
}
