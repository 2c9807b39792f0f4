package redlock_test

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"sync"
	"time"

	"lockpick/redlock"
)

// nodes returns five nodes in memory. Applications use nodes from package redisnode or wire.
func nodes() []redlock.Node {
	var out []redlock.Node
	for _, m := range newCluster(5).nodes {
		out = append(out, m)
	}
	return out
}

func Example() {
	locks, err := redlock.New(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ctx := context.Background()
	lease, err := locks.Acquire(ctx, "invoice/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	workCtx := lease.Context() // pass it to all work; it ends with the lease
	fmt.Println("working on", lease.Key(), workCtx.Err() == nil, lease.Remaining() > 9*time.Second)
	// Output: working on invoice/42 true true
}

// Do acquires the lock, calls the function, and releases the lock. The function's context ends with the lock.
func ExampleLocker_Do() {
	locks, err := redlock.New(redlock.Config{Nodes: nodes(), TTL: 100 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	err = locks.Do(context.Background(), "invoice/42", func(ctx context.Context) error {
		<-ctx.Done() // takes too long
		return context.Cause(ctx)
	})
	fmt.Println(errors.Is(err, redlock.ErrExpired))
	// Output: true
}

// A lease that renews itself lasts as long as the work, but no longer than MaxHold.
func ExampleConfig_renew() {
	locks, err := redlock.New(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Renew: 3 * time.Second, MaxHold: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	err = locks.Do(context.Background(), "invoice/42", func(ctx context.Context) error {
		return context.Cause(ctx) // even if one renewal fails, the next one may succeed
	})
	fmt.Println(err)
	// Output: <nil>
}

// The resource stores the highest token so far and rejects lower ones.
func Example_fencing() {
	locks, err := redlock.New(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second, Fence: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	highest := int64(0)
	for range 3 {
		err := locks.Do(context.Background(), "invoice/42", func(context.Context) error { return nil })
		if err != nil {
			fmt.Println(err)
			return
		}
		lease, err := locks.Acquire(context.Background(), "invoice/42")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("accepted:", lease.Fence() > highest)
		highest = lease.Fence()
		lease.Release(context.Background())
	}
	// Output:
	// accepted: true
	// accepted: true
	// accepted: true
}

// TryAcquire makes one attempt, like TryLock in other libraries.
func ExampleLocker_TryAcquire() {
	locks, err := redlock.New(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ctx := context.Background()
	lease, err := locks.Acquire(ctx, "invoice/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	_, err = locks.TryAcquire(ctx, "invoice/42")
	switch {
	case errors.Is(err, redlock.ErrTaken):
		fmt.Println("another client has the lock: nothing to do")
	case err != nil:
		fmt.Println("too few nodes answered: alert the operators")
	}
	// Output: another client has the lock: nothing to do
}

// Each call can have its own TTL and limit how long it waits. ErrTaken distinguishes a taken lock
// from broken nodes, even if the caller's context ends while it waits.
func ExampleLocker_Acquire_options() {
	locks, err := redlock.New(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ctx := context.Background()
	lease, err := locks.Acquire(ctx, "report", redlock.WithTTL(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	fmt.Println("more than 50 s left:", lease.Remaining() > 50*time.Second)

	_, err = locks.Acquire(ctx, "report", redlock.WithWait(50*time.Millisecond))
	fmt.Println("taken:", errors.Is(err, redlock.ErrTaken))

	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = locks.Acquire(ctx, "report")
	fmt.Println("taken, deadline exceeded:", errors.Is(err, redlock.ErrTaken), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// more than 50 s left: true
	// taken: true
	// taken, deadline exceeded: true true
}

// Observe is called at each step of each lease. This example counts steps by outcome and reason,
// and adds up how long locks are held. Prometheus or OpenTelemetry metrics can be updated in the
// same way. Keys and tokens are unsuitable as labels, because there are too many. To measure how
// long callers wait, time the calls of Acquire.
func ExampleConfig_observe() {
	steps, heldTime := new(expvar.Map), new(expvar.Float) // expvar.NewMap and NewFloat would publish them
	var starts sync.Map                                   // start of each lease, by token
	observe := func(e redlock.Event) {
		if e.Type == redlock.Invoke {
			return
		}
		reason := ""
		switch {
		case e.Err == nil:
		case errors.Is(e.Err, redlock.ErrTaken): // check first, see ErrTaken
			reason = ": taken"
		case errors.Is(e.Err, redlock.ErrNoQuorum):
			reason = ": nodes"
		case errors.Is(e.Err, redlock.ErrExpired):
			reason = ": too late"
		case errors.Is(e.Err, redlock.ErrLost):
			reason = ": lost"
		default:
			reason = ": other"
		}
		steps.Add(e.Op+" "+string(e.Type)+reason, 1)
		switch {
		case e.Op == "acquire" && e.Type == redlock.OK:
			starts.Store(e.Token, time.Now())
		case e.Op == "release" || e.Op == "lost":
			if start, ok := starts.LoadAndDelete(e.Token); ok {
				heldTime.Add(time.Since(start.(time.Time)).Seconds())
			}
		}
	}
	locks, err := redlock.New(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second, Observe: observe})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	for range 3 {
		err := locks.Do(context.Background(), "invoice/42", func(ctx context.Context) error {
			_, err := locks.TryAcquire(ctx, "invoice/42")
			if !errors.Is(err, redlock.ErrTaken) {
				return err
			}
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(steps, heldTime.Value() > 0)
	// Output: {"acquire fail: taken": 3, "acquire ok": 3, "release ok": 3} true
}

func ExampleLease_Extend() {
	locks, err := redlock.New(redlock.Config{Nodes: nodes(), TTL: 10 * time.Second, Timeout: time.Second, Extends: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	ctx := context.Background()
	lease, err := locks.Acquire(ctx, "invoice/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		if err := lease.Extend(ctx); err != nil {
			fmt.Println(errors.Is(err, redlock.ErrLimit), err)
			break
		}
		fmt.Println("extended")
	}
	fmt.Println(lease.Release(ctx), context.Cause(lease.Context()))
	// Output:
	// extended
	// extended
	// true extend "invoice/42": the limit of extensions was reached
	// <nil> the lock was released
}

// Specification returns a client that implements only the specification, so it waits for all nodes.
func ExampleSpecification() {
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
	if time.Now().Before(lock.Until()) { // check before each change
		fmt.Println("working on", lock.Key(), "with", lock.Votes(), "votes")
	}
	// Output: working on invoice/42 with 5 votes
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
