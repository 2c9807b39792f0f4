package broken

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"sync"
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
				at := l.env.Wall().Add(l.cfg.TTL).UnixMilli()
				err := l.Clients[node].Do(ctx, "SET", key, value, "NX", "PXAT", at).Err()
				if errors.Is(err, redis.Nil) {
					return 0, nil
				}
				return number(err == nil, err)
			})
		}},
	{Mistake{"quorum-half",
		"takes N/2 nodes for a quorum instead of N/2+1, so that two clients can have one each",
		"half of the nodes is as good as most of them"},
		func(l *broken) { l.quorum = len(l.nodes) / 2 }},
	{Mistake{"set-without-nx",
		"sets the key whether there is one or not, and so overwrites that of the holder",
		"SET with an expiry is the recipe; the two letters at the end are for special cases"},
		func(l *broken) {
			l.sets(func(ctx context.Context, node int, key, value string) (int64, error) {
				err := l.Clients[node].Do(ctx, "SET", key, value, "PX", l.cfg.TTL.Milliseconds()).Err()
				return number(err == nil, err)
			})
		}},
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
	{Mistake{"extension-sets-missing-key",
		"takes the lock anew in an extension where the key is gone, without asking who had it meanwhile",
		"if nobody has it, it is still ours; an extension that fails helps nobody"},
		func(l *broken) {
			l.extend = l.script(extendOrSet)
			// Such an extension is an acquire that keeps the value, and needs no lease to begin with.
			l.current = func(*handle, time.Time) bool { return true }
			l.renewed = func(_ *handle, start, end time.Time) bool { return l.leaves(start, end) }
		}},

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
}

var (
	//go:embed set_or_own.lua
	setOrOwn string
	//go:embed extend_or_set.lua
	extendOrSet string
	//go:embed release_by_prefix.lua
	releaseByPrefix string
)

// sets replaces the step that sets the key by one that counts no grants.
func (l *broken) sets(s step) { l.set, l.counts = s, false }

// script is a step that runs a script with value and TTL.
func (l *broken) script(text string) step {
	return func(ctx context.Context, node int, key, value string) (int64, error) {
		return l.Clients[node].Do(ctx, "EVAL", text, 1, key, value, l.cfg.TTL.Milliseconds()).Int64()
	}
}

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
			go r.each(func() (done bool) {
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

// each does something three times in a TTL, until that says that it is done, the lock is
// released or its client is gone.
func (t *tended) each(do func() (done bool)) {
	l := t.handle.lock
	for {
		select {
		case <-t.over:
			return
		case <-l.closed:
			return
		case <-l.cfg.After(l.cfg.TTL / 3):
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
	"no-jitter": "where several clients stay in step, each next to a node of its own, while a node is away: " +
		"those that wait equally long are parted by the first difference between their networks",
	"yes-to-own-value": "where a node stands in the configuration twice and forgets what it granted: " +
		"a node that remembers may have two votes without harm, as long as it gives both to the same client",
}

var tellsLate = mistake{Mistake{"tells-late",
	"names no deadline, extends itself, and tells its holder of a loss only when a node says so: while none answers it says nothing",
	"no answer is no news: the key may well be there"},
	func(l *broken) {
		l.current = func(*handle, time.Time) bool { return true }
		l.give = func(h *handle) lock.Handle {
			w := &watched{tended{handle: h, over: make(chan struct{})}, make(chan struct{})}
			go w.each(func() (done bool) {
				h.extends = 0 // no limit is for these
				if done = errors.Is(h.Extend(context.Background()), lock.ErrNotHeld); done {
					close(w.lost)
				}
				return done
			})
			return w
		}
	}}

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
