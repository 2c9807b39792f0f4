package resp

import (
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockpick/harness/history"
)

// marker begins the first line of a script that names its own operation, such as "--
// lockpick:write". The protected resource's scripts do so. A lock's script may do so if it would
// otherwise be misclassified.
const marker = "-- lockpick:"

// lockOps lists the operations that a lock's script can name.
var lockOps = []string{history.OpSet, history.OpExtend, history.OpRelease, history.OpFence}

// Scripts remembers what each script does, by its text and by its SHA-1 hash, because an EVALSHA
// contains only the hash. All links of a run share one Scripts. The zero value is ready to use.
type Scripts struct {
	mu     sync.Mutex
	byText map[string]*script
	bySHA  map[string]*script
}

// script says what a script does. op is "" if the script performs no lock operation.
type script struct {
	text, op     string
	isResource   bool // belongs to the protected resource and names its own operation
	ttlArg       int  // index of the TTL in ARGV, from 1; 0: none
	tokenArg     int  // index of the lock's random value in ARGV, from 1
	ttlInSeconds bool // the TTL is in seconds
	returnsTTL   bool // returns nil if it has set the lock, or else the lock's remaining time
	zeroIsOK     bool // returns 0 for success, or else a reason for the refusal
	argPerKey    bool // does the same to each key, with the argument at the key's index
}

func (s *Scripts) add(text string) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	if existing := s.byText[text]; existing != nil {
		return existing
	}
	if s.byText == nil {
		s.byText, s.bySHA = map[string]*script{}, map[string]*script{}
	}
	added := newScript(strings.Clone(text))
	s.byText[added.text] = added
	sum := sha1.Sum([]byte(text))
	s.bySHA[hex.EncodeToString(sum[:])] = added
	return added
}

// lookup returns the script with the given SHA-1 hash, or nil.
func (s *Scripts) lookup(sha string) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bySHA[strings.ToLower(sha)]
}

// ttlArgPattern matches the use of an argument as the TTL.
var ttlArgPattern = regexp.MustCompile(`["'](px|ex|pexpire|expire)["']\s*,\s*(?:keys\[1\]\s*,\s*)?argv\[([1-9])\]`)

// tokenArgPattern matches the use of an argument as the lock's random value, to set it or compare
// it.
var tokenArgPattern = regexp.MustCompile(`["'](?:set|setnx|hset|hsetnx|hexists|hincrby)["']\s*,\s*keys\[1\]\s*,\s*argv\[([1-9])\]|["']get["']\s*,\s*keys\[1\]\s*\)\s*[=~]=\s*argv\[([1-9])\]`)

// setPattern matches a command that sets the lock's key rather than an auxiliary key.
var setPattern = regexp.MustCompile(`["'](?:set|setnx)["']\s*,\s*keys\[1\]`)

// Commands that delete the lock's key or set its expiry. Scripts may do the same to an auxiliary key
// that wakes waiting clients.
var (
	deletePattern = regexp.MustCompile(`["'](?:del|unlink)["']\s*,\s*keys\[1\]\s*\)`)
	expirePattern = regexp.MustCompile(`["']p?expire(?:at)?["']\s*,\s*keys\[1\]`)
)

// refusalPattern matches an early return if the key is missing or has another value.
var refusalPattern = regexp.MustCompile(`if\s+redis\.call\(\s*["']get["']\s*,[^)]*\)\s*~=\s*argv\[[1-9]\]\s*then\s*return`)

// numericRefusalPattern matches an early return of a nonzero number, like an exit code.
var numericRefusalPattern = regexp.MustCompile(refusalPattern.String() + `\s+[1-9]`)

// keyLoopPattern matches a loop over the script's keys with an index.
var keyLoopPattern = regexp.MustCompile(`for\s+(\w+)\s*(?:,\s*\w+\s+in\s+ipairs\s*\(\s*keys\s*\)|=\s*1\s*,\s*#\s*keys\b)`)

// returnTTLPattern matches the return of the key's remaining time, which means that the script
// refuses the lock.
var returnTTLPattern = regexp.MustCompile(`return\s+redis\.call\(\s*["']p?ttl["']`)

// newScript classifies a script by its text. Each lock library has its own scripts, but all of them
// use the same few commands.
func newScript(text string) *script {
	s := &script{text: text, ttlArg: 2, tokenArg: 1}
	afterMarker, isNamed := strings.CutPrefix(text, marker)
	if isNamed {
		s.op, _, _ = strings.Cut(afterMarker, "\n")
		if s.op = strings.TrimSpace(s.op); !slices.Contains(lockOps, s.op) {
			s.isResource = true
			return s
		}
	}
	lower := strings.ToLower(text)
	hasWord := func(word string) bool {
		return strings.Contains(lower, `"`+word+`"`) || strings.Contains(lower, `'`+word+`'`)
	}
	if m := ttlArgPattern.FindStringSubmatch(lower); m != nil {
		s.ttlArg, _ = strconv.Atoi(m[2])
		s.ttlInSeconds = m[1] == "ex" || m[1] == "expire"
	} else if hasWord("pxat") || hasWord("pexpireat") {
		s.ttlArg = 0 // the argument is a time, not a duration
	}
	if m := tokenArgPattern.FindStringSubmatch(lower); m != nil {
		s.tokenArg, _ = strconv.Atoi(m[1] + m[2])
	}
	setsExpiry := hasWord("set") && (hasWord("px") || hasWord("ex"))
	usesFields := hasWord("hincrby") || hasWord("hset") || hasWord("hsetnx")
	switch {
	case isNamed:
	case deletePattern.MatchString(lower) && !expirePattern.MatchString(lower) && !setPattern.MatchString(lower):
		s.op = history.OpRelease
	case usesFields && (hasWord("del") || hasWord("hdel")) && !setPattern.MatchString(lower): // a reentrant lock: each release counts down, and the last one deletes the key
		s.op = history.OpRelease
	case setsExpiry && !hasWord("nx") && refusalPattern.MatchString(lower): // sets a key that the client owns again
		s.op = history.OpExtend
	case hasWord("nx"), hasWord("setnx"), setsExpiry && !hasWord("xx"):
		s.op = history.OpSet
	case usesFields && hasWord("exists") && (hasWord("pexpire") || hasWord("expire")):
		s.op = history.OpSet
	case setsExpiry, hasWord("pexpire"), hasWord("expire"), hasWord("pexpireat"):
		s.op = history.OpExtend
	case hasWord("del"), hasWord("unlink"):
		s.op = history.OpRelease
	case hasWord("get") && hasWord("set"):
		s.op = history.OpFence
	}
	if m := keyLoopPattern.FindStringSubmatch(lower); m != nil {
		s.argPerKey = regexp.MustCompile(`argv\[\s*` + m[1] + `\s*\]`).MatchString(lower)
	}
	s.zeroIsOK = numericRefusalPattern.MatchString(lower)
	s.returnsTTL = s.op == history.OpSet && returnTTLPattern.MatchString(lower)
	return s
}

// classify determines what a command does to a lock. Op remains "" if it does nothing.
func (c *Command) classify(scripts *Scripts) {
	if len(c.Args) < 2 {
		return
	}
	switch name, a := strings.ToUpper(c.Args[0]), c.Args; name {
	case "SET":
		c.parseSet()
	case "SETNX":
		if len(a) > 2 {
			c.Op, c.Key, c.Token = history.OpSet, a[1], a[2]
		}
	case "DEL", "UNLINK":
		c.Op, c.Key = history.OpRelease, a[1]
	case "PEXPIREAT", "EXPIREAT":
		if len(a) > 2 {
			c.Op, c.Key = history.OpExtend, a[1]
		}
	case "PEXPIRE", "EXPIRE":
		if len(a) > 2 {
			c.Op, c.Key, c.TTL = history.OpExtend, a[1], parseMillis(a[2])
			if name == "EXPIRE" {
				c.TTL *= 1000
			}
		}
	case "SCRIPT":
		if len(a) > 2 && strings.EqualFold(a[1], "LOAD") {
			scripts.add(a[2])
		}
	case "EVAL":
		c.parseScriptArgs(scripts.add(a[1]))
	case "EVALSHA":
		c.parseScriptArgs(scripts.lookup(a[1]))
	}
}

func (c *Command) parseSet() {
	if len(c.Args) < 3 {
		return
	}
	c.Op, c.Key, c.Token = history.OpSet, c.Args[1], c.Args[2]
	for i := 3; i+1 < len(c.Args); i++ {
		switch strings.ToUpper(c.Args[i]) {
		case "PX":
			c.TTL = parseMillis(c.Args[i+1])
		case "EX":
			c.TTL = 1000 * parseMillis(c.Args[i+1])
		}
	}
}

// parseScriptArgs parses a script's arguments. All libraries pass the lock's key first.
func (c *Command) parseScriptArgs(s *script) {
	if len(c.Args) < 4 {
		return
	}
	n, err := strconv.Atoi(c.Args[2])
	if err != nil || n < 1 || len(c.Args) < 3+n {
		return
	}
	argv := c.Args[3+n:]
	if s == nil { // the script's text has not been seen yet
		if len(argv) > 0 {
			c.Token = argv[0]
		}
		return
	}
	c.Op, c.Key = s.op, c.Args[3]
	if s.isResource {
		c.parseResourceArgs(argv)
		return
	}
	if c.Op == "" {
		return
	}
	if s.argPerKey && len(argv) == n {
		c.numKeys, c.Token = n, argv[0]
		return
	}
	if len(argv) >= s.tokenArg {
		c.Token = argv[s.tokenArg-1]
	}
	c.returnsTTL, c.zeroIsOK = s.returnsTTL, s.zeroIsOK
	if s.ttlArg > 0 && len(argv) >= s.ttlArg && (c.Op == history.OpSet || c.Op == history.OpExtend) {
		c.TTL = parseMillis(argv[s.ttlArg-1])
		if s.ttlInSeconds {
			c.TTL *= 1000
		}
	}
	if len(argv) > 1 && c.Op == history.OpFence {
		c.Fence, _ = strconv.ParseInt(argv[1], 10, 64)
	}
}

// parseResourceArgs parses the arguments common to all scripts of the resource: unique value,
// session, version that a write is based on, fencing token, lock token.
func (c *Command) parseResourceArgs(argv []string) {
	a := slices.Concat(argv, make([]string, 5)) // missing arguments are empty
	c.Value, c.Session, c.Token = a[0], a[1], a[4]
	c.Version, _ = strconv.ParseInt(a[2], 10, 64)
	c.Fence, _ = strconv.ParseInt(a[3], 10, 64)
}

func parseMillis(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n * int64(time.Millisecond)
}
