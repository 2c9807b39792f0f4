package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
)

// hostileEnv names the environment variable that selects the lock for TestHostile to run.
const hostileEnv = "LOCKTEST_HOSTILE"

// hostileLocks are locks that crash a run, make it hang or never work, with the strings expected in
// the output. A function name must appear as a frame in the dump.
var hostileLocks = map[string]struct {
	acquire    func(ctx context.Context, env lock.Env) (lock.Handle, error)
	wantOutput []string
}{
	"spins": {func(context.Context, lock.Env) (lock.Handle, error) { return spin() },
		[]string{"did not end within 1s", "locktest.spin("}},
	"waits-outside": {func(context.Context, lock.Env) (lock.Handle, error) { return wait() },
		[]string{"did not end within 1s", "locktest.wait("}},
	"waits-for-a-mutex": {func(context.Context, lock.Env) (lock.Handle, error) { return contend() },
		[]string{"did not end within 1s", "locktest.contend("}},
	"panics": {func(context.Context, lock.Env) (lock.Handle, error) { panic("no such slot") },
		[]string{"panic: no such slot", "hostile_test.go:"}},
	"panics-elsewhere": {func(context.Context, lock.Env) (lock.Handle, error) { return crash() },
		[]string{"panic: the renewal failed", "locktest.crash."}},
	"exits": {func(context.Context, lock.Env) (lock.Handle, error) {
		println("this lock can't go on")
		os.Exit(3)
		return nil, nil
	}, []string{"this lock can't go on", "exit status 3"}},
	"ends-its-goroutine": {func(context.Context, lock.Env) (lock.Handle, error) {
		runtime.Goexit()
		return nil, nil
	}, []string{"Goexit"}},
	"never-returns": {func(context.Context, lock.Env) (lock.Handle, error) {
		return blockForever()
	}, []string{"fault-tolerance violated (unexplained)", "c1's acquire, called at", "had not returned when the run ended, although its context was canceled"}},
	"sleeps-for-ever": {func(ctx context.Context, env lock.Env) (lock.Handle, error) {
		time.Sleep(time.Hour) // in virtual time
		return nil, ctx.Err()
	}, []string{"fault-tolerance violated (unexplained)", "had not returned when the run ended, although its context was canceled"}},
	"always-fails": {func(context.Context, lock.Env) (lock.Handle, error) {
		return nil, errors.New("the lock needs Redis 9")
	}, []string{neverWorks, "Acquire gave up without asking a node for the lock", "×  the lock needs Redis 9", "inconclusive: nobody acquired a lock", "as in redsync.WithTries(0)"}},
	"gives-up": {func(ctx context.Context, env lock.Env) (lock.Handle, error) {
		return nil, fmt.Errorf("the second reply was %w", askTwice(ctx, env))
	}, []string{neverWorks, "Acquire gave up after 2 tries", "×  the second reply was redis: nil", "inconclusive: nobody acquired a lock"}},
	"needs-a-rare-command": {func(ctx context.Context, env lock.Env) (lock.Handle, error) {
		return nil, runCommand(ctx, env, "GEOADD", "lock-1", 1, 2, "c1")
	}, []string{neverWorks, "inconclusive: the simulated n1 does not support GEOADD; use real servers: Options.Backend"}},
	"never-releases": {func(ctx context.Context, env lock.Env) (lock.Handle, error) {
		l, err := kinds.All["single"].New(env)
		if err != nil {
			return nil, err
		}
		h, err := l.Acquire(ctx, "lock-1")
		return neverReleased{h}, err
	}, []string{"'s release, called at", "had not returned when the run ended, although its context was canceled"}},
	"answers-nothing": {func(context.Context, lock.Env) (lock.Handle, error) { return nil, nil },
		[]string{"panic: runtime error", "client.(*section).acquire("}},
}

// neverWorks is printed if a lock is exercised in no subtest, so that all of them are skipped.
const neverWorks = "all 2 subtests were skipped, so the lock was never tested"

// askTwice sets a key and then tries to set it again, as a lock with two tries and a mistake would.
func askTwice(ctx context.Context, env lock.Env) (err error) {
	for range 2 {
		err = runCommand(ctx, env, "SET", "lock-1", env.Token(1), "NX", "PX", env.Settings.TTL.Milliseconds())
	}
	return err
}

func runCommand(ctx context.Context, env lock.Env, args ...any) error {
	client := redis.NewClient(&redis.Options{Addr: env.Nodes[0].Addr, Dialer: env.Dial, MaxRetries: -1, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	return client.Do(ctx, args...).Err()
}

type neverReleased struct{ lock.Handle }

func (neverReleased) Release(context.Context) error { select {} }

func spin() (lock.Handle, error) {
	for n := 0; ; n++ {
		if n < 0 {
			return nil, nil
		}
	}
}

func blockForever() (lock.Handle, error) { select {} }

var outsideChan = make(chan struct{})

func wait() (lock.Handle, error) {
	<-outsideChan
	return nil, nil
}

var takenMutex sync.Mutex

func init() { takenMutex.Lock() }

func contend() (lock.Handle, error) {
	takenMutex.Lock()
	return nil, nil
}

func crash() (lock.Handle, error) {
	go func() { panic("the renewal failed") }()
	select {}
}

type hostileLock struct {
	env     lock.Env
	acquire func(context.Context, lock.Env) (lock.Handle, error)
}

func (h hostileLock) Acquire(ctx context.Context, _ string) (lock.Handle, error) {
	return h.acquire(ctx, h.env)
}
func (hostileLock) Close() error { return nil }

// TestHostile is run by TestHostileLocksFail.
func TestHostile(t *testing.T) {
	name := os.Getenv(hostileEnv)
	if name == "" {
		t.Skip("run by TestHostileLocksFail")
	}
	limit := time.Minute // a busy host is slow
	if strings.HasPrefix(hostileLocks[name].wantOutput[0], "did not end") {
		limit = time.Second
	}
	Run(t, lock.Kind{OneNode: true, New: func(env lock.Env) (lock.Lock, error) {
		return hostileLock{env, hostileLocks[name].acquire}, nil
	}}, Options{Scenarios: []string{"baseline/", "holder-crashes/"}, Patience: limit})
}

// If a lock ends its process or hangs, only its own subtests fail. The failure shows the lock's
// goroutines. If a lock's acquires fail, the subtests are skipped with its errors, and the test fails
// if all of them are.
func TestHostileLocksFail(t *testing.T) {
	for name, h := range hostileLocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestHostile$", "-test.v")
			cmd.Env = append(os.Environ(), hostileEnv+"="+name)
			out, err := cmd.CombinedOutput()
			want := append(h.wantOutput, "TestHostile/holder-crashes/base", "--- FAIL: TestHostile (")
			if h.wantOutput[0] == neverWorks {
				want = append(want, "--- SKIP: TestHostile/baseline/base")
			} else {
				want = append(want, "--- FAIL: TestHostile/baseline/base", "run again: go test -run '^TestHostile$/^baseline$/^base$'")
			}
			for _, want := range want {
				if !strings.Contains(string(out), want) {
					t.Errorf("%v: %q is missing from the output:\n%s", err, want, out)
				}
			}
		})
	}
}

// If the user selects a subtest that is skipped, the test passes.
func TestSelectedSubtestMayBeSkipped(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostile$/^baseline$", "-test.v")
	cmd.Env = append(os.Environ(), hostileEnv+"=always-fails")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- SKIP: TestHostile/baseline/base") {
		t.Errorf("%v\n%s", err, out)
	}
}

// An acquire that fails because its client cancels it, or because the client's time is up, has not
// given up.
func TestWantsLock(t *testing.T) {
	never := time.Duration(0)
	s := scenario.Scenario{Limit: time.Minute, Clients: []scenario.Client{{Name: "c1"}, {Name: "c2", CancelAfter: &never}}}
	s.Workload.CancelAfter = 2 * time.Second
	for _, tt := range []struct {
		client string
		from   time.Duration
		to     time.Duration
		want   bool
	}{
		{"c1", time.Second, 2 * time.Second, true},
		{"c1", time.Second, 3 * time.Second, false},
		{"c1", time.Second, 2900 * time.Millisecond, false}, // its clock is fast
		{"c2", time.Second, 10 * time.Second, true},
		{"c2", time.Second, time.Minute, false},
		{"c1", 59 * time.Second, time.Minute, false},
	} {
		x := &facts.Session{Acquire: facts.Operation{Call: &history.Event{Process: tt.client}}, CalledAt: int64(tt.from), EndedAt: int64(tt.to)}
		if got := wantsLock(s, x); got != tt.want {
			t.Errorf("%s from %v to %v: %v", tt.client, tt.from, tt.to, got)
		}
	}
	s.Workload.For = 30 * time.Second
	if x := (&facts.Session{Acquire: facts.Operation{Call: &history.Event{Process: "c2"}}, EndedAt: int64(30 * time.Second)}); wantsLock(s, x) {
		t.Error("an acquire that ends with the workload has given up")
	}
}
