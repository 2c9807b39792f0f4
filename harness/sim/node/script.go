package node

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// script is a parsed text. It never changes, so that all nodes share it.
type script struct {
	sha   string
	proto *lua.FunctionProto
}

// loaded is a script that a node knows, ready to run there.
type loaded struct {
	sha string
	run *lua.LFunction
}

// parsed holds every script of the process by its text: a run makes many nodes,
// and a sweep makes many runs, but there are few texts.
var parsed sync.Map

func parseScript(source string) (*script, error) {
	if s, ok := parsed.Load(source); ok {
		return s.(*script), nil
	}
	chunk, err := parse.Parse(strings.NewReader(source), chunkName)
	if err != nil {
		//lint:ignore ST1005 Redis's words
		return nil, fmt.Errorf("Error compiling script (new function): %w", atSymbol(err, source))
	}
	proto, err := lua.Compile(chunk, chunkName)
	if err != nil {
		//lint:ignore ST1005 Redis's words
		return nil, fmt.Errorf("Error compiling script (new function): %w", err)
	}
	// gopher-lua would make each call a table arg, which Lua 5.1 has only in functions.
	proto.IsVarArg &^= lua.VarArgNeedsArg
	s := &script{sha: sha1hex(source), proto: proto}
	parsed.Store(strings.Clone(source), s)
	return s, nil
}

// atSymbol words a parser's complaint as Lua 5.1 does where no symbol can begin what
// should be there. Where Lua says which symbol it expected, that isn't known here.
func atSymbol(err error, source string) error {
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

// load makes a script known to the node.
func (n *Node) load(source string) (*loaded, failure) {
	if l := n.texts[source]; l != nil {
		return l, ""
	}
	s, err := parseScript(source)
	if err != nil {
		return nil, failure("ERR " + oneLine(err.Error()))
	}
	l := n.scripts[s.sha]
	if l == nil {
		in := n.interpreter()
		l = &loaded{sha: s.sha, run: in.state.NewFunctionFromProto(s.proto)}
		l.run.Env = in.env
		n.scripts[s.sha] = l
	}
	n.texts[strings.Clone(source)] = l
	return l, ""
}

// eval is EVAL and EVALSHA.
func eval(n *Node, s *Session, a []string) any {
	keys, bad := keyCount(a)
	if bad != "" {
		return bad
	}
	var l *loaded
	if strings.EqualFold(a[0], "eval") {
		l, bad = n.load(a[1])
	} else if l = n.scripts[strings.ToLower(a[1])]; l == nil {
		bad = "NOSCRIPT No matching script. Please use EVAL."
	}
	if bad != "" {
		return bad
	}
	return n.interpreter().call(s, l, a[3:3+keys], a[3+keys:])
}

func keyCount(a []string) (int, failure) {
	n, isInt := integer(a[2])
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

func scripts(n *Node, _ *Session, a []string) any {
	switch sub := strings.ToLower(a[1]); sub {
	case "load":
		if len(a) != 3 {
			return wrongNumber("script|load")
		}
		l, bad := n.load(a[2])
		if bad != "" {
			return bad
		}
		return l.sha
	case "exists":
		if len(a) < 3 {
			return wrongNumber("script|exists")
		}
		out := []any{}
		for _, sha := range a[2:] {
			out = append(out, yesNo(n.scripts[strings.ToLower(sha)] != nil))
		}
		return out
	case "flush":
		if len(a) > 3 || len(a) == 3 && !syncWord(a[2]) {
			return failure("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
		}
		clear(n.scripts)
		clear(n.texts)
		return ok
	}
	return unknownSubcommand(a)
}
