package node

import "lockpick/harness/history"

// kind is the type of a value, as TYPE names it.
type kind string

const (
	text kind = "string"
	list kind = "list"
	hash kind = "hash"
)

// value is what a key holds. Only the field of its kind is in use.
type value struct {
	kind    kind
	text    string
	list    []string
	hash    []field // in the order of insertion, as in a small hash of Redis
	expires int64   // milliseconds of the node's clock; 0: never
}

type field struct{ name, value string }

const wrongType = failure("WRONGTYPE Operation against a key holding the wrong kind of value")

// look finds a key, and drops it if it has expired: once now > expires.
func (n *Node) look(key string) *value {
	v := n.keys[key]
	if v != nil && v.expires != 0 && n.millis() > v.expires && n.end(key, history.KeyExpired) {
		return nil
	}
	return v
}

// find is look for a command that works on one kind only. ok is false if the key
// holds another kind.
func (n *Node) find(key string, k kind) (v *value, ok bool) {
	v = n.look(key)
	return v, v == nil || v.kind == k
}

// findOrNew is find, but a missing key gets an empty value that isn't stored yet.
func (n *Node) findOrNew(key string, k kind) (v *value, ok bool) {
	v, ok = n.find(key, k)
	if v == nil {
		v = &value{kind: k}
	}
	return v, ok
}

// of is a command on a value of a kind, which is empty and not stored yet where its key,
// the first argument, is missing.
func of(k kind, run func(n *Node, v *value, a []string) any) func(*Node, *Session, []string) any {
	return func(n *Node, _ *Session, a []string) any {
		v, ok := n.findOrNew(a[1], k)
		if !ok {
			return wrongType
		}
		return run(n, v, a)
	}
}

// put and drop are where a key changes, in place or not, and where that is noted
// for the disk and the replica.

// put reports whether the key got the value; a change that somebody spares is refused.
func (n *Node) put(key string, v *value) bool {
	if v.kind == hash && len(v.hash) == 0 || v.kind == list && len(v.list) == 0 {
		n.drop(key)
		return true
	}
	if n.config.Teller != nil {
		if f, changed := n.becomes(key, v); changed {
			if inPlace := n.keys[key] == v; f.What == history.KeyChanged && !inPlace && n.config.Teller.Spare(f) {
				return false
			}
			n.config.Teller.Tell(f)
		}
		n.remember(key, v)
	}
	n.keys[key] = v
	n.note(change{key: key, value: v})
	return true
}

func (n *Node) drop(key string) { n.end(key, history.KeyDeleted) }

// end ends a key, unless somebody spares it.
func (n *Node) end(key string, how history.Change) bool {
	if _, there := n.keys[key]; !there {
		return true
	}
	if n.config.Teller != nil {
		f := n.goes(key, how)
		if n.config.Teller.Spare(f) {
			return false
		}
		n.config.Teller.Tell(f)
		n.remember(key, nil)
	}
	delete(n.keys, key)
	n.note(change{key: key})
	return true
}

// count counts the keys that live, and those of them that will expire.
func (n *Node) count() (keys, expires int64) {
	now := n.millis()
	for _, v := range n.keys {
		switch {
		case v.expires == 0:
			keys++
		case now <= v.expires:
			keys++
			expires++
		}
	}
	return keys, expires
}
