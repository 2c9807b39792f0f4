package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
)

var _ lock.Factory = Hardened

// Own is the settings that only kind hardened has.
var Own = []lock.Option{
	{Name: "quarantine", Doc: "a node that restarted or lost its data gives no vote for one TTL", Values: []string{"no", "yes"}},
	{Name: "repair", Doc: "an extension sets the key again on nodes that lost it, once a majority has confirmed the lock", Values: []string{"no", "yes"}},
	{Name: "watchdog", Doc: "leases extend themselves every third of the TTL", Values: []string{"no", "yes"}},
}

// Hardened returns the lock that the reference's package advises as one client's lock.
func Hardened(env lock.Env) (lock.Lock, error) {
	cfg, clients, err := configure(env)
	if err != nil {
		return nil, err
	}
	l := &hardened{Clients: clients}
	own := env.Settings.Options
	cfg.Repair = own["repair"] == "yes"
	if own["quarantine"] == "yes" {
		cfg.Quarantine = cfg.TTL
	}
	if own["watchdog"] == "yes" {
		l.renews, cfg.Renew, cfg.Observe = true, cfg.TTL/3, l.tell
	}
	if l.locker, err = redlock.New(cfg); err != nil {
		return nil, errors.Join(err, clients.Close())
	}
	return l, nil
}

// hardened is the hardened lock as a lock.Lock.
type hardened struct {
	lock.Clients[*redis.Client]
	locker  *redlock.Locker
	renews  bool
	renewed sync.Map // by the tokens of leases that extend themselves: where to tell of it
}

// Acquire implements lock.Lock. If ctx ended, the error wraps its error.
func (l *hardened) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	held, err := l.locker.Acquire(ctx, key)
	if errors.Is(err, redlock.ErrSameNode) {
		return nil, errors.Join(lock.ErrBroken, err)
	}
	if err != nil {
		return nil, err
	}
	if !l.renews {
		return lease{held}, nil
	}
	h := renewing{lease{held}, make(chan struct{}, 1)}
	l.renewed.Store(held.Token(), h.renewed)
	return h, nil
}

// Close implements lock.Lock: first what the lock does in the background, then connections.
func (l *hardened) Close() error { return errors.Join(l.locker.Close(), l.Clients.Close()) }

// lease is a held lock.
type lease struct{ held *redlock.Lease }

var (
	_ lock.Extender = lease{}
	_ lock.Tokener  = lease{}
	_ lock.Fencer   = lease{}
	_ lock.Loser    = lease{}
)

func (h lease) Release(ctx context.Context) error { return verdict(h.held.Release(ctx)) }
func (h lease) Extend(ctx context.Context) error  { return verdict(h.held.Extend(ctx)) }
func (h lease) Deadline() time.Time               { return h.held.Until() }
func (h lease) Token() string                     { return h.held.Token() }
func (h lease) Fence() int64                      { return h.held.Fence() }
func (h lease) Lost() <-chan struct{}             { return h.held.Context().Done() }

// renewing is a lease that extends itself.
type renewing struct {
	lease
	renewed chan struct{}
}

var _ lock.Renewer = renewing{}

// Renewed implements lock.Renewer.
func (h renewing) Renewed() <-chan struct{} { return h.renewed }

// Extend implements lock.Extender: it is extended as it is, as long as it lasts.
func (h renewing) Extend(context.Context) error {
	return verdict(context.Cause(h.held.Context()))
}

// tell passes on that a lease has extended itself.
func (l *hardened) tell(e redlock.Event) {
	if e.Op == "lost" || e.Op == "release" {
		l.renewed.Delete(e.Token)
		return
	}
	if renewed, held := l.renewed.Load(e.Token); held && e.Op == "extend" && e.Type == redlock.OK {
		select {
		case renewed.(chan struct{}) <- struct{}{}:
		default: // the last one has not been heard of yet
		}
	}
}
