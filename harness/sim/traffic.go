package sim

import (
	"fmt"
	"slices"
	"time"

	"lockpick/harness/resp"
	"lockpick/nemesis"
)

var _ nemesis.Shaper = (*cluster)(nil)

// shape is a change to a link's traffic, and its impact so far.
type shape struct {
	nemesis.Traffic
	nemesis.Impact
	busyUntil map[*direction]int64 // when the bandwidth is free again
}

// Shape implements nemesis.Shaper.
func (w *linkSet) Shape(name string, t nemesis.Traffic) (string, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	l := w.link(name)
	if l == nil {
		return "", fmt.Errorf("shape %s: there is no such link", name)
	}
	l.shapes = append(l.shapes, &shape{Traffic: t, busyUntil: map[*direction]int64{}})
	if !t.HitsAll() || t.Lose {
		return t.String(), nil
	}
	return fmt.Sprintf("%v; PING through %s: %s", t, name, l.ping()), nil
}

// Unshape implements nemesis.Shaper.
func (w *linkSet) Unshape(name string, t nemesis.Traffic) (string, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	l := w.link(name)
	if l == nil {
		return "", fmt.Errorf("remove the shape from %s: there is no such link", name)
	}
	i := slices.IndexFunc(l.shapes, func(s *shape) bool { return s.Traffic == t })
	if i < 0 {
		return "", fmt.Errorf("remove the shape from %s: it has no such shape", name)
	}
	s := l.shapes[i]
	l.shapes = slices.Delete(l.shapes, i, i+1)
	if t.Lose {
		l.resetBrokenConns()
	}
	return s.ReadBack(fmt.Sprintf("PING through %s: %s", name, l.ping()))
}

// apply decides whether the shape hits a message and counts the message. It returns the delay in
// nanoseconds, which computeDelay computes if there is a hit. k distinguishes the link's shapes.
func (s *shape) apply(m *message, k int, computeDelay func() int64) (hit bool, delay int64) {
	if hit = s.Hits(hashWords(m.drawKey, uint64(k), 1)); hit {
		delay = computeDelay()
	}
	s.Count(m.hasLockCommand, hit, s.Lose || delay >= int64(nemesis.MinNoticeable))
	return hit, delay
}

// extraDelay returns the extra latency of a message that is sent now, in nanoseconds. The beginning
// and the end of a connection are not delayed.
func (d *direction) extraDelay(m *message) (total int64) {
	for k, s := range d.link.shapes {
		if s.DelayMax > 0 && s.AppliesTo(d.content) && m.size > 0 {
			_, delay := s.apply(m, k, func() int64 { return int64(s.Delay(hashWords(m.drawKey, uint64(k), 2))) })
			total += delay
		}
	}
	return total
}

// losesMessage reports whether a shape loses a message that is due for delivery.
func (d *direction) losesMessage(m *message) (lose bool) {
	for k, s := range d.link.shapes {
		if s.Lose && s.AppliesTo(d.content) {
			hit, _ := s.apply(m, k, func() int64 { return 0 })
			lose = lose || hit
		}
	}
	return lose
}

// bandwidthDelay returns by how many nanoseconds limited bandwidth delays a message that has just
// arrived. No two messages arrive at the same instant, so their order is well defined.
func (d *direction) bandwidthDelay(m *message) (longest int64) {
	if m.bandwidthApplied || m.size == 0 {
		return 0
	}
	m.bandwidthApplied = true
	now := d.link.net.now()
	for k, s := range d.link.shapes {
		if s.Bandwidth == 0 || !s.AppliesTo(d.content) {
			continue
		}
		if hit, delay := s.apply(m, k, func() int64 { return s.transmittedAt(d, now, m.size) - now }); hit {
			longest = max(longest, delay)
			s.busyUntil[d] = now + longest
		}
	}
	return longest
}

// transmittedAt returns when the given number of bytes, arriving now, have been transmitted.
func (s *shape) transmittedAt(d *direction, now int64, bytes int) int64 {
	return max(now, s.busyUntil[d]) + int64(s.TransmitTime(bytes))
}

// pingTime returns the round-trip time of a PING sent now.
func (l *link) pingTime() time.Duration {
	at := l.net.now()
	for _, d := range []*direction{&l.upstream, &l.downstream} {
		drawKey := hashWords(l.net.seed, d.drawKey, uint64(l.net.now()), hashBytes("PING"))
		at += latency(drawKey)
		for k, s := range l.shapes {
			switch {
			case !s.AppliesTo(d.content) || !s.Hits(hashWords(drawKey, uint64(k), 1)):
			case s.Bandwidth > 0:
				at = s.transmittedAt(d, at, len("*1\r\n$4\r\nPING\r\n"))
			case s.DelayMax > 0:
				at += int64(s.Delay(hashWords(drawKey, uint64(k), 2)))
			}
		}
	}
	return time.Duration(at - l.net.now())
}

func lockCommand(commands []*resp.Command) bool {
	return slices.ContainsFunc(commands, func(c *resp.Command) bool { return c.Op != "" })
}

var _ nemesis.Tapper = (*cluster)(nil)

// tap holds one message of a link.
type tap struct {
	trigger    nemesis.OnMessage
	onHit      func(nemesis.HeldMessage)
	net        *network
	matchCount int
	done       bool     // the message was released or dropped
	message    *message // while held
}

// Tap implements nemesis.Tapper.
func (w *linkSet) Tap(trigger nemesis.OnMessage, onHit func(nemesis.HeldMessage)) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	l := w.link(trigger.Link)
	if l == nil {
		return fmt.Errorf("tap %s: there is no such link", trigger.Link)
	}
	trigger.Nth = max(trigger.Nth, 1)
	if err := trigger.Check(); err != nil {
		return fmt.Errorf("tap %s: %w", trigger.Link, err)
	}
	l.taps = append(l.taps, &tap{trigger: trigger, onHit: onHit, net: w.net})
	return nil
}

// match attaches a message to the taps that wait for one of its commands. Messages count when they
// are sent.
func (l *link) match(m *message, direction string, commands []*resp.Command) {
	for _, t := range l.taps {
		if t.trigger.Of != direction {
			continue
		}
		for _, c := range commands {
			matches := c.IsMessage
			if direction == nemesis.Reply {
				matches = c.IsReply
			}
			if !matches(t.trigger.Message) {
				continue
			}
			if t.matchCount++; t.matchCount == t.trigger.Nth {
				m.taps = append(m.taps, t)
			}
		}
	}
}

// nextTap returns the next tap that holds the message, or nil.
func (m *message) nextTap() *tap {
	for len(m.taps) > 0 {
		t := m.taps[0]
		m.taps = m.taps[1:]
		if !t.done {
			return t
		}
	}
	return nil
}

// letThrough releases the message with a new latency.
func (t *tap) letThrough() {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	t.release()
}

func (t *tap) release() {
	if t.done {
		return
	}
	t.done = true
	if m := t.message; m != nil && m.state == stateHeld {
		m.flow.dispatch(m, t.net.latency(m.flow.dir, m.contentHash))
	}
}

// drop drops the message and resets its connection.
func (t *tap) drop() {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	m := t.message
	if t.done || m == nil || m.state != stateHeld {
		return
	}
	t.done = true
	m.flow.pop()
	m.flow.broken = true
	m.flow.conn.reset()
	t.net.recordCommands(m.flow.dir.link, m.answers())
}
