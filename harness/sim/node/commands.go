package node

import (
	"fmt"
	"strconv"
	"strings"
)

// command is one line of the table. A positive arity is exact, a negative one
// the least number of words, both with the name counted, as in COMMAND INFO.
type command struct {
	arity    int
	noScript bool // not allowed in scripts
	writes   bool // may change keys
	reads    int  // tells of a key: its first argument; of more than one: of all its arguments
	atOnce   bool // done at once also where a transaction is open
	heard    bool // allowed where a session of RESP2 listens to channels
	run      func(n *Node, s *Session, a []string) any
}

func (c command) takes(words int) bool {
	return words == c.arity || c.arity < 0 && words >= -c.arity
}

// commands makes the table. Each node has its own, since a variable would refer
// to itself: commands run scripts, and scripts run commands.
func commands() map[string]command {
	return map[string]command{
		"set":       {arity: -3, writes: true, run: set},
		"setnx":     {arity: 3, writes: true, run: setIfFree},
		"get":       {arity: 2, reads: 1, run: get},
		"del":       {arity: -2, writes: true, run: del},
		"unlink":    {arity: -2, writes: true, run: del},
		"exists":    {arity: -2, reads: 2, run: exists},
		"incr":      {arity: 2, writes: true, run: func(n *Node, _ *Session, a []string) any { return n.add(a[1], "1") }},
		"incrby":    {arity: 3, writes: true, run: func(n *Node, _ *Session, a []string) any { return n.add(a[1], a[2]) }},
		"type":      {arity: 2, reads: 1, run: typeOf},
		"expire":    {arity: -3, writes: true, run: expireIn("expire", 1000, false)},
		"pexpire":   {arity: -3, writes: true, run: expireIn("pexpire", 1, false)},
		"expireat":  {arity: -3, writes: true, run: expireIn("expireat", 1000, true)},
		"pexpireat": {arity: -3, writes: true, run: expireIn("pexpireat", 1, true)},
		"ttl":       {arity: 2, reads: 1, run: func(n *Node, _ *Session, a []string) any { return n.timeToLive(a[1], 1000) }},
		"pttl":      {arity: 2, reads: 1, run: func(n *Node, _ *Session, a []string) any { return n.timeToLive(a[1], 1) }},
		"lpush":     {arity: -3, writes: true, run: of(list, lpush)},
		"lpop":      {arity: -2, writes: true, run: pop(true)},
		"rpop":      {arity: -2, writes: true, run: pop(false)},
		"lrem":      {arity: 4, writes: true, run: lrem},
		"lindex":    {arity: 3, reads: 1, run: of(list, lindex)},
		"rpush":     {arity: -3, writes: true, run: of(list, rpush)},
		"llen":      {arity: 2, reads: 1, run: of(list, llen)},
		"lrange":    {arity: 4, reads: 1, run: lrange},
		"hset":      {arity: -4, writes: true, run: hset},
		"hget":      {arity: 3, reads: 1, run: of(hash, hget)},
		"hgetall":   {arity: 2, reads: 1, run: of(hash, hgetall)},
		"hexists":   {arity: 3, reads: 1, run: of(hash, hexists)},
		"hincrby":   {arity: 4, writes: true, run: hincrby},
		"hdel":      {arity: -3, writes: true, run: of(hash, hdel)},
		"eval":      {arity: -3, noScript: true, run: eval},
		"evalsha":   {arity: -3, noScript: true, run: eval},
		"script":    {arity: -2, noScript: true, run: scripts},
		"time":      {arity: 1, run: clockTime},
		"ping":      {arity: -1, heard: true, run: ping},
		"echo":      {arity: 2, run: func(_ *Node, _ *Session, a []string) any { return a[1] }},
		"dbsize":    {arity: 1, run: dbsize},
		"flushall":  {arity: -1, writes: true, run: flushAll},
		"info":      {arity: -1, run: info},
		"config":    {arity: -2, noScript: true, run: config},
		"hello":     {arity: -1, noScript: true, run: hello},
		"auth":      {arity: -2, noScript: true, run: auth},
		"select":    {arity: 2, run: selectDB},
		"client":    {arity: -2, noScript: true, run: client},
		"quit":      {arity: -1, noScript: true, atOnce: true, heard: true, run: quit},

		"getrange":    {arity: 4, reads: 1, run: getrange},
		"getdel":      {arity: 2, writes: true, run: getdel},
		"getex":       {arity: -2, writes: true, run: getex},
		"persist":     {arity: 2, writes: true, run: persist},
		"expiretime":  {arity: 2, reads: 1, run: func(n *Node, _ *Session, a []string) any { return n.expiryOf(a[1], 1000) }},
		"pexpiretime": {arity: 2, reads: 1, run: func(n *Node, _ *Session, a []string) any { return n.expiryOf(a[1], 1) }},

		"multi":   {arity: 1, noScript: true, atOnce: true, run: multi},
		"exec":    {arity: 1, noScript: true, atOnce: true, run: execute},
		"discard": {arity: 1, noScript: true, atOnce: true, run: discard},
		"watch":   {arity: -2, noScript: true, atOnce: true, run: watch},
		"unwatch": {arity: 1, noScript: true, run: unwatch},

		"subscribe":   {arity: -2, noScript: true, heard: true, run: subscribe},
		"unsubscribe": {arity: -1, noScript: true, heard: true, run: unsubscribe},
		"publish":     {arity: 3, run: publish},
	}
}

const (
	ok         = status("OK")
	syntax     = failure("ERR syntax error")
	notInteger = failure("ERR value is not an integer or out of range")
	overflow   = failure("ERR increment or decrement would overflow")
)

func wrongNumber(name string) failure {
	return failure("ERR wrong number of arguments for '" + name + "' command")
}

func unknownCommand(a []string) failure {
	var b strings.Builder
	for _, arg := range a[1:] {
		if b.Len() > 128 {
			break
		}
		fmt.Fprintf(&b, "'%.128s' ", arg)
	}
	return failure(fmt.Sprintf("ERR unknown command '%.128s', with args beginning with: %s", a[0], b.String()))
}

func unknownSubcommand(a []string) failure {
	return failure(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", a[1], strings.ToUpper(a[0])))
}

// integer reads a number as strictly as Redis does: no sign but a minus, no
// leading zeros, no spaces.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

// sum adds two numbers unless that overflows.
func sum(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0)
}

func yesNo(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
