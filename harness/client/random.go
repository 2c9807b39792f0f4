package client

import (
	"hash/fnv"
	"time"
)

// Random returns a number that depends on the seed and the names only, so that
// no draw depends on how many others came before it.
func Random(seed uint64, names ...string) uint64 {
	h := fnv.New64a()
	for i := range 8 {
		h.Write([]byte{byte(seed >> (8 * i))})
	}
	for _, n := range names {
		h.Write([]byte(n))
		h.Write([]byte{0})
	}
	return mix(h.Sum64())
}

// mix is the finaliser of splitmix64 (Steele, Lea and Flood 2014): FNV alone
// leaves the low bits of similar names alike.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Draw returns the duration of the range that r stands for.
func (g Range) Draw(r uint64) time.Duration {
	if g.Max <= g.Min {
		return g.Min
	}
	return g.Min + time.Duration(r%uint64(g.Max-g.Min+1))
}
