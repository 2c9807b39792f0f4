//go:build linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Follow makes it an asynchronous replica of the server at addr, and returns once
// it has all that is there.
func (r *Redis) Follow(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("let %s follow %s: %w", r.name, addr, err)
	}
	if _, err := r.tell(ctx, "REPLICAOF", host, port); err != nil {
		return err
	}
	for end := time.Now().Add(readyBound); ; {
		info, err := r.tell(ctx, "INFO", "replication")
		if err != nil {
			return err
		}
		if field(info, "master_link_status") == "up" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("let %s follow %s: not in step after %v\n%s", r.name, addr, readyBound, tail(r.log))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Promote makes a replica a master of its own, with what it has got by now, and says
// which process that is and how many keys it has.
func (r *Redis) Promote(ctx context.Context) (readBack string, err error) {
	if _, err := r.tell(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return "", err
	}
	return r.Promoted(ctx)
}

// Promoted reads back that a replica is a master now, whoever has made it one.
func (r *Redis) Promoted(ctx context.Context) (readBack string, err error) {
	info, err := r.tell(ctx, "INFO")
	if err != nil {
		return "", err
	}
	if role := field(info, "role"); role != "master" {
		return "", fmt.Errorf("promote %s: its role is still %q", r.name, role)
	}
	keys, err := Ask(ctx, r.Addr(), "DBSIZE")
	if err != nil {
		return "", fmt.Errorf("promote %s: %w", r.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("process %s, run_id %s, %d keys", field(info, "process_id"), r.generation[:8], keys.Int), nil
}

// Keys is how many keys it has.
func (r *Redis) Keys(ctx context.Context) (int64, error) {
	v, err := Ask(ctx, r.Addr(), "DBSIZE")
	return v.Int, err
}

// Follows says whether it is a replica of the server at addr and has all of it.
func (r *Redis) Follows(ctx context.Context, addr string) (bool, error) {
	info, err := r.tell(ctx, "INFO", "replication")
	if err != nil {
		return false, err
	}
	master := net.JoinHostPort(field(info, "master_host"), field(info, "master_port"))
	return field(info, "role") == "slave" && master == addr && field(info, "master_link_status") == "up", nil
}

// tell sends a command whose error replies are errors.
func (r *Redis) tell(ctx context.Context, args ...string) (string, error) {
	v, err := Ask(ctx, r.Addr(), args...)
	if err == nil && v.Kind == '-' {
		err = errors.New(v.Str)
	}
	if err != nil {
		return "", fmt.Errorf("tell %s %s: %w", r.name, args[0], err)
	}
	return v.Str, nil
}
