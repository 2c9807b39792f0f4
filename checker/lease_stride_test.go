//go:build !exhaustive

package checker

// leaseStride is a prime, so that no loop of the enumeration is in step with it.
const leaseStride = 83
