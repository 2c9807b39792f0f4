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

// message is one line of the protocol. A request has ID and Call, a reply has just ID, and a notice
// has just Call.
type message struct {
	ID      int64             `json:"id,omitempty"`
	Call    string            `json:"call,omitempty"`
	Args    []json.RawMessage `json:"args,omitempty"`
	Results []json.RawMessage `json:"results,omitempty"`
	Error   string            `json:"error,omitempty"`
	Is      []string          `json:"is,omitempty"` // names of the knownErrors that the error wraps
}

func marshalAll(values []any) (all []json.RawMessage, err error) {
	for _, v := range values {
		text, marshalErr := json.Marshal(v)
		if marshalErr != nil {
			return nil, marshalErr
		}
		all = append(all, text)
	}
	return all, nil
}

// knownErrors maps names that both ends know to errors that callers distinguish.
var knownErrors = map[string]error{"idle": nemesis.ErrIdle, "ended": nemesis.ErrEnded, "permission": fs.ErrPermission}

// errorNames returns the names of the knownErrors that err wraps.
func errorNames(err error) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(knownErrors)) {
		if errors.Is(err, knownErrors[name]) {
			names = append(names, name)
		}
	}
	return names
}

// remoteError is an error received from the other end.
type remoteError struct {
	text    string
	wrapped []error
}

func (f *remoteError) Error() string   { return f.text }
func (f *remoteError) Unwrap() []error { return f.wrapped }

// decodeError returns the message's error, or nil.
func decodeError(m message) error {
	if m.Error == "" {
		return nil
	}
	f := &remoteError{text: m.Error}
	for _, name := range m.Is {
		if err := knownErrors[name]; err != nil {
			f.wrapped = append(f.wrapped, err)
		}
	}
	return f
}

// CallServer answers calls by calling the exported methods of its targets.
type CallServer struct {
	Targets func() []any // returns the current targets; a call goes to the first that has the method

	mu  sync.Mutex
	out *json.Encoder
}

// Serve answers the calls from in until in is closed, and returns after the last answer. Each call
// runs in its own goroutine.
func (s *CallServer) Serve(in io.Reader, out io.Writer) error {
	s.mu.Lock()
	s.out = json.NewEncoder(out)
	s.mu.Unlock()
	var calls sync.WaitGroup
	defer calls.Wait()
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil // drop an incomplete line, which was cut off at the end
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
	results, err := invoke(s.Targets(), m)
	text, marshalErr := marshalAll(results)
	if err = errors.Join(err, marshalErr); err != nil {
		reply.Error, reply.Is = err.Error(), errorNames(err)
	}
	reply.Results = text
	s.send(reply)
}

// notify sends a notice to the other end, which calls the method of that name. It does nothing if the
// other end has disconnected.
func (s *CallServer) notify(notice string, args ...any) {
	text, err := marshalAll(args)
	if err != nil {
		panic("notice " + notice + ": " + err.Error()) // can't happen: all our types can be marshaled
	}
	s.send(message{Call: notice, Args: text})
}

func (s *CallServer) send(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Encode(m) // fails only if the caller is gone
}

// invoke calls the method named in the message on the first receiver that has it. If the method
// returns an error, invoke returns the other results too.
func invoke(receivers []any, m message) (results []any, err error) {
	var method reflect.Value
	for _, v := range receivers {
		if v == nil {
			continue
		}
		if method = reflect.ValueOf(v).MethodByName(m.Call); method.IsValid() {
			break
		}
	}
	if !method.IsValid() {
		return nil, fmt.Errorf("unknown call %q", m.Call)
	}
	methodType := method.Type()
	if len(m.Args) != methodType.NumIn() {
		return nil, fmt.Errorf("call %s: got %d arguments, want %d", m.Call, len(m.Args), methodType.NumIn())
	}
	args := make([]reflect.Value, len(m.Args))
	for i, text := range m.Args {
		arg := reflect.New(methodType.In(i))
		if err := json.Unmarshal(text, arg.Interface()); err != nil {
			return nil, fmt.Errorf("call %s: read argument %.100q: %w", m.Call, text, err)
		}
		args[i] = arg.Elem()
	}
	for i, v := range method.Call(args) {
		if methodType.Out(i) == reflect.TypeFor[error]() {
			err, _ = v.Interface().(error)
			continue
		}
		results = append(results, v.Interface())
	}
	return results, err
}

// ErrAgentGone means that the process at the other end has exited.
var ErrAgentGone = errors.New("the other end has exited")

// Caller makes calls to a CallServer.
type Caller struct {
	noticeTarget any // has the methods for notices; nil if there are no notices
	done         chan struct{}

	mu      sync.Mutex // guards the fields below and keeps lines from being interleaved
	in      *json.Encoder
	lastID  int64
	pending map[int64]chan message
	err     error // why the other end is gone
}

// NewCaller returns a Caller that writes to in and reads from out until out is closed. Notices call
// the methods of noticeTarget, one at a time, before any later reply is delivered.
func NewCaller(in io.Writer, out io.Reader, noticeTarget any) *Caller {
	c := &Caller{noticeTarget: noticeTarget, done: make(chan struct{}), in: json.NewEncoder(in), pending: map[int64]chan message{}}
	go func() {
		err := c.read(out)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = err
		close(c.done)
	}()
	return c
}

// Done returns a channel that is closed when the other end has exited.
func (c *Caller) Done() <-chan struct{} { return c.done }

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
			if _, err := invoke([]any{c.noticeTarget}, m); err != nil {
				return fmt.Errorf("%w: it wrote %.100q: %w", ErrAgentGone, line, err)
			}
			continue
		}
		c.mu.Lock()
		replies := c.pending[m.ID]
		delete(c.pending, m.ID)
		c.mu.Unlock()
		if replies != nil { // otherwise, the caller has given up
			replies <- m
		}
	}
}

// CallArgs holds the arguments of a call.
type CallArgs []any

// Call makes a call, waits for the reply, and stores each result in the value that the
// corresponding pointer in results points to. Most calls that return an error return results too.
func (c *Caller) Call(ctx context.Context, call string, args CallArgs, results ...any) error {
	encodedArgs, err := marshalAll(args)
	if err != nil {
		return fmt.Errorf("call %s: %w", call, err)
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	c.pending[id] = answer
	err = c.in.Encode(message{ID: id, Call: call, Args: encodedArgs})
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("call %s: %w: %w", call, ErrAgentGone, err)
	}
	select {
	case m := <-answer:
		return c.readReply(m, call, results)
	case <-c.done:
		select { // the answer may have arrived just before
		case m := <-answer:
			return c.readReply(m, call, results)
		default:
			return fmt.Errorf("call %s: %w", call, c.err)
		}
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
		return fmt.Errorf("call %s: %w", call, context.Cause(ctx))
	}
}

func (c *Caller) readReply(m message, call string, results []any) error {
	for i, to := range results[:min(len(results), len(m.Results))] {
		if err := json.Unmarshal(m.Results[i], to); err != nil && m.Error == "" {
			return fmt.Errorf("call %s: read result %.100q: %w", call, m.Results[i], err)
		}
	}
	return decodeError(m)
}
