package keylife

import (
	"strconv"
	"strings"

	"lockpick/harness/resp"
)

// item is one thing that a node tells: that something was done to a key, or by which
// command. Exactly one of key event and command is there.
type item struct {
	at   int64 // when it was read, by Clock
	key  string
	done string // what was done to the key, as in "set" or "expired"

	args  []string // of the command
	from  string   // the address it came from, or "lua"
	clock int64    // the node's, nanoseconds since 1970
}

// byScript is the address that MONITOR gives a command of a script.
const byScript = "lua"

// pattern is the key-space events of database 0.
const pattern = channel + "*"

const channel = "__keyspace@0__:"

// read makes an item of what came; ok is false for what is none.
func itemOf(v resp.Value, at int64) (it item, ok bool) {
	if v.Kind == '>' {
		if len(v.Items) != 4 || v.Items[0].Str != "pmessage" {
			return it, false
		}
		key, of := strings.CutPrefix(v.Items[2].Str, channel)
		return item{at: at, key: key, done: v.Items[3].Str}, of
	}
	if v.Kind != '+' {
		return it, false
	}
	it, ok = lineOf(v.Str)
	it.at = at
	return it, ok
}

// lineOf reads a line of MONITOR: 1795393203.412202 [0 127.0.0.1:36220] "SET" "k" "v".
func lineOf(line string) (it item, ok bool) {
	head, rest, ok := strings.Cut(line, "] ")
	if !ok {
		return it, false
	}
	stamp, whence, ok := strings.Cut(head, " [")
	if !ok {
		return it, false
	}
	seconds, micros, _ := strings.Cut(stamp, ".")
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	database, from, ok := strings.Cut(whence, " ")
	if !ok || err1 != nil || err2 != nil || database != "0" {
		return it, false
	}
	it.from, it.clock = from, s*1e9+us*1e3
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return it, false
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return it, false
		}
		it.args = append(it.args, word)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return it, len(it.args) > 0
}
