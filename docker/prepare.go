//go:build linux

package docker

import (
	"context"
	"slices"

	"lockpick/docker/engine"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
)

// Prepare gets the images that scenarios need, and says what nodes will run. What can't
// be had is a *Lack.
func (b *backend) Prepare(ctx context.Context, all []scenario.Scenario, say func(string)) error {
	e, _, err := engine.Meet(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	self, err := files.Self()
	if err != nil {
		return err
	}
	from := b.supply(e, self.String(), say)
	var had []string
	for _, s := range all {
		if slices.Contains(had, s.Topology.Image) {
			continue
		}
		had = append(had, s.Topology.Image)
		nodes, err := from.nodes(ctx, s.Topology.Image)
		if err != nil {
			return err
		}
		say("nodes run " + nodes.String())
	}
	if len(had) == 0 {
		return nil
	}
	_, _, err = from.clients(ctx)
	return err
}
