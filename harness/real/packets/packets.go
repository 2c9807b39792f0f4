// Package packets drops packets below TCP, with nftables in one network namespace. Data sent on an
// affected connection is lost and retransmitted at increasing intervals. It arrives late, once packets
// pass again.
//
//	peer's ports ── request ──► input chain │ node │ output chain ── reply ──► peer's ports
//
// A Rule selects the packets to drop. A Filter drops and counts them, using its own table in the
// namespace. The ports from which a link's proxy connects identify the link. See package proxy.
//
// Not supported: IPv6, dropping just some packets, and choosing a namespace: the namespace is always
// that of the thread that calls Open. The package needs Linux.
package packets

import (
	"fmt"
	"net/netip"

	"lockpick/nemesis"
)

// Rule selects the TCP packets to drop, from the node's point of view.
type Rule struct {
	Peer        netip.Addr // source of requests and destination of replies
	First, Last uint16     // range of the peer's ports
	Way         string     // nemesis.Request for packets to the node, nemesis.Reply for packets from it
}

func (r Rule) validate() error {
	switch {
	case !r.Peer.Is4():
		return fmt.Errorf("%v is not an IPv4 address", r.Peer)
	case r.First == 0 || r.First > r.Last:
		return fmt.Errorf("%d to %d is not a range of ports", r.First, r.Last)
	case r.Way != nemesis.Request && r.Way != nemesis.Reply:
		return fmt.Errorf("%q is neither %s nor %s", r.Way, nemesis.Request, nemesis.Reply)
	}
	return nil
}

// String describes the rule. The text also identifies the rule in the kernel's table.
func (r Rule) String() string {
	return fmt.Sprintf("%s, %v ports %d to %d", r.Way, r.Peer, r.First, r.Last)
}
