package sim

import (
	"fmt"
	"slices"

	"lockpick/harness/resp"
	"lockpick/nemesis"
)

var _ nemesis.Tapper = (*cluster)(nil)

// tap keeps one message of a link.
type tap struct {
	on   nemesis.OnMessage
	hit  func(nemesis.Held)
	net  *network
	seen int
	open bool // the message was let pass, or lost
	// The message while it is held, and where.
	message *message
	flow    *flow
}

// Tap keeps the message that on describes.
func (w *wires) Tap(on nemesis.OnMessage, hit func(nemesis.Held)) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	l := w.link(on.Link)
	switch {
	case l == nil:
		return fmt.Errorf("tap %s: there is no such link", on.Link)
	case on.Of != nemesis.Request && on.Of != nemesis.Reply:
		return fmt.Errorf("tap %s: %q is neither %s nor %s", on.Link, on.Of, nemesis.Request, nemesis.Reply)
	case !slices.Contains(nemesis.MessageKinds, on.Message):
		return fmt.Errorf("tap %s: unknown message %q; known are %v", on.Link, on.Message, nemesis.MessageKinds)
	}
	on.Nth = max(on.Nth, 1)
	l.taps = append(l.taps, &tap{on: on, hit: hit, net: w.net})
	return nil
}

// match ties a message to the taps that wait for one of its commands. Messages
// are counted when they are sent.
func (l *link) match(m *message, of string, commands []*resp.Command) {
	for _, t := range l.taps {
		if t.on.Of != of {
			continue
		}
		for _, c := range commands {
			counts := c.Counts
			if of == nemesis.Reply {
				counts = c.CountsReply
			}
			if !counts(t.on.Message) {
				continue
			}
			if t.seen++; t.seen == t.on.Nth {
				m.taps = append(m.taps, t)
			}
		}
	}
}

// nextTap returns the next tap that keeps the message, if any does.
func (m *message) nextTap() *tap {
	for len(m.taps) > 0 {
		t := m.taps[0]
		m.taps = m.taps[1:]
		if !t.open {
			return t
		}
	}
	return nil
}

// pass lets the message go on, with a new latency.
func (t *tap) pass() {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	t.letGo()
}

func (t *tap) letGo() {
	if t.open {
		return
	}
	t.open = true
	if m := t.message; m != nil && m.state == held {
		t.flow.depart(m, t.net.latency(t.flow.dir, m.content))
	}
}

// lose drops the message and resets its connection.
func (t *tap) lose() {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	m := t.message
	if t.open || m == nil || m.state != held {
		return
	}
	t.open = true
	t.flow.next()
	t.flow.dead = true
	t.flow.conn.reset()
	t.net.record(t.flow.dir.link, m.answers())
}
