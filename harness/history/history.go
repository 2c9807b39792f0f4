// Package history is the record of a run: one flat Event for each fact, one
// JSON line for each event, facts before judgement.
//
// Its nouns are Event (what happened, when, to whom), Params (what a reader
// must know besides the facts; it stands in the first event) and History (what
// a reader gets). A Recorder numbers events and writes each line at once, so
// that a run which is cut short leaves all that it saw; Read judges nothing,
// says where a file is cut, and refuses what no recorder wrote.
//
// Deliberately missing: any notion of a lock, a backend or a verdict.
package history

// History is a recorded run.
type History struct {
	Params Params
	Events []Event // sorted by (T, N); the first is the run event

	// Cut says where and how the record ends before the run did, or why the run was
	// stopped early; "" if it is whole.
	Cut string
}
