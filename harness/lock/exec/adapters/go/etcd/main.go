// Command etcd is an adapter for concurrency.Mutex in etcd's own client. Each acquire uses a new
// session, as in etcdctl lock, and the revision is the fencing token.
//
//	go build -C harness/lock/exec/adapters/go -o etcd-mutex ./etcd
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"lockpick-adapters/lockpick"
)

type held struct {
	mutex   *concurrency.Mutex
	session *concurrency.Session
}

var (
	client *clientv3.Client
	ttl    int
	mu     sync.Mutex
	all    = map[string]held{}
	count  int
)

func main() {
	lockpick.Serve(lockpick.M{
		"name": "etcd concurrency.Mutex", "version": lockpick.Version("go.etcd.io/etcd/client/v3"), "server": "etcd",
		"can": []string{"lost", "cancel", "fence"}, "belief": "signal", "retries": "library", "grain": 1000,
	}, map[string]lockpick.Op{"open": open, "acquire": acquire, "release": release})
}

func open(_ context.Context, r lockpick.Request) (lockpick.M, error) {
	var endpoints []string
	for _, n := range r.Nodes {
		endpoints = append(endpoints, n.Addr)
	}
	ttl = int(math.Ceil(r.Settings.TTL / 1000))
	var err error
	client, err = clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	return lockpick.M{"quorum": len(r.Nodes)/2 + 1}, err
}

func acquire(ctx context.Context, r lockpick.Request) (lockpick.M, error) {
	within := r.Within
	if within == 0 { // a single try has no time limit of its own, so use the TTL
		within = float64(ttl) * 1000
	}
	limit, end := context.WithTimeout(ctx, time.Duration(within*1e6))
	defer end()
	lease, err := client.Grant(limit, int64(ttl))
	if err != nil {
		return nil, no(ctx, "unknown", err)
	}
	s, err := concurrency.NewSession(client, concurrency.WithLease(lease.ID))
	if err != nil {
		return nil, no(ctx, "unknown", err)
	}
	m := concurrency.NewMutex(s, r.Key)
	if r.Within > 0 {
		err = m.Lock(limit)
	} else {
		err = m.TryLock(limit)
	}
	if err != nil {
		go s.Close()
		if errors.Is(err, concurrency.ErrLocked) {
			return nil, no(ctx, "taken", err)
		}
		return nil, no(ctx, "unknown", err) // timed out: another client has it, or no member answered
	}
	mu.Lock()
	count++
	handle := fmt.Sprintf("h%d", count)
	all[handle] = held{m, s}
	mu.Unlock()
	go func() {
		<-s.Done()
		mu.Lock()
		_, is := all[handle]
		mu.Unlock()
		if is {
			lockpick.Lost(handle, "its session has ended")
		}
	}()
	return lockpick.M{"handle": handle, "fence": m.Header().Revision}, nil
}

func release(ctx context.Context, r lockpick.Request) (lockpick.M, error) {
	mu.Lock()
	h := all[r.Handle]
	delete(all, r.Handle)
	mu.Unlock()
	limit, end := context.WithTimeout(ctx, time.Duration(ttl)*time.Second)
	defer end()
	err := h.mutex.Unlock(limit)
	go h.session.Close()
	if err != nil {
		return nil, no(ctx, "unknown", err)
	}
	return nil, lockpick.No{No: "unknown", Why: "the library doesn't report whether it was still held"}
}

// no returns a refusal, or cancelled if ctx was canceled.
func no(ctx context.Context, word string, err error) error {
	if ctx.Err() != nil {
		word = "cancelled"
	}
	return lockpick.No{No: word, Why: err.Error()}
}
