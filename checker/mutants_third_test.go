//go:build long && !nightly

package checker

// mutantStride is which of the mutants are made, in the order of their names: every third.
const mutantStride = 3
