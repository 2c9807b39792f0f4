//go:build exhaustive

package checker

// leaseStride is one: every case.
const leaseStride = 1
