//go:build linux

package docker

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
)

// errOverlaps says that another network has the addresses.
var errOverlaps = errors.New("another network has these addresses")

// makeNetwork makes a bridge from which nothing leads out.
func makeNetwork(ctx context.Context, e *engine, name string, subnet netip.Prefix, gateway netip.Addr, labels map[string]string) (id string, err error) {
	made, err := e.api.NetworkCreate(ctx, name, network.CreateOptions{
		Driver: "bridge", Internal: true, Labels: labels,
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet.String(), Gateway: gateway.String()}}},
	})
	if err != nil && strings.Contains(err.Error(), "overlaps") {
		return "", errOverlaps
	}
	return made.ID, err
}

func (e *engine) networks(ctx context.Context, label string) (found []belonging, err error) {
	all, err := e.api.NetworkList(ctx, network.ListOptions{Filters: labelled(label)})
	for _, n := range all {
		found = append(found, belonging{id: n.ID, name: n.Name, owner: n.Labels[ownerLabel], made: n.Created})
	}
	return found, err
}

// errHeld says that the engine believes that somebody is on a network. Under load some
// engines lose count of who has left.
var errHeld = errors.New("the engine takes it for used; it can be removed when the engine has been started again")

func removeNetwork(ctx context.Context, e *engine, id string) error {
	err := unlessGone(e.api.NetworkRemove(ctx, id))
	if err != nil && strings.Contains(err.Error(), "has active endpoints") {
		return errHeld
	}
	return err
}

// fixed is an endpoint on a network, with an address of its own.
func fixed(addr netip.Addr) *network.EndpointSettings {
	return &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: addr.String()}}
}

// disconnect takes a container off a network, and connect puts it there again.
func (e *engine) disconnect(ctx context.Context, network, id string) error {
	return e.api.NetworkDisconnect(ctx, network, id, false)
}

func (e *engine) connect(ctx context.Context, network, id string, addr netip.Addr) error {
	return e.api.NetworkConnect(ctx, network, id, fixed(addr))
}

// disconnectAll takes off a network who is still there, whether it runs or not: one that
// does not could not be started again, once the network is gone.
func disconnectAll(ctx context.Context, e *engine, id string) error {
	there, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("network", id))})
	for _, c := range there {
		err = errors.Join(err, unlessGone(e.api.NetworkDisconnect(ctx, id, c.ID, true)))
	}
	return err
}
