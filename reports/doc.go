// Package reports turns a run and its verdict into what people read.
//
// Sequence draws up a Diagram, which is plain data: lanes, arrows, bars, notes
// and the story in sentences, all of them facts of the history. Text draws a
// Diagram in a terminal; any other form is another function of a Diagram. Write
// puts a run's reports beside its history, and Explain is what a person gets who
// asks why.
//
// Deliberately missing: judging. What is drawn follows the verdict's witness, and
// where nothing is violated, the first fault.
package reports
