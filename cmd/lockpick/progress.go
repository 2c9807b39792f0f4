package main

import (
	"fmt"
	"strings"
	"time"

	"lockpick/scenarios/outcome"
)

// progress tells on stderr how far a run is that takes over a second: on a terminal in one
// line that is written anew, elsewhere in a line now and then. It is over when stop returns.
type progress struct {
	*report
	shown bool // the line stands on the terminal
	over  bool
}

// redraw is how often a terminal's line is written anew; a second passes between others.
const redraw = 200 * time.Millisecond

func (r *report) progress() (p *progress, stop func()) {
	p = &progress{report: r}
	o, ok := r.errs.(*output)
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
	return p, func() {
		t.Stop()
		close(over)
		r.mu.Lock()
		defer r.mu.Unlock()
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

// text is how far it is: counts, the rate, and the time that is left at that rate.
func (p *progress) text(passed time.Duration) string {
	if p.keeps > 0 {
		return fmt.Sprintf("%d runs done, %.0f s, %d of %d examples kept", p.ended, passed.Seconds(), p.kept, p.keeps)
	}
	parts := []string{fmt.Sprintf("%d of %d runs done", p.ended, p.total)}
	for _, state := range []string{outcome.Unexpected, outcome.Undecided, outcome.Failed} {
		if n := p.suite.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	parts = append(parts, fmt.Sprintf("%.0f s", passed.Seconds()))
	if p.ended > 0 && passed > 0 {
		rate := float64(p.ended) / passed.Seconds()
		parts = append(parts, fmt.Sprintf("%.3g per second", rate), fmt.Sprintf("about %.0f s left", float64(p.total-p.ended)/rate))
	}
	return strings.Join(parts, ", ")
}
