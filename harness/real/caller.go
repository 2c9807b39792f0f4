package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrGone says that the other end has ended.
var ErrAgentGone = errors.New("it has ended")

// Caller is the end that asks.
type Caller struct {
	errors callErrors
	hears  any // what notices call methods of; nil: there are none
	ended  chan struct{}

	mu    sync.Mutex // guards what follows, and keeps lines whole
	in    *json.Encoder
	last  int64
	waits map[int64]chan message
	err   error // why it has ended
}

// NewCaller asks over in and reads out until that ends. Notices call methods of hears,
// one after the other, and before the answers that came after them are given.
func NewCaller(in io.Writer, out io.Reader, known callErrors, hears any) *Caller {
	c := &Caller{errors: known, hears: hears, ended: make(chan struct{}), in: json.NewEncoder(in), waits: map[int64]chan message{}}
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

// Args are the arguments of a call.
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
	return c.errors.revive(m)
}
