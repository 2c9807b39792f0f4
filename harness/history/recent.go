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
	if known := constant(b); known != "" || len(b) == 0 {
		return known
	}
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

// constant is a type or an operation that stands in every history, without a look
// at the table; "" if b is none.
func constant(b []byte) string {
	switch string(b) {
	case string(Invoke):
		return string(Invoke)
	case string(OK):
		return string(OK)
	case string(Fail):
		return string(Fail)
	case string(Info):
		return string(Info)
	case OpAcquire:
		return OpAcquire
	case OpExtend:
		return OpExtend
	case OpRead:
		return OpRead
	case OpCheck:
		return OpCheck
	case OpWrite:
		return OpWrite
	case OpRelease:
		return OpRelease
	case OpSet:
		return OpSet
	case OpFence:
		return OpFence
	case OpLog:
		return OpLog
	}
	return ""
}
