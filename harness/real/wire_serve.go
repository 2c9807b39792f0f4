package real

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
)

// Server is the end that answers, by the exported methods of some values.
type CallServer struct {
	Of     func() []any // the values, as they are now; the first that has a method is called
	Errors callErrors

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
		reply.Error, reply.Is = err.Error(), s.Errors.names(err)
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
