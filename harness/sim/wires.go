package sim

import "lockpick/nemesis"

// wires are all links of a network. Its mutex guards them.
type wires struct {
	net   *network
	links []*link
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
	slot slot
	// Messages of one instant, so that equal ones get latencies of their own.
	instant int64
	seen    []uint64
	digest  uint64
}

func (w *wires) connect(h *host, s *server) *link {
	l := &link{name: nemesis.LinkName(h.name, s.name), net: w.net, host: h, server: s}
	l.up = direction{link: l, of: nemesis.Request, name: sum(l.name), slot: slot(2 * len(w.links))}
	l.down = direction{link: l, of: nemesis.Reply, name: ^sum(l.name), slot: slot(2*len(w.links) + 1)}
	w.links = append(w.links, l)
	return l
}

// link is the one of a name; nil: there is none.
func (w *wires) link(name string) *link {
	return find(w.links, func(l *link) bool { return l.name == name })
}

// to is the link between a host and the server at an address; nil: there is none.
func (w *wires) to(h *host, addr string) *link {
	return find(w.links, func(l *link) bool { return l.host == h && l.server.addr.String() == addr })
}

// conns are the connections of a host or a server.
func (w *wires) conns(h *host, s *server) (all []*conn) {
	for _, l := range w.links {
		if l.host == h || l.server == s {
			all = append(all, l.conns...)
		}
	}
	return all
}
