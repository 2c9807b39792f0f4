package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/clock"
	"lockpick/harness/real/disk"
	"lockpick/harness/real/life"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/runs"
	"lockpick/harness/scenario"
	"lockpick/harness/shortage"
	"lockpick/nemesis"
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

// tries is how to find out whether it can do what not every machine lets it.
func (b *Backend) tries(ctx context.Context) map[string]func() harness.Capability {
	mount, clocks := sync.OnceValue(b.canMount), sync.OnceValue(b.canTurnClocks)
	tries := map[string]func() harness.Capability{
		disk.LosesPower: mount, disk.HitsDisks: mount,
		scenario.CanTellLife: func() harness.Capability { return b.canTell(ctx) },
		watches:              func() harness.Capability { return b.canWatch(ctx) },
	}
	for _, name := range runs.ClockPowers {
		tries[name] = clocks
	}
	return tries
}

// canMount tries a disk: whether a user may mount one, nothing but a mount tells.
func (b *Backend) canMount() harness.Capability {
	reason, remedy := disk.Missing()
	if reason == "" {
		if err := tryDisk(b.cfg.Dir); err != nil {
			reason, remedy = err.Error(), cmp.Or(shortage.Remedy(err, shortage.Temporary), disk.Remedy)
		}
	}
	return harness.Capability{Available: reason == "", Reason: reason, Remedy: remedy}
}

// watches needs a redis-server that can be a sentinel.
var watches = nemesis.Capability(nemesis.PowerSentinel, nemesis.Node)

func (b *Backend) canWatch(ctx context.Context) harness.Capability {
	err := hasSentinels(ctx, b.cfg.Dir, b.cfg.RedisServer)
	if err == nil {
		return harness.Capability{Available: true}
	}
	why := telling(err)
	if remedy := shortage.Remedy(err, shortage.Temporary); remedy != "" {
		return harness.Capability{Reason: why, Remedy: remedy}
	}
	return harness.Capability{Reason: b.cfg.RedisServer + " can't be a sentinel: " + strings.TrimSuffix(why, ":"),
		Remedy: "apt-get install redis-server, whose program is redis-sentinel as well, and see that it comes first on PATH"}
}

// canTell says whether nodes tell of their keys. Runs do without.
func (b *Backend) canTell(ctx context.Context) harness.Capability {
	err := tellsLife(ctx, b.cfg.Dir, b.cfg.RedisServer)
	if err == nil {
		return harness.Capability{Available: true}
	}
	why := telling(err)
	return harness.Capability{Reason: "causes come from what clients saw alone: " + why,
		Remedy: cmp.Or(shortage.Remedy(err, shortage.Temporary), "use Redis 7.0 or later that allows CONFIG and MONITOR")}
}

func (b *Backend) canTurnClocks() harness.Capability {
	err := tryClock(b.cfg.Dir)
	if err == nil {
		return harness.Capability{Available: true}
	}
	c := harness.Capability{Reason: "no process can be given a wrong clock: " + err.Error(), Remedy: shortage.Remedy(err, shortage.Temporary)}
	switch {
	case c.Remedy != "":
	case clock.Available() != nil:
		c.Remedy = "run it on Linux on amd64, or in the simulation (--backend sim)"
	case errors.Is(err, fs.ErrPermission):
		c.Remedy = "allow ptrace: in a container run it with --cap-add SYS_PTRACE and a seccomp profile that lets it pass; otherwise sysctl kernel.yama.ptrace_scope=1"
	default:
		c.Remedy = "use the simulation (--backend sim)"
	}
	return c
}

// trust looks at what the program says of itself, and tries it.
func (b *Backend) trust(ctx context.Context, run harness.Capability) harness.Capability {
	program, err := exec.LookPath(b.cfg.RedisServer)
	if err == nil {
		_, err = b.Version(ctx)
	}
	if err == nil {
		err = answers(ctx, b.cfg.Dir, b.cfg.RedisServer)
	}
	if err != nil {
		why := telling(err)
		run.Available = false
		if run.Remedy = shortage.Remedy(err, shortage.Temporary); run.Remedy != "" {
			run.Reason = why
			return run
		}
		run.Reason = fmt.Sprintf("%s is no redis-server that runs here: %s", program, strings.TrimSuffix(why, ":"))
		run.Remedy = "apt-get install redis-server, and see that it comes first on PATH"
	}
	return run
}

// telling is the line of an error, with a server's log in it, that says what the machine is
// short of, or else the first.
func telling(err error) string {
	for line := range strings.Lines(err.Error()) {
		if shortage.Remedy(errors.New(line), "") != "" {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
