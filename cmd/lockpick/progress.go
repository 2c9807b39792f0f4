package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lockpick/scenarios/outcome"
)

// progress tells on stderr how far something is that takes over a second: on a terminal in one
// line that is written anew, elsewhere in a line now and then. It is over when stop returns.
type progress struct {
	errs    io.Writer
	mu      *sync.Mutex // its caller's
	started time.Time
	text    func(passed time.Duration) string
	shown   bool // the line stands on the terminal
	over    bool
}

// redraw is how often a terminal's line is written anew; a second passes between others.
const redraw = 200 * time.Millisecond

func (p *progress) start() (stop func()) {
	o, ok := p.errs.(*output)
	every := time.Second
	if ok && o.screen.redraws {
		every = redraw
	}
	t := time.NewTicker(every)
	over := make(chan struct{})
	go func() {
		for n := 1; ; n++ {
			select {
			case <-t.C:
				if every == redraw {
					p.draw()
				} else if n == 1 || n%5 == 0 {
					p.say("\n")
				}
			case <-over:
				return
			}
		}
	}()
	return func() {
		t.Stop()
		close(over)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.erase()
		p.over = true
	}
}

func (p *progress) say(end string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		fmt.Fprint(p.errs, p.text(time.Since(p.started))+end)
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || time.Since(p.started) < time.Second/2 {
		return
	}
	line := []rune(p.text(time.Since(p.started)))
	fmt.Fprint(p.errs, string(anew)+string(line[:min(len(line), width(p.errs)-1)]))
	p.shown = true
}

// erase makes room for a line of the result. Its caller has the lock.
func (p *progress) erase() {
	if p != nil && p.shown {
		fmt.Fprint(p.errs, string(anew))
		p.shown = false
	}
}

// progress says how far the runs are, and about how long the rest will take.
func (r *report) progress(passed time.Duration) string {
	if r.keeps > 0 {
		return fmt.Sprintf("%d runs done, %.0f s, %d of %d examples kept", r.ended, passed.Seconds(), r.kept, r.keeps)
	}
	parts := []string{fmt.Sprintf("%d of %d runs done", r.ended, r.total)}
	for _, state := range []string{outcome.Unexpected, outcome.Undecided, outcome.Failed, outcome.Interrupted} {
		if n := r.suite.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	parts = append(parts, fmt.Sprintf("%.0f s", passed.Seconds()))
	if left, ok := r.left(time.Now()); ok {
		parts = append(parts, fmt.Sprintf("about %.0f s left", left.Seconds()))
	}
	return strings.Join(parts, ", ")
}

// recentRuns is over how many runs the time that is left is averaged.
const recentRuns = 20

// left estimates the time that is left from how long the most recent runs took, and the wait since.
func (r *report) left(now time.Time) (time.Duration, bool) {
	n := len(r.recent)
	if n < 2 {
		return 0, false
	}
	each := r.recent[n-1].Sub(r.recent[0]) / time.Duration(n-1)
	each = max(each, now.Sub(r.recent[0])/time.Duration(n)) // no run has ended for longer than usual
	return each * time.Duration(r.total-r.ended), true
}
