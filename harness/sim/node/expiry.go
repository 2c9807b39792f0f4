package node

import (
	"fmt"
	"strings"
)

func del(n *Node, _ *Session, a []string) any {
	var gone int64
	for _, key := range a[1:] {
		if n.look(key) != nil {
			n.drop(key)
			gone++
		}
	}
	return gone
}

func exists(n *Node, _ *Session, a []string) any {
	var there int64
	for _, key := range a[1:] {
		there += yesNo(n.look(key) != nil)
	}
	return there
}

func typeOf(n *Node, _ *Session, a []string) any {
	v := n.look(a[1])
	if v == nil {
		return status("none")
	}
	return status(v.kind)
}

// expireIn makes EXPIRE and its kin.
func expireIn(name string, unit int64, absolute bool) func(*Node, *Session, []string) any {
	return func(n *Node, _ *Session, a []string) any {
		allowed, bad := expireIf(a[3:])
		if bad != "" {
			return bad
		}
		t, isInt := integer(a[2])
		if !isInt {
			return notInteger
		}
		at, fits := n.instant(t, unit, absolute)
		if !fits {
			return badExpiry(name)
		}
		v := n.look(a[1])
		if v == nil || !allowed(v.expires, at) {
			return int64(0)
		}
		if at <= n.millis() {
			n.drop(a[1])
			return int64(1)
		}
		n.put(a[1], &value{v.kind, v.words, at})
		return int64(1)
	}
}

// expireIf reads the options of EXPIRE: whether an expiry may replace the old
// one, where 0, no expiry, counts as later than any.
func expireIf(a []string) (allowed func(old, at int64) bool, bad failure) {
	var nx, xx, gt, lt bool
	for _, word := range a {
		switch strings.ToUpper(word) {
		case "NX":
			nx = true
		case "XX":
			xx = true
		case "GT":
			gt = true
		case "LT":
			lt = true
		default:
			return nil, failure(fmt.Sprintf("ERR Unsupported option %s", word))
		}
	}
	if nx && (xx || gt || lt) {
		return nil, "ERR NX and XX, GT or LT options at the same time are not compatible"
	}
	if gt && lt {
		return nil, "ERR GT and LT options at the same time are not compatible"
	}
	return func(old, at int64) bool {
		switch {
		case nx && old != 0, xx && old == 0:
			return false
		case gt:
			return old != 0 && at > old
		case lt:
			return old == 0 || at < old
		}
		return true
	}, ""
}

func persist(n *Node, _ *Session, a []string) any {
	v := n.look(a[1])
	if v == nil || v.expires == 0 {
		return int64(0)
	}
	n.put(a[1], &value{v.kind, v.words, 0})
	return int64(1)
}

// expiryOf is EXPIRETIME and PEXPIRETIME.
func (k *keyspace) expiryOf(key string, unit int64) any {
	v := k.look(key)
	switch {
	case v == nil:
		return int64(-2)
	case v.expires == 0:
		return int64(-1)
	}
	return (v.expires + unit/2) / unit
}

func (k *keyspace) timeToLive(key string, unit int64) any {
	v := k.look(key)
	switch {
	case v == nil:
		return int64(-2)
	case v.expires == 0:
		return int64(-1)
	}
	left := v.expires - k.millis()
	return (left + unit/2) / unit
}
