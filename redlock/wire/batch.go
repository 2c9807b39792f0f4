package wire

import (
	"net"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/driver"
)

// most is the keys that one script releases or grants: how long a node may be held up.
const most = 64

// entry is a request between Submit and the node's answer.
type entry struct {
	r    *redlock.Request // nil once it was answered
	owed *debt            // what is left of a release that was answered without the node
	same int              // requests in its command, from this one on
	due  time.Duration    // by when it is answered, since Node.base
}

// release is the key and the token of a release; ok is false for other steps.
func (e entry) release() (d debt, ok bool) {
	if e.owed != nil {
		return *e.owed, true
	}
	if e.r == nil || e.r.Op != redlock.OpRelease {
		return debt{}, false
	}
	return debt{e.r.Key, e.r.Token, e.due + e.r.TTL}, true
}

// batch is what was submitted and is not yet part of the output: releases in one script
// of many keys, and the other steps behind them, of which grants that follow each other on the
// same terms share a script, too.
type batch struct {
	due              time.Duration // the first one's
	rel, set, grants []entry
	keys, toks, sets []byte
	tokens           map[string]struct{} // of set and grants
}

func (b *batch) empty() bool { return len(b.rel)+len(b.set)+len(b.grants) == 0 }

// outbox is what is to be sent to a node, and what it is still to answer.
type outbox struct {
	runID   string // of the process that is asked; "": the node does not tell
	batch   batch
	out     []byte // encoded, not yet given to a write
	waiting queue  // sent, or to be sent
}

// Submit implements redlock.Batcher.
func (n *line) Submit(r *redlock.Request) {
	e := entry{r: r, due: r.Deadline.Sub(n.base)}
	n.mu.Lock()
	switch n.state {
	case up:
		n.add(e)
	case idle:
		n.connect()
		fallthrough
	case dialling:
		n.pending = append(n.pending, e)
	default:
		n.undone(e)
		err := n.why
		n.mu.Unlock()
		r.To.Answered(r, 0, err)
		return
	}
	n.arm(e.due)
	n.mu.Unlock()
}

// add puts e into the batch. A release whose own set is in there goes into the next.
func (n *outbox) add(e entry) {
	b := &n.batch
	d, isRelease := e.release()
	if isRelease {
		if _, ok := b.tokens[d.token]; ok {
			n.closeBatch()
		} else if len(b.rel) == most {
			n.closeScript()
		}
	}
	if b.empty() {
		b.due = e.due
	}
	if isRelease {
		b.keys, b.toks = bulk(b.keys, d.key), bulk(b.toks, d.token)
		b.rel = append(b.rel, e)
		return
	}
	if b.tokens == nil {
		b.tokens = map[string]struct{}{}
	}
	b.tokens[e.r.Token] = struct{}{}
	if e.r.Op != redlock.OpGrant {
		n.closeGrants()
		b.sets = step(b.sets, e.r, false, n.runID)
		e.same = 1
		b.set = append(b.set, e)
		return
	}
	if k := len(b.grants); k == most || k > 0 && b.grants[0].r.Terms != e.r.Terms {
		n.closeGrants()
	}
	b.grants = append(b.grants, e)
}

func (n *outbox) closeGrants() {
	b := &n.batch
	b.sets = grants(b.sets, b.grants, false, n.runID)
	for i, e := range b.grants {
		e.same = len(b.grants) - i
		b.set = append(b.set, e)
	}
	b.grants = b.grants[:0]
}

func (n *outbox) closeScript() {
	b := &n.batch
	if len(b.rel) == 0 {
		return
	}
	n.out = releases(n.out, len(b.rel), false)
	n.out = append(append(n.out, b.keys...), b.toks...)
	for i, e := range b.rel {
		e.same, e.due = len(b.rel)-i, b.due
		n.waiting.push(e)
	}
	b.keys, b.toks, b.rel = b.keys[:0], b.toks[:0], b.rel[:0]
}

func (n *outbox) closeBatch() {
	n.closeScript()
	n.closeGrants()
	b := &n.batch
	n.out = append(n.out, b.sets...)
	for _, e := range b.set {
		e.due = b.due
		n.waiting.push(e)
	}
	b.sets, b.set = b.sets[:0], b.set[:0]
	clear(b.tokens)
}

// isReleased says whether a release of token is on its way.
func (n *outbox) isReleased(token string) bool {
	for _, e := range n.waiting.rest() {
		if d, ok := e.release(); ok && d.token == token {
			return true
		}
	}
	for _, e := range n.batch.rel {
		if d, _ := e.release(); d.token == token {
			return true
		}
	}
	return false
}

// releases begins the command that releases so many keys.
func releases(b []byte, keys int, whole bool) []byte {
	if keys == 1 {
		return run(b, driver.Release, whole, 1, 1)
	}
	return run(b, driver.Releases, whole, keys, keys)
}

// Flush implements redlock.Batcher. What the socket does not take at once, a goroutine
// writes.
func (n *line) Flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.writing && n.state == up && (!n.batch.empty() || len(n.out) > 0) {
		n.closeBatch()
		buf, c, raw := n.out, n.conn, n.raw
		n.out, n.spare, n.writing = n.spare[:0], nil, true
		n.mu.Unlock()
		done := n.try.write(raw, buf)
		n.mu.Lock()
		if done < len(buf) && n.conn == c {
			n.running.Add(1)
			go n.rest(c, buf[done:])
			return
		}
		n.writing, n.spare = false, buf
	}
}

// rest writes what Flush could not, and flushes what came meanwhile.
func (n *line) rest(c net.Conn, buf []byte) {
	defer n.running.Done()
	if _, err := c.Write(buf); err != nil {
		n.fail(c, err)
	}
	n.mu.Lock()
	n.writing = false
	n.mu.Unlock()
	n.Flush()
}

// queue is entries in order. Those at the front are answered first.
type queue struct {
	all  []entry
	head int
	late int // all before it are past their deadline
}

func (q *queue) len() int      { return len(q.all) - q.head }
func (q *queue) push(e entry)  { q.all = append(q.all, e) }
func (q *queue) first() *entry { return &q.all[q.head] }
func (q *queue) rest() []entry { return q.all[q.head:] }
func (q *queue) overdue() bool { return q.late > q.head }

func (q *queue) pop() entry {
	e := q.all[q.head]
	q.all[q.head] = entry{}
	q.head++
	q.late = max(q.late, q.head)
	switch {
	case q.head == len(q.all):
		*q = queue{all: q.all[:0]}
	case q.head >= 4096:
		*q = queue{all: q.all[:copy(q.all, q.all[q.head:])], late: q.late - q.head}
	}
	return e
}
