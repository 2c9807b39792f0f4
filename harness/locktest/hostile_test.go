package locktest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/lock"
)

// hostileEnv is the environment variable with the name of the lock that TestHostile runs.
const hostileEnv = "LOCKTEST_HOSTILE"

// hostileLocks are locks that crash a run or make it hang, with the texts expected in the failure.
// A function name must appear as a frame in the dump.
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
	}, []string{"the run is vacuous: nobody acquired a lock"}},
	"sleeps-for-ever": {func(ctx context.Context, env lock.Env) (lock.Handle, error) {
		time.Sleep(time.Hour) // in virtual time
		return nil, ctx.Err()
	}, []string{"the run is vacuous: nobody acquired a lock"}},
	"always-fails": {func(context.Context, lock.Env) (lock.Handle, error) {
		return nil, errors.New("the lock needs Redis 9")
	}, []string{"c1's acquire failed", "times from", "the lock needs Redis 9"}},
	"answers-nothing": {func(context.Context, lock.Env) (lock.Handle, error) { return nil, nil },
		[]string{"panic: runtime error", "client.(*section).acquire("}},
}

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
// goroutines.
func TestHostileLocksFail(t *testing.T) {
	for name, h := range hostileLocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestHostile$", "-test.v")
			cmd.Env = append(os.Environ(), hostileEnv+"="+name)
			out, err := cmd.CombinedOutput()
			for _, want := range append(h.wantOutput, "--- FAIL: TestHostile/baseline/base", "TestHostile/holder-crashes/base", "run again: go test -run '^TestHostile$/^baseline$/^base$'") {
				if !strings.Contains(string(out), want) {
					t.Errorf("%v: %q is missing from the output:\n%s", err, want, out)
				}
			}
		})
	}
}
