package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/nemesis"
)

// faults are what is done to the cluster: each comes when it is its turn on its targets,
// is read back, and is healed once.
type faults struct {
	cluster Cluster
	rec     record
	waits   *waits
	queues  *queues // of each target; stopped at the limit, and closed when the clients are done
	nests   *nests

	mu      sync.Mutex
	active  []*active // that are in force
	failed  []error   // that could not be healed
	ends    []ended   // that were healed
	healing bool      // the clients are done, and what is in force is ended
}

// active is a fault that is in force on one target.
type active struct {
	step   int
	kind   string
	target string
	heal   func() (string, error)
	over   time.Duration // when it ends by itself; 0: it doesn't
	queued *queued
}

// ended is a fault that was healed, and whether it was idle: in force, and met by
// nothing.
type ended struct {
	*active
	back string
	idle bool
}

// idle says whether an error of Heal's is none.
func idle(err error) bool { return errors.Is(err, nemesis.ErrIdle) }

// inject brings a fault into force on its targets, all at once, when it is its turn and
// if it is to come then. It returns those of them that have a way back.
func (fs *faults) inject(step int, f nemesis.Fault, targets []*queued, comes func() bool, healBy func() (string, error)) (begun []*active, fired bool) {
	if !fs.queues.turn(targets) || !comes() || !fs.queues.enter() {
		fs.queues.leave(targets...)
		return nil, false
	}
	defer fs.queues.fired()
	kind, _ := nemesis.KindOf(f.Kind)
	for _, p := range targets {
		fs.rec.add(history.Event{Process: history.Nemesis, Type: history.Invoke, Op: kind.Recorded(), Node: p.target, Step: step + 1})
	}
	// To read a fault back takes time on a real backend, and one target's must not
	// keep the next one waiting.
	effects := make([]effect, len(targets))
	var done sync.WaitGroup
	for i, p := range targets {
		done.Go(func() {
			x := &effects[i]
			x.Effect, x.err = fs.nests.inject(kind, f, p.target)
			x.at = fs.cluster.Now()
		})
	}
	done.Wait()
	for i, p := range targets {
		if a := fs.recordBegin(step, kind, p, effects[i], healBy); a != nil {
			begun = append(begun, a)
		} else {
			fs.queues.leave(p)
		}
	}
	fs.mu.Lock()
	fs.active = append(fs.active, begun...)
	fs.mu.Unlock()
	fs.queues.begin(targets)
	return begun, true
}

// recordBegin records what came of a fault on one target, and returns it if it has a
// way back.
func (fs *faults) recordBegin(step int, kind nemesis.Kind, p *queued, x effect, healBy func() (string, error)) *active {
	ev := history.Event{T: int64(x.at), Process: history.Nemesis, Type: history.Begin, Op: kind.Recorded(), Node: p.target, Step: step + 1, Cause: x.ReadBack}
	if kind.Again && errors.Is(x.err, nemesis.ErrEnded) {
		return nil // it came once too often
	}
	if x.err != nil {
		ev.Type, ev.Cause = history.Fail, x.err.Error()
		fs.rec.add(ev)
		return nil
	}
	fs.rec.add(ev)
	if x.Heal == nil {
		x.Heal = healBy
	}
	if x.Heal == nil {
		return nil
	}
	return &active{step: step, kind: kind.Recorded(), target: p.target, heal: x.Heal, over: x.Over, queued: p}
}

// effect is what came of injecting a fault on one target.
type effect struct {
	nemesis.Effect
	err error
	at  time.Duration
}

// planEnd counts how long a fault lasts from when it is in force, so that what came
// late is no shorter: a node that forgets is down for as long as its grants may last.
func (fs *faults) planEnd(f nemesis.Fault, begun []*active) {
	for _, a := range begun {
		if f.For == nil && a.over > 0 {
			fs.queues.due(a.queued, a.queued.at+a.over)
		}
		fs.whenOver(f, a.over, func() { fs.heal(a) })
	}
}

// whenOver calls end when a fault is over that is in force now: after a time, where it ends by
// itself after one, or upon an event.
func (fs *faults) whenOver(f nemesis.Fault, byItself time.Duration, end func()) {
	switch {
	case f.For != nil:
		fs.cluster.At(fs.cluster.Now()+f.Timer.True(*f.For), end)
	case byItself > 0:
		fs.cluster.At(fs.cluster.Now()+byItself, end)
	case f.Until != nil:
		fs.waits.await(*f.Until, nil, end)
	}
}

// heal ends a fault once. The end is stamped before healing begins, as the begin
// is once the fault was seen: in between it was certainly in force, and nothing
// that the healed do can fall inside.
func (fs *faults) heal(a *active) {
	fs.mu.Lock()
	i := slices.Index(fs.active, a)
	if i < 0 {
		fs.mu.Unlock()
		return
	}
	fs.active = slices.Delete(fs.active, i, i+1)
	fs.mu.Unlock()
	at := fs.cluster.Now()
	fs.queues.due(a.queued, at)
	defer fs.queues.leave(a.queued)
	back, err := a.heal()
	if err != nil && !idle(err) {
		fs.mu.Lock()
		fs.failed = append(fs.failed, fmt.Errorf("end %s of %s (step %d): %w", a.kind, a.target, a.step+1, err))
		fs.mu.Unlock()
		return
	}
	fs.rec.add(history.Event{T: int64(at), Process: history.Nemesis, Type: history.End, Op: a.kind, Node: a.target, Step: a.step + 1, Cause: back})
	fs.mu.Lock()
	fs.ends = append(fs.ends, ended{a, back, idle(err)})
	fs.mu.Unlock()
}

// healAll ends what is still in force when the clients are done.
func (fs *faults) healAll(ctx context.Context) {
	fs.mu.Lock()
	fs.healing = true
	left := slices.Clone(fs.active)
	fs.mu.Unlock()
	for _, a := range left {
		// Each at an instant of its own.
		pause(ctx, fs.cluster, time.Microsecond)
		fs.heal(a)
	}
}

// ending reports whether what is in force is being ended.
func (fs *faults) ending() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.healing
}

// unhealed is what went wrong in healing.
func (fs *faults) unhealed() error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return errors.Join(fs.failed...)
}

// recordIdle records each step as failed that hit nothing on any of its targets.
// One target that it missed is chance; a step that met nobody did not take place,
// and a run that was to show it shows nothing. What the dice drew is to show nothing
// of its own.
func (fs *faults) recordIdle(plan nemesis.Plan) {
	fs.mu.Lock()
	all := fs.ends
	fs.mu.Unlock()
	hit := map[int]bool{}
	for _, a := range all {
		hit[a.step] = hit[a.step] || !a.idle
	}
	for _, a := range all {
		if !hit[a.step] && !plan[a.step].Drawn {
			fs.rec.add(history.Event{Process: history.Nemesis, Type: history.Fail, Op: a.kind, Node: a.target, Step: a.step + 1, Cause: nemesis.ErrIdle.Error() + ": " + a.back})
		}
	}
}

// pause waits by the cluster's clock, or until the run is stopped: a cluster then
// calls nothing any more.
func pause(ctx context.Context, c Cluster, d time.Duration) {
	done := make(chan struct{})
	c.At(c.Now()+d, func() { close(done) })
	select {
	case <-done:
	case <-ctx.Done():
	}
}
