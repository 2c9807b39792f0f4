package sim

import (
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/resp"
)

// A message takes between minLatency and minLatency+spread one way.
const (
	minLatency = 200 * time.Microsecond
	spread     = time.Millisecond
)

// Latency is how long a message takes one way, at least and at most.
func Latency() (least, most time.Duration) { return minLatency, minLatency + spread }

// network is all machines and the links between them.
//
//	host c1 ── link c1-n1 ──► server n1
//	           │ up: direction, slot 0
//	           │ down: direction, slot 1
//	           └ conns, each with a flow up and a flow down
type network struct {
	*timeline
	seed    uint64
	scripts resp.Scripts

	// mu guards everything below and in hosts, servers, links and conns. It is held while
	// something happens and while an event is recorded, never while a client's or the
	// engine's function runs.
	mu  sync.Mutex
	rec *history.Recorder // nil once the run has ended
	wires
	hosts    []*host
	servers  []*server
	resource *server                  // the last of them
	spare    func(history.Event) bool // whether such a fact is not to be; nil: all are
	tokens   tokens
	facts    []history.Event // of the command that is recorded
}

// name is a hash of the seed, the link and its direction, the instant and the
// content; of messages that have all in common also of their number. So it
// doesn't matter which of two goroutines sends first at one instant. All that is
// drawn for a message is drawn by its name.
func (n *network) name(d *direction, content uint64) uint64 {
	now := n.now()
	if now != d.instant {
		d.instant, d.seen = now, d.seen[:0]
	}
	var k uint64
	for _, c := range d.seen {
		if c == content {
			k++
		}
	}
	d.seen = append(d.seen, content)
	return mix(n.seed, d.name, uint64(now), content, k)
}

// latency is how long a message of that name travels.
func latency(name uint64) int64 { return int64(minLatency) + int64(name%uint64(spread)) }

func (n *network) latency(d *direction, content uint64) int64 { return latency(n.name(d, content)) }

// digest sums up all that was sent, when, and when it was due. Within a
// direction it doesn't depend on the order in which that was noted.
func (n *network) digest() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	var d uint64
	for _, l := range n.links {
		d = mix(d, l.up.digest, l.down.digest)
	}
	for _, s := range n.servers {
		for _, r := range []*replica{s.replica, s.promoted} {
			if r != nil {
				d = mix(d, r.digest)
			}
		}
	}
	return d
}

// tell records a fact, unless the run is over.
func (n *network) tell(e history.Event) {
	if n.rec != nil {
		e.Token = n.tokens.of(e.Token)
		n.rec.Record(e)
	}
}

// record tells of commands of a link.
func (n *network) record(l *link, commands []*resp.Command) {
	for _, c := range commands {
		if !c.Recorded() {
			continue
		}
		n.facts = c.Facts(n.facts[:0], l.name, l.server.name)
		for _, e := range n.facts {
			e.T = n.now() // later than its last stamp if no answer came or nobody was there to hear it
			n.tell(e)
		}
	}
}
