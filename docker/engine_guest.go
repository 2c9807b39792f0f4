//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"lockpick/harness/owned"
)

var errNoContainer = errors.New("the engine has no such container")

// stranger is what the engine says of a container that lockpick has not made.
func (e *engine) stranger(ctx context.Context, name string) (container.InspectResponse, error) {
	is, err := e.api.ContainerInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		err = errNoContainer
	}
	return is, err
}

// bounded says whether a container may not use all of its machine.
func bounded(is container.InspectResponse) bool {
	r := is.HostConfig.Resources
	return r.NanoCPUs > 0 || r.CPUQuota > 0 || r.Memory > 0 && r.Memory != allMemory
}

// unfit says why a container can't be a node whatever its server is; nil: it can.
func unfit(name string, is container.InspectResponse) error {
	again := is.HostConfig.RestartPolicy.Name
	switch {
	case is.State.Status == container.StatePaused:
		return &Lack{errors.New("it is paused"), "docker unpause " + name}
	case is.State.Status != container.StateRunning:
		return &Lack{errors.New("it does not run, it is " + is.State.Status), "docker start " + name}
	case again != "" && again != container.RestartPolicyDisabled:
		return &Lack{fmt.Errorf("the engine restarts it when it ends (policy %s), and a node that was killed must stay down", again), "docker update --restart no " + name}
	case is.HostConfig.AutoRemove:
		return &Lack{errors.New("the engine removes it when it ends, and a node that was killed must come back"), "start it without --rm"}
	case bounded(is):
		return &Lack{errors.New("its use of processor or memory is bounded, and who starves a node sets these bounds"), "start it without any"}
	}
	if _, ok := owned.Parse(is.Config.Labels[ownerLabel]); ok {
		return &Lack{fmt.Errorf("it has the label %s, by which lockpicks remove what is their own", ownerLabel), "start it with --label " + ownerLabel + "="}
	}
	return nil
}

// shared says that another lockpick runs on a container. It is asked once we are on it,
// for of two who come at once one must see the other.
func shared(ctx context.Context, e *engine, name, ours string) error {
	is, err := e.stranger(ctx, name)
	if err != nil {
		return err
	}
	networks, err := e.networks(ctx, ownerLabel)
	if err != nil {
		return fmt.Errorf("list networks: %w", err)
	}
	for _, n := range networks {
		if _, on := is.NetworkSettings.Networks[n.name]; on && n.name != ours {
			return &Lack{fmt.Errorf("another lockpick runs on it, by network %s", n.name),
				fmt.Sprintf("wait for its end; if it was killed: docker network disconnect --force %s %s", n.name, name)}
		}
	}
	return nil
}

// adopting says what to do about a container that is not there.
func adopting(name string, err error) error {
	err = fmt.Errorf("adopt container %s: %w", name, err)
	if errors.Is(err, errNoContainer) {
		return &Lack{err, "docker ps shows those that run"}
	}
	return err
}
