package outcome

import (
	"fmt"
	"slices"
)

// Exit codes of the command line (topic exit-codes).
const (
	ExitOK         = 0
	ExitUnexpected = 1
	ExitUndecided  = 2
	ExitBackend    = 3
	ExitUsage      = 64
	ExitBug        = 70
	ExitInterrupt  = 130
)

// KnownCode says whether a run or a suite can have come to an exit code.
func KnownCode(code int) bool {
	return slices.Contains([]int{ExitOK, ExitUnexpected, ExitUndecided, ExitBackend, ExitUsage, ExitBug, ExitInterrupt}, code)
}

// CodeOf is the exit code that the judgements of one run call for.
func CodeOf(js []Judgement) int {
	code := ExitOK
	for _, j := range js {
		switch {
		case j.AsExpected:
		case j.Open():
			code = Worse(code, ExitUndecided)
		default:
			code = Worse(code, ExitUnexpected)
		}
	}
	return code
}

// Worse returns the code that outranks the other: 130, 70, 64, 1, 3, 2, 0.
func Worse(a, b int) int {
	rank := []int{ExitOK, ExitUndecided, ExitBackend, ExitUnexpected, ExitUsage, ExitBug, ExitInterrupt}
	if slices.Index(rank, a) >= slices.Index(rank, b) {
		return a
	}
	return b
}

// States of an outcome, in the order of a sum.
const (
	AsExpected      = "as expected"
	NothingExpected = "nothing expected" // whatever came
	Unexpected      = "unexpected"
	Undecided       = "undecided"
	Failed          = "failed" // it could not be run or judged
	Interrupted     = "interrupted"
	Skipped         = "skipped"
)

// States lists the states of an outcome, in the order of a sum.
func States() []string {
	return []string{AsExpected, NothingExpected, Unexpected, Undecided, Failed, Interrupted, Skipped}
}

// WorstFirst lists the states from the one that most needs a look to the one that needs none.
func WorstFirst() []string {
	return []string{Failed, Unexpected, Undecided, Interrupted, AsExpected, NothingExpected, Skipped}
}

// Fine is how many outcomes give no reason to look closer, by their states.
func Fine(counts map[string]int) int { return counts[AsExpected] + counts[NothingExpected] }

// Counted says how many outcomes came to each state that there is.
func Counted(counts map[string]int) []string {
	var parts []string
	for _, state := range States() {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return parts
}

// State is what became of a run, in one word or two.
func (o Outcome) State() string {
	switch {
	case o.Skipped != "":
		return Skipped
	case o.Code == ExitOK && o.NothingExpected:
		return NothingExpected
	case o.Code == ExitOK:
		return AsExpected
	case o.Code == ExitUndecided:
		return Undecided
	case o.Code == ExitUnexpected:
		return Unexpected
	case o.Code == ExitInterrupt:
		return Interrupted
	}
	return Failed
}
