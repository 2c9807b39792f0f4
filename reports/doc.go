// Package reports turns a run, or a suite of runs, into files for people and
// machines.
//
// Write puts a run's reports beside its history. What a report shows is made by the
// packages below, each a function of the run: sequence draws the counterexample.
//
// Deliberately missing: judging. What is drawn follows the verdict's witness, and
// where nothing is violated, the first fault.
package reports
