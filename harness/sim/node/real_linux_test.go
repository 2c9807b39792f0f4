package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/real/fuse"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
	"lockpick/harness/resp"
)

var (
	_ Server    = (*realServer)(nil)
	_ restarter = (*realServer)(nil)
	_ disk      = (*realServer)(nil)
	_ clock     = (*realServer)(nil)

	_ dialer = (*realServer)(nil)
)

type realServer struct {
	redis     *proc.Redis
	machine   *vdso.Machine // nil means a correct clock
	disk      *fuse.Disk    // nil means the host's disk
	start     time.Duration // by the true clock; 0 until the first command
	storyTime time.Duration // in the story's time
}

// newReal starts a redis-server with the clock and the disk that the story needs. It skips the test
// if the host does not support them.
func newReal(t *testing.T, s *Story) Server {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		report := t.Skip
		if os.Getenv("CI") == "true" {
			report = t.Fatal
		}
		report("redis-server is not on PATH; install it (apt-get install redis-server)")
	}
	if err := sweep(); err != nil {
		t.Fatal(err)
	}
	group, err := proc.NewGroup(os.TempDir()) // where sweep finds it if the test is killed
	if err != nil {
		t.Fatal(err)
	}
	r := &realServer{}
	t.Cleanup(func() {
		err := group.Close()
		if r.machine != nil {
			err = errors.Join(err, r.machine.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})
	if usesDirective(s, "clock") {
		r.setUpClock(t, group)
	}
	if usesDirective(s, "power-loss", "sync") {
		r.setUpDisk(t, group)
	}
	if r.redis, err = group.StartRedis(t.Context(), "n1", bin, s.Persistence); err != nil {
		t.Fatal(err)
	}
	return r
}

var sweep = sync.OnceValue(func() error {
	_, err := proc.Sweep(os.TempDir())
	return err
})

func usesDirective(s *Story, directives ...string) bool {
	return slices.ContainsFunc(s.Steps, func(step step) bool { return slices.Contains(directives, step.Words[0]) })
}

func (r *realServer) setUpClock(t *testing.T, group *proc.Group) {
	t.Helper()
	if err := vdso.Available(); err != nil {
		t.Skipf("clocks can't be changed here: %v", err)
	}
	r.machine = &vdso.Machine{}
	group.AtStart = func(_ string, pid int) error { return r.machine.Start(pid) }
}

func (r *realServer) setUpDisk(t *testing.T, group *proc.Group) {
	t.Helper()
	if reason, remedy := fuse.Missing(); reason != "" {
		t.Skipf("power losses are not possible here: %s; fix: %s", reason, remedy)
	}
	dir := group.DataDir("n1")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.disk, err = fuse.Mount(dir); err != nil {
		t.Fatal(err)
	}
	group.Cleanup(r.disk.Unmount)
}

func (r *realServer) startClock() {
	if r.start == 0 {
		r.start = proc.TrueClock()
	}
}

func (r *realServer) Do(words []string) (resp.Value, error) {
	r.startClock()
	return proc.Ask(context.Background(), r.redis.Addr(), words...)
}

func (r *realServer) Dial() (serverConn, error) {
	r.startClock()
	return dialTCP(r.redis.Addr())
}

func (r *realServer) Wait(d time.Duration) error {
	r.startClock() // the story may begin with a wait
	r.storyTime += max(d, 0)
	time.Sleep(-r.Lag())
	return nil
}

// Lag returns how far the server lags behind the story's time, or a negative duration if the server
// is ahead.
func (r *realServer) Lag() time.Duration {
	r.startClock()
	return proc.TrueClock() - r.start - r.storyTime
}

func (r *realServer) Kill() error {
	if err := r.waitWritten(); err != nil {
		return err
	}
	_, err := r.redis.Kill(context.Background())
	return err
}

// waitWritten waits until the operating system has all acknowledged writes. With appendfsync
// everysec, the server postpones writes for up to two seconds while a sync is slow, as on a busy
// disk, and a kill loses them. A story with its own disk or clock defines the outcome itself.
func (r *realServer) waitWritten() error {
	for end := time.Now().Add(2 * time.Second); r.disk == nil && r.machine == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		info, err := r.Do([]string{"INFO", "persistence"})
		if infoText := replyText(info); err != nil || !strings.Contains(infoText, "aof_buffer_length:") || strings.Contains(infoText, "aof_buffer_length:0\r") {
			return err
		}
	}
	return nil
}

func (r *realServer) Shutdown() error {
	_, err := r.redis.Shutdown(context.Background())
	return err
}

func (r *realServer) Restart() error {
	_, err := r.redis.Restart(context.Background())
	return err
}

func (r *realServer) LosePower(torn bool) error {
	_, err := r.disk.LosePower(func() (string, error) { return r.redis.Kill(context.Background()) }, torn)
	return err
}

func (r *realServer) Unsynced() bool { return len(r.disk.ListUnsynced()) > 0 }

func (r *realServer) Adjust(by time.Duration, rate float64) error {
	if _, _, err := r.machine.Adjust(by, rate); err != nil {
		return fmt.Errorf("change its clock: %w", err)
	}
	return nil
}
