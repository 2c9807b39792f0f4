package facts

import "slices"

// queue is the clients that await one lock, by when they called. It counts those that
// called before an instant without a look at each: ten thousand may wait at each of ten
// thousand grants.
//
// Who leaves keeps his position until the queue is full of those, so it is never more than
// about twice as long as those that wait.
type queue struct {
	called []int64   // of each position, in the order of time
	who    []*client // nil: it has left
	sums   []int     // how many wait, as a Fenwick tree: sums[i] of the i&-i positions that end with i
	wait   int       // how many, in all
}

// minQueue is how many positions the shortest queue has.
const minQueue = 4

// join puts a client behind all that called by then. Events are in the order of time, so
// that is the end; of other records the positions must be moved.
func (q *queue) join(c *client, at int64) {
	if len(q.who) == cap(q.who) {
		q.shorten()
	}
	q.wait++
	if i := q.before(at + 1); i < len(q.who) {
		q.called, q.who = slices.Insert(q.called, i, at), slices.Insert(q.who, i, c)
		q.number()
		return
	}
	c.position = len(q.who)
	q.called, q.who = append(q.called, at), append(q.who, c)
	n, sum := len(q.who), 1
	for i := n - 1; i > n-n&-n; i -= i & -i {
		sum += q.sums[i]
	}
	q.sums = append(q.sums, sum)
}

// shorten drops the positions of those that have left, and makes room for as many as wait.
func (q *queue) shorten() {
	called, who := q.called[:0], q.who[:0]
	if room := max(minQueue, 2*q.wait); room > cap(q.who) {
		called, who, q.sums = make([]int64, 0, room), make([]*client, 0, room), make([]int, 0, room+1)
	}
	for i, c := range q.who {
		if c != nil {
			called, who = append(called, q.called[i]), append(who, c)
		}
	}
	q.called, q.who = called, who
	q.number()
}

// number tells each client its position, and counts anew.
func (q *queue) number() {
	q.sums = q.sums[:len(q.who)+1]
	clear(q.sums)
	for i, c := range q.who {
		if c != nil {
			c.position = i
			q.sums[i+1]++
		}
		if up := (i + 1) + (i+1)&-(i+1); up < len(q.sums) {
			q.sums[up] += q.sums[i+1]
		}
	}
}

// leave takes a client that waits out of the queue.
func (q *queue) leave(c *client) {
	q.who[c.position] = nil
	q.wait--
	for i := c.position + 1; i < len(q.sums); i += i & -i {
		q.sums[i]--
	}
}

// earlier is how many of those that wait called before an instant.
func (q *queue) earlier(at int64) int { return q.count(q.before(at)) }

// before is how many positions are of calls before an instant.
func (q *queue) before(at int64) int {
	if last := len(q.called) - 1; last < 0 || q.called[last] < at {
		return len(q.called)
	}
	i, _ := slices.BinarySearch(q.called, at)
	return i
}

// count is how many wait in the first so many positions.
func (q *queue) count(positions int) int {
	n := 0
	for i := positions; i > 0; i -= i & -i {
		n += q.sums[i]
	}
	return n
}
