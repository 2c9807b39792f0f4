//go:build linux

package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockpick/docker/engine"
	"lockpick/harness/owned"
	"lockpick/harness/scenario"
)

// Prepare gets the images that scenarios need, and says what nodes will run. What can't
// be had is a *Lack.
func (b *Backend) Prepare(ctx context.Context, all []scenario.Scenario, say func(string)) error {
	e, _, err := engine.Meet(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	self, err := owned.Self()
	if err != nil {
		return err
	}
	from := b.supply(e, self.String(), say)
	var had []string
	if err := b.prepareGuests(ctx, all, say); err != nil {
		return err
	}
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

// prepareGuests adopts the containers of Config.Nodes for the runs to come, and says who
// they are, and in how many runs lockpick makes nodes itself, for what.
func (b *Backend) prepareGuests(ctx context.Context, all []scenario.Scenario, say func(string)) error {
	i := slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.Topology.Image == "" })
	if len(b.cfg.Nodes) == 0 || i < 0 {
		return nil
	}
	st, err := b.take(ctx, all[i])
	if err != nil {
		return err
	}
	defer b.give(st)
	for _, g := range st.guests {
		say(fmt.Sprintf("container %s serves as a node: image %s, %s, persistence %s", g.called, g.image, g.version, g.persist))
	}
	runs, made := map[string]int{}, 0
	for _, s := range all {
		reasons := st.assignGuests(s)
		slices.Sort(reasons)
		for _, r := range slices.Compact(reasons) {
			runs[r]++
		}
		if len(reasons) > 0 {
			made++
		}
	}
	var words []string
	for _, r := range slices.Sorted(maps.Keys(runs)) {
		words = append(words, fmt.Sprintf("%s (%d)", r, runs[r]))
	}
	if made > 0 {
		say(fmt.Sprintf("lockpick makes nodes of its own in %d of %d scenarios, where these don't fit: %s", made, len(all), strings.Join(words, ", ")))
	}
	return nil
}
