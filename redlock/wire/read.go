package wire

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"lockpick/redlock"
)

// replies reads what a node sends on one connection.
type replies struct {
	c        net.Conn
	buf      []byte
	at, have int
	cut      []reply
	heard    bool // anything
	items    int  // so many replies are to come of one to several releases
	told     []answered
	again    bool  // something is to be sent again
	id       int64 // of the connection, and the run_id of the process: what the greeting said
	runID    string
}

// answered is a request with its reply.
type answered struct {
	r *redlock.Request
	reply
}

// fill waits for more bytes.
func (in *replies) fill() error {
	if in.at > 0 {
		in.have = copy(in.buf, in.buf[in.at:in.have])
		in.at = 0
	}
	if in.have == len(in.buf) {
		return fmt.Errorf("the node sent a line of more than %d bytes", len(in.buf))
	}
	k, err := in.c.Read(in.buf[in.have:])
	in.have += k
	if k > 0 {
		in.heard = true
		return nil
	}
	return err
}

// next waits for one reply.
func (in *replies) next() (reply, error) {
	for {
		r, size, err := parse(in.buf[in.at:in.have])
		if err == nil {
			in.at += size
			return r, nil
		}
		if err == errShort {
			err = in.fill()
		}
		if err != nil {
			return reply{}, err
		}
	}
}

// ask writes commands, and waits for so many replies.
func (in *replies) ask(commands []byte, replies int) (all []reply, err error) {
	_, err = in.c.Write(commands)
	for len(all) < replies && err == nil {
		var r reply
		r, err = in.next()
		all = append(all, r)
	}
	return all, err
}

// more waits for bytes, and cuts off all replies that are complete then.
func (in *replies) more() ([]reply, error) {
	in.cut = in.cut[:0]
	if err := in.fill(); err != nil {
		return nil, err
	}
	for {
		r, size, err := parse(in.buf[in.at:in.have])
		switch {
		case err == errShort:
			return in.cut, nil
		case err != nil:
			return in.cut, err
		}
		in.at += size
		in.cut = append(in.cut, r)
	}
}

// read answers requests until the connection ends, and says why it did.
func (n *line) read(in *replies) error {
	for {
		cut, err := in.more()
		n.mu.Lock()
		if n.conn != in.c {
			n.mu.Unlock()
			return net.ErrClosed
		}
		n.timer.silent = 0
		for i := 0; i < len(cut); i++ {
			if wrong := n.take(in, cut[i]); wrong != nil {
				cut, err = nil, wrong
			}
		}
		n.mu.Unlock()
		for _, a := range in.told {
			a.r.To.Answered(a.r, a.value, a.err)
		}
		in.told = in.told[:0]
		if err != nil {
			return err
		}
		if in.again {
			in.again = false
			n.Flush()
		}
	}
}

var errNothing = errors.New("the node sent a reply to nothing that it was asked")

// take gives a reply to the request, or the releases, that it answers.
func (n *line) take(in *replies, r reply) error {
	if n.waiting.len() == 0 {
		return errNothing
	}
	same := n.waiting.first().same
	switch {
	case in.items > 0 && r.items == 0:
		in.items--
		same = 1
	case in.items == 0 && r.items > 1 && r.items == same:
		in.items = r.items
		return nil
	case r.items > 0 || same > 1 && r.err == nil:
		return errNothing
	case r.err != nil && strings.HasPrefix(r.err.Error(), "NOSCRIPT"):
		n.resend(in, same, r)
		return nil
	}
	for range same {
		if e := n.waiting.pop(); e.r != nil {
			in.told = append(in.told, answered{e.r, r})
		}
	}
	return nil
}

// resend asks once more, with the script's text, for what the node refused because
// somebody made it forget its scripts. A set whose release is under way already is not
// asked for again: that would come after it.
func (n *line) resend(in *replies, same int, why reply) {
	var again []entry
	for range same {
		e := n.waiting.pop()
		if _, isRelease := e.release(); isRelease || e.r != nil && !n.isReleased(e.r.Token) {
			again = append(again, e)
		} else if e.r != nil {
			in.told = append(in.told, answered{e.r, why})
		}
	}
	if len(again) == 0 {
		return
	}
	in.again = true
	if d, ok := again[0].release(); !ok && again[0].r.Op == redlock.OpGrant {
		n.out = grants(n.out, again, true, n.runID)
	} else if !ok {
		n.out = step(n.out, again[0].r, true, n.runID)
	} else {
		n.out = releases(n.out, len(again), true)
		for _, e := range again {
			d, _ = e.release()
			n.out = bulk(n.out, d.key)
		}
		for _, e := range again {
			d, _ = e.release()
			n.out = bulk(n.out, d.token)
		}
	}
	// Deadlines in the queue stay in order: those who were asked since give up as early.
	due, rest := again[0].due, n.waiting.rest()
	for i := len(rest) - 1; i >= 0 && rest[i].due > due; i-- {
		rest[i].due = due
	}
	for i, e := range again {
		e.same = len(again) - i
		n.waiting.push(e)
	}
}
