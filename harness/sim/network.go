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
	told    []history.Event          // facts of keys' lives that are not recorded yet
	spare   func(history.Event) bool // whether such a fact is not to be; nil: all are
}

// link joins a client and a server.
type link struct {
	name     string
	net      *network
	host     *host
	server   *server
	refuses  bool // the client is not meant to reach this server
	cut      cut
	shapes   []*shape
	up, down direction
	dialled  int64 // connections so far
	conns    []*conn
	ending   []*conn // the client has closed them just now
	taps     []*tap
}

// direction is one way of a link.
type direction struct {
	link *link
	of   string // what it carries: requests or replies
	name uint64
	slot *slot
	// Messages of one instant, so that equal ones get latencies of their own.
	instant int64
	seen    []uint64
	digest  uint64
}

func (n *network) connect(h *host, s *server) *link {
	l := &link{name: nemesis.LinkName(h.name, s.name), net: n, host: h, server: s}
	l.up = direction{link: l, of: nemesis.Request, name: sum(l.name), slot: newSlot(2 * len(n.links))}
	l.down = direction{link: l, of: nemesis.Reply, name: ^sum(l.name), slot: newSlot(2*len(n.links) + 1)}
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
