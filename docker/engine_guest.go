//go:build linux

package docker

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// stranger is what the engine says of a container that lockpick has not made.
type stranger struct {
	id, image string
	status    string   // as in running or paused
	restarts  string   // its restart policy; "": none
	vanishes  bool     // once it ends, the engine removes it
	bounded   bool     // it may not use all of its machine
	owner     string   // its ownerLabel
	networks  []string // by name
}

var errNoContainer = errors.New("the engine has no such container")

func (e *engine) stranger(ctx context.Context, name string) (stranger, error) {
	is, err := e.api.ContainerInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return stranger{}, errNoContainer
	}
	if err != nil {
		return stranger{}, err
	}
	r := is.HostConfig.Resources
	s := stranger{
		id: is.ID, image: is.Config.Image, status: is.State.Status, restarts: string(is.HostConfig.RestartPolicy.Name), vanishes: is.HostConfig.AutoRemove,
		bounded: r.NanoCPUs > 0 || r.CPUQuota > 0 || r.Memory > 0 && r.Memory != allMemory,
		owner:   is.Config.Labels[ownerLabel], networks: slices.Sorted(maps.Keys(is.NetworkSettings.Networks)),
	}
	if s.restarts == string(container.RestartPolicyDisabled) {
		s.restarts = ""
	}
	return s, nil
}

// expel takes off a network who is still there, whether it runs or not: one that
// does not could not be started again, once the network is gone.
func (e *engine) expel(ctx context.Context, id string) error {
	there, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("network", id))})
	for _, c := range there {
		err = errors.Join(err, unlessGone(e.api.NetworkDisconnect(ctx, id, c.ID, true)))
	}
	return err
}
