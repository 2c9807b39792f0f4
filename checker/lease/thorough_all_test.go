//go:build exhaustive

package lease

// All cases of the enumeration, and two million random histories. Porcupine judges one in twenty.
const (
	leaseStride     = 1
	shortStride     = 1
	randomHistories = 2_000_000
	porcupineStride = 20
)
