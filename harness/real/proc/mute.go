package proc

import (
	"context"
	"math"
	"time"
)

// A question is put each askEvery. How long its answer takes is counted in steps of this
// process's own time: where it stands still itself, nobody is late.
const (
	askEvery = 200 * time.Millisecond
	waitStep = 20 * time.Millisecond
)

// Question is put over and over to somebody who is to answer in time.
type Question struct {
	Ask func(context.Context) // returns once it is answered, or need not be
	// Late is told at each step how long an answer has been due.
	Late func(waited time.Duration)
}

// Answers returns once a server answers, or is excused: then nothing is due from when it
// is not any more.
func Answers(ctx context.Context, excused func() bool, ask func(context.Context) error) {
	for ctx.Err() == nil && !excused() {
		limit, cancel := context.WithTimeout(ctx, askEvery)
		err := ask(limit)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(waitStep):
		}
	}
}

// Last puts it once more, and waits for so long at most.
func (q Question) Last(patience time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q.answered(ctx, patience)
}

// Put puts it until the context ends.
func (q Question) Put(ctx context.Context) {
	for {
		q.answered(ctx, math.MaxInt64-waitStep)
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(askEvery):
		}
	}
}

// answered asks once, and waits for the answer until patience runs out.
func (q Question) answered(ctx context.Context, patience time.Duration) {
	done := make(chan struct{})
	go func() { defer close(done); q.Ask(ctx) }()
	for waited := waitStep; waited <= patience; waited += waitStep {
		select {
		case <-done:
			return
		case <-time.After(waitStep):
			q.Late(waited)
		}
	}
}
