//go:build linux

package adapter

import (
	"context"
	"errors"
	"strconv"

	"lockpick/harness/real/proc"
	"lockpick/harness/real/store"
)

// servers are what the adapter's lock is on.
func (t *trial) servers() (err error) {
	var names []string
	for i := range 5 {
		names = append(names, "n"+strconv.Itoa(i+1))
	}
	if name := t.adapter.Hello.Store(); name != "" {
		of, err := store.Of(name)
		if err == nil {
			t.nodes, err = t.group.StartStore(t.ctx, of, names)
		}
		return err
	}
	for _, name := range names {
		n, err := t.group.StartRedis(t.ctx, name, t.redis, "none")
		if err != nil {
			return err
		}
		t.nodes = append(t.nodes, n)
	}
	return nil
}

// untold is why a check is not made that reads or deletes keys; "": it is.
func (t *trial) untold() string {
	if name := t.adapter.Hello.Store(); name != "" {
		return name + " tells nothing of its keys here"
	}
	return ""
}

// freeze stops all nodes, so that no lease is kept alive; back lets them go on.
func freeze(ctx context.Context, nodes []*proc.Redis) (back func() error, err error) {
	for _, n := range nodes {
		_, fails := n.Pause(ctx)
		err = errors.Join(err, fails)
	}
	return func() (err error) {
		for _, n := range nodes {
			_, fails := n.Resume(ctx)
			err = errors.Join(err, fails)
		}
		return err
	}, err
}
