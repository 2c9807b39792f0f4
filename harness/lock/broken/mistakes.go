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

// Mistake describes a mistake in a lock.
type Mistake struct {
	Name    string
	Doc     string // what the lock does wrong, without a final period
	Thought string // why the programmer thought it was right
}

// mistake is a Mistake with the code that makes it.
type mistake struct {
	Mistake
	apply func(*brokenLock)
}

// mistakes lists all mistakes, grouped by effect: two clients hold the lock; extensions are wrong;
// the lock can't be acquired or doesn't become free; fencing tokens are wrong.
var mistakes = []mistake{
	{Mistake{"no-elapsed-check",
		"never measures how long the attempt took, and claims TTL − drift from the end of the attempt",
		"Redis answers in a millisecond, so reading the clock again tells us nothing"},
		func(l *brokenLock) {
			l.isValid, l.deadlineFrom = func(_, _ time.Time) bool { return true }, l.deadlineFromEnd
		}},
	{Mistake{"elapsed-not-subtracted",
		"discards an attempt that took longer than the TTL, but claims TTL − drift from the end of the others",
		"the lease starts when the quorum grants it"},
		func(l *brokenLock) { l.deadlineFrom = l.deadlineFromEnd }},
	{Mistake{"no-drift-margin",
		"claims the whole TTL, with no margin for clock drift",
		"all our machines run NTP, so their clocks agree"},
		func(l *brokenLock) { l.drift = 0 }},
	lateNotification,
	contextByTimer,
	contextByTicker,
	{Mistake{"wall-clock-deadline",
		"keeps its deadline on the wall clock, which can be set back while the lock is held",
		"a deadline is a time of day, and wall-clock times can be logged and compared"},
		func(l *brokenLock) { l.now, l.usesWallClock = l.env.Wall, true }},
	{Mistake{"absolute-expiry",
		"sends the nodes an absolute expiry time, taken from its own wall clock, instead of a TTL",
		"an absolute time makes the key expire at the same moment on every node, however slow the requests are"},
		func(l *brokenLock) {
			l.replaceSet(func(ctx context.Context, node int, key, value string) (int64, error) {
				return l.setWith("NX", "PXAT", l.expiry())(ctx, node, key, value)
			})
		}},
	elapsedByWallClock,
	wallClockRenewal,
	lateRenewal,
	abandonedRenewal,
	{Mistake{"takes-over-by-timestamp",
		"stores the expiry time in the key's value, and takes over a key whose time has passed by its own wall clock",
		"an expired key belongs to nobody, and our servers agree on the time"},
		func(l *brokenLock) {
			l.value = func(int, time.Time) string { return fmt.Sprintf("%d-%s", l.expiry(), l.random()) }
			l.replaceSet(l.script(setOrTakeOver))
		}},
	{Mistake{"drift-added",
		"adds the drift allowance to the lease instead of subtracting it",
		"the clocks may be off by that much, so the lease may last that much longer"},
		func(l *brokenLock) { l.drift = -l.drift }},
	{Mistake{"deadline-rounded-up",
		"rounds its deadline up to whole seconds, past the end of the lease",
		"deadlines are stored in seconds, and a started second counts"},
		func(l *brokenLock) {
			lease := (l.cfg.TTL - l.drift + time.Second - 1).Truncate(time.Second)
			l.deadlineFrom = func(start, _ time.Time) time.Time { return start.Add(lease) }
			l.extendedDeadline = l.deadlineFrom
		}},
	{Mistake{"ttl-rounded-down",
		"rounds the keys' TTL down to whole seconds, but claims the full TTL",
		"EXPIRE takes seconds, and a fraction of a second does not matter"},
		func(l *brokenLock) { l.setKeyTTL(max(time.Second, l.cfg.TTL.Truncate(time.Second))) }},
	{Mistake{"quorum-half",
		"needs N/2 votes instead of N/2+1, so two clients can each have a quorum",
		"half of the nodes is as good as a majority"},
		func(l *brokenLock) { l.quorum = len(l.nodes) / 2 }},
	{Mistake{"quorum-rounded-up",
		"needs (N+1)/2 votes, which is only half of the nodes if N is even",
		"three nodes need two votes and five need three, so a quorum is half, rounded up"},
		func(l *brokenLock) { l.quorum = (len(l.nodes) + 1) / 2 }},
	{Mistake{"silence-is-a-vote",
		"counts every node that did not refuse, so a node that did not answer counts as a vote",
		"a node that has the key says no; any other node has no objection"},
		func(l *brokenLock) {
			l.countVotes = func(_ int, granted []driver.Answer) int {
				t := driver.Count(granted)
				return t.Total - t.No
			}
		}},
	{Mistake{"votes-add-up",
		"does not reset its vote count between attempts, so votes from attempts it has undone still count",
		"the counter is initialized once, before the loop"},
		func(l *brokenLock) {
			votes := 0
			l.countVotes = func(try int, granted []driver.Answer) int {
				if try == 1 {
					votes = 0
				}
				votes += driver.Count(granted).Yes
				return votes
			}
		}},
	lateAnswers,
	{Mistake{"set-without-nx",
		"sets the key even if it exists, and so overwrites the holder's key",
		"SET with an expiry is the recipe; NX is for special cases"},
		func(l *brokenLock) { l.replaceSet(l.setWith("PX", l.cfg.TTL.Milliseconds())) }},
	{Mistake{"expiry-despite-refusal",
		"sets the expiry of the key in each attempt, even if another client has the key, so a holder's key gets the TTL of a client that waits",
		"SETNX takes no TTL, so PEXPIRE has to follow"},
		func(l *brokenLock) { l.replaceSet(l.script(setAndExpire)) }},
	{Mistake{"ttl-in-wrong-unit",
		"passes the TTL in seconds where Redis expects milliseconds, so keys expire a thousand times too soon",
		"it was either EX or PX"},
		func(l *brokenLock) {
			l.replaceSet(func(ctx context.Context, node int, key, value string) (int64, error) {
				seconds := max(time.Second, l.cfg.TTL) / time.Second
				return boolToCount(l.nodes[node].Set(ctx, key, value, seconds*time.Millisecond))
			})
		}},
	{Mistake{"plain-del",
		"releases with DEL, whoever holds the key by then (it still undoes failed attempts with a compare-and-delete)",
		"only the holder calls release, so the key must be the holder's"},
		func(l *brokenLock) {
			l.deleteKey = func(ctx context.Context, node int, key, _ string) (int64, error) {
				return l.Clients[node].Del(ctx, key).Result()
			}
		}},
	{Mistake{"undo-by-plain-del",
		"undoes a failed attempt with DEL, and so deletes the key of the client it lost to",
		"a failed attempt must leave nothing behind"},
		func(l *brokenLock) {
			l.undoAttempt = func(ctx context.Context, h *handle) []driver.Answer {
				return l.release(ctx, l.allNodes, h, func(ctx context.Context, node int, key, _ string) (int64, error) {
					return l.Clients[node].Del(ctx, key).Result()
				})
			}
		}},
	silenceAsNotHeld,
	lossAsRelease,
	{Mistake{"release-by-prefix",
		"deletes any key whose value starts with the client's name, including the key of a later hold by the same client",
		"the name says who owns the key; the rest only makes the value unique"},
		func(l *brokenLock) {
			l.value = func(int, time.Time) string { return l.env.Client + "-" + l.random() }
			l.deleteKey = l.script(releaseByPrefix)
		}},
	{Mistake{"same-value-for-retries",
		"uses one random value for all attempts of an acquire, so a delayed release of one attempt deletes the key of another",
		"the value must differ between clients, and one acquire is one client"},
		func(l *brokenLock) {
			var value string
			l.value = func(try int, _ time.Time) string {
				if try == 1 {
					value = l.random()
				}
				return value
			}
		}},
	{Mistake{"same-value-for-holds",
		"uses the client's name as the value of every hold, so a late release of one hold deletes the key of the next",
		"the value says who holds the lock, and a client holds it only once at a time"},
		func(l *brokenLock) { l.value = func(int, time.Time) string { return l.env.Client } }},
	{Mistake{"same-value-for-clients",
		"uses the same value for all clients, so a client that fails to acquire deletes the holder's keys when it cleans up",
		"the key's existence is the lock; nobody reads its value"},
		func(l *brokenLock) { l.value = func(int, time.Time) string { return "locked" } }},
	{Mistake{"weak-token",
		"uses the time in microseconds and a client ID that is not unique in place of random bytes",
		"the process ID tells clients apart, and no two acquires start in the same microsecond"},
		func(l *brokenLock) {
			const pid = 1 // as in every container
			l.value = func(_ int, start time.Time) string { return fmt.Sprintf("%d-%d", start.UnixMicro(), pid) }
		}},
	{Mistake{"yes-to-own-value",
		"counts a key that already has its own value as a vote, so a node that is configured twice counts twice",
		"a request that is sent twice must get the same answer twice; that makes it idempotent"},
		func(l *brokenLock) { l.replaceSet(l.script(setOrConfirmOwn)) }},

	{Mistake{"extension-without-token-check",
		"extends whatever key is there, even another client's, and counts that as a vote",
		"only the holder extends, and PEXPIRE says whether the key still exists"},
		func(l *brokenLock) {
			l.extendKey = func(ctx context.Context, node int, key, _ string) (int64, error) {
				return boolToCount(l.Clients[node].PExpire(ctx, key, l.cfg.TTL).Result())
			}
		}},
	{Mistake{"extension-below-quorum",
		"treats an extension as successful if one node says yes",
		"the vote was at the acquire; extending is just housekeeping"},
		func(l *brokenLock) { l.extensionQuorum = 1 }},
	{Mistake{"extension-elapsed-not-subtracted",
		"claims TTL − drift from the end of an extension, however long that took",
		"the nodes have just said yes, so the TTL starts now"},
		func(l *brokenLock) { l.extendedDeadline = l.deadlineFromEnd }},
	ignoredAnswers,
	{Mistake{"extension-without-drift",
		"subtracts the drift margin when it acquires, but claims the whole TTL when it extends",
		"the margin has already been subtracted"},
		func(l *brokenLock) {
			l.extendedDeadline = func(start, _ time.Time) time.Time { return start.Add(l.cfg.TTL) }
		}},
	{Mistake{"extension-adds-to-deadline",
		"adds a whole lease to its deadline with each extension, although the keys then live for only one TTL",
		"extending by ten seconds means having ten seconds more"},
		func(l *brokenLock) {
			inTime := l.isExtendedInTime
			l.isExtendedInTime = func(h *handle, start, end time.Time) bool {
				ok := inTime(h, start, end)
				if ok {
					h.deadline = h.deadline.Add(l.cfg.TTL - l.drift)
				}
				return ok
			}
		}},
	{Mistake{"extension-adds-to-ttl",
		"adds a TTL to the time the key has left, so each extension makes the key outlive the lease by more",
		"extending by ten seconds means having ten seconds more"},
		func(l *brokenLock) { l.extendKey = l.script(extendByMore) }},
	{Mistake{"extension-drops-expiry",
		"extends by setting its own key again without an expiry, so the key never expires",
		"SET keeps the options it is not asked to change"},
		func(l *brokenLock) { l.extendKey = l.script(extendWithoutExpiry) }},
	{Mistake{"extension-rounded-down",
		"rounds the keys' TTL down to whole seconds when it extends, but claims the full TTL",
		"PX is precise, and EXPIRE has always been good enough for the rest"},
		func(l *brokenLock) { l.setExtendedTTL(max(time.Second, l.cfg.TTL.Truncate(time.Second))) }},
	{Mistake{"extension-rounded-up",
		"rounds the keys' TTL up to whole seconds when it extends, so a dead client's keys live longer than the TTL",
		"EXPIRE takes seconds, and a holder can't have too much time"},
		func(l *brokenLock) { l.setExtendedTTL((l.cfg.TTL + time.Second - 1).Truncate(time.Second)) }},
	{Mistake{"extension-only-checks",
		"checks that the key is still its own, but does not extend the key's expiry",
		"the key is there and it is ours, so we hold the lock"},
		func(l *brokenLock) { l.extendKey = l.isOwner }},
	{Mistake{"extension-in-two-steps",
		"checks that the key is its own, then extends whatever key is there in a second request",
		"nobody can take the key between two requests sent a millisecond apart"},
		func(l *brokenLock) {
			l.extendKey = func(ctx context.Context, node int, key, value string) (int64, error) {
				if own, err := l.isOwner(ctx, node, key, value); own == 0 {
					return 0, err
				}
				return boolToCount(l.Clients[node].PExpire(ctx, key, l.cfg.TTL).Result())
			}
		}},
	{Mistake{"extension-overwrites",
		"extends by setting the key again if one exists, even another client's",
		"with XX, an extension can't take a free lock"},
		func(l *brokenLock) { l.extendKey = l.script(extendAnyBySet) }},
	{Mistake{"extension-by-wall-clock",
		"sends the nodes an absolute expiry time in each extension, taken from its own wall clock",
		"unlike PEXPIRE, PEXPIREAT can safely be sent twice"},
		func(l *brokenLock) { l.extendKey = l.scriptWith(extendUntil, l.expiry) }},
	{Mistake{"extension-sets-missing-key",
		"sets the key again in an extension if the key is missing, although another client may have held the lock in the meantime",
		"if nobody has the lock, it is still ours, and a failed extension helps nobody"},
		func(l *brokenLock) {
			l.extendKey = l.script(extendOrSet)
			// Such an extension is an acquire with the same value, so it doesn't need an existing lease.
			l.canExtend = func(*handle, time.Time) bool { return true }
			l.isExtendedInTime = func(_ *handle, start, end time.Time) bool { return l.hasTimeLeft(start, end) }
		}},

	{Mistake{"no-expiry",
		"sets its key without an expiry, so a holder that dies keeps the lock forever",
		"the holder always deletes its key when it is done; that is what defer is for"},
		func(l *brokenLock) { l.replaceSet(l.setWith("NX")) }},
	{Mistake{"ttl-rounded-up",
		"rounds the keys' TTL up to whole seconds, so a dead client's keys live longer than the TTL",
		"EXPIRE takes seconds, and too long errs on the safe side"},
		func(l *brokenLock) { l.setKeyTTL((l.cfg.TTL + time.Second - 1).Truncate(time.Second)) }},
	{Mistake{"milliseconds-as-seconds",
		"passes the TTL in milliseconds where Redis expects seconds, so keys live a thousand times too long",
		"it was either EX or PX"},
		func(l *brokenLock) { l.setKeyTTL(1000 * l.cfg.TTL) }},
	{Mistake{"no-release-on-failure",
		"leaves the keys of a failed attempt until they expire",
		"cleaning up is what the TTL is for"},
		func(l *brokenLock) { l.undoAttempt = func(context.Context, *handle) []driver.Answer { return nil } }},
	{Mistake{"release-only-acknowledged",
		"releases only on the nodes whose grant it received, though a reply can get lost",
		"where nothing was set, there is nothing to delete"},
		func(l *brokenLock) {
			l.releaseNodes = grantingNodes
			l.undoAttempt = func(ctx context.Context, h *handle) []driver.Answer {
				return l.release(ctx, grantingNodes(h), h, l.deleteIfOwner)
			}
		}},
	{Mistake{"set-goes-on",
		"lets the driver keep sending a SET after the attempt is over, so the SET can reach nodes after the release",
		"the driver knows best when to retry; the caller need not wait for it"},
		func(l *brokenLock) { l.replaceSet(l.setWithRetries) }},
	{Mistake{"driver-time-out",
		"waits for a node as long as its driver does, and ignores the node timeout",
		"timeouts are the driver's business, and its defaults have served for years"},
		func(l *brokenLock) { l.cfg.Timeout = driverTries * l.driverWait() }},
	{Mistake{"quorum-too-large",
		"needs one vote more than N/2+1, so the lock is unavailable while a minority is down",
		"more votes make the lock safer, and nodes are rarely down"},
		func(l *brokenLock) { l.quorum = redlock.Quorum(len(l.nodes)) + 1 }},
	renewalAfterFailedRelease,
	{Mistake{"release-on-quorum",
		"releases on only a quorum of nodes, and leaves its other keys to expire",
		"without a majority of keys nobody holds the lock, so the leftover keys do no harm"},
		func(l *brokenLock) { l.releaseNodes = func(h *handle) []int { return grantingNodes(h)[:l.quorum] } }},
	{Mistake{"no-jitter",
		"waits the same time after each failed attempt, so clients that split the vote collide again",
		"the middle of the range is the best delay, so why randomize?"},
		func(l *brokenLock) {
			l.delay = func() time.Duration { return (l.cfg.RetryMin + l.cfg.RetryMax) / 2 }
		}},
	{Mistake{"same-jitter",
		"draws its retry delays from a generator with a fixed seed, so all clients wait equally long",
		"the delays are random: the log shows it"},
		func(l *brokenLock) {
			rng := rand.New(rand.NewPCG(1, 1))
			l.delay = func() time.Duration {
				return l.cfg.RetryMin + time.Duration(rng.Int64N(int64(l.cfg.RetryMax-l.cfg.RetryMin)+1))
			}
		}},
	{Mistake{"delay-without-bound",
		"doubles its retry delay after each failed attempt of an acquire, without an upper bound",
		"exponential backoff is best practice"},
		func(l *brokenLock) {
			tries := 0
			l.value = func(try int, _ time.Time) string {
				tries = try
				return l.random()
			}
			l.delay = func() time.Duration { return l.cfg.RetryMin << min(tries-1, 20) }
		}},
	{Mistake{"elapsed-since-the-call",
		"measures elapsed time from the call of acquire instead of the start of the attempt, so a client that has waited for a TTL can never acquire the lock",
		"the clock is read once, before the loop"},
		func(l *brokenLock) {
			var callTime time.Time
			l.value = func(try int, start time.Time) string {
				if try == 1 {
					callTime = start
				}
				return l.random()
			}
			l.isValid = func(_, end time.Time) bool { return l.hasTimeLeft(callTime, end) }
			l.deadlineFrom = func(_, _ time.Time) time.Time { return l.deadlineFromStart(callTime, callTime) }
		}},
	forgottenNodes,
	undoByCallersContext,
	waitForAll,
	lateReturn,

	{Mistake{"unbounded-extension",
		"ignores the limit on extensions, so one holder can lock all others out",
		"a client that is still working still needs the lock"},
		func(l *brokenLock) { l.maxExtensions = math.MaxInt }},

	{Mistake{"fence-from-one-node",
		"uses the first granting node's counter as the fencing token, though the first node of another quorum may be behind",
		"every node counts the grants, so any of them will do"},
		func(l *brokenLock) { l.fencingToken = firstCount }},
	{Mistake{"fence-not-written-back",
		"uses its nodes' highest counter as the fencing token but never writes it back, so the next quorum may not include the node that has it",
		"majorities overlap, so the highest counter of a majority is above all earlier ones"},
		func(l *brokenLock) {
			l.fencingToken = func(_ context.Context, h *handle) int64 {
				fence, _ := driver.HighestCount(h.answers)
				return fence
			}
		}},
	{Mistake{"fence-by-wall-clock",
		"uses its own wall clock as the fencing token",
		"time only moves forward, so each token is higher than the last"},
		func(l *brokenLock) {
			l.fencingToken = func(context.Context, *handle) int64 { return l.env.Wall().UnixMilli() }
		}},
	{Mistake{"fence-by-client",
		"uses a counter of its own grants as the fencing token, though other clients have counters of their own",
		"a fencing token only has to increase"},
		func(l *brokenLock) {
			count := int64(0)
			l.fencingToken = func(context.Context, *handle) int64 {
				count++
				return count
			}
		}},
	{Mistake{"fence-deleted-with-key",
		"deletes the grant counter together with the key, so the next holder's token is no higher",
		"releasing a lock should remove everything that belongs to it"},
		func(l *brokenLock) { l.deleteKey = l.script(releaseWithCount) }},
}

var (
	//go:embed set_or_own.lua
	setOrConfirmOwn string
	//go:embed set_and_expire.lua
	setAndExpire string
	//go:embed extend_or_set.lua
	extendOrSet string
	//go:embed release_by_prefix.lua
	releaseByPrefix string
	//go:embed set_or_take_over.lua
	setOrTakeOver string
	//go:embed extend_by_more.lua
	extendByMore string
	//go:embed extend_for_ever.lua
	extendWithoutExpiry string
	//go:embed extend_any_by_set.lua
	extendAnyBySet string
	//go:embed extend_until.lua
	extendUntil string
	//go:embed release_with_count.lua
	releaseWithCount string
)

// replaceSet replaces the step that sets the key with one that doesn't count grants.
func (l *brokenLock) replaceSet(s step) { l.setKey, l.nodesCountGrants = s, false }

// setWith returns a step that sends SET with options.
func (l *brokenLock) setWith(options ...any) step {
	return func(ctx context.Context, node int, key, value string) (int64, error) {
		err := l.Clients[node].Do(ctx, append([]any{"SET", key, value}, options...)...).Err()
		if errors.Is(err, redis.Nil) {
			return 0, nil
		}
		return boolToCount(err == nil, err)
	}
}

// setKeyTTL gives keys a TTL that differs from the one used to compute deadlines.
func (l *brokenLock) setKeyTTL(ttl time.Duration) {
	l.replaceSet(func(ctx context.Context, node int, key, value string) (int64, error) {
		return boolToCount(l.nodes[node].Set(ctx, key, value, ttl))
	})
	l.setExtendedTTL(ttl)
}

// setExtendedTTL does the same for keys that are extended.
func (l *brokenLock) setExtendedTTL(ttl time.Duration) {
	l.extendKey = func(ctx context.Context, node int, key, value string) (int64, error) {
		return boolToCount(l.nodes[node].Extend(ctx, key, value, ttl))
	}
}

// isOwner checks whether the key has the value. It changes nothing.
func (l *brokenLock) isOwner(ctx context.Context, node int, key, value string) (int64, error) {
	stored, err := l.Clients[node].Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return boolToCount(stored == value, err)
}

// script returns a step that runs a script with the value and the TTL as its arguments.
func (l *brokenLock) script(text string) step { return l.scriptWith(text, l.cfg.TTL.Milliseconds) }

// scriptWith returns a step that runs a script with the value and a number as its arguments.
func (l *brokenLock) scriptWith(text string, number func() int64) step {
	return func(ctx context.Context, node int, key, value string) (int64, error) {
		return l.Clients[node].Do(ctx, "EVAL", text, 1, key, value, number()).Int64()
	}
}

// expiry returns when a key set now expires, in milliseconds by the client's wall clock.
func (l *brokenLock) expiry() int64 { return l.env.Wall().Add(l.cfg.TTL).UnixMilli() }

// driverTries is how many times a driver sends a request with its default settings.
const driverTries = 4

// driverWait returns how long the driver waits for each answer: three seconds if the TTL is ten.
func (l *brokenLock) driverWait() time.Duration { return 3 * l.cfg.TTL / 10 }

// setWithRetries is setFree with a driver that keeps retrying after the attempt is over.
func (l *brokenLock) setWithRetries(ctx context.Context, node int, key, value string) (grants int64, err error) {
	for range driverTries {
		attemptCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.driverWait())
		grants, err = l.setFree(attemptCtx, node, key, value)
		if cancel(); err == nil {
			return grants, nil
		}
	}
	return grants, err
}

// grantingNodes lists the nodes known to have granted an attempt.
func grantingNodes(h *handle) []int {
	var nodes []int
	for _, a := range h.answers {
		if a.Yes() {
			nodes = append(nodes, a.Node)
		}
	}
	return nodes
}

func firstCount(_ context.Context, h *handle) int64 {
	return h.answers[grantingNodes(h)[0]].Value
}

// Mistakes lists the possible values of Settings.Mistake.
func Mistakes() []Mistake {
	var out []Mistake
	for _, m := range mistakes {
		out = append(out, m.Mistake)
	}
	return out
}

var undoByCallersContext = mistake{Mistake{"undone-by-the-callers-context",
	"undoes a failed attempt with the caller's context, so a canceled acquire leaves its keys to expire",
	"a context is passed down to every call; the linter complains if it is not"},
	func(l *brokenLock) {
		l.undoAttempt = func(ctx context.Context, h *handle) []driver.Answer {
			return l.ask(ctx, l.allNodes, func(ctx context.Context, node int) (int64, error) {
				return l.deleteIfOwner(ctx, node, h.key, h.value)
			})
		}
	}}

var waitForAll = mistake{Mistake{"waits-for-all",
	"waits for every node's answer, however long that takes and even if the caller has stopped waiting",
	"TCP either delivers or breaks, so every request gets an answer"},
	func(l *brokenLock) {
		for _, c := range l.Clients {
			c.Options().ReadTimeout = 0 // no timeout
		}
		l.ask = func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer {
			ctx = context.WithoutCancel(ctx)
			answers := make([]driver.Answer, len(nodes))
			var wg sync.WaitGroup
			for i, node := range nodes {
				wg.Go(func() {
					value, err := request(ctx, node)
					answers[i] = driver.Answer{Node: node, Value: value, Err: err}
				})
			}
			wg.Wait()
			return answers
		}
	}}

var lateReturn = mistake{Mistake{"returns-late",
	"returns the lock however long the acquire took, even if its deadline has passed",
	"the caller checks the deadline before doing its work, so checking here too is a waste"},
	func(l *brokenLock) { l.isValid = func(_, _ time.Time) bool { return true } }}

var renewalAfterFailedRelease = mistake{Mistake{"renews-after-failed-release",
	"renews its keys in the background until a release succeeds, so a release without an answer ends nothing",
	"the release failed, so we still hold the lock and must keep it"},
	func(l *brokenLock) {
		l.wrapHandle = func(h *handle) lock.Handle {
			r := &renewingHandle{backgroundHandle{handle: h, done: make(chan struct{})}}
			go r.repeat(l.cfg.TTL/3, func() (done bool) {
				l.ask(context.Background(), l.allNodes, func(ctx context.Context, node int) (int64, error) {
					return l.extendKey(ctx, node, h.key, h.value)
				})
				return false
			})
			return r
		}
	}}

// renewingHandle is a handle whose keys are renewed in the background. Its deadline stays the same.
type renewingHandle struct{ backgroundHandle }

func (r *renewingHandle) Release(ctx context.Context) error {
	err := r.handle.Release(ctx)
	if err == nil {
		r.stop()
	}
	return err
}

type backgroundHandle struct {
	*handle
	done chan struct{}
	once sync.Once
}

func (t *backgroundHandle) stop() { t.once.Do(func() { close(t.done) }) }

// repeat calls f periodically until f returns true, the lock is released, or the client closes.
func (t *backgroundHandle) repeat(interval time.Duration, f func() (done bool)) {
	l := t.handle.lock
	for {
		select {
		case <-t.done:
			return
		case <-l.closed:
			return
		case <-l.cfg.After(interval):
		}
		if f() {
			return
		}
	}
}

var ignoredAnswers = mistake{Mistake{"extension-unheard",
	"moves its deadline with each extension, whatever the nodes answer",
	"we hold the lock, so extending can't fail; and if a node is down, the next extension will reach it"},
	func(l *brokenLock) {
		l.extensionQuorum = 0
		l.canExtend = func(*handle, time.Time) bool { return true }
		l.isExtendedInTime = func(*handle, time.Time, time.Time) bool { return true }
	}}

// NotFoundByFuzzing lists the mistakes that no plan within the assumptions reveals. The text says
// when a mistake shows; it completes a sentence that begins with "which shows only". For each of
// these mistakes, a scenario in the catalog reveals it.
var NotFoundByFuzzing = map[string]string{
	"extension-in-two-steps": "if a holder dies while an extension by the previous holder is between its two steps: " +
		"extending the key of a live holder has no effect on mutual exclusion",
	"extension-overwrites": "if a holder dies while an extension by the previous holder is under way: " +
		"overwriting the key of a live holder changes its value, but the lock stays taken",
	"no-jitter": "if several clients stay in step, each closest to a different node, while another node is down: " +
		"otherwise any difference in network latency breaks the tie",
	"same-jitter": "under the same conditions as no-jitter",
	"yes-to-own-value": "if a node is configured twice and forgets what it granted: " +
		"a node that remembers its vote can safely vote twice, since both votes go to the same client",
}

var lateNotification = mistake{Mistake{"tells-late",
	"has no deadline, extends itself, and reports a loss only if a node says so: while no node answers, it reports nothing",
	"no answer proves nothing: the key may still be there"},
	func(l *brokenLock) {
		l.extendAutomatically(l.cfg.TTL/3, func(h *handle) (lost, done bool) {
			lost = errors.Is(h.Extend(context.Background()), lock.ErrNotHeld)
			return lost, lost
		})
	}}

var lateRenewal = mistake{Mistake{"renews-too-late",
	"has no deadline and extends itself, but not until after its keys have expired",
	"a lease is renewed when it runs out"},
	func(l *brokenLock) {
		l.extendAutomatically(l.cfg.TTL*5/4, func(h *handle) (lost, done bool) {
			lost = h.Extend(context.Background()) != nil
			return lost, lost
		})
	}}

var abandonedRenewal = mistake{Mistake{"renewal-gives-up",
	"has no deadline, extends itself, and stops at the first error without telling its holder",
	"an error ends the loop, and the caller will notice"},
	func(l *brokenLock) {
		l.extendAutomatically(l.cfg.TTL/3, func(h *handle) (lost, done bool) { return false, h.Extend(context.Background()) != nil })
	}}

var wallClockRenewal = mistake{Mistake{"renews-by-wall-clock",
	"has no deadline, and uses its wall clock to decide when to extend itself and when to report a loss",
	"note the time of the next extension, and check the clock periodically"},
	func(l *brokenLock) {
		l.now = l.env.Wall
		l.extendAutomatically(l.cfg.TTL/12, func(h *handle) (lost, done bool) {
			if l.now().Before(h.deadline.Add(-l.cfg.TTL / 2)) {
				return false, false
			}
			lost = h.Extend(context.Background()) != nil && !l.now().Before(h.deadline)
			return lost, lost
		})
	}}

// extendAutomatically makes the lock return handles that extend themselves and have no deadline.
func (l *brokenLock) extendAutomatically(interval time.Duration, check func(h *handle) (lost, done bool)) {
	l.checkInterval, l.checkHold = interval, check
	l.canExtend = func(*handle, time.Time) bool { return true }
	l.wrapHandle = func(h *handle) lock.Handle {
		w := &notifyingHandle{backgroundHandle{handle: h, done: make(chan struct{})}, make(chan struct{})}
		go w.repeat(interval, func() (done bool) {
			h.extensionCount = 0 // these extensions are not limited
			lost, done := check(h)
			if lost {
				close(w.lost)
			}
			return done
		})
		return w
	}
}

// notifyingHandle is a handle that extends itself. It has no deadline, but notifies its holder if
// the lock is lost.
type notifyingHandle struct {
	backgroundHandle
	lost chan struct{}
}

var _ lock.LossNotifier = (*notifyingHandle)(nil)

// Deadline implements lock.Handle. It returns zero because there is no deadline.
func (w *notifyingHandle) Deadline() time.Time { return time.Time{} }

func (w *notifyingHandle) Lost() <-chan struct{} { return w.lost }

func (w *notifyingHandle) Release(ctx context.Context) error {
	w.stop()
	return w.handle.Release(ctx)
}

var elapsedByWallClock = mistake{Mistake{"elapsed-by-wall-clock",
	"measures the attempt with its wall clock, and claims the rest of the TTL from the end of the attempt",
	"two readings of the same clock differ by the time elapsed"},
	func(l *brokenLock) {
		var start time.Time
		l.value = func(int, time.Time) string {
			start = l.env.Wall()
			return l.random()
		}
		remaining := func() time.Duration { return l.cfg.TTL - l.env.Wall().Sub(start) - l.drift }
		l.isValid = func(_, _ time.Time) bool { return remaining() > 0 }
		l.deadlineFrom = func(_, end time.Time) time.Time { return end.Add(remaining()) }
	}}

var silenceAsNotHeld = mistake{Mistake{"silence-is-not-held",
	"reports a release that got no answer as \"not held\", though its keys may still be there",
	"a release that did not succeed found nothing to release"},
	func(l *brokenLock) {
		l.wrapHandle = func(h *handle) lock.Handle {
			return overridingHandle{h, func(err error) error {
				if err != nil {
					return fmt.Errorf("release %q: %w", h.key, lock.ErrNotHeld)
				}
				return nil
			}}
		}
	}}

var lossAsRelease = mistake{Mistake{"loss-is-released",
	"reports success when a release finds that the lock was lost, so its holder never learns of the loss",
	"the key had to go, and it is gone"},
	func(l *brokenLock) {
		l.wrapHandle = func(h *handle) lock.Handle {
			return overridingHandle{h, func(err error) error {
				if errors.Is(err, lock.ErrNotHeld) {
					return nil
				}
				return err
			}}
		}
	}}

// overridingHandle is a handle that changes the result of a release.
type overridingHandle struct {
	*handle
	convert func(error) error
}

func (a overridingHandle) Release(ctx context.Context) error {
	return a.convert(a.handle.Release(ctx))
}

var forgottenNodes = mistake{Mistake{"forgets-failed-nodes",
	"never again contacts a node that once failed to answer, so it lacks votes when other nodes fail later",
	"a server that is down is taken out of the list; somebody will restart the client"},
	func(l *brokenLock) {
		hasFailed, setKey, countVotes := make([]atomic.Bool, len(l.nodes)), l.setKey, l.countVotes
		l.setKey = func(ctx context.Context, node int, key, value string) (int64, error) {
			if hasFailed[node].Load() {
				return 0, errForgotten
			}
			return setKey(ctx, node, key, value)
		}
		l.countVotes = func(try int, granted []driver.Answer) int {
			for _, a := range granted {
				if a.Err != nil {
					hasFailed[a.Node].Store(true)
				}
			}
			return countVotes(try, granted)
		}
	}}

var errForgotten = errors.New("the node failed before")

var lateAnswers = mistake{Mistake{"reads-late-answers",
	"reuses a connection with an overdue reply, and takes that reply for the answer to its next request",
	"an idle connection is as good as a new one, and a handshake costs a round trip"},
	func(l *brokenLock) {
		type line struct {
			mu   sync.Mutex
			owed []chan driver.Answer // pending answers, in the order of the requests
		}
		lines, ask := make([]line, len(l.nodes)), l.ask
		l.ask = func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []driver.Answer {
			return ask(ctx, nodes, func(ctx context.Context, node int) (int64, error) {
				answer, line := make(chan driver.Answer, 1), &lines[node]
				go func() {
					ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driverTries*l.driverWait())
					defer cancel()
					value, err := request(ctx, node)
					answer <- driver.Answer{Value: value, Err: err}
				}()
				line.mu.Lock()
				line.owed = append(line.owed, answer)
				first := line.owed[0]
				line.mu.Unlock()
				select {
				case a := <-first:
					line.mu.Lock()
					line.owed = line.owed[1:]
					line.mu.Unlock()
					return a.Value, a.Err
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
		}
	}}
