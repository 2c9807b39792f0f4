//go:build linux

package docker

import (
	"context"
	"fmt"
	"time"

	"lockpick/harness/real/proc"
)

// A question is to be answered in answersIn. Where the links don't answer in linksPatience
// the run is over: all that it asks of anybody goes by them.
const (
	answersIn     = 3 * time.Second // all goes by the engine, which may be busy
	linksPatience = 10 * time.Second
)

// ask puts a question to a ward until the context ends, and once more then.
func (g *guard) ask(ctx context.Context, w ward, answers func(context.Context)) {
	q := proc.Question{Ask: answers, Late: func(waited time.Duration) {
		switch {
		case waited == 0:
			g.still(w, "mute", false, "")
		case waited == answersIn && (w.actor == linksName || g.base.linksAnswer(context.WithoutCancel(ctx))):
			g.still(w, "mute", true, fmt.Sprintf("it answers nothing for %v", answersIn))
		case waited == linksPatience && w.actor == linksName:
			g.run.Fail(fmt.Errorf("the links answer nothing for %v", linksPatience))
		}
	}}
	q.Put(ctx)
	if g.run.Ctx.Err() == nil { // or the run is over, and all is taken down
		q.Last(answersIn)
	}
}

func every(ctx context.Context, d time.Duration, f func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// answers asks it until it answers, or need not.
func (n *node) answers(ctx context.Context) {
	proc.Answers(ctx, n.excused, func(ctx context.Context) error {
		_, err := n.Ask(ctx, n.At, "PING")
		return err
	})
}

// excused says whether a server need not answer: it is just being started or ended, or a
// fault of the plan keeps it from that.
func (n *node) excused() bool {
	if !n.changing.TryLock() {
		return true
	}
	defer n.changing.Unlock()
	return !n.Runs() || n.deaf()
}
