//go:build linux

package proc

import (
	"context"
	"fmt"
)

// Pause stops it, as SIGSTOP does: what comes meanwhile the kernel keeps for it.
func (r *Redis) Pause(context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.runs():
		return "", fmt.Errorf("stop %s: it does not run", r.Name)
	case r.stopped:
		return "", fmt.Errorf("stop %s: it is stopped already", r.Name)
	}
	if readBack, err = r.child.Stop(); err == nil {
		r.stopped = true
	}
	return readBack, err
}

// Resume lets it go on. There is nothing to do for one that was killed meanwhile.
func (r *Redis) Resume(context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped || !r.runs() {
		return "it was killed meanwhile", nil
	}
	r.stopped = false
	return r.child.Continue()
}

// Mute says why it runs and can't answer; "": it can.
func (r *Redis) Mute() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped && r.runs() {
		return "it is paused"
	}
	return ""
}

// Silent says whether it need not answer: it is stopped, has ended, or is just being changed.
func (r *Redis) Silent() bool {
	if !r.mu.TryLock() {
		return true
	}
	defer r.mu.Unlock()
	return r.stopped || !r.runs()
}

// Shutdown asks it to end in good order, and waits until it has.
func (r *Redis) Shutdown(ctx context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.runs():
		return "", fmt.Errorf("shut %s down: it does not run", r.Name)
	case r.stopped:
		return "", fmt.Errorf("shut %s down: it is stopped, and hears nothing", r.Name)
	}
	r.child.MayEnd(true)
	if err := r.End(ctx, r.child.Done()); err != nil {
		r.child.MayEnd(false)
		return "", err
	}
	if err := r.child.Err(); err != nil {
		return "", fmt.Errorf("shut %s down: it ended with %w:\n%s", r.Name, err, tail(r.log))
	}
	pid := r.child.PID()
	r.child = nil
	return fmt.Sprintf("process %d ended in good order", pid), nil
}
