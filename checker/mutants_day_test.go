//go:build long && !nightly

package checker

// mutantStride is 6: outside nightly runs every sixth mutant is tried, since each takes seconds of CPU.
const mutantStride = 6
