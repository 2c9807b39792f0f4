package wire_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock/driver"
	"lockpick/redlock/redisnode"
	"lockpick/redlock/redisnode/redistest"
	"lockpick/redlock/wire"
)

// burst submits many requests at once and waits for their answers.
type burst struct {
	sync.WaitGroup
	answers []string
}

func (b *burst) Answered(r *driver.Request, value int64, err error) {
	b.answers[r.Node] = readAll(value, err)
	b.Done()
}

func readAll(value int64, err error) string {
	if err != nil {
		word, _, _ := strings.Cut(err.Error(), " ") // the rest contains the script's name
		return word
	}
	return fmt.Sprint(value)
}

func (b *burst) send(n *wire.Node, requests []driver.Request) []string {
	b.answers = make([]string, len(requests))
	b.Add(len(requests))
	for i := range requests {
		requests[i].Collector, requests[i].Node, requests[i].Deadline = b, i, time.Now().Add(10*time.Second)
		n.Submit(&requests[i])
	}
	n.Flush()
	b.Wait()
	return b.answers
}

// Grants that share a script get the same answers as individual grants: with all terms, for free
// keys, taken keys and the holder's own key, and even if some grants fail.
func TestBatchedGrants(t *testing.T) {
	addrs, ctx := redistest.Start(t, 2), context.Background()
	batched, first := open(t, addrs[0])
	_, second := open(t, addrs[1])
	single := redisnode.New(second)
	for _, c := range []*redis.Client{first, second} {
		if err := redisnode.New(c).Ready(ctx); err != nil {
			t.Fatal(err)
		}
		for k := range 8 {
			c.Set(ctx, driver.CountKey(fmt.Sprint("k", k)), 100*k, 0)
		}
		c.LPush(ctx, "k0", "not a lock")
		c.Set(ctx, driver.CountKey("k1"), "not a count", 0)
	}
	rng, numBursts := rand.New(rand.NewPCG(1, 1)), 0
	for range 60 {
		var all []driver.Request
		terms := driver.Terms{TTL: time.Minute, Fence: rng.IntN(2) == 0, Quarantine: time.Duration(rng.IntN(2)) * time.Minute}
		for range 1 + rng.IntN(80) {
			if rng.IntN(20) == 0 {
				terms.Fence = !terms.Fence
			}
			all = append(all, driver.Request{Op: driver.OpGrant, Key: fmt.Sprint("k", rng.IntN(8)), Token: fmt.Sprint("t", rng.IntN(3)), Terms: terms})
		}
		if numBursts++; rng.IntN(3) == 0 {
			for i := range all {
				all[i].Op = driver.OpRelease
			}
		}
		got := new(burst).send(batched, all)
		for i, r := range all {
			var want string
			if r.Op == driver.OpRelease {
				yes, err := single.Release(ctx, r.Key, r.Token)
				want = readAll(map[bool]int64{true: 1}[yes], err)
			} else {
				want = readAll(single.Grant(ctx, r.Key, r.Token, r.Terms))
			}
			if got[i] != want {
				t.Fatalf("request %d of %d, op %v on %s with %s: %s in a batch, %s alone", i, len(all), r.Op, r.Key, r.Token, got[i], want)
			}
		}
	}
	if stats := first.Info(ctx, "commandstats").Val(); !strings.Contains(stats, "cmdstat_evalsha:calls=") {
		t.Error("no script was run by its digest")
	} else {
		_, rest, _ := strings.Cut(stats, "cmdstat_evalsha:calls=")
		calls := 0
		if fmt.Sscan(rest, &calls); calls > 10*numBursts {
			t.Errorf("%d scripts ran for %d bursts: requests were not batched", calls, numBursts)
		}
	}
}

// During a quarantine, all grants in a batch are refused. A node without a count starts counting at
// the time on its clock.
func TestBatchedGrantsOnNewNode(t *testing.T) {
	ctx := context.Background()
	n, client := open(t, redistest.Start(t, 1)[0])
	ask := func(quarantine time.Duration) []string {
		var all []driver.Request
		for i := range 3 {
			all = append(all, driver.Request{Op: driver.OpGrant, Key: fmt.Sprint("k", i), Token: "t", Terms: driver.Terms{TTL: time.Minute, Fence: true, Quarantine: quarantine}})
		}
		return new(burst).send(n, all)
	}
	want(t, "grants on a new node", ask(time.Minute), "[QUARANTINE QUARANTINE QUARANTINE]")
	client.PExpire(ctx, driver.QuarantineKey, time.Millisecond)
	for client.Exists(ctx, driver.QuarantineKey).Val() == 1 { // until Redis has expired the key
	}
	before := client.Time(ctx).Val().UnixMilli()
	counts := ask(time.Minute)
	after := client.Time(ctx).Val().UnixMilli()
	for _, c := range counts {
		var n int64
		if fmt.Sscan(c, &n); n <= before || n > after+1 {
			t.Errorf("count %s, but the clock was between %d and %d", c, before, after)
		}
	}
	want(t, "repeated grants", ask(0), fmt.Sprint(counts))
	client.Set(ctx, driver.RunIDKey, "another process", 0)
	want(t, "grants on a restarted node", ask(time.Minute), "[QUARANTINE QUARANTINE QUARANTINE]")
}

// If a node does not know the script for a batch of grants, only the grants that have not been
// released in the meantime are resent.
func TestResendsForgottenGrants(t *testing.T) {
	runInBubble(t, func(t *testing.T) {
		f, a := newFake(t), &answers{}
		n := f.node(nil)
		a.submit(n, driver.OpSet, "1")
		n.Flush()
		synctest.Wait()
		for _, releasedTokens := range []string{"b", "abc", ""} {
			f.update(func() { clear(f.scripts); f.log = nil })
			requests := map[string]*driver.Request{}
			for _, token := range []string{"a", "b", "c"} {
				requests[token] = a.submit(n, driver.OpGrant, token)
			}
			n.Flush()
			for _, token := range strings.Split(releasedTokens, "") {
				a.submit(n, driver.OpRelease, token)
			}
			n.Flush()
			synctest.Wait()
			for token, r := range requests {
				answer := "7"
				if strings.Contains(releasedTokens, token) {
					answer = "NOSCRIPT No matching script."
				}
				want(t, fmt.Sprintf("grant %s of a, b, c after the release of %q", token, releasedTokens), a.get(r), answer)
			}
		}
	})
}
