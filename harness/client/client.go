// Package client is the program that each contending client runs, with every backend and every
// lock: think, acquire, read the resource, hold and perhaps extend, check the deadline, write,
// release. Each step is recorded as two events, at its start and at its end.
//
// A Spec says what the client does. An Env is its environment. Points are the places where the
// harness can stop the client. LogKey and the two scripts implement the protected resource, a
// separate server that logs every attempted write, so that its log shows the true order of writes.
//
// Deliberately missing: anything about faults. A client can't distinguish them from bad luck.
package client

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// Errors for scenarios that need more than the lock can do.
var (
	errNoTokens      = errors.New("the resource needs fencing tokens, but this lock doesn't provide any")
	errNotExtendable = errors.New("the workload extends its lock, but this lock can't be extended")
	errNotReentrant  = errors.New("the workload reacquires a lock that it holds, but this lock isn't reentrant")
)

// Run runs the client until it has completed its cycles, its time is up, or ctx is canceled. It
// returns an error only if the client can't do its job at all. If a lock or a resource doesn't
// answer, that is recorded in the history and is not an error.
func Run(ctx context.Context, s Spec, e Env) error {
	silenceRedis()
	p := newProgram(s, e)
	l, err := e.Lock(lock.Env{
		Client: s.Name, Nodes: s.lockNodes(), Dial: e.Dial, Now: p.lockNow, After: e.After, Wall: p.lockWall,
		Random:   func(name string) uint64 { return Random(s.Seed, s.Name, "lock", name) },
		Settings: s.Lock,
	})
	if err != nil {
		return fmt.Errorf("create lock %s for %s: %w", s.Lock.Kind, s.Name, err)
	}
	p.lock, p.resource = l, openResource(s, e)
	p.emit(history.Event{Type: history.Begin, Op: history.OpClient})
	err = p.loop(ctx)
	p.emit(history.Event{Type: history.End, Op: history.OpClient})
	return errors.Join(err, l.Close(), p.resource.db.Close())
}

type program struct {
	s          Spec
	e          Env
	lock       lock.Lock
	resource   *resource
	recordLock chan struct{} // a mutex, full while an event gets its time and is recorded; see lockRecord

	mu        sync.Mutex     // a lock may read its clocks in several goroutines
	passes    map[string]int // how many times the client has reached each point
	acquiring bool
	readings  int // clock readings since the acquire started
}

func newProgram(s Spec, e Env) *program {
	return &program{s: s, e: e, passes: map[string]int{}, recordLock: make(chan struct{}, 1)}
}

func (p *program) loop(ctx context.Context) error {
	// When its time is up, the client stops thinking and acquiring, but finishes its critical
	// section.
	startCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.s.EndTime > 0 {
		timeUp := p.e.After(p.s.EndTime - p.e.TrueTime())
		go func() {
			select {
			case <-timeUp:
				cancel()
			case <-startCtx.Done():
			}
		}()
	}
	for n := 1; p.s.Cycles == 0 || n <= p.s.Cycles; n++ {
		p.think(startCtx, n)
		if startCtx.Err() != nil {
			return nil
		}
		if err := p.cycle(ctx, startCtx, n); err != nil {
			return err
		}
	}
	return nil
}

// think sleeps before cycle n. The time the client's process took to start counts as thinking time,
// so that clients that are meant to begin together do so even if some processes start more slowly.
func (p *program) think(ctx context.Context, n int) {
	d := p.s.ThinkTime.Draw(Random(p.s.Seed, p.s.Name, "think", strconv.Itoa(n)))
	if n == 1 && p.s.StartTime > 0 {
		d -= p.e.TrueTime() - p.s.StartTime
	}
	p.sleep(ctx, d)
}

func (p *program) cycle(ctx, startCtx context.Context, n int) error {
	c := &section{program: p, key: p.s.Keys[(n-1)%len(p.s.Keys)], session: fmt.Sprintf("%s/%d", p.s.Name, n)}
	if !c.acquire(startCtx) {
		return c.fatalErr
	}
	if p.s.Fence == FenceToken && c.fence == 0 {
		return errNoTokens
	}
	if _, ok := c.handle.(lock.Extender); p.s.ExtendInterval > 0 && !ok {
		return errNotExtendable
	}
	if p.s.Reentries > 0 && !p.s.Lock.Reenter {
		return errNotReentrant
	}
	c.watchLoss(ctx)
	p.atPoint(AfterAcquire)
	c.work(ctx, p.s.HoldTime.Draw(Random(p.s.Seed, p.s.Name, "hold", strconv.Itoa(n))))
	p.atPoint(BeforeRelease)
	c.release(ctx)
	return errors.Join(c.fatalErr, ctx.Err())
}

// lockNow is the lock's monotonic clock. Each attempt reads it twice, before and after contacting
// the nodes. The second reading is Redlock's defense against messages delayed in flight, so
// DuringAcquire is the point just before that reading.
func (p *program) lockNow() time.Time {
	p.countReading()
	return p.e.Now()
}

// lockWall is the lock's wall clock, which some locks read instead of lockNow.
func (p *program) lockWall() time.Time {
	p.countReading()
	return p.e.WallNow()
}

func (p *program) countReading() {
	p.mu.Lock()
	if p.acquiring {
		p.readings++
	}
	isSecond := p.acquiring && p.readings%2 == 0
	p.mu.Unlock()
	if isSecond {
		p.atPoint(DuringAcquire)
	}
}

// setAcquiring marks the start or the end of an acquire and resets the number of readings.
func (p *program) setAcquiring(acquiring bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acquiring, p.readings = acquiring, 0
}

// atPoint stops the client at a point if this occurrence of the point is armed.
func (p *program) atPoint(point string) {
	p.mu.Lock()
	p.passes[point]++
	nth := p.passes[point]
	p.mu.Unlock()
	for _, a := range p.s.ArmedPoints {
		if a.Name == point && (a.Nth == 0 || a.Nth == nth) {
			p.e.OnPoint(point)
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

// lockRecord keeps the client's other goroutines from recording events until unlock is called, so
// that events are recorded in the order of their times. It uses a channel instead of a mutex
// because the client may be paused while holding it: simulated time advances while goroutines wait
// for channels, but not while they wait for mutexes.
func (p *program) lockRecord() (unlock func()) {
	p.recordLock <- struct{}{}
	return func() { <-p.recordLock }
}

// emit records one of the client's events. If the event has no time, it gets the current time.
func (p *program) emit(e history.Event) {
	defer p.lockRecord()()
	p.emitLocked(e)
}

// emitLocked is like emit, for callers that have called lockRecord.
func (p *program) emitLocked(e history.Event) {
	e.Process = p.s.Name
	if e.T == 0 {
		e.T = int64(p.e.TrueTime())
	}
	p.e.Emit(e)
}

// Points at which a client can be stopped. At an armed point, the client notifies the harness and
// waits until the harness lets it continue.
const (
	DuringAcquire        = "during-acquire"          // inside an attempt's second clock reading, just before the clock is read
	AfterAcquire         = "after-acquire"           // the lock is held, but nothing has been read yet
	betweenCheckAndWrite = "between-check-and-write" // the client's lease is valid, but nothing has been written yet
	BeforeRelease        = "before-release"          // the work is done, but the release has not been sent yet
)

// Points lists the points in the order in which a cycle reaches them.
var Points = []string{DuringAcquire, AfterAcquire, betweenCheckAndWrite, BeforeRelease}

// Fencing modes of the resource.
const (
	FenceNone     = "none"          // every write is applied
	FenceToken    = "token"         // writes with a token below the highest seen so far are rejected (Kleppmann 2016)
	FenceCounter  = "counter"       // the same, but the client's read after the acquire draws the token (antirez 2016)
	FenceCheckSet = "check-and-set" // the read sets a claim, and a write is rejected if another claim has replaced it (antirez 2016)
)

// Spec says what one client does. It is plain data, and is passed to a subprocess as one line of
// JSON. Durations are already scaled.
type Spec struct {
	Name           string        `json:"name"` // c1, c2, …
	Seed           uint64        `json:"seed"`
	Lock           lock.Settings `json:"lock"`
	Nodes          []lock.Node   `json:"nodes"`               // set by the backend
	Addresses      []string      `json:"addresses,omitempty"` // node names in the lock's configuration; nil: all nodes
	Resource       lock.Node     `json:"resource"`            // set by the backend
	Keys           []string      `json:"keys"`                // locks that the client uses in turn
	Fence          string        `json:"fence"`               // fencing mode of the resource
	Writes         int           `json:"writes"`              // writes per critical section
	Cycles         int           `json:"cycles"`              // number of cycles; 0: no limit but EndTime
	EndTime        time.Duration `json:"until"`               // true time after which the client starts no further cycle or acquire; 0: no limit
	StartTime      time.Duration `json:"start,omitempty"`     // true time at which the client's process was started; 0: starting takes no time
	ThinkTime      Range         `json:"think"`               // pause before each cycle
	HoldTime       Range         `json:"hold"`                // time between read and check
	PrepareTime    Range         `json:"prepare"`             // time between check and write
	CancelAfter    time.Duration `json:"cancel,omitempty"`    // time after which the client cancels a pending acquire; 0: never
	ExtendInterval time.Duration `json:"extend"`              // interval between extensions; 0: no extensions
	Reentries      int           `json:"reenter,omitempty"`   // number of times the client reacquires a held lock; it releases these acquisitions halfway through HoldTime
	NoCheck        bool          `json:"noCheck"`             // the client does not check its deadline before writing
	ArmedPoints    []Point       `json:"armed"`               // where the client stops
}

// lockNodes returns the nodes in the lock's configuration.
func (s Spec) lockNodes() []lock.Node {
	if s.Addresses == nil {
		return s.Nodes
	}
	var out []lock.Node
	for _, name := range s.Addresses {
		if i := slices.IndexFunc(s.Nodes, func(n lock.Node) bool { return n.Name == name }); i >= 0 {
			out = append(out, s.Nodes[i])
		}
	}
	return out
}

// Range is a range of durations to draw from, including both ends.
type Range struct {
	Min time.Duration `json:"min"`
	Max time.Duration `json:"max"`
}

// Point is the nth time a client reaches a point, counted from 1. Nth 0 means every time.
type Point struct {
	Name string `json:"name"`
	Nth  int    `json:"nth"`
}

// Env is a client's environment: virtual time and simulated connections in the simulation, real
// ones in a subprocess.
type Env struct {
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	Now      func() time.Time                       // the client's monotonic clock
	WallNow  func() time.Time                       // the client's wall clock
	After    func(d time.Duration) <-chan time.Time // the client's timer
	TrueTime func() time.Duration                   // true time since the start of the run
	Emit     func(history.Event)                    // records an event; the client sets the event's time
	// OnPoint is called at each armed point. It blocks while the harness carries out the step planned
	// for this point.
	OnPoint func(point string)
	// Lock creates the lock under test.
	Lock lock.Factory
}

// Random returns a number that depends only on the seed and the names, and not on how many numbers
// have been drawn before.
func Random(seed uint64, names ...string) uint64 {
	h := fnv.New64a()
	for i := range 8 {
		h.Write([]byte{byte(seed >> (8 * i))})
	}
	for _, n := range names {
		h.Write([]byte(n))
		h.Write([]byte{0})
	}
	return mix(h.Sum64())
}

// mix is the finalizer of splitmix64 (Steele, Lea and Flood 2014). FNV alone yields similar low
// bits for similar names.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Draw maps the random number r to a duration in the range.
func (g Range) Draw(r uint64) time.Duration {
	if g.Max <= g.Min {
		return g.Min
	}
	return g.Min + time.Duration(r%uint64(g.Max-g.Min+1))
}

// reenter reacquires the held lock as many times as the workload specifies, works for d, and
// releases each of these acquisitions. It reports whether the client should continue working.
//
//	acquire   reacquire         release one            release
//	   |==========|=====================|=====================|
//	              extend                extend
//
// To the checker this is a single hold, from the first acquire to the last release. Everything in
// between is recorded as an extension: if it succeeds, the lock is known to be held, and until
// when. So if the first release already frees the lock, its holder still considers the lock its own
// while another client acquires it.
func (c *section) reenter(ctx context.Context, d time.Duration) bool {
	var innerHandles []lock.Handle
	proceed := true
	for n := 0; proceed && n < c.s.Reentries; n++ {
		var h lock.Handle
		if h, proceed = c.reacquire(ctx); h != nil {
			innerHandles = append(innerHandles, h)
		}
	}
	proceed = proceed && c.hold(c.loss.cancelOnLoss(ctx, c.s.NoCheck), d)
	for _, h := range slices.Backward(innerHandles) {
		if !c.releaseInner(ctx, h) {
			proceed = false
		}
	}
	return proceed
}

// reacquire acquires the held lock once more. This should not take long, so the client gives up
// when the lease is over: a lock granted later would be a new hold that began at an unknown time.
func (c *section) reacquire(ctx context.Context) (_ lock.Handle, proceed bool) {
	isExpired := func() bool {
		deadline := c.lease.deadline()
		return c.loss.notified() || !deadline.IsZero() && !c.clock().Before(deadline)
	}
	if isExpired() {
		return nil, c.s.NoCheck || c.check()
	}
	deadline := c.lease.deadline()
	e := markExtension(c.event(history.Invoke, history.OpExtend), history.OpAcquire)
	c.emit(e)
	acquireCtx, cancel := c.withTimeout(ctx, c.replyTimeout())
	defer cancel()
	h, err := c.lock.Acquire(acquireCtx, c.key)
	switch {
	case err != nil:
		c.fail(failureType(err), history.OpExtend, err)
		return nil, failureType(err) != history.Fail
	case isExpired():
		e.Type, e.Cause = history.Info, "it was acquired when the lease was over"
		c.emit(e)
		return h, false
	}
	if h.Deadline().After(deadline) {
		deadline = h.Deadline()
	}
	c.recordExtension(deadline, history.OpAcquire)
	return h, true
}

// releaseInner releases one of several acquisitions, which is recorded as an extension.
func (c *section) releaseInner(ctx context.Context, h lock.Handle) (proceed bool) {
	c.emit(markExtension(c.event(history.Invoke, history.OpExtend), history.OpRelease))
	if err := h.Release(ctx); err != nil {
		c.fail(failureType(err), history.OpExtend, err)
		return failureType(err) != history.Fail
	}
	c.recordExtension(c.lease.deadline(), history.OpRelease)
	return true
}
