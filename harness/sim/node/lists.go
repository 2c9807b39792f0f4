package node

import (
	"slices"
	"strings"
)

func lpush(n *Node, v *value, a []string) any {
	first := slices.Clone(a[2:])
	slices.Reverse(first)
	v.words = append(first, v.words...)
	n.put(a[1], v)
	return int64(len(v.words))
}

func rpush(n *Node, v *value, a []string) any {
	v.words = append(v.words, a[2:]...)
	n.put(a[1], v)
	return int64(len(v.words))
}

func llen(n *Node, v *value, a []string) any {
	return int64(len(v.words))
}

// lindex is the word at a place, which counts from the end where it is negative.
func lindex(n *Node, v *value, a []string) any {
	at, isInt := integer(a[2])
	size := int64(len(v.words))
	if at < 0 {
		at += size
	}
	switch {
	case size > 0 && !isInt:
		return notInteger
	case at < 0 || at >= size:
		return nil
	}
	return v.words[at]
}

// pop takes words from an end: one, or as many as are asked for.
func pop(left bool) func(*Node, *Session, []string) any {
	return func(n *Node, _ *Session, a []string) any {
		count, many := int64(1), len(a) > 2
		if many {
			var isInt bool
			if count, isInt = integer(a[2]); !isInt || count < 0 {
				return failure("ERR value is out of range, must be positive")
			}
		}
		v, ok := n.edit(a[1], list)
		switch {
		case len(a) > 3:
			return wrongNumber(strings.ToLower(a[0]))
		case !ok:
			return wrongType
		case len(v.words) == 0:
			return nil
		}
		gone := []any{}
		for int64(len(gone)) < count && len(v.words) > 0 {
			at := 0
			if !left {
				at = len(v.words) - 1
			}
			gone = append(gone, v.words[at])
			v.words = slices.Concat(v.words[:at], v.words[at+1:])
		}
		if len(gone) > 0 {
			n.put(a[1], v)
		}
		if many {
			return gone
		}
		return gone[0]
	}
}

// lrem removes a word: the first so many of it, the last where the number is negative, or all.
func lrem(n *Node, _ *Session, a []string) any {
	count, isInt := integer(a[2])
	if !isInt {
		return notInteger
	}
	v, ok := n.edit(a[1], list)
	if !ok {
		return wrongType
	}
	v.words = slices.Clone(v.words)
	if count < 0 {
		slices.Reverse(v.words)
	}
	var gone int64
	v.words = slices.DeleteFunc(v.words, func(w string) bool {
		hit := w == a[3] && (count == 0 || gone < max(count, -count))
		gone += yesNo(hit)
		return hit
	})
	if count < 0 {
		slices.Reverse(v.words)
	}
	if gone > 0 {
		n.put(a[1], v)
	}
	return gone
}

func lrange(n *Node, _ *Session, a []string) any {
	from, ok1 := integer(a[2])
	to, ok2 := integer(a[3])
	if !ok1 || !ok2 {
		return notInteger
	}
	v, ok := n.edit(a[1], list)
	if !ok {
		return wrongType
	}
	size := int64(len(v.words))
	if from < 0 {
		from = max(0, size+from)
	}
	if to < 0 {
		to += size
	}
	out := []any{}
	for i := from; i <= min(to, size-1); i++ {
		out = append(out, v.words[i])
	}
	return out
}
