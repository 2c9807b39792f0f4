package exhaust

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
)

// Real runs use such a short TTL that many messages are in flight for longer.
const (
	runTTL     = 100 * time.Millisecond
	runTimeout = 45 * time.Millisecond
)

// run runs two real clients with simulated nodes and random network delays. It records all events
// as steps of the model.
type run struct {
	mu        sync.Mutex
	rng       *rand.Rand
	commands  commands // with 0 in place of the token
	nodes     []*instance
	startTime time.Time
	clockRate float64     // of the nodes
	tokens    [2][]string // tokens of attempts, by client
	steps     []Step
	connect   func(countingConn) redlock.Node // wraps a client's connection to a node
	// hardened is the clients' configuration if they are Lockers, or nil. With Lockers, a crash
	// drops messages in flight to the node.
	hardened           *redlock.Config
	crashCounts        [MaxNodes]int
	quarantineRefusals int // SETs refused in quarantine
}

func (r *run) record(s Step) { r.steps = append(r.steps, s) }

// stepOf returns a step of the attempt with the given token.
func (r *run) stepOf(a action, c int, token string) Step {
	return Step{Action: a, Client: c + 1, Attempt: slices.Index(r.tokens[c], token) + 1}
}

// delay returns a random delay, usually much shorter than the timeout but sometimes longer than the
// TTL.
func (r *run) delay() time.Duration {
	if r.rng.IntN(3) == 0 {
		return time.Duration(r.rng.IntN(150_000)) * time.Microsecond
	}
	return time.Duration(r.rng.IntN(1000)) * time.Microsecond
}

// conn is a client's connection to a node.
type conn struct {
	*run
	client, node int
}

// scheduleWindowEnd records the end of a window that begins now.
func (w conn) scheduleWindowEnd(token string) {
	time.AfterFunc(runTTL-redlock.Drift(runTTL, drift), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.record(w.stepOf(windowEnded, w.client, token))
	})
}

func (w conn) send(ctx context.Context, a action, token string) (bool, error) {
	count, err := w.ask(ctx, a, token)
	return count > 0, err
}

// ask sends a request, with the given last arguments, and returns the reply as a count: 0 if the
// node refused.
func (w conn) ask(ctx context.Context, a action, token string, last ...string) (int64, error) {
	w.mu.Lock()
	requestDelay, replyDelay := w.delay(), w.delay()
	crashes := w.crashCounts[w.node]
	w.mu.Unlock()
	answer := make(chan int64, 1)
	go func() {
		time.Sleep(requestDelay)
		w.mu.Lock()
		if w.hardened != nil && w.crashCounts[w.node] != crashes {
			w.mu.Unlock()
			return
		}
		n := w.nodes[w.node]
		n.now = int64(float64(time.Since(w.startTime)) * w.clockRate)
		args := slices.Clone(w.commands[a])
		args[slices.Index(args, "0")] = token
		if i := slices.Index(args, "k:gone:0"); i > 0 {
			args[i] = "k:gone:" + token
		}
		reply, err := n.Do(append(args[:len(args)-len(last)], last...)...)
		if err != nil && strings.HasPrefix(err.Error(), "QUARANTINE") {
			w.quarantineRefusals++
			w.mu.Unlock()
			return
		} else if err != nil {
			panic(err)
		}
		count, _ := reply.(int64)
		if reply == "OK" {
			count = 1
		}
		s := w.stepOf(a, w.client, token)
		s.Node, s.Yes = w.node+1, count > 0
		granted := s
		granted.Yes = true
		if a != delArrived || s.Yes || !slices.Contains(w.steps, s) && !slices.Contains(w.steps, granted) { // otherwise it is a repeated DEL without effect
			w.record(s)
		}
		w.mu.Unlock()
		time.Sleep(replyDelay)
		answer <- count
	}()
	select {
	case count := <-answer:
		return count, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// start records the start of an attempt with its first request.
func (w conn) start(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.tokens[w.client], token) {
		w.tokens[w.client] = append(w.tokens[w.client], token)
		w.record(w.stepOf(attemptStarted, w.client, token))
		w.scheduleWindowEnd(token)
	}
}

func (w conn) Set(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	w.start(token)
	return w.send(ctx, setArrived, token)
}

func (w conn) Extend(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	w.mu.Lock()
	if s := w.stepOf(extendStarted, w.client, token); !slices.Contains(w.steps, s) {
		w.record(s)
		w.scheduleWindowEnd(token)
	}
	w.mu.Unlock()
	return w.send(ctx, extendArrived, token)
}

func (w conn) Release(ctx context.Context, _, token string) (bool, error) {
	w.mu.Lock()
	if s := w.stepOf(lockReleased, w.client, token); !slices.Contains(w.steps, s) {
		if s.Action = acquireFailed; !slices.Contains(w.steps, s) {
			w.record(s)
		}
	}
	w.mu.Unlock()
	return w.send(ctx, delArrived, token)
}

// countingConn is a client's connection to a node that counts grants.
type countingConn struct{ conn }

func (w countingConn) SetFenced(ctx context.Context, _, token string, _ time.Duration) (int64, error) {
	w.start(token)
	return w.ask(ctx, setArrived, token)
}

// RaiseFence records the write-back of a token with its first request, and adds the node of each
// request to that step. All requests are sent at the same time.
func (w countingConn) RaiseFence(ctx context.Context, _, token string, fence int64) (bool, error) {
	w.mu.Lock()
	s := w.stepOf(raiseStarted, w.client, token)
	i := slices.IndexFunc(w.steps, func(x Step) bool { return x.Action == raiseStarted && x.Client == s.Client && x.Attempt == s.Attempt })
	if s.Fence = uint8(fence); i < 0 {
		i = len(w.steps)
		w.record(s)
	}
	w.steps[i].LaggingNodes |= 1 << w.node
	w.mu.Unlock()
	count, err := w.ask(ctx, raiseArrived, token, fmt.Sprint(fence))
	return count > 0, err
}

// contend runs a client that contends for the lock.
func (r *run) contend(t *testing.T, c, attempts int) {
	if r.hardened != nil {
		r.contendHardened(t, c, attempts)
		return
	}
	cfg := redlock.Config{TTL: runTTL, Timeout: runTimeout, Tries: 1, Fence: r.commands[raiseArrived] != nil}
	for n := range r.nodes {
		cfg.Nodes = append(cfg.Nodes, r.connect(countingConn{conn{r, c, n}}))
	}
	client, err := redlock.Specification(cfg)
	if err != nil {
		t.Error(err)
		return
	}
	pause := func(event action, l *redlock.Lock) {
		r.mu.Lock()
		if l != nil {
			s := r.stepOf(event, c, l.Token())
			if event == lockAcquired {
				s.Fence = uint8(l.Fence())
			}
			r.record(s)
		}
		d := r.delay()
		r.mu.Unlock()
		time.Sleep(d)
	}
	for range attempts {
		pause("", nil)
		l, err := client.Acquire(t.Context(), "k")
		if err != nil {
			continue
		}
		pause(lockAcquired, l)
		if until := time.Until(l.Until()); until > 0 {
			switch err := l.Extend(t.Context()); {
			case err == nil:
				pause(extendSucceeded, l)
			case errors.Is(err, redlock.ErrLost):
				pause(extendLost, l)
			default:
				pause(extendFailed, l)
			}
		}
		r.mu.Lock()
		r.record(r.stepOf(lockReleased, c, l.Token()))
		r.mu.Unlock()
		l.Release(t.Context())
	}
}

// play lets two clients contend while nodes crash, and returns the steps. change modifies the run
// first.
func play(t *testing.T, m *model, seed uint64, change func(*run)) []Step {
	r := &run{rng: rand.New(rand.NewPCG(seed, 1)), commands: referenceCommands(t), clockRate: 1, connect: func(w countingConn) redlock.Node { return w.conn }}
	if m.Fence {
		r.commands, r.connect = fencedCommands(t), func(w countingConn) redlock.Node { return w }
	}
	for _, args := range r.commands {
		if i := slices.Index(args, fmt.Sprint(ttl.Milliseconds())); i > 0 {
			args[i] = fmt.Sprint(runTTL.Milliseconds())
		}
	}
	change(r)
	synctest.Test(t, func(t *testing.T) {
		r.startTime = time.Now()
		for range m.Nodes {
			r.nodes = append(r.nodes, start(""))
			r.nodes[len(r.nodes)-1].do(t, "SET", "known", strings.Repeat("0", 40)) // the run ID that a quarantine compares
		}
		var running sync.WaitGroup
		for c := range 2 {
			running.Go(func() { r.contend(t, c, m.Attempts) })
		}
		for range m.Crashes {
			running.Go(func() {
				r.mu.Lock()
				n, delay := r.rng.IntN(m.Nodes), time.Duration(r.rng.IntN(300_000))*time.Microsecond
				r.mu.Unlock()
				time.Sleep(delay)
				r.mu.Lock()
				defer r.mu.Unlock()
				r.nodes[n].Close()
				r.nodes[n].restart()
				r.crashCounts[n]++
				r.record(Step{Action: nodeCrashed, Node: n + 1})
			})
		}
		running.Wait()
		time.Sleep(time.Second)
		for _, n := range r.nodes {
			n.Close()
		}
	})
	return r.steps
}

// follow returns how many of the steps the model can take in order. It tracks all possible states,
// because the steps do not show whether a key had expired or which counts a client received in
// time.
func (m *model) follow(steps []Step) (n int) {
	current := map[state]bool{m.initialState(): true}
	for i, want := range steps {
		next := map[state]bool{}
		if m.Quarantine {
			m.addUnrecorded(current)
		}
		for s := range current {
			m.next(&s, func(after *state, step Step) {
				if step.Expired, step.CountsReceived = false, 0; step == want {
					next[*after] = true
				}
			})
		}
		if len(next) == 0 {
			return i
		}
		current = next
	}
	return len(steps)
}

var (
	contention       = Scope{Nodes: 3, Attempts: 2, Extensions: 1, Crashes: 1}
	fencedContention = Scope{Nodes: 3, Attempts: 2, Extensions: 1, Crashes: 1, Fence: true}
)

// The runs are with and without fencing tokens.
func TestRealRunsArePaths(t *testing.T) { checkRealRuns(t, 60) }

func checkRealRuns(t *testing.T, runs int) {
	checkPaths(t, contention, runs)
	checkPaths(t, fencedContention, runs, "RAISE yes true", "RAISE yes false", string(raiseStarted))
}

func checkPaths(t *testing.T, scope Scope, runs int, expected ...string) {
	t.Helper()
	m := newModel(scope, Reductions{Merge: true})
	seen := map[string]int{}
	for seed := range uint64(runs) {
		steps := play(t, m, seed, func(*run) {})
		if followed := m.follow(steps); followed < len(steps) {
			t.Fatalf("%v, seed %d: the model does not allow step %d, %v, after %v", scope, seed, followed, steps[followed], steps[:followed])
		}
		for _, s := range steps {
			if s.Node > 0 && s.Action != nodeCrashed {
				seen[fmt.Sprintf("%s yes %v", s.Action, s.Yes)]++
			} else {
				seen[string(s.Action)]++
			}
		}
	}
	t.Logf("%v, %d runs: %v", scope, runs, seen)
	for _, what := range append(expected, "SET yes true", "SET yes false", "EXTEND yes true", "EXTEND yes false", "DEL yes true", "DEL yes false",
		string(lockAcquired), string(acquireFailed), string(extendSucceeded), string(extendFailed), string(nodeCrashed)) {
		if seen[what] == 0 {
			t.Errorf("%v: no run contains %s; seen: %v", scope, what, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// lowCount is a connection that reports lower counts than the node does.
type lowCount struct{ countingConn }

func (n lowCount) SetFenced(ctx context.Context, key, token string, ttl time.Duration) (int64, error) {
	count, err := n.countingConn.SetFenced(ctx, key, token, ttl)
	return min(count, 1), err
}

// falselyConfirmingConn is a connection that confirms tokens without writing them back.
type falselyConfirmingConn struct{ countingConn }

func (falselyConfirmingConn) RaiseFence(context.Context, string, string, int64) (bool, error) {
	return true, nil
}

// The runs are with and without fencing tokens.
func TestWrongRunsAreDetected(t *testing.T) {
	px := fmt.Sprint(runTTL.Milliseconds())
	replace := func(r *run, a action, old, new string) {
		before := r.commands[a][1]
		if r.commands[a][1] = strings.Replace(before, old, new, 1); r.commands[a][1] == before {
			t.Fatalf("the %s script does not contain %q", a, old)
		}
	}
	for name, p := range map[string]struct {
		scope Scope
		plant func(*run)
	}{
		"nodes that overwrite":         {contention, func(r *run) { r.commands[setArrived] = []string{"SET", "k", "0", "PX", px} }},
		"nodes that reset on extend":   {contention, func(r *run) { r.commands[extendArrived] = []string{"SET", "k", "0", "NX", "PX", px} }},
		"nodes that expire keys early": {contention, func(r *run) { r.clockRate = 1.5 }},
		"nodes that say no":            {contention, func(r *run) { r.commands[delArrived] = []string{"EVAL", "return 0", "1", "k", "0"} }},

		"nodes that count refusals": {fencedContention, func(r *run) { r.commands[setArrived][1] = "redis.call('incr', KEYS[2]) " + r.commands[setArrived][1] }},
		"nodes that restart their count": {fencedContention, func(r *run) {
			replace(r, setArrived, `return redis.call("incr", KEYS[2])`, `redis.call("set", KEYS[2], 1) return 1`)
		}},
		"nodes that raise for other clients' keys": {fencedContention, func(r *run) { replace(r, raiseArrived, "~= ARGV[1]", "~= ARGV[1] and false") }},
		"nodes that confirm without raising": {fencedContention, func(r *run) {
			replace(r, raiseArrived, `redis.call("set", KEYS[2], ARGV[2])`, `redis.call("get", KEYS[2])`)
		}},
		"a token below the counts":         {fencedContention, func(r *run) { r.connect = func(w countingConn) redlock.Node { return lowCount{w} } }},
		"a token that is not written back": {fencedContention, func(r *run) { r.connect = func(w countingConn) redlock.Node { return falselyConfirmingConn{w} } }},
	} {
		m := newModel(p.scope, Reductions{Merge: true})
		detected := false
		for seed := uint64(0); seed < 60 && !detected; seed++ {
			steps := play(t, m, seed, p.plant)
			detected = m.follow(steps) < len(steps)
		}
		if !detected {
			t.Errorf("%s: not detected", name)
		}
	}
}

func TestWrongTokensAreDetected(t *testing.T) {
	mistaken := fencedContention
	mistaken.Mistake = "fence-from-one-node"
	m := newModel(mistaken, Reductions{Merge: true})
	for seed := range uint64(60) {
		if steps := play(t, m, seed, func(*run) {}); m.follow(steps) < len(steps) {
			return
		}
	}
	t.Error("a model that uses the first count is not detected")
}
