//go:build linux

package docker

import (
	"context"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// pausing is that a container was paused, or goes on.
type pausing struct {
	id   string
	over bool
}

// pauses tells of all pauses from now on, and why it ends.
func (e *engine) pauses(ctx context.Context) (<-chan pausing, <-chan error) {
	f := filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)),
		filters.Arg("event", string(events.ActionPause)), filters.Arg("event", string(events.ActionUnPause)))
	said, failed := e.api.Events(ctx, events.ListOptions{Filters: f})
	out, over := make(chan pausing), make(chan error, 1)
	go func() {
		for {
			select {
			case m := <-said:
				select {
				case out <- pausing{m.Actor.ID, m.Action == events.ActionUnPause}:
				case <-ctx.Done():
				}
			case err := <-failed:
				over <- err
				return
			}
		}
	}()
	return out, over
}
