package node

import (
	"math"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// setOptions is what follows the value in a SET.
type setOptions struct {
	free, present, keepTTL, get bool
	expires                     int64 // of the node's clock; 0: never
}

func set(n *Node, _ *Session, a []string) any {
	o, bad := n.setOptions(a[3:])
	if bad != "" {
		return bad
	}
	old := n.look(a[1])
	var reply any = ok
	if o.get {
		if reply = nil; old != nil {
			if old.kind != text {
				return wrongType
			}
			reply = old.words[0]
		}
	}
	if o.free && old != nil || o.present && old == nil {
		if o.get {
			return reply
		}
		return nil
	}
	v := &value{text, a[2:3:3], o.expires}
	if o.keepTTL && old != nil {
		v.expires = old.expires
	}
	if f, changed := n.becomes(a[1], v); changed && f.What == history.KeyChanged && n.teller.Spare(f) {
		return nil
	}
	n.put(a[1], v)
	return reply
}

// setOptions reads the options; bad is Redis's complaint.
func (n *Node) setOptions(a []string) (o setOptions, bad failure) {
	var until string // EX, PX, EXAT or PXAT, once it was given
	var when string
	for i := 0; i < len(a); i++ {
		switch word := strings.ToUpper(a[i]); word {
		case "NX":
			o.free = true
		case "XX":
			o.present = true
		case "GET":
			o.get = true
		case "KEEPTTL":
			o.keepTTL = true
		case "EX", "PX", "EXAT", "PXAT":
			if until != "" || i+1 == len(a) {
				return o, syntax
			}
			until, when = word, a[i+1]
			i++
		default:
			return o, syntax
		}
	}
	if o.free && o.present || o.keepTTL && until != "" {
		return o, syntax
	}
	if until == "" {
		return o, ""
	}
	o.expires, bad = n.until("set", until, when)
	return o, bad
}

// until is when a key expires, by EX, PX, EXAT or PXAT and the number that follows it.
func (k *keyspace) until(command, word, when string) (ms int64, bad failure) {
	t, isInt := integer(when)
	if !isInt {
		return 0, notInteger
	}
	unit := int64(1)
	if word[0] == 'E' {
		unit = 1000
	}
	at, fits := k.instant(t, unit, strings.HasSuffix(word, "AT"))
	if t <= 0 || !fits {
		return 0, badExpiry(command)
	}
	return at, ""
}

// instant is the absolute expiry, in milliseconds, that a command asks for with t units.
func (k *keyspace) instant(t, unit int64, absolute bool) (ms int64, fits bool) {
	if t > math.MaxInt64/unit || t < math.MinInt64/unit {
		return 0, false
	}
	if absolute {
		return t * unit, true
	}
	now := k.millis()
	return now + t*unit, t*unit <= math.MaxInt64-now
}

func badExpiry(command string) failure {
	return failure("ERR invalid expire time in '" + command + "' command")
}

func setIfFree(n *Node, _ *Session, a []string) any {
	if n.look(a[1]) != nil {
		return int64(0)
	}
	n.put(a[1], &value{kind: text, words: a[2:3:3]})
	return int64(1)
}

func get(n *Node, _ *Session, a []string) any {
	v, ok := n.find(a[1], text)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return nil
	}
	return v.words[0]
}

// add is INCRBY. The time to live stays.
func (n *Node) add(key, by string) any {
	d, isInt := integer(by)
	if !isInt {
		return notInteger
	}
	v, ok := n.edit(key, text)
	if !ok {
		return wrongType
	}
	var old int64
	if len(v.words) > 0 {
		if old, isInt = integer(v.words[0]); !isInt {
			return notInteger
		}
	}
	now, fits := sum(old, d)
	if d != 0 && !fits {
		return overflow
	}
	v.words = []string{strconv.FormatInt(now, 10)}
	n.put(key, v)
	return now
}
