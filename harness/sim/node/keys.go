package node

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// kind is a value's type, as reported by TYPE.
type kind string

const (
	text kind = "string"
	list kind = "list"
	hash kind = "hash"
)

// value is a key's value. It is immutable: a change stores a new value, which may share a prefix of
// its words with the old value.
type value struct {
	kind    kind
	words   []string // for a string, a single word; for a hash, alternating field names and values in insertion order, as in a small Redis hash
	expires int64    // milliseconds by the node's clock; 0: never
}

// String joins all words, for key events.
func (v *value) String() string {
	if v == nil {
		return ""
	}
	return strings.Join(v.words, " ")
}

// expiresNanos returns the expiry in nanoseconds by the node's clock, or 0 if there is none.
func (v *value) expiresNanos() int64 {
	if v == nil {
		return 0
	}
	return v.expires * 1e6
}

// keyspace holds a node's keys and handles their expiry.
type keyspace struct {
	keys      map[string]*value
	clock     *Clock
	monotonic bool      // keys expire as if the clock had never been set
	observer  Observer  // may be nil
	aof       *appender // receives each change

	onChange       func(key string, expired bool) // called for each key that changes
	runningCommand string                         // name of the running command in lower case, or ""
	inScript       bool                           // the running command was called by a script
}

// ExpiryClock returns the reading of the clock that keys expire by, as Unix time in nanoseconds.
func (k *keyspace) ExpiryClock() int64 {
	now := k.clock.Now()
	if k.monotonic {
		now -= k.clock.totalStep
	}
	return now
}

// millis returns the expiry clock's reading in milliseconds.
func (k *keyspace) millis() int64 { return k.ExpiryClock() / 1e6 }

const wrongType = failure("WRONGTYPE Operation against a key holding the wrong kind of value")

// lookup returns a key's value. If the key has expired (now > expires), lookup removes it first.
func (k *keyspace) lookup(key string) *value {
	v := k.keys[key]
	if v != nil && v.expires != 0 && k.millis() > v.expires && k.remove(key, history.KeyExpired) {
		return nil
	}
	return v
}

// lookupKind is like lookup, for commands that work on a single kind of value. ok is false if the
// key holds another kind.
func (k *keyspace) lookupKind(key string, want kind) (v *value, ok bool) {
	v = k.lookup(key)
	return v, v == nil || v.kind == want
}

// edit is like lookupKind but returns a copy that isn't stored yet. For a missing key, the copy is
// empty.
func (k *keyspace) edit(key string, want kind) (v *value, ok bool) {
	if v, ok = k.lookupKind(key, want); v == nil {
		return &value{kind: want}, ok
	}
	return &value{v.kind, v.words, v.expires}, ok
}

// withValue adapts a command that works on a copy, as returned by edit, of its first argument's
// value.
func withValue(k kind, run func(n *Node, v *value, a []string) any) func(*Node, *Session, []string) any {
	return func(n *Node, _ *Session, a []string) any {
		v, ok := n.edit(a[1], k)
		if !ok {
			return wrongType
		}
		return run(n, v, a)
	}
}

// All changes to keys go through put and drop, which notify the observer, the disk and the replica.

func (k *keyspace) put(key string, v *value) {
	if len(v.words) == 0 {
		k.drop(key)
		return
	}
	if event, changed := k.setEvent(key, v); changed {
		k.observer.Observe(event)
	}
	k.keys[key] = v
	k.aof.addChange(change{key: key, value: v})
	k.onChange(key, false)
}

func (k *keyspace) drop(key string) { k.remove(key, history.KeyDeleted) }

// remove removes a key. It returns false if the observer preserves the key.
func (k *keyspace) remove(key string, cause history.Change) bool {
	if _, found := k.keys[key]; !found {
		return true
	}
	if k.observer != nil {
		event := k.keyEvent(key, cause)
		if k.observer.Preserve(event) {
			return false
		}
		k.observer.Observe(event)
	}
	delete(k.keys, key)
	k.aof.addChange(change{key: key})
	if cause != history.KeyFlushed { // a flush reports all keys together
		k.onChange(key, cause == history.KeyExpired)
	}
	return true
}

// count returns the number of live keys and how many of them have an expiry.
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

// Apply applies a record from the node's disk or master.
func (k *keyspace) Apply(r Record) {
	for _, c := range r {
		switch {
		case c.isFlush:
			clear(k.keys)
		case c.value == nil:
			delete(k.keys, c.key)
		default: // another node may append to the same words
			k.keys[c.key] = &value{c.value.kind, slices.Clip(c.value.words), c.value.expires}
		}
	}
}

// Dump returns all the node's data as one record.
func (k *keyspace) Dump() Record {
	changes := Record{{isFlush: true}}
	for _, key := range slices.Sorted(maps.Keys(k.keys)) {
		changes = append(changes, change{key: key, value: k.keys[key]})
	}
	return changes
}

type setOptions struct {
	nx, xx, keepTTL, get bool
	expires              int64 // milliseconds by the node's clock; 0: never
}

func set(n *Node, _ *Session, a []string) any {
	o, errReply := n.parseSetOptions(a[3:])
	if errReply != "" {
		return errReply
	}
	old := n.lookup(a[1])
	var reply any = ok
	if o.get {
		if reply = nil; old != nil {
			if old.kind != text {
				return wrongType
			}
			reply = old.words[0]
		}
	}
	if o.nx && old != nil || o.xx && old == nil {
		if o.get {
			return reply
		}
		return nil
	}
	v := &value{text, a[2:3:3], o.expires}
	if o.keepTTL && old != nil {
		v.expires = old.expires
	}
	if event, changed := n.setEvent(a[1], v); changed && event.Kind == history.KeyChanged && n.observer.Preserve(event) {
		return nil
	}
	n.put(a[1], v)
	return reply
}

// parseSetOptions parses the options of SET.
func (n *Node) parseSetOptions(a []string) (o setOptions, errReply failure) {
	var option string // EX, PX, EXAT, PXAT or ""
	var number string
	for i := 0; i < len(a); i++ {
		switch word := strings.ToUpper(a[i]); word {
		case "NX":
			o.nx = true
		case "XX":
			o.xx = true
		case "GET":
			o.get = true
		case "KEEPTTL":
			o.keepTTL = true
		case "EX", "PX", "EXAT", "PXAT":
			if option != "" || i+1 == len(a) {
				return o, syntaxError
			}
			option, number = word, a[i+1]
			i++
		default:
			return o, syntaxError
		}
	}
	if o.nx && o.xx || o.keepTTL && option != "" {
		return o, syntaxError
	}
	if option == "" {
		return o, ""
	}
	o.expires, errReply = n.parseExpiry("set", option, number)
	return o, errReply
}

// parseExpiry parses an expiry given as EX, PX, EXAT or PXAT and a number, into milliseconds.
func (k *keyspace) parseExpiry(command, option, number string) (ms int64, errReply failure) {
	t, isInt := parseInteger(number)
	if !isInt {
		return 0, notInteger
	}
	unit := int64(1)
	if option[0] == 'E' {
		unit = 1000
	}
	at, fits := k.expiryTime(t, unit, strings.HasSuffix(option, "AT"))
	if t <= 0 || !fits {
		return 0, badExpiry(command)
	}
	return at, ""
}

// expiryTime returns the absolute expiry in milliseconds, for t units. fits is false if it
// overflows.
func (k *keyspace) expiryTime(t, unit int64, absolute bool) (ms int64, fits bool) {
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

func setnx(n *Node, _ *Session, a []string) any {
	if n.lookup(a[1]) != nil {
		return int64(0)
	}
	n.put(a[1], &value{kind: text, words: a[2:3:3]})
	return int64(1)
}

func get(_ *Node, v *value, _ []string) any {
	if len(v.words) == 0 {
		return nil
	}
	return v.words[0]
}

// incrby implements INCRBY. The expiry does not change.
func (n *Node) incrby(key, number string) any {
	increment, isInt := parseInteger(number)
	if !isInt {
		return notInteger
	}
	v, ok := n.edit(key, text)
	if !ok {
		return wrongType
	}
	var old int64
	if len(v.words) > 0 {
		if old, isInt = parseInteger(v.words[0]); !isInt {
			return notInteger
		}
	}
	sum, fits := addChecked(old, increment)
	if increment != 0 && !fits {
		return overflow
	}
	v.words = []string{strconv.FormatInt(sum, 10)}
	n.put(key, v)
	return sum
}

// getrange implements GETRANGE. As in Redis, both ends are inclusive, and negative indexes count
// from the end.
func getrange(n *Node, _ *Session, a []string) any {
	from, ok1 := parseInteger(a[2])
	to, ok2 := parseInteger(a[3])
	if !ok1 || !ok2 {
		return notInteger
	}
	v, ok := n.lookupKind(a[1], text)
	switch {
	case !ok:
		return wrongType
	case v == nil, from < 0 && to < 0 && from > to:
		return ""
	}
	word := v.words[0]
	length := int64(len(word))
	if from < 0 {
		from = max(0, length+from)
	}
	if to < 0 {
		to = max(0, length+to)
	}
	if to = min(to, length-1); from > to {
		return ""
	}
	return word[from : to+1]
}

func getdel(n *Node, v *value, a []string) any {
	n.drop(a[1])
	return get(n, v, a)
}

// getex implements GETEX, which reads a string and may change its expiry.
func getex(n *Node, _ *Session, a []string) any {
	option, errReply := getexOption(a[2:])
	if errReply != "" {
		return errReply
	}
	v, ok := n.lookupKind(a[1], text)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return nil
	}
	switch option {
	case "":
	case "PERSIST":
		if v.expires != 0 {
			n.put(a[1], &value{v.kind, v.words, 0})
		}
	default:
		at, errReply := n.parseExpiry("getex", option, a[3])
		switch {
		case errReply != "":
			return errReply
		case strings.HasSuffix(option, "AT") && at <= n.millis():
			n.drop(a[1])
		default:
			n.put(a[1], &value{v.kind, v.words, at})
		}
	}
	return v.words[0]
}

// getexOption returns the option of GETEX, or "" if there is none.
func getexOption(a []string) (option string, errReply failure) {
	if len(a) == 0 {
		return "", ""
	}
	switch option = strings.ToUpper(a[0]); {
	case option == "PERSIST" && len(a) == 1:
	case (option == "EX" || option == "PX" || option == "EXAT" || option == "PXAT") && len(a) == 2:
	default:
		return "", syntaxError
	}
	return option, ""
}

// fieldIndex returns the index in words of a field's value, or 0 if there is no such field.
func (v *value) fieldIndex(name string) int {
	for i := 0; i < len(v.words); i += 2 {
		if v.words[i] == name {
			return i + 1
		}
	}
	return 0
}

// setField sets a field and reports whether it is new.
func (v *value) setField(name, val string) bool {
	if i := v.fieldIndex(name); i > 0 {
		v.words = slices.Clone(v.words)
		v.words[i] = val
		return false
	}
	v.words = append(v.words, name, val)
	return true
}

func hset(n *Node, _ *Session, a []string) any {
	if len(a)%2 != 0 {
		return wrongArgCount("hset")
	}
	v, ok := n.edit(a[1], hash)
	if !ok {
		return wrongType
	}
	var added int64
	for i := 2; i < len(a); i += 2 {
		added += boolToInt(v.setField(a[i], a[i+1]))
	}
	n.put(a[1], v)
	return added
}

func hget(n *Node, v *value, a []string) any {
	if i := v.fieldIndex(a[2]); i > 0 {
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
	return boolToInt(v.fieldIndex(a[2]) > 0)
}

func hincrby(n *Node, _ *Session, a []string) any {
	increment, isInt := parseInteger(a[3])
	if !isInt {
		return notInteger
	}
	v, ok := n.edit(a[1], hash)
	if !ok {
		return wrongType
	}
	var old int64
	if i := v.fieldIndex(a[2]); i > 0 {
		if old, isInt = parseInteger(v.words[i]); !isInt {
			return failure("ERR hash value is not an integer")
		}
	}
	sum, fits := addChecked(old, increment)
	if increment != 0 && !fits {
		return overflow
	}
	v.setField(a[2], strconv.FormatInt(sum, 10))
	n.put(a[1], v)
	return sum
}

func hdel(n *Node, v *value, a []string) any {
	var removed int64
	for _, name := range a[2:] {
		if i := v.fieldIndex(name); i > 0 {
			v.words = slices.Concat(v.words[:i-1], v.words[i+1:])
			removed++
		}
	}
	if removed > 0 {
		n.put(a[1], v)
	}
	return removed
}

func lpush(n *Node, v *value, a []string) any {
	words := slices.Clone(a[2:])
	slices.Reverse(words)
	v.words = append(words, v.words...)
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

// lindex implements LINDEX. A negative index counts from the end.
func lindex(n *Node, v *value, a []string) any {
	index, isInt := parseInteger(a[2])
	size := int64(len(v.words))
	if index < 0 {
		index += size
	}
	switch {
	case size > 0 && !isInt:
		return notInteger
	case index < 0 || index >= size:
		return nil
	}
	return v.words[index]
}

// popCommand returns the implementation of LPOP or RPOP.
func popCommand(left bool) func(*Node, *Session, []string) any {
	return func(n *Node, _ *Session, a []string) any {
		count, hasCount := int64(1), len(a) > 2
		if hasCount {
			var isInt bool
			if count, isInt = parseInteger(a[2]); !isInt || count < 0 {
				return failure("ERR value is out of range, must be positive")
			}
		}
		v, ok := n.edit(a[1], list)
		switch {
		case len(a) > 3:
			return wrongArgCount(strings.ToLower(a[0]))
		case !ok:
			return wrongType
		case len(v.words) == 0:
			return nil
		}
		popped := []any{}
		for int64(len(popped)) < count && len(v.words) > 0 {
			index := 0
			if !left {
				index = len(v.words) - 1
			}
			popped = append(popped, v.words[index])
			v.words = slices.Concat(v.words[:index], v.words[index+1:])
		}
		if len(popped) > 0 {
			n.put(a[1], v)
		}
		if hasCount {
			return popped
		}
		return popped[0]
	}
}

// lrem implements LREM. It removes the first count occurrences of a word, the last -count
// occurrences if count is negative, or all of them if count is 0.
func lrem(n *Node, _ *Session, a []string) any {
	count, isInt := parseInteger(a[2])
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
	var removed int64
	v.words = slices.DeleteFunc(v.words, func(w string) bool {
		match := w == a[3] && (count == 0 || removed < max(count, -count))
		removed += boolToInt(match)
		return match
	})
	if count < 0 {
		slices.Reverse(v.words)
	}
	if removed > 0 {
		n.put(a[1], v)
	}
	return removed
}

func lrange(n *Node, _ *Session, a []string) any {
	from, ok1 := parseInteger(a[2])
	to, ok2 := parseInteger(a[3])
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

func del(n *Node, _ *Session, a []string) any {
	var removed int64
	for _, key := range a[1:] {
		if n.lookup(key) != nil {
			n.drop(key)
			removed++
		}
	}
	return removed
}

func exists(n *Node, _ *Session, a []string) any {
	var found int64
	for _, key := range a[1:] {
		found += boolToInt(n.lookup(key) != nil)
	}
	return found
}

func typeOf(n *Node, _ *Session, a []string) any {
	v := n.lookup(a[1])
	if v == nil {
		return status("none")
	}
	return status(v.kind)
}

// expireCommand returns the implementation of EXPIRE or one of its variants.
func expireCommand(name string, unit int64, absolute bool) func(*Node, *Session, []string) any {
	return func(n *Node, _ *Session, a []string) any {
		isAllowed, errReply := parseExpireOptions(a[3:])
		if errReply != "" {
			return errReply
		}
		t, isInt := parseInteger(a[2])
		if !isInt {
			return notInteger
		}
		at, fits := n.expiryTime(t, unit, absolute)
		if !fits {
			return badExpiry(name)
		}
		v := n.lookup(a[1])
		if v == nil || !isAllowed(v.expires, at) {
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

// parseExpireOptions parses the options of EXPIRE. allowed reports whether an expiry may replace
// the old one. An old expiry of 0 means none and counts as later than any other.
func parseExpireOptions(a []string) (isAllowed func(old, at int64) bool, errReply failure) {
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
	v := n.lookup(a[1])
	if v == nil || v.expires == 0 {
		return int64(0)
	}
	n.put(a[1], &value{v.kind, v.words, 0})
	return int64(1)
}

// expiryCommand returns the implementation of TTL or one of its variants. The reply is a key's
// remaining time or absolute expiry. unit is in milliseconds.
func expiryCommand(unit int64, remaining bool) func(*Node, *Session, []string) any {
	return func(n *Node, _ *Session, a []string) any {
		v := n.lookup(a[1])
		switch {
		case v == nil:
			return int64(-2)
		case v.expires == 0:
			return int64(-1)
		}
		expiry := v.expires
		if remaining {
			expiry -= n.millis()
		}
		return (expiry + unit/2) / unit
	}
}
