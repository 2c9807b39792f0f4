package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockpick/redlock"
)

// nodes returns five independent nodes. Those of package redisnode are the real
// ones; these are in memory.
func nodes() []redlock.Node {
	var out []redlock.Node
	for _, m := range newCluster(5).nodes {
		out = append(out, m)
	}
	return out
}

func Example() {
	client, err := redlock.Specification(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	lock, err := client.Acquire(ctx, "invoice/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Release(ctx)
	if time.Now().Before(lock.Until()) { // look each time before something is changed
		fmt.Println("working on", lock.Key(), "with", lock.Votes(), "votes")
	}
	// Output: working on invoice/42 with 5 votes
}

// The resource keeps the highest token it saw, and refuses any below.
func Example_fencing() {
	client, err := redlock.Specification(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second, Fence: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for range 3 {
		lock, err := client.Acquire(ctx, "invoice/42")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("write with token", lock.Fence())
		lock.Release(ctx)
	}
	// Output:
	// write with token 1
	// write with token 2
	// write with token 3
}

func ExampleClient_Acquire_taken() {
	client, err := redlock.Specification(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second, Tries: 3, RetryMax: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if _, err := client.Acquire(ctx, "invoice/42"); err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Acquire(ctx, "invoice/42")
	switch {
	case errors.Is(err, redlock.ErrTaken):
		fmt.Println("somebody else has it")
	case errors.Is(err, redlock.ErrNoQuorum):
		fmt.Println("too many nodes are down")
	}
	// Output: somebody else has it
}

func ExampleLock_Extend() {
	client, err := redlock.Specification(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second, Extends: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	lock, err := client.Acquire(ctx, "invoice/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		if err := lock.Extend(ctx); err != nil {
			fmt.Println(errors.Is(err, redlock.ErrLimit), err)
			break
		}
		fmt.Println("extended")
	}
	fmt.Println(lock.Release(ctx), lock.Release(ctx) != nil)
	// Output:
	// extended
	// extended
	// true extend "invoice/42": the limit of extensions is reached
	// <nil> true
}

func ExampleQuorum() {
	fmt.Println(redlock.Quorum(3), redlock.Quorum(4), redlock.Quorum(5))
	// Output: 2 3 3
}

func ExampleValidity() {
	ttl := 10 * time.Second
	fmt.Println(redlock.Validity(ttl, 50*time.Millisecond, redlock.Drift(ttl, 0.01)))
	// Output: 9.848s
}
