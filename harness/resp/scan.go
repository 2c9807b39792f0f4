package resp

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Value is one RESP2 or RESP3 value.
type Value struct {
	Kind  byte   // its first byte: + - : $ * % ~ > _ , #
	Str   string // text of + - $ , #
	Int   int64  // of :
	Null  bool   // _, $-1 or *-1
	Items []Value
}

// Error reports whether v is an error reply, and its text.
func (v Value) Error() (string, bool) { return v.Str, v.Kind == '-' }

// Strings returns a command's words.
func (v Value) Strings() []string {
	out := make([]string, len(v.Items))
	for i, it := range v.Items {
		out[i] = it.Str
		if it.Kind == ':' {
			out[i] = strconv.FormatInt(it.Int, 10)
		}
	}
	return out
}

// ErrShort says that a value is not complete yet.
var ErrShort = errors.New("incomplete")

const (
	maxBulk  = 64 << 20
	maxWord  = 512 << 20 // of a command, as in Redis
	maxItems = 1 << 20
	maxDepth = 32
)

// Scanner cuts a stream of bytes into values, however it is chunked.
type Scanner struct {
	buf      []byte // begins a value that isn't complete
	err      error
	commands [][]string // of the last call
	ends     []int      // of the words of one command: where each begins and ends
}

// Feed takes the next bytes and returns the values that are complete now. After
// an error the stream makes no sense any more, and Feed returns that error.
func (s *Scanner) Feed(b []byte) (out []Value, err error) {
	rest := s.behind(b)
	for len(rest) > 0 && s.err == nil {
		v, r, err := Parse(rest)
		if !s.goesOn(err) {
			break
		}
		out, rest = append(out, v), r
	}
	s.keep(rest)
	return out, s.err
}

// Commands is Feed for commands, as words. The error is what a Redis says of it. The list,
// though not the commands in it, is valid until the next call.
func (s *Scanner) Commands(b []byte) ([][]string, error) {
	rest := s.behind(b)
	s.commands = s.commands[:0]
	for len(rest) > 0 && s.err == nil {
		args, r, err := s.words(rest)
		if !s.goesOn(err) {
			break
		}
		s.commands, rest = append(s.commands, args), r
	}
	s.keep(rest)
	return s.commands, s.err
}

// behind is b behind what is still incomplete.
func (s *Scanner) behind(b []byte) []byte {
	if len(s.buf) == 0 {
		return b
	}
	s.buf = append(s.buf, b...)
	return s.buf
}

// goesOn says whether a value was cut off, and remembers what was wrong.
func (s *Scanner) goesOn(err error) bool {
	if err != nil && err != ErrShort {
		s.err = err
	}
	return err == nil
}

// keep keeps what is not complete yet.
func (s *Scanner) keep(rest []byte) {
	if s.buf = s.buf[:0]; s.err == nil {
		s.buf = append(s.buf, rest...)
	}
}

// words cuts one command off b, as a Redis does, and its errors are Redis's own words. All
// words of a command are parts of one string. Clients' goroutines parse commands, and are
// many and short-lived: it goes straight through, since their stacks have to grow for every
// frame.
func (s *Scanner) words(b []byte) (args []string, rest []byte, err error) {
	line, rest, err := cutLine(b)
	if err != nil {
		return nil, nil, err
	}
	if len(line) == 0 || line[0] != '*' {
		return strings.Fields(string(line)), rest, nil
	}
	n, ok := number(line[1:])
	if !ok || n > maxItems {
		return nil, nil, errors.New("invalid multibulk length")
	}
	if n <= 0 {
		return nil, rest, nil
	}
	s.ends = s.ends[:0]
	for range n {
		if line, rest, err = cutLine(rest); err != nil {
			return nil, nil, err
		}
		if len(line) == 0 || line[0] != '$' {
			return nil, nil, fmt.Errorf("expected '$', got '%s'", line[:min(1, len(line))])
		}
		size, ok := number(line[1:])
		if !ok || size < 0 || size > maxWord {
			return nil, nil, errors.New("invalid bulk length")
		}
		if int64(len(rest)) < size+2 {
			return nil, nil, ErrShort
		}
		at := len(b) - len(rest)
		s.ends, rest = append(s.ends, at, at+int(size)), rest[size+2:]
	}
	text := string(b[s.ends[0]:s.ends[len(s.ends)-1]])
	args = make([]string, n)
	for i := range args {
		args[i] = text[s.ends[2*i]-s.ends[0] : s.ends[2*i+1]-s.ends[0]]
	}
	return args, rest, nil
}

// cutLine cuts one line off b. As in Redis, a bare newline ends an inline command too.
func cutLine(b []byte) (line, rest []byte, err error) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		if len(b) > 64<<10 {
			return nil, nil, errors.New("too big inline request")
		}
		return nil, nil, ErrShort
	}
	return bytes.TrimSuffix(b[:i], []byte("\r")), b[i+1:], nil
}

// Append writes a command as clients do.
func Append(out []byte, args ...string) []byte {
	out = fmt.Appendf(out, "*%d\r\n", len(args))
	for _, a := range args {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(a), a)
	}
	return out
}

// Parse cuts the first value off b; ErrShort says that b ends inside it. Inline commands ("PING\r\n") become arrays.
func Parse(b []byte) (Value, []byte, error) { return parse(b, 0) }

func parse(b []byte, depth int) (Value, []byte, error) {
	if depth > maxDepth {
		return Value{}, nil, errors.New("RESP value is nested too deep")
	}
	i := bytes.Index(b, crlf)
	if i < 0 {
		return Value{}, nil, ErrShort
	}
	line, rest := b[:i], b[i+2:]
	if len(line) == 0 {
		return Value{}, nil, errors.New("RESP value has no type")
	}
	v := Value{Kind: line[0]}
	switch v.Kind {
	case '+', '-', ',', '#', '(':
		v.Str = string(line[1:])
		return v, rest, nil
	case '_':
		v.Null = true
		return v, rest, nil
	case ':', '$', '=', '*', '%', '~', '>':
	default: // inline
		v = Value{Kind: '*'}
		for _, w := range strings.Fields(string(line)) {
			v.Items = append(v.Items, Value{Kind: '$', Str: w})
		}
		return v, rest, nil
	}
	n, ok := number(line[1:])
	switch {
	case !ok:
		return Value{}, nil, fmt.Errorf("RESP value %q has no number", line)
	case v.Kind == ':':
		v.Int = n
		return v, rest, nil
	case n < 0:
		v.Null = true
		return v, rest, nil
	case v.Kind != '$' && v.Kind != '=':
		return items(v, n, rest, depth)
	case n > maxBulk:
		return Value{}, nil, fmt.Errorf("RESP string of %d bytes is too long", n)
	case int64(len(rest)) < n+2:
		return Value{}, nil, ErrShort
	}
	v.Str = string(rest[:n])
	return v, rest[n+2:], nil
}

var crlf = []byte("\r\n")

// number is strconv.ParseInt for the short numbers that nearly all are, without
// making a string of them.
func number(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 || b[0] < '0' || b[0] > '9' {
		n, err := strconv.ParseInt(string(b), 10, 64)
		return n, err == nil
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

func items(v Value, n int64, rest []byte, depth int) (Value, []byte, error) {
	if v.Kind == '%' {
		n *= 2
	}
	if n > maxItems {
		return Value{}, nil, fmt.Errorf("RESP array of %d items is too long", n)
	}
	v.Items = make([]Value, 0, min(n, 8)) // what is announced need not come
	for range n {
		it, r, err := parse(rest, depth+1)
		if err != nil {
			return Value{}, nil, err
		}
		v.Items, rest = append(v.Items, it), r
	}
	return v, rest, nil
}
