package harness

import (
	"fmt"
	"math"
	"time"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// fireAgain lets a fault come again and again on each of its targets, until its
// time is over, the run is, or the target has ended.
func (e *engine) fireAgain(step int, f nemesis.Fault) {
	over := false // guarded by mu
	stop := func() {
		e.mu.Lock()
		over = true
		e.mu.Unlock()
	}
	stopped := func(target string) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return over || e.healing || e.gone[target]
	}
	for _, target := range e.s.Targets(e.s.Plan[step]) {
		var next func(k int)
		next = func(k int) {
			e.after(e.draw(f.Every, step, target, "every", k), func() {
				if stopped(target) {
					return
				}
				lasts := e.draw(f.Every, step, target, "lasts", k)
				if f.Lasts != (nemesis.Span{}) {
					lasts = e.drawHeavy(f.Lasts, step, target, "lasts", k)
				}
				now := e.cluster.Now()
				begun, _ := e.inject(step, f, e.queues.join([]string{target}, now, now+lasts), func() bool { return !stopped(target) }, nil)
				if len(begun) == 0 {
					return // it could not be done, and the record says so
				}
				e.after(lasts, func() {
					for _, a := range begun {
						e.heal(a)
					}
					next(k + 1)
				})
			})
		}
		next(1)
	}
	switch {
	case f.For != nil:
		e.after(*f.For, stop)
	case f.Until != nil:
		e.mu.Lock()
		e.await(*f.Until, nil, stop)
		e.mu.Unlock()
	}
}

func (e *engine) after(d time.Duration, f func()) { e.cluster.At(e.cluster.Now()+d, f) }

// draw draws a duration evenly, by the seed and its own name.
func (e *engine) draw(s nemesis.Span, step int, target, what string, k int) time.Duration {
	return client.Range(s).Draw(e.random(step, target, what, k))
}

// drawHeavy draws a duration so that each order of magnitude comes equally often:
// most are short, and some are long.
func (e *engine) drawHeavy(s nemesis.Span, step int, target, what string, k int) time.Duration {
	u := float64(e.random(step, target, what, k)>>11) / (1 << 53)
	return time.Duration(float64(s.Min) * math.Pow(float64(s.Max)/float64(s.Min), u))
}

func (e *engine) random(step int, target, what string, k int) uint64 {
	return client.Random(e.seed, "step", fmt.Sprint(step), target, what, fmt.Sprint(k))
}
