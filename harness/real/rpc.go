package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"sync"

	"lockpick/nemesis"
)

// message is a line. One with an id and a call asks, one with an id alone answers, and
// one with a call alone is a notice.
type message struct {
	ID      int64             `json:"id,omitempty"`
	Call    string            `json:"call,omitempty"`
	Args    []json.RawMessage `json:"args,omitempty"`
	Results []json.RawMessage `json:"results,omitempty"`
	Error   string            `json:"error,omitempty"`
	Is      []string          `json:"is,omitempty"` // which of those that are known it is
}

func texts(values []any) (all []json.RawMessage, err error) {
	for _, v := range values {
		text, bad := json.Marshal(v)
		if bad != nil {
			return nil, bad
		}
		all = append(all, text)
	}
	return all, nil
}

// known are the errors by which a caller branches, by names that both ends know.
var known = map[string]error{"idle": nemesis.ErrIdle, "ended": nemesis.ErrEnded, "permission": fs.ErrPermission}

// names lists which of them err is.
func names(err error) (is []string) {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if errors.Is(err, known[name]) {
			is = append(is, name)
		}
	}
	return is
}

// failure is an error that came over the wire.
type failure struct {
	text string
	is   []error
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.is }

// revive makes the error of a message again.
func revive(m message) error {
	if m.Error == "" {
		return nil
	}
	f := &failure{text: m.Error}
	for _, name := range m.Is {
		if err := known[name]; err != nil {
			f.is = append(f.is, err)
		}
	}
	return f
}

// CallServer is the end that answers, by the exported methods of some values.
type CallServer struct {
	Of func() []any // the values, as they are now; the first that has a method is called

	mu  sync.Mutex
	out *json.Encoder
}

// Serve answers what comes in until it ends, and returns when all is answered. Each
// call is done in a goroutine of its own.
func (s *CallServer) Serve(in io.Reader, out io.Writer) error {
	s.mu.Lock()
	s.out = json.NewEncoder(out)
	s.mu.Unlock()
	var calls sync.WaitGroup
	defer calls.Wait()
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil // what stands without a newline was cut off by its end
		}
		if err != nil {
			return fmt.Errorf("read a call: %w", err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("read call %.100q: %w", line, err)
		}
		calls.Go(func() { s.answer(m) })
	}
}

func (s *CallServer) answer(m message) {
	reply := message{ID: m.ID}
	results, err := invoke(s.Of(), m)
	text, bad := texts(results)
	if err = errors.Join(err, bad); err != nil {
		reply.Error, reply.Is = err.Error(), names(err)
	}
	reply.Results = text
	s.send(reply)
}

// notify calls a method of whoever hears notices at the other end. Once nobody reads any
// more it does nothing.
func (s *CallServer) notify(notice string, args ...any) {
	text, err := texts(args)
	if err != nil {
		panic("notice " + notice + ": " + err.Error()) // ours can all be written
	}
	s.send(message{Call: notice, Args: text})
}

func (s *CallServer) send(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Encode(m) // who has gone needs no answer
}

// invoke calls the method that a message names, of the first value that has it. An error
// that it returns does not keep its other results back.
func invoke(of []any, m message) (results []any, err error) {
	var method reflect.Value
	for _, v := range of {
		if v == nil {
			continue
		}
		if method = reflect.ValueOf(v).MethodByName(m.Call); method.IsValid() {
			break
		}
	}
	if !method.IsValid() {
		return nil, fmt.Errorf("there is no call %q now", m.Call)
	}
	is := method.Type()
	if len(m.Args) != is.NumIn() {
		return nil, fmt.Errorf("call %s: it takes %d arguments, not %d", m.Call, is.NumIn(), len(m.Args))
	}
	args := make([]reflect.Value, len(m.Args))
	for i, text := range m.Args {
		arg := reflect.New(is.In(i))
		if err := json.Unmarshal(text, arg.Interface()); err != nil {
			return nil, fmt.Errorf("call %s: read argument %.100q: %w", m.Call, text, err)
		}
		args[i] = arg.Elem()
	}
	for i, v := range method.Call(args) {
		if is.Out(i) == reflect.TypeFor[error]() {
			err, _ = v.Interface().(error)
			continue
		}
		results = append(results, v.Interface())
	}
	return results, err
}

// ErrAgentGone says that the other end has ended.
var ErrAgentGone = errors.New("it has ended")

// Caller is the end that asks.
type Caller struct {
	hears any // what notices call methods of; nil: there are none
	ended chan struct{}

	mu    sync.Mutex // guards what follows, and keeps lines whole
	in    *json.Encoder
	last  int64
	waits map[int64]chan message
	err   error // why it has ended
}

// NewCaller asks over in and reads out until that ends. Notices call methods of hears,
// one after the other, and before the answers that came after them are given.
func NewCaller(in io.Writer, out io.Reader, hears any) *Caller {
	c := &Caller{hears: hears, ended: make(chan struct{}), in: json.NewEncoder(in), waits: map[int64]chan message{}}
	go func() {
		err := c.read(out)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = err
		close(c.ended)
	}()
	return c
}

// Ended is closed when the other end has.
func (c *Caller) Ended() <-chan struct{} { return c.ended }

func (c *Caller) read(out io.Reader) error {
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return ErrAgentGone
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrAgentGone, err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("%w: it wrote %.100q", ErrAgentGone, line)
		}
		if m.Call != "" {
			if _, err := invoke([]any{c.hears}, m); err != nil {
				return fmt.Errorf("%w: it wrote %.100q: %w", ErrAgentGone, line, err)
			}
			continue
		}
		c.mu.Lock()
		wait := c.waits[m.ID]
		delete(c.waits, m.ID)
		c.mu.Unlock()
		if wait != nil { // or its caller is not there any more
			wait <- m
		}
	}
}

// CallArgs are the arguments of a call.
type CallArgs []any

// Call asks and waits for the answer, whose results it puts where results point. Not
// every error means that there are none.
func (c *Caller) Call(ctx context.Context, call string, args CallArgs, results ...any) error {
	written, err := texts(args)
	if err != nil {
		return fmt.Errorf("call %s: %w", call, err)
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waits[id] = answer
	err = c.in.Encode(message{ID: id, Call: call, Args: written})
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("call %s: %w: %w", call, ErrAgentGone, err)
	}
	select {
	case m := <-answer:
		return c.take(m, call, results)
	case <-c.ended:
		select { // it may have answered just before
		case m := <-answer:
			return c.take(m, call, results)
		default:
			return fmt.Errorf("call %s: %w", call, c.err)
		}
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waits, id)
		c.mu.Unlock()
		return fmt.Errorf("call %s: %w", call, context.Cause(ctx))
	}
}

func (c *Caller) take(m message, call string, results []any) error {
	for i, to := range results[:min(len(results), len(m.Results))] {
		if err := json.Unmarshal(m.Results[i], to); err != nil && m.Error == "" {
			return fmt.Errorf("call %s: it answers %.100q: %w", call, m.Results[i], err)
		}
	}
	return revive(m)
}
