package sim

import (
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/resp"
	"lockpick/nemesis"
)

// A message takes between minLatency and minLatency+spread one way.
const (
	minLatency = 200 * time.Microsecond
	spread     = time.Millisecond
)

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

	// mu guards everything below and in hosts, servers, links and conns. It is
	// never held while an event is recorded or somebody else's function runs.
	mu      sync.Mutex
	rec     *history.Recorder // nil once the run has ended
	hosts   []*host
	servers []*server
	links   []*link
}

// link joins a client and a server.
type link struct {
	name     string
	net      *network
	host     *host
	server   *server
	refuses  bool // the client is not meant to reach this server
	cut      bool
	up, down direction
	dialled  int64 // connections so far
	conns    []*conn
	ending   []*conn // the client has closed them just now
	taps     []*tap
}

// direction is one way of a link.
type direction struct {
	link *link
	name uint64
	slot *slot
	// Messages of one instant, so that equal ones get latencies of their own.
	instant int64
	seen    []uint64
	digest  uint64
}

func (n *network) connect(h *host, s *server) *link {
	l := &link{name: nemesis.LinkName(h.name, s.name), net: n, host: h, server: s}
	l.up = direction{link: l, name: sum(l.name), slot: newSlot(2 * len(n.links))}
	l.down = direction{link: l, name: ^sum(l.name), slot: newSlot(2*len(n.links) + 1)}
	n.links = append(n.links, l)
	return l
}

func (n *network) link(name string) *link {
	for _, l := range n.links {
		if l.name == name {
			return l
		}
	}
	return nil
}

// latency is a hash of the seed, the link and its direction, the instant and the
// content; of messages that have all in common also of their number. So it
// doesn't matter which of two goroutines sends first at one instant.
func (n *network) latency(d *direction, content uint64) int64 {
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
	return int64(minLatency) + int64(mix(n.seed, d.name, uint64(now), content, k)%uint64(spread))
}

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

// record notes commands of a link, unless the run is over. mu is not held.
func (n *network) record(l *link, commands []*resp.Command) {
	for _, c := range commands {
		if !c.Recorded() {
			continue
		}
		n.mu.Lock()
		rec := n.rec
		n.mu.Unlock()
		if rec == nil {
			return
		}
		e := c.Event(l.name, l.server.name)
		e.T = n.now() // later than its last stamp if no answer came or nobody was there to hear it
		rec.Record(e)
	}
}

// delivers says whether a message that arrives now is delivered, rather than waits.
func (l *link) delivers() bool { return !l.cut }

// mend lets what waits go on, each connection's messages in their order.
func (l *link) mend() {
	l.cut = false
	for _, c := range l.conns {
		c.up.resume()
		c.down.resume()
	}
}
