package broken

import (
	"context"
	"time"

	"lockpick/harness/lock"
	"lockpick/redlock"
)

// step is one request about a key with a value to one node; its answer is above
// 0 for yes, and 0 for no.
type step func(ctx context.Context, node int, key, value string) (int64, error)

// course is the algorithm's steps. A mistake replaces one.
type course struct {
	now    func() time.Time
	byWall bool          // whether that is the wall clock
	drift  time.Duration // allowed for

	ask     func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []redlock.Answer // a round
	value   func(try int, start time.Time) string                                                                               // that an attempt sets; tries count from 1
	set     step                                                                                                                // of an attempt
	counts  bool                                                                                                                // whether it counts grants, as fencing tokens need it
	quorum  int                                                                                                                 // votes that an attempt needs
	inTime  func(start, end time.Time) bool                                                                                     // whether an attempt left any validity
	until   func(start, end time.Time) time.Time                                                                                // the deadline that it gives
	number  func(ctx context.Context, h *handle) int64                                                                          // the fencing token of a quorum
	give    func(h *handle) lock.Handle                                                                                         // what the caller gets
	undo    func(ctx context.Context, h *handle) []redlock.Answer                                                               // of a failed attempt
	delay   func() time.Duration                                                                                                // before the next
	del     step                                                                                                                // of a release
	holders func(h *handle) []int                                                                                               // nodes that a release asks

	current func(h *handle, start time.Time) bool // whether an extension may begin at start
	extends int                                   // how often one may
	extend  step
	renewal int                                             // votes that it needs
	renewed func(h *handle, start, end time.Time) (ok bool) // whether it ended in time
	further func(start, end time.Time) (until time.Time)    // the deadline that it gives
}

// right is the reference's course.
func (l *broken) right() course {
	majority := redlock.Quorum(len(l.nodes))
	return course{
		now: l.cfg.Now, drift: redlock.Drift(l.cfg.TTL, l.cfg.Drift), counts: true,
		// A mistake may change the configuration.
		ask: func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []redlock.Answer {
			return l.cfg.Ask(ctx, nodes, request)
		},
		value: func(int, time.Time) string { return l.random() }, set: l.setFree, quorum: majority,
		inTime: l.leaves, until: l.fromStart, number: l.highest, give: func(h *handle) lock.Handle { return h },
		undo:  func(ctx context.Context, h *handle) []redlock.Answer { return l.release(ctx, l.all, h, l.delOwn) },
		delay: func() time.Duration { return l.env.Delay(l.retries, l.cfg.RetryMin, l.cfg.RetryMax) },
		del:   l.delOwn, holders: func(*handle) []int { return l.all },

		current: func(h *handle, start time.Time) bool { return start.Before(h.deadline) },
		extends: l.cfg.Extends, extend: l.extendOwn, renewal: majority,
		renewed: func(h *handle, start, end time.Time) bool { return end.Before(h.deadline) && l.leaves(start, end) },
		further: l.fromStart,
	}
}

// random is 20 random bytes, in hexadecimal digits.
func (l *broken) random() string {
	l.drawn++
	return l.env.Token(l.drawn)
}

// setFree sets the key if there is none. Where nodes count, the answer is the
// number of grants.
func (l *broken) setFree(ctx context.Context, node int, key, value string) (int64, error) {
	if l.cfg.Fence {
		return l.nodes[node].SetFenced(ctx, key, value, l.cfg.TTL)
	}
	return number(l.nodes[node].Set(ctx, key, value, l.cfg.TTL))
}

func (l *broken) extendOwn(ctx context.Context, node int, key, value string) (int64, error) {
	return number(l.nodes[node].Extend(ctx, key, value, l.cfg.TTL))
}

func (l *broken) delOwn(ctx context.Context, node int, key, value string) (int64, error) {
	return number(l.nodes[node].Release(ctx, key, value))
}

func (l *broken) leaves(start, end time.Time) bool {
	return redlock.Validity(l.cfg.TTL, end.Sub(start), l.drift) > 0
}

func (l *broken) fromStart(start, _ time.Time) time.Time { return start.Add(l.cfg.TTL - l.drift) }
func (l *broken) fromEnd(_, end time.Time) time.Time     { return end.Add(l.cfg.TTL - l.drift) }

// highest is the highest count of the nodes that granted. It is written back to
// those that are behind, and who doesn't confirm it has no vote.
func (l *broken) highest(ctx context.Context, h *handle) int64 {
	fence, behind := redlock.Highest(h.granted)
	for _, a := range l.ask(ctx, behind, func(ctx context.Context, node int) (int64, error) {
		return number(l.nodes[node].RaiseFence(ctx, h.key, h.value, fence))
	}) {
		h.granted[a.Node] = a
	}
	return fence
}

func number(yes bool, err error) (int64, error) {
	if yes {
		return 1, err
	}
	return 0, err
}
