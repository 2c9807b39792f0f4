package broken

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/driver"
)

// Mistake is what is wrong with a lock.
type Mistake struct {
	Name    string
	Doc     string // what it does wrong, in a sentence without an end
	Thought string // what its author thought
}

// mistake is a Mistake and the piece of code that makes it.
type mistake struct {
	Mistake
	make func(*broken)
}

// mistakes is the one table of them: first those by which two clients hold the
// lock, then those by which an extension harms, by which it can't be had, by
// which it doesn't come free, and those of fencing tokens.
var mistakes = []mistake{
	{Mistake{"no-elapsed-check",
		"does not ask how long the attempt took, and claims TTL − drift from its end",
		"Redis answers in a millisecond: a second look at the clock tells nothing new"},
		func(l *broken) {
			l.inTime, l.until = func(_, _ time.Time) bool { return true }, l.fromEnd
		}},
	{Mistake{"elapsed-not-subtracted",
		"gives up an attempt that took longer than the TTL, but claims TTL − drift from its end",
		"the lease begins when it is granted, that is, when the quorum is there"},
		func(l *broken) { l.until = l.fromEnd }},
	{Mistake{"no-drift-margin",
		"claims the lock for the whole TTL from its start",
		"an hour is an hour on each of these machines; they have NTP"},
		func(l *broken) { l.drift = 0 }},
	tellsLate,
	contextByTimer,
	contextByTicker,
	{Mistake{"wall-clock-deadline",
		"keeps its deadline by the wall clock, which can be set back while the lock is held",
		"a deadline is a time of day; and that clock can be logged and compared"},
		func(l *broken) { l.now, l.byWall = l.env.Wall, true }},
	{Mistake{"absolute-expiry",
		"tells the nodes at what time of day its keys expire, by its own wall clock, and not after how long",
		"so the key expires on all nodes at one time, however long the requests are under way"},
		func(l *broken) {
			l.sets(func(ctx context.Context, node int, key, value string) (int64, error) {
				return l.setWith("NX", "PXAT", l.expiry())(ctx, node, key, value)
			})
		}},
	elapsedByWallClock,
	renewsByWallClock,
	renewsTooLate,
	renewalGivesUp,
	{Mistake{"takes-over-by-timestamp",
		"keeps the time of expiry in the key's value, and takes over a key whose time has passed by its own wall clock",
		"a key whose time is over belongs to nobody, and servers agree on the time"},
		func(l *broken) {
			l.value = func(int, time.Time) string { return fmt.Sprintf("%d-%s", l.expiry(), l.random()) }
			l.sets(l.script(setOrTakeOver))
		}},
	{Mistake{"drift-added",
		"adds the allowance for drift to the lease instead of subtracting it",
		"the clocks may be off by that much, so the lease can last that much longer"},
		func(l *broken) { l.drift = -l.drift }},
	{Mistake{"deadline-rounded-up",
		"claims whole seconds, rounded up, of a lease that ends before",
		"the deadline is kept as a time in seconds, and a part of one counts"},
		func(l *broken) {
			lease := (l.cfg.TTL - l.drift + time.Second - 1).Truncate(time.Second)
			l.until = func(start, _ time.Time) time.Time { return start.Add(lease) }
			l.further = l.until
		}},
	{Mistake{"ttl-rounded-down",
		"gives keys a TTL in whole seconds, rounded down, but claims all of it",
		"EXPIRE takes seconds, and who needs a fraction of one?"},
		func(l *broken) { l.keysLive(max(time.Second, l.cfg.TTL.Truncate(time.Second))) }},
	{Mistake{"quorum-half",
		"takes N/2 nodes for a quorum instead of N/2+1, so that two clients can have one each",
		"half of the nodes is as good as most of them"},
		func(l *broken) { l.quorum = len(l.nodes) / 2 }},
	{Mistake{"quorum-rounded-up",
		"takes (N+1)/2 nodes for a quorum, which is half of them where N is even",
		"five nodes need three and three need two, so it is half of them, rounded up"},
		func(l *broken) { l.quorum = (len(l.nodes) + 1) / 2 }},
	{Mistake{"silence-is-a-vote",
		"counts the nodes that did not refuse, so that one that gave no answer has voted",
		"whoever has the key says no; who says nothing has no objection"},
		func(l *broken) {
			l.votes = func(_ int, granted []driver.Answer) int {
				t := driver.Count(granted)
				return t.All - t.No
			}
		}},
	{Mistake{"votes-add-up",
		"does not start from zero with each attempt, so that votes of attempts that it has undone count",
		"the counter is set up once, before the loop"},
		func(l *broken) {
			sum := 0
			l.votes = func(try int, granted []driver.Answer) int {
				if try == 1 {
					sum = 0
				}
				sum += driver.Count(granted).Yes
				return sum
			}
		}},
	readsLateAnswers,
	{Mistake{"set-without-nx",
		"sets the key whether there is one or not, and so overwrites that of the holder",
		"SET with an expiry is the recipe; the two letters at the end are for special cases"},
		func(l *broken) { l.sets(l.setWith("PX", l.cfg.TTL.Milliseconds())) }},
	{Mistake{"ttl-in-wrong-unit",
		"gives the TTL in seconds where Redis reads milliseconds, so that keys vanish a thousand times too soon",
		"EX or PX, one of the two was the right one"},
		func(l *broken) {
			l.sets(func(ctx context.Context, node int, key, value string) (int64, error) {
				seconds := max(time.Second, l.cfg.TTL) / time.Second
				return number(l.nodes[node].Set(ctx, key, value, seconds*time.Millisecond))
			})
		}},
	{Mistake{"plain-del",
		"releases with DEL, whoever holds the key by then (a failed attempt is still undone with care)",
		"only the holder calls release, so the key is the holder's"},
		func(l *broken) {
			l.del = func(ctx context.Context, node int, key, _ string) (int64, error) {
				return l.Clients[node].Del(ctx, key).Result()
			}
		}},
	{Mistake{"undo-by-plain-del",
		"undoes a failed attempt with DEL, and so deletes the key of the client that it lost to",
		"an attempt that failed has to leave nothing behind"},
		func(l *broken) {
			l.undo = func(ctx context.Context, h *handle) []driver.Answer {
				return l.release(ctx, l.all, h, func(ctx context.Context, node int, key, _ string) (int64, error) {
					return l.Clients[node].Del(ctx, key).Result()
				})
			}
		}},
	silenceIsNotHeld,
	lossIsReleased,
	{Mistake{"release-by-prefix",
		"deletes a key whose value begins as its own does, with the client's name, and so the key of a later hold of its own",
		"whose key it is the name says; what follows only makes values differ"},
		func(l *broken) {
			l.value = func(int, time.Time) string { return l.env.Client + "-" + l.random() }
			l.del = l.script(releaseByPrefix)
		}},
	{Mistake{"same-value-for-retries",
		"sets one random value in all attempts of an acquire, so that a delayed release of one deletes the key of another",
		"the value must differ between clients; within one acquire it is one client"},
		func(l *broken) {
			var kept string
			l.value = func(try int, _ time.Time) string {
				if try == 1 {
					kept = l.random()
				}
				return kept
			}
		}},
	{Mistake{"same-value-for-holds",
		"sets the client's name in every hold, so that a late release of one deletes the next",
		"the value says who holds the lock, and a client holds it once at a time"},
		func(l *broken) { l.value = func(int, time.Time) string { return l.env.Client } }},
	{Mistake{"same-value-for-clients",
		"sets the same value for all clients, so that whoever fails to acquire deletes the holder's keys in undoing it",
		"it is the key's existence that locks; what is in it, nobody reads"},
		func(l *broken) { l.value = func(int, time.Time) string { return "locked" } }},
	{Mistake{"weak-token",
		"sets the time in microseconds and a client ID that others may have, too, in place of random bytes",
		"the process ID tells clients apart, and no two acquires fall on one microsecond"},
		func(l *broken) {
			const pid = 1 // as in every container
			l.value = func(_ int, start time.Time) string { return fmt.Sprintf("%d-%d", start.UnixMicro(), pid) }
		}},
	{Mistake{"yes-to-own-value",
		"takes a node's vote also where the key is there already with its own value, and so counts a node twice that it was given twice",
		"a request that is sent again should be answered again; that makes it idempotent"},
		func(l *broken) { l.sets(l.script(setOrOwn)) }},

	{Mistake{"extension-without-token-check",
		"extends whatever key is there, also another client's, and takes that for a vote",
		"only the holder extends, and PEXPIRE says whether the key is still there"},
		func(l *broken) {
			l.extend = func(ctx context.Context, node int, key, _ string) (int64, error) {
				return number(l.Clients[node].PExpire(ctx, key, l.cfg.TTL).Result())
			}
		}},
	{Mistake{"extension-below-quorum",
		"takes one node's yes for an extension of the lock",
		"the vote was at the acquire; the extension is housekeeping"},
		func(l *broken) { l.renewal = 1 }},
	{Mistake{"extension-elapsed-not-subtracted",
		"claims TTL − drift from the end of an extension, however long that took",
		"the nodes have said yes just now, so the TTL begins now"},
		func(l *broken) { l.further = l.fromEnd }},
	extensionUnheard,
	{Mistake{"extension-without-drift",
		"subtracts the drift when it acquires, but claims the whole TTL when it extends",
		"the margin was taken off once"},
		func(l *broken) {
			l.further = func(start, _ time.Time) time.Time { return start.Add(l.cfg.TTL) }
		}},
	{Mistake{"extension-adds-to-deadline",
		"adds a whole lease to its deadline in each extension, though the keys live for one TTL from then",
		"to extend by ten seconds is to have ten seconds more"},
		func(l *broken) {
			in := l.renewed
			l.renewed = func(h *handle, start, end time.Time) bool {
				ok := in(h, start, end)
				if ok {
					h.deadline = h.deadline.Add(l.cfg.TTL - l.drift)
				}
				return ok
			}
		}},
	{Mistake{"extension-adds-to-ttl",
		"adds a TTL to what is left of the key's in each extension, so that the key outlives the lease by more each time",
		"to extend by ten seconds is to have ten seconds more"},
		func(l *broken) { l.extend = l.script(extendByMore) }},
	{Mistake{"extension-drops-expiry",
		"sets its own key again to extend it, without an expiry, which the key then no longer has",
		"SET keeps what it isn't told to change"},
		func(l *broken) { l.extend = l.script(extendForEver) }},
	{Mistake{"extension-only-checks",
		"looks whether the key is still its own, and gives it no more time",
		"the key is there and it is ours: the lock is held"},
		func(l *broken) { l.extend = l.hasOwn }},
	{Mistake{"extension-in-two-steps",
		"looks whether the key is its own, and gives whatever key is there more time in a second step",
		"nobody else can have the key a millisecond later"},
		func(l *broken) {
			l.extend = func(ctx context.Context, node int, key, value string) (int64, error) {
				if own, err := l.hasOwn(ctx, node, key, value); own == 0 {
					return 0, err
				}
				return number(l.Clients[node].PExpire(ctx, key, l.cfg.TTL).Result())
			}
		}},
	{Mistake{"extension-overwrites",
		"sets the key again to extend it if there is one, also another client's",
		"XX makes sure that the lock is not taken anew"},
		func(l *broken) { l.extend = l.script(extendAnyBySet) }},
	{Mistake{"extension-by-wall-clock",
		"tells the nodes in an extension at what time of day its keys expire, by its own wall clock",
		"PEXPIREAT can be sent again without harm"},
		func(l *broken) { l.extend = l.scriptOf(extendUntil, l.expiry) }},
	{Mistake{"extension-sets-missing-key",
		"takes the lock anew in an extension where the key is gone, without asking who had it meanwhile",
		"if nobody has it, it is still ours; an extension that fails helps nobody"},
		func(l *broken) {
			l.extend = l.script(extendOrSet)
			// Such an extension is an acquire that keeps the value, and needs no lease to begin with.
			l.current = func(*handle, time.Time) bool { return true }
			l.renewed = func(_ *handle, start, end time.Time) bool { return l.leaves(start, end) }
		}},

	{Mistake{"no-expiry",
		"sets its key without an expiry, so that a holder that dies keeps the lock for ever",
		"the holder deletes its key when it is done, whatever happens; that is what defer is for"},
		func(l *broken) { l.sets(l.setWith("NX")) }},
	{Mistake{"ttl-rounded-up",
		"gives keys a TTL in whole seconds, rounded up, so that those of a dead client live longer than it said",
		"EXPIRE takes seconds, and too long is on the safe side"},
		func(l *broken) { l.keysLive((l.cfg.TTL + time.Second - 1).Truncate(time.Second)) }},
	{Mistake{"milliseconds-as-seconds",
		"gives the TTL in milliseconds where Redis reads seconds, so that keys live a thousand times as long",
		"EX or PX, one of the two was the right one"},
		func(l *broken) { l.keysLive(1000 * l.cfg.TTL) }},
	{Mistake{"no-release-on-failure",
		"leaves the keys of a failed attempt to expire",
		"the keys have a TTL, that is what it is for"},
		func(l *broken) { l.undo = func(context.Context, *handle) []driver.Answer { return nil } }},
	{Mistake{"release-only-acknowledged",
		"releases on the nodes only that are known to have granted, though a grant's answer can get lost",
		"where nothing was set, there is nothing to delete"},
		func(l *broken) {
			l.holders = granting
			l.undo = func(ctx context.Context, h *handle) []driver.Answer { return l.release(ctx, granting(h), h, l.delOwn) }
		}},
	{Mistake{"set-goes-on",
		"lets the driver go on with a set whose attempt is over, so that it comes to nodes after its release",
		"the driver knows best when to send again; who asked need not wait for it"},
		func(l *broken) { l.sets(l.setGoingOn) }},
	{Mistake{"driver-time-out",
		"waits for a node for as long as its driver does, and not for the node time-out",
		"a time-out is the driver's business, and its default has been good for years"},
		func(l *broken) { l.cfg.Timeout = driverTries * l.driverWait() }},
	{Mistake{"quorum-too-large",
		"wants a vote more than N/2+1, so that it can't be had while a minority is down",
		"more votes make a safer lock, and nodes are rarely down"},
		func(l *broken) { l.quorum = redlock.Quorum(len(l.nodes)) + 1 }},
	renewsOn,
	{Mistake{"release-on-quorum",
		"releases on as many nodes as make a quorum, and leaves the other keys to expire",
		"without a majority of keys nobody holds the lock, so the others do no harm"},
		func(l *broken) { l.holders = func(h *handle) []int { return granting(h)[:l.quorum] } }},
	{Mistake{"no-jitter",
		"waits equally long after each failed attempt, so that those who split the vote meet again",
		"the middle of the range is the best delay; why throw dice?"},
		func(l *broken) {
			l.delay = func() time.Duration { return (l.cfg.RetryMin + l.cfg.RetryMax) / 2 }
		}},
	{Mistake{"same-jitter",
		"draws the delay after a failed attempt from a generator with a fixed seed, so that all clients wait equally long",
		"it is random: one can see it in the log"},
		func(l *broken) {
			dice := rand.New(rand.NewPCG(1, 1))
			l.delay = func() time.Duration {
				return l.cfg.RetryMin + time.Duration(dice.Int64N(int64(l.cfg.RetryMax-l.cfg.RetryMin)+1))
			}
		}},
	{Mistake{"delay-without-bound",
		"doubles the delay after each failed attempt of an acquire, whatever the longest may be",
		"exponential backoff is good practice"},
		func(l *broken) {
			tries := 0
			l.value = func(try int, _ time.Time) string {
				tries = try
				return l.random()
			}
			l.delay = func() time.Duration { return l.cfg.RetryMin << min(tries-1, 20) }
		}},
	{Mistake{"elapsed-since-the-call",
		"counts what has elapsed from the call of acquire, and not from the start of the attempt, so that who waited for a TTL gets no lock any more",
		"the clock is read once, before the loop"},
		func(l *broken) {
			var called time.Time
			l.value = func(try int, start time.Time) string {
				if try == 1 {
					called = start
				}
				return l.random()
			}
			l.inTime = func(_, end time.Time) bool { return l.leaves(called, end) }
			l.until = func(_, _ time.Time) time.Time { return l.fromStart(called, called) }
		}},
	forgetsFailedNodes,
	undoneByCaller,
	waitsForAll,
	returnsLate,

	{Mistake{"unbounded-extension",
		"extends for as long as it is asked to, whatever the limit, so that one holder can keep all others out",
		"who still works still needs the lock"},
		func(l *broken) { l.extends = math.MaxInt }},

	{Mistake{"fence-from-one-node",
		"takes the first granting node's count for the fencing token, though another quorum's first node has counted less",
		"each node counts the grants, so any of them will do"},
		func(l *broken) { l.number = firstCount }},
	{Mistake{"fence-not-written-back",
		"takes the highest count of its nodes for the fencing token, and leaves it at that: the next quorum may not have the node that counted it",
		"the highest of a majority is above all earlier ones, since majorities meet"},
		func(l *broken) {
			l.number = func(_ context.Context, h *handle) int64 {
				fence, _ := driver.Highest(h.granted)
				return fence
			}
		}},
	{Mistake{"fence-by-wall-clock",
		"takes the time of day for the fencing token, by its own wall clock",
		"time grows, so each token is above those before"},
		func(l *broken) {
			l.number = func(context.Context, *handle) int64 { return l.env.Wall().UnixMilli() }
		}},
	{Mistake{"fence-by-client",
		"counts its own grants for the fencing token, though other clients count theirs",
		"a counter that only grows is all that a fence asks for"},
		func(l *broken) {
			count := int64(0)
			l.number = func(context.Context, *handle) int64 {
				count++
				return count
			}
		}},
	{Mistake{"fence-deleted-with-key",
		"deletes the count of grants with the key, so that the next holder's token is no higher",
		"what belongs to a lock goes when it is given back"},
		func(l *broken) { l.del = l.script(releaseWithCount) }},
}

var (
	//go:embed set_or_own.lua
	setOrOwn string
	//go:embed extend_or_set.lua
	extendOrSet string
	//go:embed release_by_prefix.lua
	releaseByPrefix string
	//go:embed set_or_take_over.lua
	setOrTakeOver string
	//go:embed extend_by_more.lua
	extendByMore string
	//go:embed extend_for_ever.lua
	extendForEver string
	//go:embed extend_any_by_set.lua
	extendAnyBySet string
	//go:embed extend_until.lua
	extendUntil string
	//go:embed release_with_count.lua
	releaseWithCount string
)

// sets replaces the step that sets the key by one that counts no grants.
func (l *broken) sets(s step) { l.set, l.counts = s, false }

// setWith is a step that sends SET with options.
func (l *broken) setWith(options ...any) step {
	return func(ctx context.Context, node int, key, value string) (int64, error) {
		err := l.Clients[node].Do(ctx, append([]any{"SET", key, value}, options...)...).Err()
		if errors.Is(err, redis.Nil) {
			return 0, nil
		}
		return number(err == nil, err)
	}
}

// keysLive gives keys a TTL of their own, which no deadline is reckoned with.
func (l *broken) keysLive(ttl time.Duration) {
	l.sets(func(ctx context.Context, node int, key, value string) (int64, error) {
		return number(l.nodes[node].Set(ctx, key, value, ttl))
	})
	l.extend = func(ctx context.Context, node int, key, value string) (int64, error) {
		return number(l.nodes[node].Extend(ctx, key, value, ttl))
	}
}

// hasOwn asks whether the key has the value, and changes nothing.
func (l *broken) hasOwn(ctx context.Context, node int, key, value string) (int64, error) {
	held, err := l.Clients[node].Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return number(held == value, err)
}

// script is a step that runs a script with value and TTL.
func (l *broken) script(text string) step { return l.scriptOf(text, l.cfg.TTL.Milliseconds) }

// scriptOf is a step that runs a script with value and a number.
func (l *broken) scriptOf(text string, number func() int64) step {
	return func(ctx context.Context, node int, key, value string) (int64, error) {
		return l.Clients[node].Do(ctx, "EVAL", text, 1, key, value, number()).Int64()
	}
}

// expiry is when a key that is set now expires, by the client's wall clock, in milliseconds.
func (l *broken) expiry() int64 { return l.env.Wall().Add(l.cfg.TTL).UnixMilli() }

// driverTries is how often a driver sends a request by its own defaults.
const driverTries = 4

// driverWait is how long it waits for an answer each time: three seconds where the TTL is ten.
func (l *broken) driverWait() time.Duration { return 3 * l.cfg.TTL / 10 }

// setGoingOn is setFree by a driver that knows nothing of attempts.
func (l *broken) setGoingOn(ctx context.Context, node int, key, value string) (yes int64, err error) {
	for range driverTries {
		own, end := context.WithTimeout(context.WithoutCancel(ctx), l.driverWait())
		yes, err = l.setFree(own, node, key, value)
		if end(); err == nil {
			return yes, nil
		}
	}
	return yes, err
}

// granting lists the nodes that are known to have granted an attempt.
func granting(h *handle) []int {
	var nodes []int
	for _, a := range h.granted {
		if a.Yes() {
			nodes = append(nodes, a.Node)
		}
	}
	return nodes
}

func firstCount(_ context.Context, h *handle) int64 {
	return h.granted[granting(h)[0]].Value
}

// Mistakes lists what Settings.Mistake can be.
func Mistakes() []Mistake {
	var out []Mistake
	for _, m := range mistakes {
		out = append(out, m.Mistake)
	}
	return out
}

var undoneByCaller = mistake{Mistake{"undone-by-the-callers-context",
	"undoes a failed attempt by the caller's context, so that one that was cancelled leaves its keys to expire",
	"a context goes through all calls; to drop it is what the linter complains of"},
	func(l *broken) {
		l.undo = func(ctx context.Context, h *handle) []driver.Answer {
			return l.ask(ctx, l.all, func(ctx context.Context, node int) (int64, error) {
				return l.delOwn(ctx, node, h.key, h.value)
			})
		}
	}}

var waitsForAll = mistake{Mistake{"waits-for-all",
	"waits for the answer of each node, however long that takes and whether the caller still waits or not",
	"TCP delivers it or breaks, so each request has an answer"},
	func(l *broken) {
		for _, c := range l.Clients {
			c.Options().ReadTimeout = 0 // none
		}
		l.ask = func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer {
			ctx = context.WithoutCancel(ctx)
			answers := make([]driver.Answer, len(nodes))
			var all sync.WaitGroup
			for i, node := range nodes {
				all.Go(func() {
					value, err := request(ctx, node)
					answers[i] = driver.Answer{Node: node, Value: value, Err: err}
				})
			}
			all.Wait()
			return answers
		}
	}}

var returnsLate = mistake{Mistake{"returns-late",
	"hands out what it got however long that took, with a deadline that may have passed",
	"the caller looks at the deadline before it works; to look twice is a waste"},
	func(l *broken) { l.inTime = func(_, _ time.Time) bool { return true } }}

var renewsOn = mistake{Mistake{"renews-after-failed-release",
	"renews its keys by itself until a release succeeds, so that one without an answer ends nothing",
	"the release failed, so the lock is still held and has to be kept"},
	func(l *broken) {
		l.give = func(h *handle) lock.Handle {
			r := &renewing{tended{handle: h, over: make(chan struct{})}}
			go r.each(l.cfg.TTL/3, func() (done bool) {
				l.ask(context.Background(), l.all, func(ctx context.Context, node int) (int64, error) {
					return l.extend(ctx, node, h.key, h.value)
				})
				return false
			})
			return r
		}
	}}

// renewing is a handle whose keys are renewed in the background. Its deadline stays as it is.
type renewing struct{ tended }

func (r *renewing) Release(ctx context.Context) error {
	err := r.handle.Release(ctx)
	if err == nil {
		r.end()
	}
	return err
}

// tended is a handle with which something is done in the background.
type tended struct {
	*handle
	over chan struct{}
	once sync.Once
}

func (t *tended) end() { t.once.Do(func() { close(t.over) }) }

// each does something now and then, until that says that it is done, the lock is
// released or its client is gone.
func (t *tended) each(pause time.Duration, do func() (done bool)) {
	l := t.handle.lock
	for {
		select {
		case <-t.over:
			return
		case <-l.closed:
			return
		case <-l.cfg.After(pause):
		}
		if do() {
			return
		}
	}
}

var extensionUnheard = mistake{Mistake{"extension-unheard",
	"moves its deadline with each extension, whatever the nodes answer",
	"what we hold we can extend; and if a node is away, the next extension will reach it"},
	func(l *broken) {
		l.renewal = 0
		l.current = func(*handle, time.Time) bool { return true }
		l.renewed = func(*handle, time.Time, time.Time) bool { return true }
	}}

// Unhunted are the mistakes that no plan within the assumptions shows, with the reason, which
// completes "it shows only". A scenario of the catalogue brings each about.
var Unhunted = map[string]string{
	"extension-in-two-steps": "where a holder dies just when an extension of the one before is between its two steps: " +
		"to a key whose holder lives it gives time that does no harm",
	"extension-overwrites": "where a holder dies just when an extension of the one before is under way: " +
		"a key that is overwritten while its holder lives has another value, and is as taken as before",
	"no-jitter": "where several clients stay in step, each next to a node of its own, while a node is away: " +
		"those that wait equally long are parted by the first difference between their networks",
	"same-jitter": "where no-jitter does, too",
	"yes-to-own-value": "where a node stands in the configuration twice and forgets what it granted: " +
		"a node that remembers may have two votes without harm, as long as it gives both to the same client",
}

var tellsLate = mistake{Mistake{"tells-late",
	"names no deadline, extends itself, and tells its holder of a loss only when a node says so: while none answers it says nothing",
	"no answer is no news: the key may well be there"},
	func(l *broken) {
		l.watches(l.cfg.TTL/3, func(h *handle) (lost, over bool) {
			lost = errors.Is(h.Extend(context.Background()), lock.ErrNotHeld)
			return lost, lost
		})
	}}

var renewsTooLate = mistake{Mistake{"renews-too-late",
	"names no deadline and extends itself, but for the first time when its keys have expired",
	"a lease is renewed when it is over"},
	func(l *broken) {
		l.watches(l.cfg.TTL*5/4, func(h *handle) (lost, over bool) {
			lost = h.Extend(context.Background()) != nil
			return lost, lost
		})
	}}

var renewalGivesUp = mistake{Mistake{"renewal-gives-up",
	"names no deadline, extends itself, and stops without a word when that fails for the first time",
	"an error ends the loop; the caller will notice"},
	func(l *broken) {
		l.watches(l.cfg.TTL/3, func(h *handle) (lost, over bool) { return false, h.Extend(context.Background()) != nil })
	}}

var renewsByWallClock = mistake{Mistake{"renews-by-wall-clock",
	"names no deadline and extends itself, when its wall clock says that it is time; by that it tells of a loss, too",
	"it notes at what time of day to extend, and looks at the clock every so often"},
	func(l *broken) {
		l.now = l.env.Wall
		l.watches(l.cfg.TTL/12, func(h *handle) (lost, over bool) {
			if l.now().Before(h.deadline.Add(-l.cfg.TTL / 2)) {
				return false, false
			}
			lost = h.Extend(context.Background()) != nil && !l.now().Before(h.deadline)
			return lost, lost
		})
	}}

// watches makes each hold one that names no deadline and extends itself.
func (l *broken) watches(pause time.Duration, look func(h *handle) (lost, over bool)) {
	l.pause, l.look = pause, look
	l.current = func(*handle, time.Time) bool { return true }
	l.give = func(h *handle) lock.Handle {
		w := &watched{tended{handle: h, over: make(chan struct{})}, make(chan struct{})}
		go w.each(pause, func() (done bool) {
			h.extends = 0 // no limit is for these
			lost, over := look(h)
			if lost {
				close(w.lost)
			}
			return over
		})
		return w
	}
}

// watched is a handle that extends itself and has a signal in place of a deadline.
type watched struct {
	tended
	lost chan struct{}
}

var _ lock.Loser = (*watched)(nil)

// Deadline implements lock.Handle: there is none.
func (w *watched) Deadline() time.Time { return time.Time{} }

func (w *watched) Lost() <-chan struct{} { return w.lost }

func (w *watched) Release(ctx context.Context) error {
	w.end()
	return w.handle.Release(ctx)
}

var elapsedByWallClock = mistake{Mistake{"elapsed-by-wall-clock",
	"measures by its wall clock how long an attempt took, and claims what is left of the TTL from its end",
	"two looks at the same clock differ by what has elapsed"},
	func(l *broken) {
		var start time.Time
		l.value = func(int, time.Time) string {
			start = l.env.Wall()
			return l.random()
		}
		left := func() time.Duration { return l.cfg.TTL - l.env.Wall().Sub(start) - l.drift }
		l.inTime = func(_, _ time.Time) bool { return left() > 0 }
		l.until = func(_, end time.Time) time.Time { return end.Add(left()) }
	}}

var silenceIsNotHeld = mistake{Mistake{"silence-is-not-held",
	"says of a release that got no answer that the lock was not held, though its keys may be there",
	"a release that did not succeed found nothing to release"},
	func(l *broken) {
		l.give = func(h *handle) lock.Handle {
			return answering{h, func(err error) error {
				if err != nil {
					return fmt.Errorf("release %q: %w", h.key, lock.ErrNotHeld)
				}
				return nil
			}}
		}
	}}

var lossIsReleased = mistake{Mistake{"loss-is-released",
	"says of a release that found the lock lost that it was given back, so that its holder never hears of the loss",
	"it was to be gone, and it is"},
	func(l *broken) {
		l.give = func(h *handle) lock.Handle {
			return answering{h, func(err error) error {
				if errors.Is(err, lock.ErrNotHeld) {
					return nil
				}
				return err
			}}
		}
	}}

// answering is a handle that says something else of a release than came of it.
type answering struct {
	*handle
	says func(error) error
}

func (a answering) Release(ctx context.Context) error { return a.says(a.handle.Release(ctx)) }

var forgetsFailedNodes = mistake{Mistake{"forgets-failed-nodes",
	"never again asks a node for a vote that gave no answer once, so that it has too few when others fail later",
	"a server that is down is taken out of the list; somebody will restart the client"},
	func(l *broken) {
		failed, set, votes := make([]atomic.Bool, len(l.nodes)), l.set, l.votes
		l.set = func(ctx context.Context, node int, key, value string) (int64, error) {
			if failed[node].Load() {
				return 0, errForgotten
			}
			return set(ctx, node, key, value)
		}
		l.votes = func(try int, granted []driver.Answer) int {
			for _, a := range granted {
				if a.Err != nil {
					failed[a.Node].Store(true)
				}
			}
			return votes(try, granted)
		}
	}}

var errForgotten = errors.New("the node failed before")

var readsLateAnswers = mistake{Mistake{"reads-late-answers",
	"keeps a connection on which an answer is overdue, and takes that for the answer to the next request",
	"an idle connection is as good as a new one, and a handshake costs a round trip"},
	func(l *broken) {
		type line struct {
			mu   sync.Mutex
			owed []chan driver.Answer // answers that are under way, in the order of the requests
		}
		lines, ask := make([]line, len(l.nodes)), l.ask
		l.ask = func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer {
			return ask(ctx, nodes, func(ctx context.Context, node int) (int64, error) {
				own, on := make(chan driver.Answer, 1), &lines[node]
				go func() {
					ctx, end := context.WithTimeout(context.WithoutCancel(ctx), driverTries*l.driverWait())
					defer end()
					value, err := request(ctx, node)
					own <- driver.Answer{Value: value, Err: err}
				}()
				on.mu.Lock()
				on.owed = append(on.owed, own)
				first := on.owed[0]
				on.mu.Unlock()
				select {
				case a := <-first:
					on.mu.Lock()
					on.owed = on.owed[1:]
					on.mu.Unlock()
					return a.Value, a.Err
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
		}
	}}
