package node

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// script is a parsed script. It never changes, so all nodes can share it.
type script struct {
	sha   string
	proto *lua.FunctionProto
}

// loadedScript is a script in a node's script cache, ready to run there.
type loadedScript struct {
	sha string
	run *lua.LFunction
}

// parsedScripts caches the process's parsed scripts by source. A run creates many nodes, and a
// sweep makes many runs, but they use few different scripts.
var parsedScripts sync.Map

func parseScript(source string) (*script, error) {
	if s, ok := parsedScripts.Load(source); ok {
		return s.(*script), nil
	}
	chunk, err := parse.Parse(strings.NewReader(source), chunkName)
	if err != nil {
		//lint:ignore ST1005 same text as Redis
		return nil, fmt.Errorf("Error compiling script (new function): %w", luaSyntaxError(err, source))
	}
	proto, err := lua.Compile(chunk, chunkName)
	if err != nil {
		//lint:ignore ST1005 same text as Redis
		return nil, fmt.Errorf("Error compiling script (new function): %w", err)
	}
	// gopher-lua would create a table named arg for each call, which Lua 5.1 does only in functions.
	proto.IsVarArg &^= lua.VarArgNeedsArg
	s := &script{sha: sha1hex(source), proto: proto}
	parsedScripts.Store(strings.Clone(source), s)
	return s, nil
}

// luaSyntaxError rewords a parse error like Lua 5.1's error for an unexpected symbol. If Lua would
// name the symbol it expected, the messages differ, since that symbol is not known here.
func luaSyntaxError(err error, source string) error {
	var e *parse.Error
	if !errors.As(err, &e) || e.Message != "syntax error" {
		return err
	}
	line, symbol := e.Pos.Line, e.Token
	if line == parse.EOF {
		line, symbol = 1+strings.Count(source, "\n"), "<eof>"
	}
	return fmt.Errorf("%s:%d: unexpected symbol near '%s'", chunkName, line, symbol)
}

func sha1hex(s string) string {
	h := sha1.Sum([]byte(s))
	return hex.EncodeToString(h[:])
}

// load adds a script to the node's cache.
func (n *Node) load(source string) (*loadedScript, failure) {
	if loaded := n.scriptsBySource[source]; loaded != nil {
		return loaded, ""
	}
	s, err := parseScript(source)
	if err != nil {
		return nil, failure("ERR " + joinLines(err.Error()))
	}
	loaded := n.scripts[s.sha]
	if loaded == nil {
		in := n.interpreter()
		loaded = &loadedScript{sha: s.sha, run: in.state.NewFunctionFromProto(s.proto)}
		loaded.run.Env = in.env
		n.scripts[s.sha] = loaded
	}
	n.scriptsBySource[strings.Clone(source)] = loaded
	return loaded, ""
}

// eval implements EVAL and EVALSHA.
func eval(n *Node, s *Session, a []string) any {
	keys, errReply := keyCount(a)
	if errReply != "" {
		return errReply
	}
	var l *loadedScript
	if strings.EqualFold(a[0], "eval") {
		l, errReply = n.load(a[1])
	} else if l = n.scripts[strings.ToLower(a[1])]; l == nil {
		errReply = "NOSCRIPT No matching script. Please use EVAL."
	}
	if errReply != "" {
		return errReply
	}
	return n.interpreter().call(s, l, a[3:3+keys], a[3+keys:])
}

func keyCount(a []string) (int, failure) {
	n, isInt := parseInteger(a[2])
	switch {
	case !isInt:
		return 0, notInteger
	case n > int64(len(a)-3):
		return 0, "ERR Number of keys can't be greater than number of args"
	case n < 0:
		return 0, "ERR Number of keys can't be negative"
	}
	return int(n), ""
}

func scriptLoad(n *Node, _ *Session, a []string) any {
	l, errReply := n.load(a[2])
	if errReply != "" {
		return errReply
	}
	return l.sha
}

func scriptExists(n *Node, _ *Session, a []string) any {
	found := []any{}
	for _, sha := range a[2:] {
		found = append(found, boolToInt(n.scripts[strings.ToLower(sha)] != nil))
	}
	return found
}

func scriptFlush(n *Node, _ *Session, a []string) any {
	if len(a) > 3 || len(a) == 3 && !isSyncOption(a[2]) {
		return failure("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	clear(n.scripts)
	clear(n.scriptsBySource)
	return ok
}

// chunkName is the name of scripts in Redis's error messages.
const chunkName = "user_script"

// interpreter is a node's Lua state, which lives as long as the node.
type interpreter struct {
	node        *Node
	state       *lua.LState
	globals     *lua.LTable // global variables of all scripts
	env         *lua.LTable // read-only view of globals
	session     *Session    // session of the running script
	randomState uint64      // state of math.random
}

func (n *Node) interpreter() *interpreter {
	if n.lua == nil {
		n.lua = newInterpreter(n)
	}
	return n.lua
}

func newInterpreter(n *Node) *interpreter {
	state := lua.NewState(lua.Options{SkipOpenLibs: true, RegistrySize: 1024, RegistryMaxSize: 1 << 16})
	in := &interpreter{node: n, state: state, randomState: drand48Seed(0)}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	in.globals = state.G.Global
	for _, name := range []string{"print", "_printregs", "dofile", "loadfile", "require", "module"} {
		in.globals.RawSetString(name, lua.LNil)
	}
	redisTable := state.SetFuncs(state.NewTable(), map[string]lua.LGFunction{
		"call":         func(l *lua.LState) int { return in.callRedis(l, false) },
		"pcall":        func(l *lua.LState) int { return in.callRedis(l, true) },
		"status_reply": func(l *lua.LState) int { return pushReply(l, "ok", l.CheckString(1)) },
		"error_reply":  func(l *lua.LState) int { return pushReply(l, "err", withErrorCode(l.CheckString(1))) },
		"sha1hex": func(l *lua.LState) int {
			l.Push(lua.LString(sha1hex(l.CheckString(1))))
			return 1
		},
	})
	state.SetMetatable(redisTable, state.SetFuncs(state.NewTable(), map[string]lua.LGFunction{
		"__index": func(l *lua.LState) int {
			if name := lua.LVAsString(l.Get(2)); unsupportedRedisFields[name] {
				in.node.noteUnsupported(in.session, "redis."+name+" in scripts")
			}
			l.Push(lua.LNil)
			return 1
		},
	}))
	in.globals.RawSetString("redis", makeReadOnly(state, redisTable))
	mathTable := in.globals.RawGetString("math").(*lua.LTable)
	state.SetFuncs(mathTable, map[string]lua.LGFunction{"random": in.luaRandom, "randomseed": in.luaRandomSeed})
	state.SetMetatable(in.globals, state.SetFuncs(state.NewTable(), map[string]lua.LGFunction{
		"__index": func(l *lua.LState) int {
			if name := lua.LVAsString(l.Get(2)); unsupportedGlobals[name] {
				in.node.noteUnsupported(in.session, name+" in scripts")
			}
			l.RaiseError("Script attempted to access nonexistent global variable '%s'", lua.LVAsString(l.Get(2)))
			return 0
		},
	}))
	in.env = makeReadOnly(state, in.globals)
	return in
}

// makeReadOnly wraps a table so that scripts can't modify it.
func makeReadOnly(l *lua.LState, t *lua.LTable) *lua.LTable {
	metatable := l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"__newindex": func(l *lua.LState) int {
			l.RaiseError("Attempt to modify a readonly table")
			return 0
		},
	})
	metatable.RawSetString("__index", t)
	proxy := l.NewTable()
	l.SetMetatable(proxy, metatable)
	return proxy
}

// call runs a script.
func (in *interpreter) call(s *Session, script *loadedScript, keys, args []string) any {
	l := in.state
	in.session = s
	in.globals.RawSetString("KEYS", wordTable(l, keys))
	in.globals.RawSetString("ARGV", wordTable(l, args))
	defer l.SetTop(0)
	l.Push(script.run)
	if err := l.PCall(0, 1, nil); err != nil {
		return scriptError(err, script.sha)
	}
	return fromLua(l.Get(-1), 0)
}

func wordTable(l *lua.LState, words []string) *lua.LTable {
	t := l.CreateTable(len(words), 0)
	for i, word := range words {
		t.RawSetInt(i+1, lua.LString(word))
	}
	return t
}

// callRedis implements redis.call and redis.pcall.
func (in *interpreter) callRedis(l *lua.LState, protected bool) int {
	v := in.runCommand(l)
	errReply, isError := v.(failure)
	if isError && !protected {
		l.Error(replyTable(l, "err", string(errReply)), 0)
	}
	l.Push(toLua(l, v))
	return 1
}

func (in *interpreter) runCommand(l *lua.LState) any {
	if l.GetTop() == 0 {
		return failure("ERR Please specify at least one argument for this redis lib call")
	}
	args := make([]string, l.GetTop())
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = formatNumber(float64(v))
		default:
			return failure("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	name := strings.ToLower(args[0])
	c, known := in.node.commands[name]
	switch {
	case !known:
		in.node.noteUnsupportedCommand(in.session, args, 1)
		return failure("ERR Unknown Redis command called from script")
	case !c.acceptsArgs(len(args)):
		return failure("ERR Wrong number of args calling Redis command from script")
	case c.noScript:
		return failure("ERR This Redis command is not allowed from script")
	case c.isWrite && in.node.appender.writeFailed:
		return misconf
	}
	in.node.runningCommand, in.node.inScript = name, true
	reply := c.run(in.node, in.session, args)
	in.session.trackReads(c, args)
	return reply
}

// formatNumber formats a number passed by a script as a command argument, as Redis does.
func formatNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return fmt.Sprintf("%d", int64(f))
	}
	return fmt.Sprintf("%.17g", f)
}

func pushReply(l *lua.LState, field, text string) int {
	l.Push(replyTable(l, field, text))
	return 1
}

// replyTable returns a status or an error in Lua's format: {ok=text} or {err=text}. A table created
// without a size would allocate room for 32 fields.
func replyTable(l *lua.LState, field, text string) *lua.LTable {
	t := l.CreateTable(0, 1)
	t.RawSetString(field, lua.LString(text))
	return t
}

// withErrorCode adds the code ERR to an error that consists of a single word.
func withErrorCode(s string) string {
	s = strings.TrimPrefix(s, "-")
	if !strings.Contains(s, " ") {
		return "ERR " + s
	}
	return s
}

var scriptLine = regexp.MustCompile(chunkName + `:(\d+)`)

// scriptError formats a script's error as Redis does, with the line number.
func scriptError(err error, sha string) failure {
	text, line := err.Error(), "1"
	var e *lua.ApiError
	if errors.As(err, &e) {
		if t, ok := e.Object.(*lua.LTable); ok {
			text = lua.LVAsString(t.RawGetString("err"))
		} else {
			text = "ERR " + e.Object.String()
		}
		if m := scriptLine.FindStringSubmatch(e.StackTrace); m != nil {
			line = m[1]
		}
	}
	return failure(joinLines(fmt.Sprintf("%s script: %s, on @%s:%s.", text, sha, chunkName, line)))
}

func toLua(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case status:
		return replyTable(l, "ok", string(v))
	case failure:
		return replyTable(l, "err", string(v))
	case string:
		return lua.LString(v)
	case verbatim:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case pairs:
		return toLua(l, []any(v))
	case []any:
		t := l.CreateTable(len(v), 0)
		for i, item := range v {
			t.RawSetInt(i+1, toLua(l, item))
		}
		return t
	}
	return lua.LFalse
}

// maxNesting limits the depth of a script's reply, which may contain itself.
const maxNesting = 64

func fromLua(v lua.LValue, depth int) any {
	switch v := v.(type) {
	case lua.LBool:
		if v {
			return int64(1)
		}
	case lua.LNumber:
		return int64(v)
	case lua.LString:
		return string(v)
	case *lua.LTable:
		if depth > maxNesting {
			return failure("ERR reached lua stack limit")
		}
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			return failure(text)
		}
		if text, ok := v.RawGetString("ok").(lua.LString); ok {
			return status(text)
		}
		out := []any{}
		for i := 1; v.RawGetInt(i) != lua.LNil; i++ {
			out = append(out, fromLua(v.RawGetInt(i), depth+1))
		}
		return out
	}
	return nil
}
