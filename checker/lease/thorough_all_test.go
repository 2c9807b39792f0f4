//go:build exhaustive

package lease

// Every case of the enumeration, and two million random histories, one in twenty put before porcupine as well.
const (
	leaseStride     = 1
	shortStride     = 1
	randomHistories = 2_000_000
	porcupineStride = 20
)
