//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/internal/files"
)

// Sweep removes what dead owners left: containers, networks, and images of which
// there is another now. It touches nothing of a living owner, nor what it can't tell;
// here says whether the engine is on this machine.
func Sweep(ctx context.Context, e *Engine, here bool, keep ...string) error {
	self, err := files.Self()
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	containers, err := e.Containers(ctx, OwnerLabel)
	if err != nil {
		return fmt.Errorf("sweep: list containers: %w", err)
	}
	runs := map[string]bool{} // an owner has something that runs
	for _, c := range containers {
		runs[c.owner] = runs[c.owner] || c.runs
	}
	dead := func(o Belonging) bool {
		owner, ok := files.ParseOwner(o.owner)
		// Of an engine elsewhere, or in a virtual machine, other machines may be users, too; of
		// one here, by way of the network.
		if !ok || !here && owner.Boot != self.Boot {
			return false
		}
		return owner.Ended(self, time.Now()) || owner.Ended(self, o.made) && !runs[o.owner]
	}
	if _, err := Remove(ctx, e, OwnerLabel, dead); err != nil { // what the engine holds on to is in nobody's way
		return fmt.Errorf("sweep: %w", err)
	}
	images, err := imagesOf(ctx, e, ImageLabel)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, i := range images {
		replaced := slices.ContainsFunc(keep, func(ref string) bool { return i.Name != ref && sameSort(i.Name, ref) })
		if replaced && dead(i) {
			e.RemoveImage(ctx, i.Name) // in use, it stays until the next sweep
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

// ClearPatiently removes everything with a label. If the engine is away, perhaps to restart, it keeps
// trying until ctx ends.
func ClearPatiently(ctx context.Context, e *Engine, label string) error {
	for {
		held, err := Remove(ctx, e, label, func(Belonging) bool { return true })
		if !Away(err) {
			return errors.Join(held, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; what is left the next lockpick removes", errors.Join(held, err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Remove removes the containers and then the networks with a label that are to go; held
// is about networks that are errHeld.
func Remove(ctx context.Context, e *Engine, label string, goes func(Belonging) bool) (held, err error) {
	containers, err := e.Containers(ctx, label)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	failed := AtOnce(containers, func(c Belonging) error {
		if !goes(c) {
			return nil
		}
		if err := e.Remove(ctx, c.ID); err != nil {
			return fmt.Errorf("remove container%s: %w", c.Name, err)
		}
		return nil
	})
	networks, err := e.Networks(ctx, label)
	if err != nil {
		failed = errors.Join(failed, fmt.Errorf("list networks: %w", err))
	}
	for _, n := range networks {
		if !goes(n) {
			continue
		}
		err := removeNetwork(ctx, e, n.ID)
		if err != nil {
			err = fmt.Errorf("remove network %s: %w", n.Name, err)
		}
		if errors.Is(err, errHeld) {
			held = errors.Join(held, err)
			continue
		}
		failed = errors.Join(failed, err)
	}
	return held, failed
}

// AtOnce does something for each of a list, all at the same time.
func AtOnce[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, x := range list {
		all.Go(func() { errs[i] = do(x) })
	}
	all.Wait()
	return errors.Join(errs...)
}
