// Package packets loses packets below TCP, by nftables in one network namespace: what
// is sent over a connection is lost, is sent again after ever longer waits, and comes
// late once packets pass again.
//
//	peer's ports ── request ──► input chain │ node │ output chain ── reply ──► peer's ports
//
// Its nouns are Rule, which packets are lost, and Filter, a table of our own in the
// namespace, which counts them. A link is told apart by the ports that its proxy dials
// from, see package proxy.
//
// Deliberately missing: IPv6, loss of a share of the packets, and whose namespace it is:
// it is that of the thread which calls Open. It needs Linux.
package packets

import (
	"fmt"
	"net/netip"

	"lockpick/nemesis"
)

// Rule is packets of TCP that are lost, as a node sees them.
type Rule struct {
	Peer        netip.Addr // whom requests come from, and replies go to
	First, Last uint16     // its ports
	Way         string     // nemesis.Request: packets into the node; nemesis.Reply: those out of it
}

func (r Rule) validate() error {
	switch {
	case !r.Peer.Is4():
		return fmt.Errorf("%v is no IPv4 address", r.Peer)
	case r.First == 0 || r.First > r.Last:
		return fmt.Errorf("%d to %d are no ports", r.First, r.Last)
	case r.Way != nemesis.Request && r.Way != nemesis.Reply:
		return fmt.Errorf("%q is neither %s nor %s", r.Way, nemesis.Request, nemesis.Reply)
	}
	return nil
}

// String is the rule in words, by which it is also found again.
func (r Rule) String() string {
	return fmt.Sprintf("%s, %v ports %d to %d", r.Way, r.Peer, r.First, r.Last)
}
