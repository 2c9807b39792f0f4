package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Handler does what one call asks for. Its result may come with an error.
type Handler func(args json.RawMessage) (result any, err error)

// Server is the end that answers.
type Server struct {
	Handlers map[string]Handler
	Errors   Errors

	mu  sync.Mutex
	out *json.Encoder
}

// Serve answers what comes in until it ends, and returns when all is answered. Each
// call is done in a goroutine of its own.
func (s *Server) Serve(in io.Reader, out io.Writer) error {
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

func (s *Server) answer(m message) {
	reply := message{ID: m.ID}
	result, err := any(nil), error(nil)
	if handle := s.Handlers[m.Call]; handle != nil {
		result, err = handle(m.Args)
	} else {
		err = fmt.Errorf("there is no call %q", m.Call)
	}
	text, bad := json.Marshal(result)
	if err = errors.Join(err, bad); err != nil {
		reply.Error, reply.Is = err.Error(), s.Errors.names(err)
	}
	reply.Result = text
	s.send(reply)
}

// Notify sends a notice. Once nobody reads any more it does nothing.
func (s *Server) Notify(notice string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic("notice " + notice + ": " + err.Error()) // ours can all be written
	}
	s.send(message{Notice: notice, Result: text})
}

func (s *Server) send(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Encode(m) // who has gone needs no answer
}

// Handle makes a handler of a function with arguments of a type.
func Handle[Args, Result any](f func(Args) (Result, error)) Handler {
	return func(text json.RawMessage) (any, error) {
		var args Args
		if err := json.Unmarshal(text, &args); err != nil {
			return nil, fmt.Errorf("read arguments %.100q: %w", text, err)
		}
		return f(args)
	}
}
