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
func trial(ctx context.Context, dir string, try func(context.Context, *proc.Group) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, trialBound)
	defer cancel()
	group, err := proc.NewGroup(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	return try(ctx, group)
}

// answers starts the program for a moment and sees that it answers PING under its
// own process id: anything can be called redis-server.
func answers(ctx context.Context, dir, bin string) error {
	return trial(ctx, dir, func(ctx context.Context, group *proc.Group) error {
		if _, err := group.StartRedis(ctx, "trial", bin, "none"); err != nil {
			return fmt.Errorf("it does not answer PING: %w", err)
		}
		return nil
	})
}

// tellsLife starts the program for a moment and lets it tell of its keys.
func tellsLife(ctx context.Context, dir, bin string) error {
	return trial(ctx, dir, func(ctx context.Context, group *proc.Group) error {
		r, err := group.StartRedis(ctx, "trial", bin, "none")
		if err != nil {
			return err
		}
		lives := life.New(life.Config{Clock: proc.TrueClock, Ours: proc.Asked, Record: func(history.Event) {}})
		return errors.Join(lives.Watch(map[string]string{"trial": r.Addr()}), lives.Close())
	})
}

// tryDisk mounts a disk for a moment.
func tryDisk(dir string) error {
	return trial(context.Background(), dir, func(_ context.Context, group *proc.Group) error {
		at := group.DataDir("trial")
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		d, err := disk.Mount(at)
		if err != nil {
			return err
		}
		group.Cleanup(d.Unmount)
		return nil
	})
}

// hasSentinels starts the program for a moment as a sentinel. One that is built
// without knows no such mode.
func hasSentinels(ctx context.Context, dir, bin string) error {
	return trial(ctx, dir, func(ctx context.Context, group *proc.Group) error {
		_, err := group.StartSentinel(ctx, "trial", bin)
		return err
	})
}
