package redisnode_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"lockpick/redlock/driver"
)

const ttl = 10 * time.Second

func TestGrant(t *testing.T) {
	n, client := open(t)
	ctx, terms := context.Background(), driver.Terms{TTL: ttl}
	check(t, "grant", int64(1))(n.Grant(ctx, "k", "a", terms))
	check(t, "grant of a taken key", int64(0))(n.Grant(ctx, "k", "b", terms))
	check(t, "repeated grant to the same token", int64(1))(n.Grant(ctx, "k", "a", terms))
	if remaining := client.PTTL(ctx, "k").Val(); remaining > ttl || remaining < ttl/2 {
		t.Errorf("the key expires in %v", remaining)
	}
	check(t, "abandon", true)(n.Abandon(ctx, "k", "a", ttl))
	check(t, "keys left", int64(0))(client.DBSize(ctx).Result()) // a deleted key needs no tombstone
}

// A token that was abandoned before its grant is refused; other tokens are not affected. The
// tombstone expires.
func TestAbandonBeforeGrant(t *testing.T) {
	n, client := open(t)
	ctx, terms := context.Background(), driver.Terms{TTL: ttl}
	check(t, "abandon a missing key", false)(n.Abandon(ctx, "k", "a", ttl))
	check(t, "grant to an abandoned token", int64(0))(n.Grant(ctx, "k", "a", terms))
	check(t, "grant", int64(1))(n.Grant(ctx, "k", "b", terms))
	check(t, "abandon another client's key", false)(n.Abandon(ctx, "k", "c", ttl))
	check(t, "release", true)(n.Release(ctx, "k", "b"))
	for _, token := range []string{"a", "c"} {
		if remaining := client.PTTL(ctx, driver.TombstoneKey("k", token)).Val(); remaining > ttl || remaining < ttl/2 {
			t.Errorf("the tombstone of %s expires in %v", token, remaining)
		}
	}
}

// A new count starts at the time on the node's clock, so the counts of a node that forgot them keep
// increasing.
func TestCountsStartAtClock(t *testing.T) {
	n, client := open(t)
	ctx, terms := context.Background(), driver.Terms{TTL: ttl, Fence: true}
	count := func(token string) int64 {
		t.Helper()
		got, err := n.Grant(ctx, "k", token, terms)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := client.Time(ctx).Val().UnixMilli()
	first := count("a")
	if after := client.Time(ctx).Val().UnixMilli(); first <= before || first > after+1 {
		t.Errorf("the first count is %d, but the clock was between %d and %d", first, before, after)
	}
	check(t, "repeated grant to the same token", first)(n.Grant(ctx, "k", "a", terms))
	check(t, "release", true)(n.Release(ctx, "k", "a"))
	if second := count("b"); second != first+1 {
		t.Errorf("the counts are %d and %d", first, second)
	}
	check(t, "raise", true)(n.RaiseFence(ctx, "k", "b", first+1000))
	check(t, "release", true)(n.Release(ctx, "k", "b"))
	if third := count("c"); third != first+1001 {
		t.Errorf("after the count was raised to %d, the next count is %d", first+1000, third)
	}
}

// A node refuses grants when it may have forgotten keys: after a restart, after losing its data,
// and when it is new.
func TestQuarantine(t *testing.T) {
	n, client := open(t)
	ctx, terms := context.Background(), driver.Terms{TTL: ttl, Quarantine: ttl}
	wantRefused := func(when, token string) {
		t.Helper()
		if got, err := n.Grant(ctx, "k", token, terms); err == nil || !strings.Contains(err.Error(), "QUARANTINE") {
			t.Errorf("%s: %v, %v", when, got, err)
		}
	}
	wantRefused("a new node", "a")
	wantRefused("a second request", "a")
	if remaining := client.PTTL(ctx, driver.QuarantineKey).Val(); remaining > ttl || remaining < ttl/2 {
		t.Errorf("the quarantine ends in %v", remaining)
	}
	check(t, "grant without a quarantine", int64(1))(n.Grant(ctx, "k", "a", driver.Terms{TTL: ttl}))
	check(t, "release", true)(n.Release(ctx, "k", "a"))
	if err := client.PExpire(ctx, driver.QuarantineKey, time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	for client.Exists(ctx, driver.QuarantineKey).Val() == 1 { // until Redis has expired the key
	}
	check(t, "grant after the quarantine", int64(1))(n.Grant(ctx, "k", "a", terms))
	check(t, "release", true)(n.Release(ctx, "k", "a"))

	client.Set(ctx, driver.RunIDKey, "0123456789abcdef", 0) // as after a restart of a server with persistence
	wantRefused("a node that restarted", "b")
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	check(t, "grant after Ready", int64(1))(n.Grant(ctx, "k", "b", terms))
	client.FlushAll(ctx)
	wantRefused("a node that lost its data", "c")
}
