//go:build long

package checker

// leaseStride is one: every case.
const leaseStride = 1
