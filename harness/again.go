package harness

import (
	"fmt"
	"sync/atomic"
	"time"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// again lets faults come again and again.
type again struct {
	cluster Cluster
	faults  *faults
	dice    dice
	gone    func(target string) bool // it has ended, and nothing can hit it
}

// start lets a fault come again and again on each of its targets, until its time is
// over, the run is, or the target has ended.
func (a again) start(step int, f nemesis.Fault, targets []string) {
	var over atomic.Bool
	stop := func() { over.Store(true) }
	stopped := func(target string) bool { return over.Load() || a.faults.ending() || a.gone(target) }
	after := func(d time.Duration, f func()) { a.cluster.At(a.cluster.Now()+d, f) }
	for _, target := range targets {
		var next func(k int)
		next = func(k int) {
			after(a.dice.even(f.Every, step, target, "every", k), func() {
				if stopped(target) {
					return
				}
				lasts := a.dice.even(f.Every, step, target, "lasts", k)
				if f.Lasts != (nemesis.Span{}) {
					lasts = f.Lasts.Heavy(a.dice.random(step, target, "lasts", k))
				}
				now := a.cluster.Now()
				begun, _ := a.faults.inject(step, f, a.faults.queues.join([]string{target}, now, now+lasts), func() bool { return !stopped(target) }, nil)
				if len(begun) == 0 {
					return // it could not be done, and the record says so
				}
				after(lasts, func() {
					for _, one := range begun {
						a.faults.heal(one)
					}
					next(k + 1)
				})
			})
		}
		next(1)
	}
	a.faults.whenOver(f, 0, stop)
}

// dice are a seed.
type dice uint64

// even draws a duration evenly, by the seed and its own name.
func (d dice) even(s nemesis.Span, step int, target, what string, k int) time.Duration {
	return client.Range(s).Draw(d.random(step, target, what, k))
}

func (d dice) random(step int, target, what string, k int) uint64 {
	return client.Random(uint64(d), "step", fmt.Sprint(step), target, what, fmt.Sprint(k))
}
