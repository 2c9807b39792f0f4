//go:build long && !nightly

package checker

// mutantStride is 6: by day every sixth mutant is tried, since each takes seconds of CPU to build.
const mutantStride = 6
