// Package client is the program that one contender runs, the same for every
// backend and every lock: think, acquire, read the resource, hold and perhaps
// extend, check the deadline, write, release. Each step is an event, written before it starts and
// when it ends.
//
// A Spec says what to do, an Env is the world it is done in. Points are the
// places where the harness can stop the client exactly. ResourceKey and the two
// scripts are the protected resource: a server of its own that logs each
// attempt, so that its log gives the true order of writes.
//
// Deliberately missing: anything about faults. A client can't tell them from
// bad luck.
package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// What the scenario asks of the lock and it can't do.
var (
	errNoTokens  = errors.New("the resource wants fencing tokens, and this lock gives none")
	errNoExtends = errors.New("the workload extends its lock, and this lock can't be extended")
	errNoReenter = errors.New("the workload acquires a lock that it holds again, and this lock can't be")
)

// Run does what the spec says until its cycles or its time are over, or ctx
// ends. It returns an error only if it could not do its part at all; a lock or
// a resource that doesn't answer is a fact for the history.
func Run(ctx context.Context, s Spec, e Env) error {
	silence()
	p := &program{s: s, e: e, seen: map[string]int{}}
	l, err := e.Lock(lock.Env{
		Client: s.Name, Nodes: s.configured(), Dial: e.Dial, Now: p.lockNow, After: e.After, Wall: p.lockWall,
		Random:   func(name string) uint64 { return Random(s.Seed, s.Name, "lock", name) },
		Settings: s.Lock,
	})
	if err != nil {
		return fmt.Errorf("make lock %s for %s: %w", s.Lock.Kind, s.Name, err)
	}
	p.lock, p.resource = l, openResource(s, e)
	p.emit(history.Event{Type: history.Begin, Op: history.OpClient})
	err = p.loop(ctx)
	p.emit(history.Event{Type: history.End, Op: history.OpClient})
	return errors.Join(err, l.Close(), p.resource.db.Close())
}

type program struct {
	s        Spec
	e        Env
	lock     lock.Lock
	resource *resource

	mu        sync.Mutex     // a lock may read its clocks in goroutines of its own
	seen      map[string]int // how often each point was passed
	acquiring bool
	readings  int // of the clock, since the acquire began
}

func (p *program) loop(ctx context.Context) error {
	// Acquiring and thinking end with the client's time; a critical section is finished.
	begin, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.s.Until > 0 {
		over := p.e.After(p.s.Until - p.e.True())
		go func() {
			select {
			case <-over:
				cancel()
			case <-begin.Done():
			}
		}()
	}
	for n := 1; p.s.Cycles == 0 || n <= p.s.Cycles; n++ {
		p.think(begin, n)
		if begin.Err() != nil {
			return nil
		}
		if err := p.cycle(ctx, begin, n); err != nil {
			return err
		}
	}
	return nil
}

// think sleeps before cycle n. What its process took to start counts as thought,
// so that clients that are to begin together do, however long each took.
func (p *program) think(ctx context.Context, n int) {
	d := p.s.Think.Draw(Random(p.s.Seed, p.s.Name, "think", strconv.Itoa(n)))
	if n == 1 && p.s.Start > 0 {
		d -= p.e.True() - p.s.Start
	}
	p.sleep(ctx, d)
}

func (p *program) cycle(ctx, begin context.Context, n int) error {
	c := &section{program: p, key: p.s.Keys[(n-1)%len(p.s.Keys)], session: fmt.Sprintf("%s/%d", p.s.Name, n)}
	if !c.acquire(begin) {
		return c.broken
	}
	if p.s.Fence == FenceToken && c.fence == 0 {
		return errNoTokens
	}
	if _, ok := c.handle.(lock.Extender); p.s.Extend > 0 && !ok {
		return errNoExtends
	}
	if p.s.Reenter > 0 && !p.s.Lock.Reenter {
		return errNoReenter
	}
	c.listen(ctx)
	p.at(AfterAcquire)
	c.work(ctx, p.s.Hold.Draw(Random(p.s.Seed, p.s.Name, "hold", strconv.Itoa(n))))
	p.at(BeforeRelease)
	c.release(ctx)
	return errors.Join(c.broken, ctx.Err())
}

// lockNow is the clock that the lock reads. Each attempt reads it twice, before
// it asks the nodes and after: the second reading is the point that Redlock's
// answer to delays in flight turns on.
func (p *program) lockNow() time.Time {
	p.reading()
	return p.e.Now()
}

// lockWall is the other clock that it may read instead.
func (p *program) lockWall() time.Time {
	p.reading()
	return p.e.Wall()
}

func (p *program) reading() {
	p.mu.Lock()
	if p.acquiring {
		p.readings++
	}
	second := p.acquiring && p.readings%2 == 0
	p.mu.Unlock()
	if second {
		p.at(DuringAcquire)
	}
}

// acquires notes that an acquire begins or has ended.
func (p *program) acquires(now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acquiring, p.readings = now, 0
}

// at stops at a point if this occurrence of it is armed.
func (p *program) at(point string) {
	p.mu.Lock()
	p.seen[point]++
	nth := p.seen[point]
	p.mu.Unlock()
	for _, a := range p.s.Armed {
		if a.Name == point && (a.Nth == 0 || a.Nth == nth) {
			p.e.At(point)
			return
		}
	}
}

func (p *program) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-p.e.After(d):
	case <-ctx.Done():
	}
}

// emit records a fact of this client, now unless it has a stamp.
func (p *program) emit(e history.Event) {
	e.Process = p.s.Name
	if e.T == 0 {
		e.T = int64(p.e.True())
	}
	p.e.Emit(e)
}
