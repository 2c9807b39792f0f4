// Package junit writes outcomes as JUnit XML, which Jenkins, GitLab and others show.
//
// A suite is a backend. A case is a property, or a measured number that has a bound,
// of a scenario: its classname is the scenario, its name the property. A case stands
// for all seeds of its scenario, so a file of a million runs is no longer than that
// of one, and a Report holds no more than it will write.
//
//	<failure type="violated">   it came otherwise than expected
//	<error type="undecided">    it could not be decided
//	<error type="failed">       of the case "run": the run could not be done or judged
//	<skipped>                   this machine can't run it
//
// Undecided is an error and not a failure, for in JUnit's words a failure is an answer
// that was wrong, and an error a test that gave none. Jenkins and GitLab count both as
// not passed; what is skipped they pass over, which undecided must never be.
//
// The form is that of jenkins-junit.xsd (testdata).
//
// Deliberately missing: properties that nothing was expected of and that held.
package suites
