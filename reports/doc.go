// Package reports turns a run into files for people and machines.
//
// Write puts a run's reports beside its history. What they show is made by the
// packages below, each a function of the run:
//
//	sequence   the counterexample as a sequence diagram: text, SVG, Mermaid
//	timeline   all that happened, lane by lane, for a browser
//	figures    what was measured, as plots
//	page       report.html, which holds all of these
//	junit github   for CI and GitHub's summaries
//	suites     the safety report of many runs, the store's index, and its server
//	palette    one meaning a colour, everywhere
//	words      one way to say a time, a count or a stranger's text
//
// Deliberately missing: judging. What is drawn follows the verdict's witness, and
// where nothing is violated, the first fault.
package reports
