//go:build linux

package docker

import (
	"context"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// pauses tells of all pauses of containers, and their ends, from now on, and why it ends.
func (e *engine) pauses(ctx context.Context) (<-chan events.Message, <-chan error) {
	return e.api.Events(ctx, events.ListOptions{Filters: filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)),
		filters.Arg("event", string(events.ActionPause)), filters.Arg("event", string(events.ActionUnPause)))})
}
