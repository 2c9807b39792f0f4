//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"lockpick/docker/engine"
)

// Addresses on a run's network.
const (
	gatewayHost   = 1 // of the bridge
	linksHost     = 2
	resourceHost  = 10
	anyNode       = 0 // the first that is free from firstNode on
	firstNode     = 11
	firstReplica  = 51
	firstSentinel = 91
	firstClient   = 101
	lastHost      = 254 // of clients
)

type privateNet struct {
	name   string
	subnet netip.Prefix
}

// at is the address of a host on it.
func (n privateNet) at(host int) netip.Addr {
	a := n.subnet.Addr().As4()
	a[3] = byte(host)
	return netip.AddrFrom4(a)
}

// makeNet makes the run's network in the first of 10.213.0.0/16's subnets that nobody has,
// beginning by the process, so that several get out of each other's way.
func makeNet(ctx context.Context, e *engine.Engine, name string, labels map[string]string) (privateNet, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineBound) // as in makeBox
	defer cancel()
	for i := range 256 {
		a := netip.AddrFrom4([4]byte{10, 213, byte(os.Getpid() + i), 0})
		n := privateNet{name: name, subnet: netip.PrefixFrom(a, 24)}
		if taken(n.subnet) {
			continue
		}
		_, err := engine.MakeNetwork(ctx, e, name, n.subnet, n.at(gatewayHost), labels)
		if errors.Is(err, engine.ErrOverlaps) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("make network %s: %w", name, err)
		}
		return n, nil
	}
	return privateNet{}, errors.New("make a network: each subnet of 10.213.0.0/16 is taken; see docker network ls")
}

// taken says whether this machine has an address there. The engine knows of its own
// networks only.
func taken(subnet netip.Prefix) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false // the engine will tell
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Overlaps(subnet) {
			return true
		}
	}
	return false
}
