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

// Real runs have a short TTL, so many messages in flight outlive it.
const (
	runTTL     = 100 * time.Millisecond
	runTimeout = 45 * time.Millisecond
)

// run consists of two real clients and simulated nodes on a network with random delays. It records all events
// as steps of the model.
type run struct {
	mu     sync.Mutex
	dice   *rand.Rand
	sends  commands // with the placeholder token 0
	nodes  []*instance
	began  time.Time
	fast   float64     // rate of the nodes' clocks
	tokens [2][]string // of attempts, by client
	steps  []Step
	way    func(counted) redlock.Node // a client's connection to a node
	// hardened configures Lockers as clients; a crash then drops the messages in flight to the node.
	hardened    *redlock.Config
	crashed     [MaxNodes]int
	quarantined int // SETs refused in quarantine
}

func (r *run) note(s Step) { r.steps = append(r.steps, s) }

// stepOf returns a step of the attempt with a token.
func (r *run) of(a action, c int, token string) Step {
	return Step{Action: a, Client: c + 1, Attempt: slices.Index(r.tokens[c], token) + 1}
}

// delay returns a random delay: mostly much shorter than the timeout, sometimes longer than a TTL.
func (r *run) delay() time.Duration {
	if r.dice.IntN(3) == 0 {
		return time.Duration(r.dice.IntN(150_000)) * time.Microsecond
	}
	return time.Duration(r.dice.IntN(1000)) * time.Microsecond
}

// conn is a client's connection to a node.
type wire struct {
	*run
	client, node int
}

// scheduleWindowEnd records the end of a window that begins now.
func (w wire) windowOver(token string) {
	time.AfterFunc(runTTL-redlock.Drift(runTTL, drift), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.note(w.of(over, w.client, token))
	})
}

func (w wire) send(ctx context.Context, a action, token string) (bool, error) {
	count, err := w.ask(ctx, a, token)
	return count > 0, err
}

// ask sends a request; last replaces the last arguments. It returns the reply as a count: 0 for no.
func (w wire) ask(ctx context.Context, a action, token string, last ...string) (int64, error) {
	w.mu.Lock()
	there, back := w.delay(), w.delay()
	crashed := w.crashed[w.node]
	w.mu.Unlock()
	answer := make(chan int64, 1)
	go func() {
		time.Sleep(there)
		w.mu.Lock()
		if w.hardened != nil && w.crashed[w.node] != crashed {
			w.mu.Unlock()
			return
		}
		n := w.nodes[w.node]
		n.now = int64(float64(time.Since(w.began)) * w.fast)
		args := slices.Clone(w.sends[a])
		args[slices.Index(args, "0")] = token
		if i := slices.Index(args, "k:gone:0"); i > 0 {
			args[i] = "k:gone:" + token
		}
		reply, err := n.Do(append(args[:len(args)-len(last)], last...)...)
		if err != nil && strings.HasPrefix(err.Error(), "QUARANTINE") {
			w.quarantined++
			w.mu.Unlock()
			return
		} else if err != nil {
			panic(err)
		}
		count, _ := reply.(int64)
		if reply == "OK" {
			count = 1
		}
		s := w.of(a, w.client, token)
		s.Node, s.Yes = w.node+1, count > 0
		again := s
		again.Yes = true
		if a != del || s.Yes || !slices.Contains(w.steps, s) && !slices.Contains(w.steps, again) { // otherwise it is a repeated DEL without effect
			w.note(s)
		}
		w.mu.Unlock()
		time.Sleep(back)
		answer <- count
	}()
	select {
	case count := <-answer:
		return count, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// start records the start of an attempt with the first of its requests.
func (w wire) starts(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.tokens[w.client], token) {
		w.tokens[w.client] = append(w.tokens[w.client], token)
		w.note(w.of(started, w.client, token))
		w.windowOver(token)
	}
}

func (w wire) Set(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	w.starts(token)
	return w.send(ctx, set, token)
}

func (w wire) Extend(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	w.mu.Lock()
	if s := w.of(Extending, w.client, token); !slices.Contains(w.steps, s) {
		w.note(s)
		w.windowOver(token)
	}
	w.mu.Unlock()
	return w.send(ctx, extend, token)
}

func (w wire) Release(ctx context.Context, _, token string) (bool, error) {
	w.mu.Lock()
	if s := w.of(released, w.client, token); !slices.Contains(w.steps, s) {
		if s.Action = failed; !slices.Contains(w.steps, s) {
			w.note(s)
		}
	}
	w.mu.Unlock()
	return w.send(ctx, del, token)
}

// countingConn is a connection to a node that counts grants.
type counted struct{ wire }

func (w counted) SetFenced(ctx context.Context, _, token string, _ time.Duration) (int64, error) {
	w.starts(token)
	return w.ask(ctx, set, token)
}

// RaiseFence records the write-back of the token with the first of its requests, and adds the node of each
// request. They are all sent at the same time.
func (w counted) RaiseFence(ctx context.Context, _, token string, fence int64) (bool, error) {
	w.mu.Lock()
	s := w.of(Raising, w.client, token)
	i := slices.IndexFunc(w.steps, func(x Step) bool { return x.Action == Raising && x.Client == s.Client && x.Attempt == s.Attempt })
	if s.Fence = uint8(fence); i < 0 {
		i = len(w.steps)
		w.note(s)
	}
	w.steps[i].Behind |= 1 << w.node
	w.mu.Unlock()
	count, err := w.ask(ctx, Raise, token, fmt.Sprint(fence))
	return count > 0, err
}

// contend runs one client.
func (r *run) contend(t *testing.T, c, attempts int) {
	if r.hardened != nil {
		r.contendHardened(t, c, attempts)
		return
	}
	cfg := redlock.Config{TTL: runTTL, Timeout: runTimeout, Tries: 1, Fence: r.sends[Raise] != nil}
	for n := range r.nodes {
		cfg.Nodes = append(cfg.Nodes, r.way(counted{wire{r, c, n}}))
	}
	client, err := redlock.Specification(cfg)
	if err != nil {
		t.Error(err)
		return
	}
	pause := func(note action, l *redlock.Lock) {
		r.mu.Lock()
		if l != nil {
			s := r.of(note, c, l.Token())
			if note == acquired {
				s.Fence = uint8(l.Fence())
			}
			r.note(s)
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
		pause(acquired, l)
		if until := time.Until(l.Until()); until > 0 {
			switch err := l.Extend(t.Context()); {
			case err == nil:
				pause(Extended, l)
			case errors.Is(err, redlock.ErrLost):
				pause(extendLost, l)
			default:
				pause(extendFailed, l)
			}
		}
		r.mu.Lock()
		r.note(r.of(released, c, l.Token()))
		r.mu.Unlock()
		l.Release(t.Context())
	}
}

// play lets two clients contend while nodes crash.
func play(t *testing.T, m *model, seed uint64, plant func(*run)) []Step {
	r := &run{dice: rand.New(rand.NewPCG(seed, 1)), sends: reference(t), fast: 1, way: func(w counted) redlock.Node { return w.wire }}
	if m.Fence {
		r.sends, r.way = fencedCommands(t), func(w counted) redlock.Node { return w }
	}
	for _, args := range r.sends {
		if i := slices.Index(args, fmt.Sprint(ttl.Milliseconds())); i > 0 {
			args[i] = fmt.Sprint(runTTL.Milliseconds())
		}
	}
	plant(r)
	synctest.Test(t, func(t *testing.T) {
		r.began = time.Now()
		for range m.Nodes {
			r.nodes = append(r.nodes, start(""))
			r.nodes[len(r.nodes)-1].do(t, "SET", "known", strings.Repeat("0", 40)) // the known run ID, which a quarantine compares
		}
		var all sync.WaitGroup
		for c := range 2 {
			all.Go(func() { r.contend(t, c, m.Attempts) })
		}
		for range m.Crashes {
			all.Go(func() {
				r.mu.Lock()
				n, after := r.dice.IntN(m.Nodes), time.Duration(r.dice.IntN(300_000))*time.Microsecond
				r.mu.Unlock()
				time.Sleep(after)
				r.mu.Lock()
				defer r.mu.Unlock()
				r.nodes[n].Close()
				r.nodes[n].restart()
				r.crashed[n]++
				r.note(Step{Action: crashed, Node: n + 1})
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		for _, n := range r.nodes {
			n.Close()
		}
	})
	return r.steps
}

// follow returns how many steps the model can follow. The model may be in several states at once, because the
// steps do not show whether a key had expired or which counts a client received in time.
func (m *model) follows(steps []Step) (so int) {
	now := map[state]bool{m.first(): true}
	for i, want := range steps {
		next := map[state]bool{}
		if m.Quarantine {
			m.unseen(now)
		}
		for s := range now {
			m.next(&s, func(after *state, did Step) {
				if did.Expired, did.Heard = false, 0; did == want {
					next[*after] = true
				}
			})
		}
		if len(next) == 0 {
			return i
		}
		now = next
	}
	return len(steps)
}

var (
	contention = Scope{Nodes: 3, Attempts: 2, Extends: 1, Crashes: 1}
	fenced     = Scope{Nodes: 3, Attempts: 2, Extends: 1, Crashes: 1, Fence: true}
)

// Each run of two real clients and simulated nodes is a path of the model, with and without fencing tokens.
func TestRealRunsArePaths(t *testing.T) { realRunsArePaths(t, 60) }

func realRunsArePaths(t *testing.T, runs int) {
	arePaths(t, contention, runs)
	arePaths(t, fenced, runs, "RAISE yes true", "RAISE yes false", string(Raising))
}

func arePaths(t *testing.T, scope Scope, runs int, also ...string) {
	t.Helper()
	m := newModel(scope, Reductions{Merge: true})
	seen := map[string]int{}
	for seed := range uint64(runs) {
		steps := play(t, m, seed, func(*run) {})
		if so := m.follows(steps); so < len(steps) {
			t.Fatalf("%v, seed %d: the model does not allow step %d, %v, after %v", scope, seed, so, steps[so], steps[:so])
		}
		for _, s := range steps {
			if s.Node > 0 && s.Action != crashed {
				seen[fmt.Sprintf("%s yes %v", s.Action, s.Yes)]++
			} else {
				seen[string(s.Action)]++
			}
		}
	}
	t.Logf("%v, %d runs: %v", scope, runs, seen)
	for _, what := range append(also, "SET yes true", "SET yes false", "EXTEND yes true", "EXTEND yes false", "DEL yes true", "DEL yes false",
		string(acquired), string(failed), string(Extended), string(extendFailed), string(crashed)) {
		if seen[what] == 0 {
			t.Errorf("%v: no run contains %s, only %v", scope, what, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// lowCount is a connection that reports a count below the node's.
type lower struct{ counted }

func (n lower) SetFenced(ctx context.Context, key, token string, ttl time.Duration) (int64, error) {
	count, err := n.counted.SetFenced(ctx, key, token, ttl)
	return min(count, 1), err
}

// unraisedConn is a connection that confirms tokens without writing them back.
type silent struct{ counted }

func (silent) RaiseFence(context.Context, string, string, int64) (bool, error) { return true, nil }

// Runs of wrong nodes or clients are not paths of the model, with or without fencing tokens.
func TestOtherRunsAreNoPaths(t *testing.T) {
	px := fmt.Sprint(runTTL.Milliseconds())
	replaced := func(r *run, a action, old, new string) {
		was := r.sends[a][1]
		if r.sends[a][1] = strings.Replace(was, old, new, 1); r.sends[a][1] == was {
			t.Fatalf("the script of %s does not contain %s", a, old)
		}
	}
	for name, p := range map[string]struct {
		scope Scope
		plant func(*run)
	}{
		"nodes that overwrite":         {contention, func(r *run) { r.sends[set] = []string{"SET", "k", "0", "PX", px} }},
		"nodes that reset on extend":   {contention, func(r *run) { r.sends[extend] = []string{"SET", "k", "0", "NX", "PX", px} }},
		"nodes that expire keys early": {contention, func(r *run) { r.fast = 1.5 }},
		"nodes that say no":            {contention, func(r *run) { r.sends[del] = []string{"EVAL", "return 0", "1", "k", "0"} }},

		"nodes that count refusals": {fenced, func(r *run) { r.sends[set][1] = "redis.call('incr', KEYS[2]) " + r.sends[set][1] }},
		"nodes that restart their count": {fenced, func(r *run) {
			replaced(r, set, `return redis.call("incr", KEYS[2])`, `redis.call("set", KEYS[2], 1) return 1`)
		}},
		"nodes that raise for other clients' keys": {fenced, func(r *run) { replaced(r, Raise, "~= ARGV[1]", "~= ARGV[1] and false") }},
		"nodes that confirm without raising":       {fenced, func(r *run) { replaced(r, Raise, `redis.call("set", KEYS[2], ARGV[2])`, `redis.call("get", KEYS[2])`) }},
		"a token below the counts":                 {fenced, func(r *run) { r.way = func(w counted) redlock.Node { return lower{w} } }},
		"a token that is not written back":         {fenced, func(r *run) { r.way = func(w counted) redlock.Node { return silent{w} } }},
	} {
		m := newModel(p.scope, Reductions{Merge: true})
		noticed := false
		for seed := uint64(0); seed < 60 && !noticed; seed++ {
			steps := play(t, m, seed, p.plant)
			noticed = m.follows(steps) < len(steps)
		}
		if !noticed {
			t.Errorf("%s: not detected", name)
		}
	}
}

// A model whose fencing tokens differ from the client's is detected.
func TestOtherTokensAreNoPaths(t *testing.T) {
	wrong := fenced
	wrong.Mistake = "fence-from-one-node"
	m := newModel(wrong, Reductions{Merge: true})
	for seed := range uint64(60) {
		if steps := play(t, m, seed, func(*run) {}); m.follows(steps) < len(steps) {
			return
		}
	}
	t.Error("a model that uses the first count is not detected")
}
