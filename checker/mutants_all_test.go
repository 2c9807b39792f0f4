//go:build long && nightly

package checker

// mutantStride is which of the mutants are made, in the order of their names: all.
const mutantStride = 1
