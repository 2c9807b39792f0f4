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
	check(t, "grant again of one's own", int64(1))(n.Grant(ctx, "k", "a", terms))
	if left := client.PTTL(ctx, "k").Val(); left > ttl || left < ttl/2 {
		t.Errorf("the key lives for %v", left)
	}
	check(t, "abandon", true)(n.Abandon(ctx, "k", "a", ttl))
	check(t, "keys left", int64(0))(client.DBSize(ctx).Result()) // what was deleted needs no tombstone
}

// A token that was abandoned before its grant came is refused, others are not, and the node
// forgets it in time.
func TestAbandonComesFirst(t *testing.T) {
	n, client := open(t)
	ctx, terms := context.Background(), driver.Terms{TTL: ttl}
	check(t, "abandon of nothing", false)(n.Abandon(ctx, "k", "a", ttl))
	check(t, "grant of an abandoned token", int64(0))(n.Grant(ctx, "k", "a", terms))
	check(t, "grant", int64(1))(n.Grant(ctx, "k", "b", terms))
	check(t, "abandon of another's", false)(n.Abandon(ctx, "k", "c", ttl))
	check(t, "release", true)(n.Release(ctx, "k", "b"))
	for _, token := range []string{"a", "c"} {
		if left := client.PTTL(ctx, driver.Tombstone("k", token)).Val(); left > ttl || left < ttl/2 {
			t.Errorf("the tombstone of %s lives for %v", token, left)
		}
	}
}

// Counts begin at the node's clock, so that one that forgot goes on above what it had counted.
func TestCountsBeginAtTheClock(t *testing.T) {
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
		t.Errorf("the first count is %d, and the clock was between %d and %d", first, before, after)
	}
	check(t, "grant again of one's own", first)(n.Grant(ctx, "k", "a", terms))
	check(t, "release", true)(n.Release(ctx, "k", "a"))
	if second := count("b"); second != first+1 {
		t.Errorf("the counts are %d and %d", first, second)
	}
	check(t, "raise", true)(n.RaiseFence(ctx, "k", "b", first+1000))
	check(t, "release", true)(n.Release(ctx, "k", "b"))
	if third := count("c"); third != first+1001 {
		t.Errorf("after a raise to %d it counts %d", first+1000, third)
	}
}

// A node gives no vote while it may have forgotten some: after it restarted, and where nobody
// knows what it was before.
func TestQuarantine(t *testing.T) {
	n, client := open(t)
	ctx, terms := context.Background(), driver.Terms{TTL: ttl, Quarantine: ttl}
	refused := func(when, token string) {
		t.Helper()
		if got, err := n.Grant(ctx, "k", token, terms); err == nil || !strings.Contains(err.Error(), "QUARANTINE") {
			t.Errorf("%s: %v, %v", when, got, err)
		}
	}
	refused("a node that was never asked", "a")
	refused("the same again", "a")
	if left := client.PTTL(ctx, driver.Quarantine).Val(); left > ttl || left < ttl/2 {
		t.Errorf("its quarantine lasts for %v", left)
	}
	check(t, "grant without a quarantine", int64(1))(n.Grant(ctx, "k", "a", driver.Terms{TTL: ttl}))
	check(t, "release", true)(n.Release(ctx, "k", "a"))
	if err := client.PExpire(ctx, driver.Quarantine, time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	for client.Exists(ctx, driver.Quarantine).Val() == 1 { // Redis decides when a millisecond is over
	}
	check(t, "grant after it", int64(1))(n.Grant(ctx, "k", "a", terms))
	check(t, "release", true)(n.Release(ctx, "k", "a"))

	client.Set(ctx, driver.KnownAs, "0123456789abcdef", 0) // what a server with a disk remembers after a restart
	refused("a node that restarted", "b")
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	check(t, "grant once it is ready", int64(1))(n.Grant(ctx, "k", "b", terms))
	client.FlushAll(ctx)
	refused("a node that lost its data", "c")
}
