//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/harness/real/proc"
)

// ownerLabel is the label of everything that a run makes; its value is a proc.Owner.
const ownerLabel = "lockpick"

// runLabel tells the runs of one owner apart.
const runLabel = "lockpick.run"

// sweep removes what dead owners left: containers, networks, and images of which
// there is another now. It touches nothing of a living owner, nor what it can't tell;
// here says whether the engine is on this machine.
func (e *engine) sweep(ctx context.Context, here bool, keep ...string) error {
	self, err := proc.Self()
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	dead := func(o owned) bool {
		owner, ok := proc.ParseOwner(o.owner)
		// Of an engine elsewhere, or in a virtual machine, other machines may be users, too.
		return ok && owner.Dead(self) && (here || owner.Boot == self.Boot)
	}
	if _, err := e.clear(ctx, ownerLabel, dead); err != nil { // what the engine holds on to is in nobody's way
		return fmt.Errorf("sweep: %w", err)
	}
	images, err := e.images(ctx, imageLabel)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, i := range images {
		replaced := slices.ContainsFunc(keep, func(ref string) bool { return i.name != ref && sameSort(i.name, ref) })
		if replaced && dead(i) {
			e.removeImage(ctx, i.name) // in use, it stays until the next sweep
		}
	}
	return nil
}

// sameSort says whether two images differ in their tag alone.
func sameSort(a, b string) bool {
	a, _, _ = strings.Cut(a, ":")
	b, _, _ = strings.Cut(b, ":")
	return a == b
}

// clearPatiently is clear of all with a label, for an engine that may be about to start
// again.
func (e *engine) clearPatiently(ctx context.Context, label string) error {
	for {
		held, err := e.clear(ctx, label, func(owned) bool { return true })
		if err == nil || !away(err) {
			return errors.Join(held, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; what is left the next lockpick removes", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// clear removes the containers and then the networks with a label that are to go; held
// is about networks that are errHeld.
func (e *engine) clear(ctx context.Context, label string, goes func(owned) bool) (held, err error) {
	containers, err := e.containers(ctx, label)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	errs := make([]error, len(containers))
	var all sync.WaitGroup
	for i, c := range containers {
		if goes(c) {
			all.Go(func() {
				if err := e.remove(ctx, c.id); err != nil {
					errs[i] = fmt.Errorf("remove container%s: %w", c.name, err)
				}
			})
		}
	}
	all.Wait()
	networks, err := e.networks(ctx, label)
	if err != nil {
		errs = append(errs, fmt.Errorf("list networks: %w", err))
	}
	for _, n := range networks {
		if !goes(n) {
			continue
		}
		err := e.removeNetwork(ctx, n.id)
		if err != nil {
			err = fmt.Errorf("remove network %s: %w", n.name, err)
		}
		if errors.Is(err, errHeld) {
			held = errors.Join(held, err)
			continue
		}
		errs = append(errs, err)
	}
	return held, errors.Join(errs...)
}
