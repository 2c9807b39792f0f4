//go:build exhaustive

package checker

// Every case of the enumeration, and a million random ones.
const (
	leaseStride     = 1
	randomLeases    = 1_000_000
	randomHistories = 500_000
)
