//go:build !exhaustive

package lease

// How thorough the comparisons are. The stride is a prime, so that no loop of the
// enumeration is in step with it.
const (
	leaseStride     = 83
	randomHistories = 40_000
	porcupineStride = 4
)
