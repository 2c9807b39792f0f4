package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/disk"
	"lockpick/harness/real/life"
	"lockpick/harness/real/proc"
)

// trialBound is how long a server may take to start that nothing contends with.
const trialBound = 5 * time.Second

// trial tries something for a moment, and leaves nothing of it.
func (b *Backend) trial(ctx context.Context, try func(context.Context, *proc.Group) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, trialBound)
	defer cancel()
	group, err := proc.NewGroup(b.cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	return try(ctx, group)
}

// answers starts the program for a moment and sees that it answers PING under its
// own process id: anything can be called redis-server.
func (b *Backend) answers(ctx context.Context) error {
	return b.trial(ctx, func(ctx context.Context, group *proc.Group) error {
		if _, err := group.StartRedis(ctx, "trial", b.cfg.RedisServer, "none"); err != nil {
			return fmt.Errorf("it does not answer PING: %w", err)
		}
		return nil
	})
}

// tellsLife starts the program for a moment and lets it tell of its keys.
func (b *Backend) tellsLife(ctx context.Context) error {
	return b.trial(ctx, func(ctx context.Context, group *proc.Group) error {
		r, err := group.StartRedis(ctx, "trial", b.cfg.RedisServer, "none")
		if err != nil {
			return err
		}
		lives := life.New(life.Config{Clock: proc.TrueClock, Ours: proc.Asked, Record: func(history.Event) {}})
		return errors.Join(lives.Watch(map[string]string{"trial": r.Addr()}), lives.Close())
	})
}

// tryDisk mounts a disk for a moment.
func (b *Backend) tryDisk() error {
	return b.trial(context.Background(), func(_ context.Context, group *proc.Group) error {
		dir := group.DataDir("trial")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		d, err := disk.Mount(dir)
		if err != nil {
			return err
		}
		group.Cleanup(d.Unmount)
		return nil
	})
}

// hasSentinels starts the program for a moment as a sentinel. One that is built
// without knows no such mode.
func (b *Backend) hasSentinels(ctx context.Context) error {
	return b.trial(ctx, func(ctx context.Context, group *proc.Group) error {
		_, err := group.StartSentinel(ctx, "trial", b.cfg.RedisServer)
		return err
	})
}
