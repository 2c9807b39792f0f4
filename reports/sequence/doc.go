// Package sequence tells what happened as a sequence diagram.
//
// Tell draws up a Diagram, which is plain data: lanes, arrows, bars, notes and the
// story in sentences, all of them facts of the history. Text draws a Diagram in a
// terminal; any other form is another function of a Diagram.
//
// Deliberately missing: judging. What is drawn follows the verdict's witness, and
// where nothing is violated, the first fault.
package sequence
