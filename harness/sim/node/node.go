// Package node simulates a Redis server without a process. Commands run synchronously in the
// caller's goroutine.
//
// A Node is one server process, with its keys, scripts and run_id. To kill a node, drop it; to
// restart it, create a new one, so that no state survives by accident. A Session is a connection to
// a node. A node's Clock and Disk belong to its machine and outlive it.
//
// The package supports RESP2 and RESP3 and the commands that lock libraries send, with the error
// texts of Redis 7.0. Deliberately missing: goroutines, sockets, active expiry (an expired key is
// removed on the next access, or by Sweep), rewriting of the append-only file, sets, sorted sets,
// streams, channel patterns, multiple databases, and a time limit for scripts.
package node

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"lockpick/harness/history"
	"lockpick/harness/resp"
)

// Config configures a node.
type Config struct {
	RunID       string // 40 hexadecimal digits, unique to the process
	ProcessID   int64
	Clock       *Clock
	Monotonic   bool         // keys expire by a clock that runs at Clock's rate but can't be set; no real Redis has one
	Disk        *Disk        // nil means no persistence
	Replicate   func(Record) // called for each change; may be nil
	Observer    Observer     // notified of changes to keys; may be nil
	Unsupported func(string) // called each time a client uses a Redis feature that this node doesn't support; may be nil
}

// Node is a Redis server process. It is not safe for concurrent use.
//
//	Session ─► Node ─► keyspace ─► appender ─► Disk
//	           │ commands, scripts           └► replica
type Node struct {
	config Config
	keyspace
	appender
	trackingState
	commands        map[string]command
	scripts         map[string]*loadedScript // by SHA-1
	scriptsBySource map[string]*loadedScript // the same scripts, by source text
	lua             *interpreter
	sessions        int64                         // number of sessions so far
	openSessions    map[int64]*Session            // by number
	internal        Session                       // used by Do
	currentSession  *Session                      // session whose command is running; may be nil
	watchers        map[string]map[*Session]bool  // by key
	channels        map[string]map[int64]*Session // subscribers by channel name
	pushSessions    []*Session                    // sessions with pending pushes
}

// New starts a node with the data on its disk.
func New(c Config) *Node {
	n := &Node{config: c, commands: commands(), scripts: map[string]*loadedScript{}, scriptsBySource: map[string]*loadedScript{}, openSessions: map[int64]*Session{},
		watchers: map[string]map[*Session]bool{}, channels: map[string]map[int64]*Session{},
		trackingState: trackingState{readers: map[string]map[int64]*Session{}, changedKeys: map[string]map[string]*Session{}}}
	n.internal.node = n
	n.appender = appender{disk: c.Disk, clock: c.Clock, replicate: c.Replicate}
	n.keyspace = keyspace{keys: map[string]*value{}, clock: c.Clock, monotonic: c.Monotonic, observer: c.Observer, aof: &n.appender, onChange: n.keyChanged}
	n.loadFile()
	return n
}

// loadFile loads the append-only file and prepares it for appending.
func (n *Node) loadFile() {
	d := n.config.Disk
	if d == nil {
		return
	}
	d.hasTornRecord = false
	for _, r := range d.records {
		n.Apply(r)
	}
	n.appender.syncTarget, n.appender.lastSync = len(d.records), n.seconds()
}

// Sweep removes expired keys. Redis does so ten times a second, so setting its clock back can't
// revive them. Code that sets the clock back must call Sweep first.
func (n *Node) Sweep() {
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		n.lookup(key)
	}
	n.commit()
}

// Close releases the resources used by scripts. A closed node must not be used.
func (n *Node) Close() {
	if n.lua != nil {
		n.lua.state.Close()
		n.lua = nil
	}
}

// Do runs one command without a connection. The reply is nil, an int64, a string or a []any of
// these. Do returns an error reply as an error.
func (n *Node) Do(args ...string) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("no command")
	}
	return plainReply(n.exec(&n.internal, args))
}

// Session is a connection to a node.
type Session struct {
	node    *Node
	id      int64
	name    string
	resp3   bool
	closing bool
	out     []byte

	multi        *transaction    // nil means no open transaction
	inExec       bool            // EXEC is running
	watchedKeys  []string        // keys watched for the next transaction
	watchChanged bool            // a watched key has changed
	channels     map[string]bool // subscriptions
	tracking     *tracking       // nil means tracking is off
	caching      bool            // the last command was CLIENT CACHING
	pushBuf      []byte          // pending out-of-band data
}

// Open opens a session.
func (n *Node) Open() *Session {
	n.sessions++
	s := &Session{node: n, id: n.sessions}
	n.openSessions[s.id] = s
	return s
}

// Execute runs the commands received on the connection. protocolErr is the protocol error that
// follows them, or nil. The replies are valid until the next call. hangUp reports whether the node
// closes the connection after the replies.
func (s *Session) Execute(commands []*resp.Command, protocolErr error) (replies []byte, hangUp bool) {
	s.out, s.node.currentSession = s.out[:0], s
	for _, command := range commands {
		s.do(command.Args)
	}
	s.node.broadcast()
	s.node.currentSession = nil
	if protocolErr != nil && !s.closing {
		s.out = appendReply(s.out, failure("ERR Protocol error: "+protocolErr.Error()), s.resp3)
		return s.out, true
	}
	return s.out, s.closing
}

// do runs one command and appends its reply to s.out.
func (s *Session) do(args []string) {
	if len(args) > 0 && !s.closing {
		v := s.node.exec(s, args)
		s.out = appendReply(s.out, v, s.resp3)
		s.sendDeferred()
	}
}

// exec runs or queues one command. args[0] is the command's name.
func (n *Node) exec(s *Session, args []string) any {
	name := strings.ToLower(args[0])
	c, ok := n.commands[name]
	errReply := failure("")
	switch {
	case !ok:
		n.noteUnsupportedCommand(s, args, 1)
		errReply = unknownCommand(args)
	case !c.acceptsArgs(len(args)):
		errReply = wrongArgCount(name)
	case n.appender.writeFailed && (c.isWrite || name == "ping"):
		errReply = misconf
	case s.isSubscribed() && !s.resp3 && !c.allowedWhileSubscribed:
		errReply = failure("ERR Can't execute '" + fullName(args) + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	if errReply != "" {
		s.abort()
		return errReply
	}
	if s.multi != nil && !c.neverQueued {
		s.multi.queue = append(s.multi.queue, args)
		return status("QUEUED")
	}
	reply := n.run(s, name, c, args)
	if s.multi == nil && name != "client" {
		s.caching = false
	}
	n.commit()
	return reply
}

func (n *Node) run(s *Session, name string, c command, args []string) any {
	n.runningCommand = name
	reply := c.run(n, s, args)
	n.runningCommand, n.inScript = "", false
	if errReply, ok := reply.(failure); ok && len(args) > 1 && errReply == unknownSubcommand(args) {
		n.noteUnsupportedCommand(s, args, 2)
	}
	s.trackReads(c, args)
	return reply
}

// version is the simulated Redis version.
const version = "7.0.15"

func clockTime(n *Node, _ *Session, _ []string) any {
	now := n.config.Clock.Now()
	return []any{strconv.FormatInt(now/1e9, 10), strconv.FormatInt(now%1e9/1e3, 10)}
}

func ping(_ *Node, s *Session, a []string) any {
	if len(a) <= 2 && s.isSubscribed() && !s.resp3 {
		return []any{"pong", strings.Join(a[1:], "")}
	}
	switch len(a) {
	case 1:
		return status("PONG")
	case 2:
		return a[1]
	}
	return wrongArgCount("ping")
}

func dbsize(n *Node, _ *Session, _ []string) any {
	keys, _ := n.count()
	return keys
}

func flushAll(n *Node, _ *Session, a []string) any {
	if len(a) > 2 || len(a) == 2 && !isSyncOption(a[1]) {
		return syntaxError
	}
	n.allKeysChanged()
	if n.observer == nil {
		clear(n.keys)
		n.addChange(change{isFlush: true})
		return ok
	}
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		if n.lookup(key) != nil {
			n.remove(key, history.KeyFlushed)
		}
	}
	return ok
}

func isSyncOption(s string) bool {
	return strings.EqualFold(s, "SYNC") || strings.EqualFold(s, "ASYNC")
}

func info(n *Node, s *Session, a []string) any {
	for _, name := range a[1:] {
		if unsupportedSections[strings.ToLower(name)] {
			n.noteUnsupported(s, "INFO "+strings.ToUpper(name))
		}
	}
	includes := func(section string) bool {
		return len(a) == 1 || slices.ContainsFunc(a[1:], func(name string) bool {
			return slices.Contains([]string{section, "all", "default", "everything"}, strings.ToLower(name))
		})
	}
	var sections []string
	if includes("server") {
		sections = append(sections, fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nprocess_id:%d\r\nrun_id:%s\r\n",
			version, n.config.ProcessID, n.config.RunID))
	}
	if includes("persistence") {
		status := "ok"
		if n.appender.writeFailed {
			status = "err"
		}
		sections = append(sections, fmt.Sprintf("# Persistence\r\nloading:0\r\naof_enabled:%d\r\naof_last_write_status:%s\r\naof_pending_bio_fsync:%d\r\n",
			boolToInt(n.config.Disk != nil), status, boolToInt(n.appender.syncing)))
	}
	if includes("keyspace") {
		text := "# Keyspace\r\n"
		if keys, expires := n.count(); keys > 0 {
			text += fmt.Sprintf("db0:keys=%d,expires=%d,avg_ttl=0\r\n", keys, expires)
		}
		sections = append(sections, text)
	}
	return verbatim(strings.Join(sections, "\r\n"))
}

// settings lists the settings that CONFIG GET returns, in order.
func (n *Node) settings() [][2]string {
	appendOnly, policy := "no", EverySec
	if d := n.config.Disk; d != nil {
		appendOnly, policy = "yes", d.policy
	}
	return [][2]string{{"appendonly", appendOnly}, {"appendfsync", string(policy)}, {"save", ""}, {"databases", "1"}, {"maxmemory", "0"}}
}

func configGet(n *Node, _ *Session, a []string) any {
	settings := pairs{}
	for _, s := range n.settings() {
		for _, pattern := range a[2:] {
			if match, err := path.Match(strings.ToLower(pattern), s[0]); err == nil && match {
				settings = append(settings, s[0], s[1])
				break
			}
		}
	}
	return settings
}

func hello(n *Node, s *Session, a []string) any {
	if len(a) > 1 {
		v, isInt := parseInteger(a[1])
		if !isInt {
			return failure("ERR Protocol version is not an integer or out of range")
		}
		if v != 2 && v != 3 {
			return failure("NOPROTO unsupported protocol version")
		}
		if errReply := helloOptions(s, a[2:]); errReply != "" {
			return errReply
		}
		s.resp3 = v == 3
	}
	proto := int64(2)
	if s.resp3 {
		proto = 3
	}
	return pairs{"server", "redis", "version", version, "proto", proto, "id", s.id,
		"mode", "standalone", "role", "master", "modules", []any{}}
}

func helloOptions(s *Session, a []string) failure {
	for i := 0; i < len(a); {
		switch {
		case strings.EqualFold(a[i], "AUTH") && i+2 < len(a):
			if a[i+1] != "default" {
				return wrongPass
			}
			i += 3
		case strings.EqualFold(a[i], "SETNAME") && i+1 < len(a):
			s.name = a[i+1]
			i += 2
		default:
			return failure("ERR Syntax error in HELLO option '" + a[i] + "'")
		}
	}
	return ""
}

const wrongPass = failure("WRONGPASS invalid username-password pair or user is disabled.")

// auth implements AUTH for the default user, who has no password.
func auth(_ *Node, _ *Session, a []string) any {
	switch {
	case len(a) == 2:
		return failure("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	case len(a) > 3:
		return syntaxError
	case a[1] != "default":
		return wrongPass
	}
	return ok
}

func selectDB(n *Node, s *Session, a []string) any {
	i, isInt := parseInteger(a[1])
	if !isInt {
		return notInteger
	}
	if i != 0 {
		if i > 0 && i < redisDatabases {
			n.noteUnsupported(s, "SELECT "+a[1])
		}
		return failure("ERR DB index is out of range")
	}
	return ok
}

func clientName(_ *Node, s *Session, _ []string) any {
	if s.name == "" {
		return nil
	}
	return s.name
}

func setClientName(_ *Node, s *Session, a []string) any {
	if strings.ContainsFunc(a[2], func(r rune) bool { return r < '!' || r > '~' }) {
		return failure("ERR Client names cannot contain spaces, newlines or special characters.")
	}
	s.name = a[2]
	return ok
}

// clientKill closes another session by ID. It supports no other filter of CLIENT KILL.
func clientKill(n *Node, s *Session, a []string) any {
	if len(a) != 4 || !strings.EqualFold(a[2], "ID") {
		n.noteUnsupported(s, "CLIENT KILL "+strings.ToUpper(a[2]))
		return syntaxError
	}
	id, isInt := parseInteger(a[3])
	if !isInt || id < 1 {
		return failure("ERR client-id should be greater than 0")
	}
	other := n.openSessions[id]
	if other == nil || other == s || other.closing {
		return int64(0)
	}
	if other.closing = true; len(other.pushBuf) == 0 {
		n.pushSessions = append(n.pushSessions, other)
	}
	return int64(1)
}

func quit(_ *Node, s *Session, _ []string) any {
	s.closing = true
	return ok
}

// Clock is a machine's clock, which may be wrong. It showed base at true time baseTime, and since
// then has gained drift parts per 10⁹. All times are in nanoseconds.
type Clock struct {
	base, baseTime int64
	drift          int64
	totalStep      int64 // sum of all offsets passed to Adjust
	trueNow        func() int64
}

// NewClock returns a correct clock: it shows base now and runs at the rate of trueNow.
func NewClock(base int64, trueNow func() int64) *Clock {
	return &Clock{base: base, baseTime: trueNow(), trueNow: trueNow}
}

// Now returns the clock's reading as Unix time in nanoseconds.
func (c *Clock) Now() int64 { return c.At(c.trueNow()) }

// At returns the clock's reading at true time t, assuming that the clock is not adjusted before
// then.
func (c *Clock) At(t int64) int64 {
	elapsed := t - c.baseTime
	if c.drift == 0 { // a float64 is too coarse for days in nanoseconds
		return c.base + elapsed
	}
	return c.base + elapsed + int64(float64(elapsed)*(float64(c.drift)/1e9))
}

// Adjust moves the clock by an offset, which may be negative, and sets its rate.
func (c *Clock) Adjust(offset time.Duration, rate float64) {
	c.base, c.baseTime = c.Now()+int64(offset), c.trueNow()
	c.totalStep += int64(offset)
	c.drift = int64(math.Round((rate - 1) * 1e9))
}

// Drift returns by how much the clock runs too fast, in parts per 10⁹.
func (c *Clock) Drift() int64 { return c.drift }

// Until returns how much true time passes until the clock shows t, assuming that the clock is not
// adjusted before then.
func (c *Clock) Until(t int64) time.Duration {
	remaining := t - c.Now()
	if c.drift == 0 {
		return time.Duration(remaining)
	}
	return time.Duration(math.Ceil(float64(remaining) / (1 + float64(c.drift)/1e9)))
}

// As in Redis, math.random is POSIX's lrand48 and starts from the same seed in each process.

func drand48Seed(s uint32) uint64 { return uint64(s)<<16 | 0x330e }

// luaRandom implements math.random.
func (in *interpreter) luaRandom(l *lua.LState) int {
	in.randomState = (in.randomState*0x5deece66d + 0xb) & (1<<48 - 1)
	r := float64((in.randomState>>17)%math.MaxInt32) / math.MaxInt32
	switch l.GetTop() {
	case 0:
		l.Push(lua.LNumber(r))
	case 1:
		upper := l.CheckNumber(1)
		if upper < 1 {
			l.ArgError(1, "interval is empty")
		}
		l.Push(lua.LNumber(math.Floor(r*float64(upper)) + 1))
	default:
		lower, upper := float64(l.CheckNumber(1)), float64(l.CheckNumber(2))
		if lower > upper {
			l.ArgError(2, "interval is empty")
		}
		l.Push(lua.LNumber(math.Floor(r*(upper-lower+1)) + lower))
	}
	return 1
}

// luaRandomSeed implements math.randomseed.
func (in *interpreter) luaRandomSeed(l *lua.LState) int {
	in.randomState = drand48Seed(uint32(int64(l.CheckNumber(1))))
	return 0
}

// noteUnsupported reports that a client used a Redis feature that this node doesn't support. It
// must not be called for requests that Redis itself would reject.
func (n *Node) noteUnsupported(s *Session, what string) {
	if n.config.Unsupported != nil && s != &n.internal {
		n.config.Unsupported(what)
	}
}

// noteUnsupportedCommand reports a command or subcommand, given by the first words of args, if
// Redis supports it.
func (n *Node) noteUnsupportedCommand(s *Session, args []string, words int) {
	if len(args) < words {
		return
	}
	if name := strings.Join(args[:words], "|"); redisCommands[strings.ToLower(name)] {
		n.noteUnsupported(s, strings.ToUpper(strings.Join(args[:words], " ")))
	}
}

// fullName returns the name of a command with its subcommand, as in Redis's error messages.
func fullName(args []string) string {
	name := strings.ToLower(args[0])
	if len(args) > 1 {
		if withSubcommand := name + "|" + strings.ToLower(args[1]); redisCommands[withSubcommand] {
			return withSubcommand
		}
	}
	return name
}

// unsupportedGlobals are the global variables of Redis's scripts that are missing here.
var unsupportedGlobals = wordSet("cjson cmsgpack bit struct coroutine")

// unsupportedRedisFields are the fields of Redis's Lua table redis that are missing here.
var unsupportedRedisFields = wordSet("log setresp replicate_commands set_repl breakpoint debug acl_check_cmd " +
	"LOG_DEBUG LOG_VERBOSE LOG_NOTICE LOG_WARNING REPL_ALL REPL_AOF REPL_SLAVE REPL_REPLICA REPL_NONE REDIS_VERSION REDIS_VERSION_NUM")

// unsupportedSections are the sections of INFO that are missing here.
var unsupportedSections = wordSet("clients memory stats replication cpu modules commandstats errorstats latencystats cluster")

// redisDatabases is Redis's default number of databases.
const redisDatabases = 16

// redisCommands is the output of COMMAND LIST in Redis 7.0.15, without COMMAND itself, which
// libraries send on their own but do not depend on.
var redisCommands = wordSet(`
acl acl|cat acl|deluser acl|dryrun acl|genpass acl|getuser acl|help acl|list acl|load acl|log acl|save
acl|setuser acl|users acl|whoami append asking auth bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop
bitpos blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin client client|caching client|getname
client|getredir client|help client|id client|info client|kill client|list client|no-evict client|pause
client|reply client|setname client|tracking client|trackinginfo client|unblock client|unpause cluster
cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|count-failure-reports cluster|countkeysinslot
cluster|delslots cluster|delslotsrange cluster|failover cluster|flushslots cluster|forget
cluster|getkeysinslot cluster|help cluster|info cluster|keyslot cluster|links cluster|meet cluster|myid
cluster|nodes cluster|replicas cluster|replicate cluster|reset cluster|saveconfig cluster|set-config-epoch
cluster|setslot cluster|shards cluster|slaves cluster|slots config config|get config|help config|resetstat
config|rewrite config|set copy dbsize debug decr decrby del discard dump echo eval eval_ro evalsha evalsha_ro
exec exists expire expireat expiretime failover fcall fcall_ro flushall flushdb function function|delete
function|dump function|flush function|help function|kill function|list function|load function|restore
function|stats geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro
geosearch geosearchstore get getbit getdel getex getrange getset hdel hello hexists hget hgetall hincrby
hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset hsetnx hstrlen hvals incr incrby incrbyfloat info
keys lastsave latency latency|doctor latency|graph latency|help latency|histogram latency|history
latency|latest latency|reset lcs lindex linsert llen lmove lmpop lolwut lpop lpos lpush lpushx lrange lrem
lset ltrim memory memory|doctor memory|help memory|malloc-stats memory|purge memory|stats memory|usage mget
migrate module module|help module|list module|load module|loadex module|unload monitor move mset msetnx multi
object object|encoding object|freq object|help object|idletime object|refcount persist pexpire pexpireat
pexpiretime pfadd pfcount pfdebug pfmerge pfselftest ping psetex psubscribe psync pttl publish pubsub
pubsub|channels pubsub|help pubsub|numpat pubsub|numsub pubsub|shardchannels pubsub|shardnumsub punsubscribe
quit randomkey readonly readwrite rename renamenx replconf replicaof reset restore restore-asking role rpop
rpoplpush rpush rpushx sadd save scan scard script script|debug script|exists script|flush script|help
script|kill script|load sdiff sdiffstore select set setbit setex setnx setrange shutdown sinter sintercard
sinterstore sismember slaveof slowlog slowlog|get slowlog|help slowlog|len slowlog|reset smembers smismember
smove sort sort_ro spop spublish srandmember srem sscan ssubscribe strlen subscribe substr sunion sunionstore
sunsubscribe swapdb sync time touch ttl type unlink unsubscribe unwatch wait watch xack xadd xautoclaim xclaim
xdel xgroup xgroup|create xgroup|createconsumer xgroup|delconsumer xgroup|destroy xgroup|help xgroup|setid
xinfo xinfo|consumers xinfo|groups xinfo|help xinfo|stream xlen xpending xrange xread xreadgroup xrevrange
xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore
zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex
zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion
zunionstore
`)

func wordSet(text string) map[string]bool {
	index := map[string]bool{}
	for _, w := range strings.Fields(text) {
		index[w] = true
	}
	return index
}

// command describes a command. A positive arity is exact, a negative arity is a minimum. Both count
// the name, as in COMMAND INFO.
type command struct {
	arity                  int
	noScript               bool // not allowed in scripts
	isWrite                bool // may change keys
	keysRead               int  // keys that the command reads; 0: none, 1: its first argument, 2: all of its arguments
	neverQueued            bool // not queued in a transaction
	allowedWhileSubscribed bool // allowed while a RESP2 session is subscribed to channels
	run                    func(n *Node, s *Session, a []string) any
}

func (c command) acceptsArgs(words int) bool {
	return words == c.arity || c.arity < 0 && words >= -c.arity
}

// commands returns the command table. Each node has its own table, since a global variable would
// refer to itself: commands run scripts, and scripts run commands.
func commands() map[string]command {
	return map[string]command{
		"set":       {arity: -3, isWrite: true, run: set},
		"setnx":     {arity: 3, isWrite: true, run: setnx},
		"get":       {arity: 2, keysRead: 1, run: withValue(text, get)},
		"del":       {arity: -2, isWrite: true, run: del},
		"unlink":    {arity: -2, isWrite: true, run: del},
		"exists":    {arity: -2, keysRead: 2, run: exists},
		"incr":      {arity: 2, isWrite: true, run: func(n *Node, _ *Session, a []string) any { return n.incrby(a[1], "1") }},
		"incrby":    {arity: 3, isWrite: true, run: func(n *Node, _ *Session, a []string) any { return n.incrby(a[1], a[2]) }},
		"type":      {arity: 2, keysRead: 1, run: typeOf},
		"expire":    {arity: -3, isWrite: true, run: expireCommand("expire", 1000, false)},
		"pexpire":   {arity: -3, isWrite: true, run: expireCommand("pexpire", 1, false)},
		"expireat":  {arity: -3, isWrite: true, run: expireCommand("expireat", 1000, true)},
		"pexpireat": {arity: -3, isWrite: true, run: expireCommand("pexpireat", 1, true)},
		"ttl":       {arity: 2, keysRead: 1, run: expiryCommand(1000, true)},
		"pttl":      {arity: 2, keysRead: 1, run: expiryCommand(1, true)},
		"lpush":     {arity: -3, isWrite: true, run: withValue(list, lpush)},
		"lpop":      {arity: -2, isWrite: true, run: popCommand(true)},
		"rpop":      {arity: -2, isWrite: true, run: popCommand(false)},
		"lrem":      {arity: 4, isWrite: true, run: lrem},
		"lindex":    {arity: 3, keysRead: 1, run: withValue(list, lindex)},
		"rpush":     {arity: -3, isWrite: true, run: withValue(list, rpush)},
		"llen":      {arity: 2, keysRead: 1, run: withValue(list, llen)},
		"lrange":    {arity: 4, keysRead: 1, run: lrange},
		"hset":      {arity: -4, isWrite: true, run: hset},
		"hget":      {arity: 3, keysRead: 1, run: withValue(hash, hget)},
		"hgetall":   {arity: 2, keysRead: 1, run: withValue(hash, hgetall)},
		"hexists":   {arity: 3, keysRead: 1, run: withValue(hash, hexists)},
		"hincrby":   {arity: 4, isWrite: true, run: hincrby},
		"hdel":      {arity: -3, isWrite: true, run: withValue(hash, hdel)},
		"eval":      {arity: -3, noScript: true, run: eval},
		"evalsha":   {arity: -3, noScript: true, run: eval},
		"script":    {arity: -2, noScript: true, run: subcommand},
		"time":      {arity: 1, run: clockTime},
		"ping":      {arity: -1, allowedWhileSubscribed: true, run: ping},
		"echo":      {arity: 2, run: func(_ *Node, _ *Session, a []string) any { return a[1] }},
		"dbsize":    {arity: 1, run: dbsize},
		"flushall":  {arity: -1, isWrite: true, run: flushAll},
		"info":      {arity: -1, run: info},
		"config":    {arity: -2, noScript: true, run: subcommand},
		"hello":     {arity: -1, noScript: true, run: hello},
		"auth":      {arity: -2, noScript: true, run: auth},
		"select":    {arity: 2, run: selectDB},
		"client":    {arity: -2, noScript: true, run: subcommand},
		"quit":      {arity: -1, noScript: true, neverQueued: true, allowedWhileSubscribed: true, run: quit},

		"getrange":    {arity: 4, keysRead: 1, run: getrange},
		"getdel":      {arity: 2, isWrite: true, run: withValue(text, getdel)},
		"getex":       {arity: -2, isWrite: true, run: getex},
		"persist":     {arity: 2, isWrite: true, run: persist},
		"expiretime":  {arity: 2, keysRead: 1, run: expiryCommand(1000, false)},
		"pexpiretime": {arity: 2, keysRead: 1, run: expiryCommand(1, false)},

		"multi":   {arity: 1, noScript: true, neverQueued: true, run: multi},
		"exec":    {arity: 1, noScript: true, neverQueued: true, run: execTransaction},
		"discard": {arity: 1, noScript: true, neverQueued: true, run: discard},
		"watch":   {arity: -2, noScript: true, neverQueued: true, run: watch},
		"unwatch": {arity: 1, noScript: true, run: unwatch},

		"subscribe":   {arity: -2, noScript: true, allowedWhileSubscribed: true, run: subscribe},
		"unsubscribe": {arity: -1, noScript: true, allowedWhileSubscribed: true, run: unsubscribe},
		"publish":     {arity: 3, run: publish},
	}
}

// subcommands lists the supported subcommands. Their arity includes the command's name.
var subcommands = map[string]command{
	"client|id":           {arity: 2, run: func(_ *Node, s *Session, _ []string) any { return s.id }},
	"client|getname":      {arity: 2, run: clientName},
	"client|setname":      {arity: 3, run: setClientName},
	"client|setinfo":      {arity: 4, run: func(*Node, *Session, []string) any { return ok }}, // added in Redis 7.2, but libraries send it on their own
	"client|kill":         {arity: -3, run: clientKill},
	"client|tracking":     {arity: -3, run: clientTracking},
	"client|caching":      {arity: 3, run: clientCaching},
	"client|getredir":     {arity: 2, run: clientGetRedir},
	"client|trackinginfo": {arity: 2, run: clientTrackingInfo},
	"config|get":          {arity: -3, run: configGet},
	"script|load":         {arity: 3, run: scriptLoad},
	"script|exists":       {arity: -3, run: scriptExists},
	"script|flush":        {arity: -2, run: scriptFlush},
}

func subcommand(n *Node, s *Session, a []string) any {
	name := strings.ToLower(a[0] + "|" + a[1])
	switch c, known := subcommands[name]; {
	case !known:
		return unknownSubcommand(a)
	case !c.acceptsArgs(len(a)):
		return wrongArgCount(name)
	default:
		return c.run(n, s, a)
	}
}

const (
	ok          = status("OK")
	syntaxError = failure("ERR syntax error")
	notInteger  = failure("ERR value is not an integer or out of range")
	overflow    = failure("ERR increment or decrement would overflow")
)

func wrongArgCount(name string) failure {
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

// parseInteger parses an integer as strictly as Redis does: no plus sign, no leading zeros, no
// spaces.
func parseInteger(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

// addChecked adds two numbers. It returns false if the sum overflows.
func addChecked(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0)
}

func boolToInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
