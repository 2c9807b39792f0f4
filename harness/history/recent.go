package history

import "hash/maphash"

// recent are the strings seen lately, so that events which say the same share it: a
// token stands in a dozen events near each other. A newer one takes the place of
// an older one, so the table stays as large as it is, whatever a file holds, and
// keeps what an event keeps anyway.
type recent struct {
	seed  maphash.Seed
	slots []string
}

const slots = 1 << 13

func newRecent() recent {
	return recent{maphash.MakeSeed(), make([]string, slots)}
}

// of returns the string of bytes that may be written over.
func (s *recent) of(b []byte) string {
	slot := &s.slots[maphash.Bytes(s.seed, b)%slots]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// again returns a string that is equal.
func (s *recent) again(t string) string {
	slot := &s.slots[maphash.String(s.seed, t)%slots]
	if *slot != t {
		*slot = t
	}
	return *slot
}
