package sim

import (
	"lockpick/harness/resp"
	"lockpick/nemesis"
)

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
	m := t.message
	if t.open || m == nil || m.state != held {
		t.net.mu.Unlock()
		return
	}
	t.open = true
	t.flow.next()
	t.flow.dead = true
	t.flow.conn.reset()
	t.net.mu.Unlock()
	t.net.record(t.flow.dir.link, m.answers)
}
