package node

import (
	"slices"
	"strconv"
)

func (v *value) field(name string) int {
	return slices.IndexFunc(v.hash, func(f field) bool { return f.name == name })
}

// setField reports whether the field is new.
func (v *value) setField(name, val string) bool {
	if i := v.field(name); i >= 0 {
		v.hash[i].value = val
		return false
	}
	v.hash = append(v.hash, field{name, val})
	return true
}

func hset(n *Node, _ *Session, a []string) any {
	if len(a)%2 != 0 {
		return wrongNumber("hset")
	}
	v, ok := n.findOrNew(a[1], hash)
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
	if i := v.field(a[2]); i >= 0 {
		return v.hash[i].value
	}
	return nil
}

func hgetall(n *Node, v *value, a []string) any {
	out := pairs{}
	for _, f := range v.hash {
		out = append(out, f.name, f.value)
	}
	return out
}

func hexists(n *Node, v *value, a []string) any {
	return yesNo(v.field(a[2]) >= 0)
}

func hincrby(n *Node, _ *Session, a []string) any {
	by, isInt := integer(a[3])
	if !isInt {
		return notInteger
	}
	v, ok := n.findOrNew(a[1], hash)
	if !ok {
		return wrongType
	}
	var old int64
	if i := v.field(a[2]); i >= 0 {
		if old, isInt = integer(v.hash[i].value); !isInt {
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
	before := len(v.hash)
	v.hash = slices.DeleteFunc(v.hash, func(f field) bool { return slices.Contains(a[2:], f.name) })
	if gone := before - len(v.hash); gone > 0 {
		n.put(a[1], v)
		return int64(gone)
	}
	return int64(0)
}
