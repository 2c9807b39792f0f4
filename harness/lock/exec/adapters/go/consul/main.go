// Command consul is an adapter for Lock in Consul's own client: a key owned by a session, accessed
// through the member nearest to the client. Consul invalidates a session that is not renewed after
// twice its TTL (the TTL is "a lower bound", according to the documentation of sessions), and then
// blocks the key for a lock-delay. A lease in the usual sense is the sum of all three, so the
// session's TTL and the lock-delay are each a third of it.
//
//	go build -C harness/lock/exec/adapters/go -o consul-lock ./consul
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"lockpick-adapters/lockpick"
)

var (
	client *api.Client
	ttl    time.Duration // a session's TTL
	mu     sync.Mutex
	all    = map[string]*api.Lock{}
	count  int
)

func main() {
	lockpick.Serve(lockpick.M{
		"name": "Consul api.Lock", "version": lockpick.Version("github.com/hashicorp/consul/api"), "server": "consul",
		"can": []string{"lost"}, "belief": "signal", "retries": "library", "grain": 3000,
	}, map[string]lockpick.Op{"open": open, "acquire": acquire, "release": release})
}

func open(_ context.Context, r lockpick.Request) (lockpick.M, error) {
	ttl = time.Duration(math.Ceil(r.Settings.TTL/3000)) * time.Second
	own, _ := strconv.Atoi(strings.TrimLeft(r.Client, "c")) // any member works
	config := api.DefaultConfig()
	config.Address = r.Nodes[own%len(r.Nodes)].Addr
	var err error
	client, err = api.NewClient(config)
	return lockpick.M{"quorum": len(r.Nodes)/2 + 1}, err
}

func acquire(ctx context.Context, r lockpick.Request) (lockpick.M, error) {
	within := time.Duration(r.Within * 1e6)
	if within == 0 { // the library always tries once, and to it 0 means no limit
		within = time.Millisecond
	}
	lock, err := client.LockOpts(&api.LockOptions{Key: r.Key, SessionTTL: ttl.String(), LockDelay: ttl, LockTryOnce: true, LockWaitTime: within})
	if err != nil {
		return nil, err
	}
	lost, err := lock.Lock(ctx.Done())
	switch {
	case ctx.Err() != nil && lost == nil:
		return nil, lockpick.No{No: "cancelled", Why: "as requested"}
	case err != nil:
		return nil, lockpick.No{No: "unknown", Why: err.Error()}
	case lost == nil:
		return nil, lockpick.No{No: "taken", Why: "another session has the lock"}
	}
	mu.Lock()
	count++
	handle := fmt.Sprintf("h%d", count)
	all[handle] = lock
	mu.Unlock()
	go func() {
		<-lost
		mu.Lock()
		_, is := all[handle]
		mu.Unlock()
		if is {
			lockpick.Lost(handle, "its session has lost the lock")
		}
	}()
	return lockpick.M{"handle": handle}, nil
}

func release(_ context.Context, r lockpick.Request) (lockpick.M, error) {
	mu.Lock()
	lock := all[r.Handle]
	delete(all, r.Handle)
	mu.Unlock()
	err := lock.Unlock()
	switch {
	case errors.Is(err, api.ErrLockNotHeld):
		return nil, lockpick.No{No: "not-held", Why: err.Error()}
	case err != nil:
		return nil, lockpick.No{No: "unknown", Why: err.Error()}
	}
	return nil, lockpick.No{No: "unknown", Why: "the library doesn't report whether it was still held"}
}
