package sim

// Every random value is a hash of its name, never the next one of a sequence, so
// that it doesn't matter who asks first.

// mix hashes words by the finaliser of splitmix64 (Steele, Lea, Flood 2014).
func mix(words ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range words {
		h = (h ^ w) + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// sum hashes bytes (FNV-1a).
func sum[T string | []byte](b T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(b) {
		h = (h ^ uint64(b[i])) * 1099511628211
	}
	return h
}
