package wire

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
var ErrGone = errors.New("it has ended")

// Caller is the end that asks.
type Caller struct {
	errors Errors
	notice func(notice string, v json.RawMessage)
	ended  chan struct{}

	mu    sync.Mutex // guards what follows, and keeps lines whole
	in    *json.Encoder
	last  int64
	waits map[int64]chan message
	err   error // why it has ended
}

// NewCaller asks over in and reads out until that ends. notice is called for each
// notice, one after the other, and before the answers that came after it are given.
func NewCaller(in io.Writer, out io.Reader, known Errors, notice func(notice string, v json.RawMessage)) *Caller {
	c := &Caller{errors: known, notice: notice, ended: make(chan struct{}), in: json.NewEncoder(in), waits: map[int64]chan message{}}
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
			return ErrGone
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("%w: it wrote %.100q", ErrGone, line)
		}
		if m.Notice != "" {
			c.notice(m.Notice, m.Result)
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

// Call asks and waits for the answer, which it puts where result points; nil: there is
// none. Not every error means that there is no result.
func (c *Caller) Call(ctx context.Context, call string, args, result any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("call %s: %w", call, err)
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waits[id] = answer
	err = c.in.Encode(message{ID: id, Call: call, Args: text})
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("call %s: %w: %w", call, ErrGone, err)
	}
	select {
	case m := <-answer:
		return c.take(m, call, result)
	case <-c.ended:
		select { // it may have answered just before
		case m := <-answer:
			return c.take(m, call, result)
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

func (c *Caller) take(m message, call string, result any) error {
	if result != nil && len(m.Result) > 0 {
		if err := json.Unmarshal(m.Result, result); err != nil && m.Error == "" {
			return fmt.Errorf("call %s: it answers %.100q: %w", call, m.Result, err)
		}
	}
	return c.errors.revive(m)
}
