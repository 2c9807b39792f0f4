package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"lockpick/harness/lock"
)

// Name is this kind's name.
const Name = "exec"

// PipesEnv is the environment variable that tells a client that it has an adapter. The client's
// file descriptors 3 and 4 are then the adapter's stdout and stdin.
const PipesEnv = "LOCKPICK_ADAPTER"

// acquireTTLs is how many TTLs a library that retries on its own may wait for a lock.
const acquireTTLs = 2

var _ lock.Factory = New

// New returns a lock that uses the adapter whose pipes were passed to this process.
func New(env lock.Env) (lock.Lock, error) {
	in, out := attachedPipes.in, attachedPipes.out
	switch {
	case os.Getenv(PipesEnv) != "":
		in, out = os.NewFile(4, "the adapter's stdin"), os.NewFile(3, "the adapter's stdout")
	case in == nil:
		return nil, errors.New("lock \"exec\" has no program: pass --adapter COMMAND with real processes or containers (--backend process)")
	}
	a, err := Connect(in, out, env.Now)
	if err != nil {
		return nil, err
	}
	if err := a.Open(context.Background(), env.Client, env.Nodes, env.Settings); err != nil {
		return nil, err
	}
	return &program{Adapter: a, env: env, in: in}, nil
}

// program adapts an Adapter to lock.Lock.
type program struct {
	*Adapter
	env        lock.Env
	in         io.Closer
	delayCount int // number of delays drawn
}

func (p *program) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	s := p.env.Settings
	timeout := time.Duration(0)
	if p.Hello.Retries == "library" {
		timeout = acquireTTLs * s.TTL
	}
	if err := p.checkWallClock(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	for n := 1; ; n++ {
		h, err := p.Adapter.Acquire(ctx, key, timeout)
		var refused *RefusedError
		switch {
		case err == nil:
			return h, nil
		case ctx.Err() != nil, n == s.Tries && timeout == 0, !errors.As(err, &refused), refused.No == refusedUnsupported, refused.No == refusedCanceled:
			return nil, fmt.Errorf("acquire %q: %w", key, err)
		}
		if timeout > 0 && refused.No != refusedError { // the library has already waited
			continue
		}
		p.delayCount++
		select {
		case <-p.env.After(p.env.Delay(p.delayCount, s.RetryMin, s.RetryMax)):
		case <-ctx.Done():
			return nil, fmt.Errorf("acquire %q: %w, after %d tries: %w", key, ctx.Err(), n, err)
		}
	}
}

// Close implements lock.Lock. It tells the adapter to exit.
func (p *program) Close() error {
	if err := p.Adapter.Close(context.Background()); err != nil && !errors.Is(err, errBroken) {
		return fmt.Errorf("close: %w", errors.Join(err, p.in.Close()))
	}
	return p.in.Close()
}

var (
	_ lock.Extender        = (*Handle)(nil)
	_ lock.LossNotifier    = (*Handle)(nil)
	_ lock.HeldChecker     = (*Handle)(nil)
	_ lock.RenewalNotifier = (*Handle)(nil)
	_ lock.Fencer          = (*Handle)(nil)
	_ lock.Tokener         = (*Handle)(nil)
	_ lock.WallClockHandle = (*Handle)(nil)
)

// Handle is a held lock.
type Handle struct {
	adapter  *Adapter
	id       string
	token    string
	fence    int64
	returned bool
	renewed  chan struct{} // receives a value when the library changes the deadline
	lost     chan struct{} // closed when the lock is lost
	lostOnce sync.Once

	mu       sync.Mutex
	deadline time.Time
	byWall   bool
}

// setDeadline sets the deadline to the one in a reply.
func (h *Handle) setDeadline(r reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case r.Until == 0:
		h.deadline = time.Time{}
	case r.Clock == "wall":
		h.deadline, h.byWall = time.Unix(0, int64(r.Until)), true
	default:
		h.deadline, h.byWall = h.adapter.clientTime(int64(r.Until)), false
	}
}

func (h *Handle) notifyLost() { h.lostOnce.Do(func() { close(h.lost) }) }

func (h *Handle) notifyRenewed() {
	select {
	case h.renewed <- struct{}{}:
	default: // the previous notification has not been received yet
	}
}

// Extend implements lock.Extender.
func (h *Handle) Extend(ctx context.Context) error {
	r, err := h.adapter.call(ctx, request{Op: "extend", Handle: h.id})
	if err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	h.setDeadline(r)
	return nil
}

// Release implements lock.Handle.
func (h *Handle) Release(ctx context.Context) error {
	if _, err := h.adapter.call(ctx, request{Op: "release", Handle: h.id}); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// Deadline implements lock.Handle.
func (h *Handle) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline
}

// ByWall implements lock.WallClockHandle.
func (h *Handle) ByWall() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byWall
}

// Held implements lock.HeldChecker. It returns an error if the library doesn't support it.
func (h *Handle) Held(ctx context.Context) (bool, error) {
	if !h.adapter.Hello.hasCapability(canCheckHeld) {
		return false, errors.ErrUnsupported
	}
	r, err := h.adapter.call(ctx, request{Op: "held", Handle: h.id})
	if err != nil {
		return false, fmt.Errorf("held: %w", err)
	}
	return r.Held != nil && *r.Held, nil
}

// Lost implements lock.LossNotifier.
func (h *Handle) Lost() <-chan struct{} { return h.lost }

// Renewed implements lock.RenewalNotifier. The channel receives a value when the library has
// extended the lock on its own.
func (h *Handle) Renewed() <-chan struct{} { return h.renewed }

// Token implements lock.Tokener.
func (h *Handle) Token() string { return h.token }

// Fence implements lock.Fencer.
func (h *Handle) Fence() int64 { return h.fence }
