package node

import (
	"slices"
	"strconv"
)

// field is where a field's value is among the words; 0: there is none.
func (v *value) field(name string) int {
	for i := 0; i < len(v.words); i += 2 {
		if v.words[i] == name {
			return i + 1
		}
	}
	return 0
}

// setField reports whether the field is new.
func (v *value) setField(name, val string) bool {
	if i := v.field(name); i > 0 {
		v.words = slices.Clone(v.words)
		v.words[i] = val
		return false
	}
	v.words = append(v.words, name, val)
	return true
}

func hset(n *Node, _ *Session, a []string) any {
	if len(a)%2 != 0 {
		return wrongNumber("hset")
	}
	v, ok := n.edit(a[1], hash)
	if !ok {
		return wrongType
	}
	var added int64
	for i := 2; i < len(a); i += 2 {
		added += yesNo(v.setField(a[i], a[i+1]))
	}
	n.put(a[1], v)
	return added
}

func hget(n *Node, v *value, a []string) any {
	if i := v.field(a[2]); i > 0 {
		return v.words[i]
	}
	return nil
}

func hgetall(n *Node, v *value, a []string) any {
	out := pairs{}
	for _, w := range v.words {
		out = append(out, w)
	}
	return out
}

func hexists(n *Node, v *value, a []string) any {
	return yesNo(v.field(a[2]) > 0)
}

func hincrby(n *Node, _ *Session, a []string) any {
	by, isInt := integer(a[3])
	if !isInt {
		return notInteger
	}
	v, ok := n.edit(a[1], hash)
	if !ok {
		return wrongType
	}
	var old int64
	if i := v.field(a[2]); i > 0 {
		if old, isInt = integer(v.words[i]); !isInt {
			return failure("ERR hash value is not an integer")
		}
	}
	now, fits := sum(old, by)
	if by != 0 && !fits {
		return overflow
	}
	v.setField(a[2], strconv.FormatInt(now, 10))
	n.put(a[1], v)
	return now
}

func hdel(n *Node, v *value, a []string) any {
	var gone int64
	for _, name := range a[2:] {
		if i := v.field(name); i > 0 {
			v.words = slices.Concat(v.words[:i-1], v.words[i+1:])
			gone++
		}
	}
	if gone > 0 {
		n.put(a[1], v)
	}
	return gone
}
