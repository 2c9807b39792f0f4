package wire

import (
	"net"
	"time"
)

// timer is the one that sees to a node's deadlines. It runs while requests wait.
type timer struct {
	armed  bool
	due    time.Duration // when it is to fire
	silent time.Duration // since when something is overdue and nothing was read; 0: not so
	paused bool          // the last time it fired much too late
}

// arm makes sure that somebody looks when a request is due. Whoever calls it holds the
// mutex.
func (n *Node) arm(due time.Duration) {
	if n.timer.armed {
		return
	}
	n.timer.armed, n.timer.due = true, due
	n.running.Add(1)
	go func() {
		defer n.running.Done()
		for wait := max(0, due-n.now()); wait >= 0; {
			select {
			case <-n.o.After(wait):
				wait = n.expire(n.now())
			case <-n.ctx.Done():
				return
			}
		}
	}()
}

// expire answers what is overdue, and says when to look again; below 0: there is no need.
// The answers may still come, and are dropped. Only if nothing at all is read for another
// quarter of the time-out is the connection given up.
func (n *Node) expire(now time.Duration) (wait time.Duration) {
	n.mu.Lock()
	t, quarter := &n.timer, n.o.Timeout/4
	if !t.paused && now-t.due > quarter {
		// This process was paused, and answers may lie in the socket.
		t.paused, t.due = true, now+quarter
		n.mu.Unlock()
		return quarter
	}
	t.paused = false
	over := n.overdue(now)
	var dead net.Conn
	next := n.next()
	if n.waiting.overdue() {
		if t.silent == 0 {
			t.silent = now
		}
		if end := t.silent + quarter; end <= now {
			dead, next = n.conn, -1
		} else if next < 0 || end < next {
			next = end
		}
	}
	if next < 0 {
		t.armed, t.silent, wait = false, 0, -1
	} else {
		t.due, wait = next, max(0, next-now)
	}
	n.mu.Unlock()
	answer(over, errLate)
	if dead != nil {
		n.fail(dead, errIgnored)
	}
	return wait
}

// overdue takes out of all that waits what must be answered now.
func (n *Node) overdue(now time.Duration) (over []entry) {
	for len(n.pending) > 0 && n.pending[0].due <= now {
		n.undone(n.pending[0])
		over = append(over, n.pending[0])
		n.pending = n.pending[1:]
	}
	n.closeBatch()
	for q := &n.waiting; q.late < len(q.all) && q.all[q.late].due <= now; q.late++ {
		e := &q.all[q.late]
		if e.r == nil {
			continue
		}
		over = append(over, *e)
		if d, ok := e.release(); ok {
			e.owed = &d
		}
		e.r = nil
	}
	return over
}

// next is when the next request is due, below 0 if none is.
func (n *Node) next() time.Duration {
	next := time.Duration(-1)
	if len(n.pending) > 0 {
		next = n.pending[0].due
	}
	if q := n.waiting; q.late < len(q.all) && (next < 0 || q.all[q.late].due < next) {
		next = q.all[q.late].due
	}
	return next
}
