package keylife

import (
	"slices"
	"strings"

	"lockpick/harness/history"
)

// state is what a key is: what it holds, and when it expires. States don't change.
type state struct {
	kind    string   // as TYPE says: string, hash or list; "": something whose value isn't known
	words   []string // the string, the hash's fields and values, or the list's elements
	expires int64    // milliseconds of the node's clock; 0: never
}

// text is the value as facts have it.
func (s *state) text() string {
	if s == nil {
		return ""
	}
	return strings.Join(s.words, " ")
}

// until is the expiry as facts have it.
func (s *state) until() int64 {
	if s == nil {
		return 0
	}
	return s.expires * 1e6
}

func (s *state) holds(o *state) bool {
	return s.kind != "" && s.kind == o.kind && slices.Equal(s.words, o.words)
}

// nearly is by how many milliseconds an expiry that was replayed may be off on a busy machine.
const nearly = 20

// is says whether a state that was read is one that was replayed.
func (s *state) is(o *state) bool {
	return s.holds(o) && (s.expires == 0) == (o.expires == 0) && max(s.expires-o.expires, o.expires-s.expires) <= nearly
}

// change says what has become of a key; "": nothing has.
func change(before, after *state) history.Change {
	switch {
	case before == nil && after == nil:
		return ""
	case before == nil:
		return history.KeySet
	case after == nil:
		return history.KeyDeleted
	case !after.holds(before):
		return history.KeyChanged
	case after.expires != before.expires:
		return history.KeyExpiry
	}
	return ""
}
