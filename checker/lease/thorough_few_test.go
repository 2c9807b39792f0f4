//go:build !exhaustive

package lease

// Number of cases that the comparisons cover. The strides are primes so that no loop of the
// enumeration is in step with them.
const (
	leaseStride     = 83
	shortStride     = 331
	randomHistories = 40_000
	porcupineStride = 4
)
