package node

import (
	"maps"
	"slices"
	"strings"

	"lockpick/harness/history"
)

// kind is the type of a value, as TYPE names it.
type kind string

const (
	text kind = "string"
	list kind = "list"
	hash kind = "hash"
)

// value is what a key holds. A key that changes gets another; of the words it may share those
// that stay, before more.
type value struct {
	kind    kind
	words   []string // the text alone; of a hash names and values by turns, as they were inserted, as in a small hash of Redis
	expires int64    // milliseconds of the node's clock; 0: never
}

// String is all words, as a fact of a key's life tells them.
func (v *value) String() string {
	if v == nil {
		return ""
	}
	return strings.Join(v.words, " ")
}

// until is when it expires, in nanoseconds of the node's clock.
func (v *value) until() int64 {
	if v == nil {
		return 0
	}
	return v.expires * 1e6
}

// keyspace is what a node holds, and when that expires.
type keyspace struct {
	keys      map[string]*value
	clock     *Clock
	monotonic bool      // keys expire as if nobody had set the clock
	teller    Teller    // nil: nobody is told
	file      *appender // takes note of each change

	touch    func(key string, expired bool) // called for each key that changes
	doing    string                         // the command that runs, in small letters; "": none does
	scripted bool                           // a script runs it
}

// ExpiryClock is what the clock by which keys expire shows, in nanoseconds since 1970.
func (k *keyspace) ExpiryClock() int64 {
	now := k.clock.Now()
	if k.monotonic {
		now -= k.clock.set
	}
	return now
}

// millis is the clock as expiry sees it.
func (k *keyspace) millis() int64 { return k.ExpiryClock() / 1e6 }

const wrongType = failure("WRONGTYPE Operation against a key holding the wrong kind of value")

// look finds a key, and drops it if it has expired: once now > expires.
func (k *keyspace) look(key string) *value {
	v := k.keys[key]
	if v != nil && v.expires != 0 && k.millis() > v.expires && k.end(key, history.KeyExpired) {
		return nil
	}
	return v
}

// find is look for a command that works on one kind only. ok is false if the key
// holds another kind.
func (k *keyspace) find(key string, want kind) (v *value, ok bool) {
	v = k.look(key)
	return v, v == nil || v.kind == want
}

// edit is find, but what it returns is a copy that isn't stored yet; of a missing key it is empty.
func (k *keyspace) edit(key string, want kind) (v *value, ok bool) {
	if v, ok = k.find(key, want); v == nil {
		return &value{kind: want}, ok
	}
	return &value{v.kind, v.words, v.expires}, ok
}

// of is a command on such a copy of the value of a key, its first argument.
func of(k kind, run func(n *Node, v *value, a []string) any) func(*Node, *Session, []string) any {
	return func(n *Node, _ *Session, a []string) any {
		v, ok := n.edit(a[1], k)
		if !ok {
			return wrongType
		}
		return run(n, v, a)
	}
}

// put and drop are where a key changes, and where that is told and noted for the disk and
// the replica.

func (k *keyspace) put(key string, v *value) {
	if len(v.words) == 0 {
		k.drop(key)
		return
	}
	if f, changed := k.becomes(key, v); changed {
		k.teller.Tell(f)
	}
	k.keys[key] = v
	k.file.note(change{key: key, value: v})
	k.touch(key, false)
}

func (k *keyspace) drop(key string) { k.end(key, history.KeyDeleted) }

// end ends a key, unless somebody spares it.
func (k *keyspace) end(key string, how history.Change) bool {
	if _, there := k.keys[key]; !there {
		return true
	}
	if k.teller != nil {
		f := k.fact(key, how)
		if k.teller.Spare(f) {
			return false
		}
		k.teller.Tell(f)
	}
	delete(k.keys, key)
	k.file.note(change{key: key})
	if how != history.KeyFlushed { // that is told of all at once
		k.touch(key, how == history.KeyExpired)
	}
	return true
}

// count counts the keys that live, and those of them that will expire.
func (k *keyspace) count() (keys, expires int64) {
	now := k.millis()
	for _, v := range k.keys {
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

// Apply makes a record true: of the disk, or of the node that this one is a replica of.
func (k *keyspace) Apply(r Record) {
	for _, c := range r {
		switch {
		case c.all:
			clear(k.keys)
		case c.value == nil:
			delete(k.keys, c.key)
		default: // another node may go on from the same words
			k.keys[c.key] = &value{c.value.kind, slices.Clip(c.value.words), c.value.expires}
		}
	}
}

// Dump is everything that the node has, as one record.
func (k *keyspace) Dump() Record {
	all := Record{{all: true}}
	for _, key := range slices.Sorted(maps.Keys(k.keys)) {
		all = append(all, change{key: key, value: k.keys[key]})
	}
	return all
}
