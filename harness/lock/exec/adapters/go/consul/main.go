// Command consul is Lock of Consul's own client as an adapter: a key that a session has, by the
// member that the client is nearest to. Consul invalidates a session that is not renewed after
// twice its TTL ("a lower bound", says its documentation of sessions), and gives nobody the key
// for a lock-delay after that: a lease as others count it is all three, so each is a third of it.
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
	ttl    time.Duration // of a session
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
	own, _ := strconv.Atoi(strings.TrimLeft(r.Client, "c")) // any will do
	config := api.DefaultConfig()
	config.Address = r.Nodes[own%len(r.Nodes)].Addr
	var err error
	client, err = api.NewClient(config)
	return lockpick.M{"quorum": len(r.Nodes)/2 + 1}, err
}

func acquire(ctx context.Context, r lockpick.Request) (lockpick.M, error) {
	within := time.Duration(r.Within * 1e6)
	if within == 0 { // it asks once in any case, and takes no time for none
		within = time.Millisecond
	}
	lock, err := client.LockOpts(&api.LockOptions{Key: r.Key, SessionTTL: ttl.String(), LockDelay: ttl, LockTryOnce: true, LockWaitTime: within})
	if err != nil {
		return nil, err
	}
	lost, err := lock.Lock(ctx.Done())
	switch {
	case ctx.Err() != nil && lost == nil:
		return nil, lockpick.No{No: "cancelled", Why: "as it was asked to"}
	case err != nil:
		return nil, lockpick.No{No: "unknown", Why: err.Error()}
	case lost == nil:
		return nil, lockpick.No{No: "taken", Why: "another session has it"}
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
			lockpick.Lost(handle, "its session has lost it")
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
	return nil, lockpick.No{No: "unknown", Why: "it doesn't say whether it was still held"}
}
