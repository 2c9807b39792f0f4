package sim

import (
	"fmt"
	"syscall"

	"lockpick/nemesis"
)

var _ nemesis.Cutter = (*cluster)(nil)

// cut is how a link is cut. The zero value: it isn't.
type cut struct{ mode, way string }

// blocks says whether what travels a direction doesn't arrive.
func (c cut) blocks(of string) bool {
	return (c.mode == nemesis.CutHold || c.mode == nemesis.CutDrop) && (c.way == "" || c.way == of)
}

// Cut cuts a link.
func (w *wires) Cut(name, mode, way string) (string, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if r := w.net.replica(name); r != nil {
		return r.cutOff(way)
	}
	l := w.link(name)
	if mode == "" {
		mode = nemesis.CutHold
	}
	switch {
	case l == nil:
		return "", fmt.Errorf("cut %s: there is no such link", name)
	case l.cut != cut{}:
		return "", fmt.Errorf("cut %s: it is cut already", name)
	}
	switch mode {
	case nemesis.CutHold, nemesis.CutDrop:
	case nemesis.CutReset, nemesis.CutRefuse:
		if way != "" {
			return "", fmt.Errorf("cut %s: mode %s has no one way", name, mode)
		}
	default:
		return "", fmt.Errorf("cut %s: unknown mode %q", name, mode)
	}
	l.cut = cut{mode, way}
	if mode == nemesis.CutReset {
		for _, conn := range l.conns {
			conn.reset()
		}
	}
	return "PING through " + name + ": " + l.ping(), nil
}

// Mend mends a link.
func (w *wires) Mend(name string) (string, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if r := w.net.replica(name); r != nil {
		return r.mend()
	}
	l := w.link(name)
	switch {
	case l == nil:
		return "", fmt.Errorf("mend %s: there is no such link", name)
	case l.cut == cut{}:
		return "", fmt.Errorf("mend %s: it isn't cut", name)
	}
	l.mend()
	return "PING through " + name + ": " + l.ping(), nil
}

// mend lets what waits go on, each connection's messages in their order, and
// ends the connections that have lost any.
func (l *link) mend() {
	l.cut = cut{}
	l.resetBroken()
	for _, c := range l.conns {
		c.up.resume()
		c.down.resume()
	}
}

// resetBroken resets the connections that have lost a message: TCP delivers all
// or fails.
func (l *link) resetBroken() {
	for _, c := range l.conns {
		if c.up.dead || c.down.dead {
			c.reset()
		}
	}
}

// reset ends a connection on the server's side at once, and on the client's when
// it hears of it. What is still on its way to the server comes to nobody.
func (c *conn) reset() {
	if c.session != nil {
		c.link.server.hangUp(c, syscall.ECONNRESET)
	}
}

// ping is what becomes of a PING through the link that arrives this very
// instant. It takes no time, so that a cut of many links is one cut; how long it
// would have taken is told where the link's traffic is shaped.
func (l *link) ping() string {
	switch {
	case l.cut.blocks(nemesis.Request):
		return "no answer"
	case l.cut.mode == nemesis.CutRefuse:
		return "refused"
	}
	reply := l.server.ping()
	switch {
	case l.cut.blocks(nemesis.Reply) && reply != "PONG":
		return "no answer, and none without the cut: " + reply
	case l.cut.blocks(nemesis.Reply):
		return "no answer, though the node gave one: " + reply
	case l.server.node != nil && l.cut.mode == nemesis.CutReset:
		return "reset"
	case len(l.shapes) > 0:
		return fmt.Sprintf("%s after %v", reply, l.trip())
	}
	return reply
}

// keeps says whether a message that arrives now waits, rather than be delivered
// or lost. Where a cut drops, the beginning and the end of a connection wait: they
// are sent again and again.
func (d *direction) keeps(m *message) bool {
	cut := d.link.cut
	return cut.blocks(d.of) && (cut.mode == nemesis.CutHold || m.size == 0)
}

// loses says whether a message that would be delivered now is lost.
func (f *flow) loses(m *message) bool {
	return m.size > 0 && (f.dead || f.dir.link.cut.blocks(f.dir.of) || f.dir.lost(m))
}
