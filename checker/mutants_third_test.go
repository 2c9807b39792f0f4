//go:build long && !nightly

package checker

// mutantStride is 3: by day every third mutant is tried.
const mutantStride = 3
