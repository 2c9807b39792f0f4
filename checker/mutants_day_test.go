//go:build long && !nightly

package checker

// mutantStride is 6: without the nightly tag, every sixth mutant is tried, because each takes
// seconds of CPU time.
const mutantStride = 6
