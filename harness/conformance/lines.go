package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/resp"
)

// dialler can be talked to on several connections at once.
type dialler interface {
	Dial() (line, error)
}

// line is a connection to a server.
type line interface {
	Send(words []string) error
	// Next is the next value that came. An error is that none did, in good time.
	Next() (resp.Value, error)
	Close() error
}

// connection is a line of a story, with what the server pushed on it and nobody has read.
type connection struct {
	line   line
	id     string // by which the server knows it
	pushed []string
}

// session <name> goes on on that connection, which is made if there is none. Without a
// name each command has a connection of its own again.
func (t *telling) session(a []string) error {
	if t.on = nil; len(a) == 0 {
		return nil
	}
	if t.on = t.lines[a[0]]; t.on != nil {
		return nil
	}
	d, ok := t.to.(dialler)
	if !ok {
		return errUnable
	}
	line, err := d.Dial()
	if err != nil {
		return err
	}
	t.on = &connection{line: line}
	t.lines[a[0]] = t.on
	id, err := t.on.ask([]string{"CLIENT", "ID"})
	t.on.id = strings.TrimPrefix(id, ":")
	return err
}

// named puts in the number of a session where the story has @ and its name.
func (t *telling) named(words []string) []string {
	words = slices.Clone(words)
	for i, w := range words {
		if c := t.lines[strings.TrimPrefix(w, "@")]; c != nil && strings.HasPrefix(w, "@") {
			words[i] = c.id
		}
	}
	return words
}

func (t *telling) hangUp([]string) error {
	if t.on == nil {
		return errors.New("there is no session: say which by session <name>")
	}
	for name, c := range t.lines {
		if c == t.on {
			delete(t.lines, name)
		}
	}
	line := t.on.line
	t.on = nil
	return line.Close()
}

func (t *telling) close() {
	for _, c := range t.lines {
		c.line.Close()
	}
}

// say sends a command on the story's connection and returns its reply.
func (t *telling) say(words []string) (string, error) {
	switch {
	case words[0] == listening && t.on == nil:
		return "", errors.New("there is no session: say which by session <name>")
	case words[0] == listening:
		return t.on.heard()
	case t.on != nil:
		return t.on.ask(t.named(words))
	}
	v, err := t.to.Do(words)
	return text(v), err
}

// listening is a step with a reply: what was pushed on the connection since the last one.
const listening = "heard"

// heard asks for an echo: what was pushed came before it.
func (c *connection) heard() (string, error) {
	if _, err := c.ask([]string{"PING"}); err != nil {
		return "", err
	}
	all := strings.Join(c.pushed, " ")
	c.pushed = nil
	if all == "" {
		all = "nothing"
	}
	return all, nil
}

// ask returns the reply to a command, and keeps what was pushed before it.
func (c *connection) ask(words []string) (string, error) {
	if err := c.line.Send(words); err != nil {
		return "", err
	}
	replies := 1
	if name := strings.ToUpper(words[0]); name == "SUBSCRIBE" || name == "UNSUBSCRIBE" {
		replies = max(1, len(words)-1)
	}
	var all []string
	for len(all) < replies {
		v, err := c.line.Next()
		if err != nil {
			return "", fmt.Errorf("%q is not answered: %w", words[0], err)
		}
		if pushed(v) {
			c.pushed = append(c.pushed, text(v))
			continue
		}
		all = append(all, text(v))
	}
	return strings.Join(all, " "), nil
}

// pushed says whether a value answers nothing. What answers a SUBSCRIBE is a push in RESP3,
// and what is pushed an array in RESP2.
func pushed(v resp.Value) bool {
	first := ""
	if len(v.Items) > 0 {
		first = v.Items[0].Str
	}
	switch v.Kind {
	case '>':
		return first != "subscribe" && first != "unsubscribe"
	case '*':
		return first == "message"
	}
	return false
}
