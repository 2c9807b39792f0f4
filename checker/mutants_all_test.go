//go:build long && nightly

package checker

// mutantStride is 1 because the nightly run tries every mutant.
const mutantStride = 1
