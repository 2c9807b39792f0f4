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

// Real runs have a short TTL, so that much of what is under way outlives it.
const (
	runTTL     = 100 * time.Millisecond
	runTimeout = 45 * time.Millisecond
)

// run is two real clients and simulated nodes, on a network that delays at random, and all that
// happened as steps of the model.
type run struct {
	mu     sync.Mutex
	dice   *rand.Rand
	sends  commands // with the token 0
	nodes  []*instance
	began  time.Time
	fast   float64     // how fast the nodes' clocks run
	tokens [2][]string // of attempts
	steps  []Step
	// hardened clients contend, and a crash takes what is on its way to the node.
	hardened    *redlock.Config
	crashed     [MaxNodes]int
	quarantined int // SETs that were refused
}

func (r *run) note(s Step) { r.steps = append(r.steps, s) }

// of is a step of the attempt with a token.
func (r *run) of(a Action, c int, token string) Step {
	return Step{Action: a, Client: c + 1, Attempt: slices.Index(r.tokens[c], token) + 1}
}

// delay is mostly short against the time-out, and sometimes longer than a TTL.
func (r *run) delay() time.Duration {
	if r.dice.IntN(3) == 0 {
		return time.Duration(r.dice.IntN(150_000)) * time.Microsecond
	}
	return time.Duration(r.dice.IntN(1000)) * time.Microsecond
}

// wire is a client's way to a node.
type wire struct {
	*run
	client, node int
}

// windowOver notes the end of a window that begins now.
func (w wire) windowOver(token string) {
	time.AfterFunc(runTTL-redlock.Drift(runTTL, drift), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.note(w.of(Over, w.client, token))
	})
}

func (w wire) send(ctx context.Context, a Action, token string) (bool, error) {
	w.mu.Lock()
	there, back := w.delay(), w.delay()
	crashed := w.crashed[w.node]
	w.mu.Unlock()
	answer := make(chan bool, 1)
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
		reply, err := n.Do(args...)
		if err != nil && strings.HasPrefix(err.Error(), "QUARANTINE") {
			w.quarantined++
			w.mu.Unlock()
			return
		} else if err != nil {
			panic(err)
		}
		yes := reply == "OK" || reply == int64(1)
		s := w.of(a, w.client, token)
		s.Node, s.Yes = w.node+1, yes
		again := s
		again.Yes = true
		if a != Del || yes || !slices.Contains(w.steps, s) && !slices.Contains(w.steps, again) { // else it was sent twice, in vain
			w.note(s)
		}
		w.mu.Unlock()
		time.Sleep(back)
		answer <- yes
	}()
	select {
	case yes := <-answer:
		return yes, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (w wire) Set(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	w.mu.Lock()
	if !slices.Contains(w.tokens[w.client], token) {
		w.tokens[w.client] = append(w.tokens[w.client], token)
		w.note(w.of(Started, w.client, token))
		w.windowOver(token)
	}
	w.mu.Unlock()
	return w.send(ctx, Set, token)
}

func (w wire) Extend(ctx context.Context, _, token string, _ time.Duration) (bool, error) {
	w.mu.Lock()
	if s := w.of(Extending, w.client, token); !slices.Contains(w.steps, s) {
		w.note(s)
		w.windowOver(token)
	}
	w.mu.Unlock()
	return w.send(ctx, Extend, token)
}

func (w wire) Release(ctx context.Context, _, token string) (bool, error) {
	w.mu.Lock()
	if s := w.of(Released, w.client, token); !slices.Contains(w.steps, s) {
		if s.Action = Failed; !slices.Contains(w.steps, s) {
			w.note(s)
		}
	}
	w.mu.Unlock()
	return w.send(ctx, Del, token)
}

// contend is what one client does.
func (r *run) contend(t *testing.T, c, attempts int) {
	if r.hardened != nil {
		r.contendHardened(t, c, attempts)
		return
	}
	cfg := redlock.Config{TTL: runTTL, Timeout: runTimeout, Tries: 1}
	for n := range r.nodes {
		cfg.Nodes = append(cfg.Nodes, wire{r, c, n})
	}
	client, err := redlock.Specification(cfg)
	if err != nil {
		t.Error(err)
		return
	}
	pause := func(note Action, l *redlock.Lock) {
		r.mu.Lock()
		if l != nil {
			r.note(r.of(note, c, l.Token()))
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
		pause(Acquired, l)
		if until := time.Until(l.Until()); until > 0 {
			switch err := l.Extend(t.Context()); {
			case err == nil:
				pause(Extended, l)
			case errors.Is(err, redlock.ErrLost):
				pause(ExtendLost, l)
			default:
				pause(ExtendFailed, l)
			}
		}
		r.mu.Lock()
		r.note(r.of(Released, c, l.Token()))
		r.mu.Unlock()
		l.Release(t.Context())
	}
}

// play lets two clients contend, and one node crash.
func play(t *testing.T, m *Model, seed uint64, plant func(*run)) []Step {
	r := &run{dice: rand.New(rand.NewPCG(seed, 1)), sends: reference(t), fast: 1}
	r.sends[Set][5], r.sends[Extend][5] = fmt.Sprint(runTTL.Milliseconds()), fmt.Sprint(runTTL.Milliseconds())
	plant(r)
	synctest.Test(t, func(t *testing.T) {
		r.began = time.Now()
		for range m.Nodes {
			r.nodes = append(r.nodes, start(""))
			r.nodes[len(r.nodes)-1].do(t, "SET", "known", strings.Repeat("0", 40)) // by which a quarantine goes
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
				r.note(Step{Action: Crashed, Node: n + 1})
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

// follows says how far the model can go along steps: it may be in several states at once, for
// nobody sees whether a key had expired.
func (m *Model) follows(steps []Step) (so int) {
	now := map[state]bool{m.first(): true}
	for i, want := range steps {
		next := map[state]bool{}
		if m.Quarantine {
			m.unseen(now)
		}
		for s := range now {
			m.next(&s, func(after *state, did Step) {
				if did.Expired = false; did == want {
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

var contention = Scope{Nodes: 3, Attempts: 2, Extends: 1, Crashes: 1}

// What two real clients and simulated nodes do is a path of the model: it leaves nothing out.
func TestRealRunsArePaths(t *testing.T) { realRunsArePaths(t, 60) }

func realRunsArePaths(t *testing.T, runs int) {
	m := New(contention, Reductions{Merge: true})
	seen := map[string]int{}
	for seed := range uint64(runs) {
		steps := play(t, m, seed, func(*run) {})
		if so := m.follows(steps); so < len(steps) {
			t.Fatalf("seed %d: step %d, %v, is none of the model's after %v", seed, so, steps[so], steps[:so])
		}
		for _, s := range steps {
			if s.Node > 0 && s.Action != Crashed {
				seen[fmt.Sprintf("%s yes %v", s.Action, s.Yes)]++
			} else {
				seen[string(s.Action)]++
			}
		}
	}
	t.Logf("%d runs: %v", runs, seen)
	for _, what := range []string{"SET yes true", "SET yes false", "EXTEND yes true", "EXTEND yes false", "DEL yes true", "DEL yes false",
		string(Acquired), string(Failed), string(Extended), string(ExtendFailed), string(Crashed)} {
		if seen[what] == 0 {
			t.Errorf("no run had: %s, only %v", what, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// Runs in which something else happens are none.
func TestOtherRunsAreNoPaths(t *testing.T) {
	px := fmt.Sprint(runTTL.Milliseconds())
	for name, plant := range map[string]func(*run){
		"nodes that overwrite":    func(r *run) { r.sends[Set] = []string{"SET", "k", "0", "PX", px} },
		"nodes that extend anew":  func(r *run) { r.sends[Extend] = []string{"SET", "k", "0", "NX", "PX", px} },
		"nodes that forget early": func(r *run) { r.fast = 1.5 },
		"nodes that say no":       func(r *run) { r.sends[Del] = []string{"EVAL", "return 0", "1", "k", "0"} },
	} {
		m := New(contention, Reductions{Merge: true})
		noticed := false
		for seed := uint64(0); seed < 60 && !noticed; seed++ {
			steps := play(t, m, seed, plant)
			noticed = m.follows(steps) < len(steps)
		}
		if !noticed {
			t.Errorf("%s are not noticed", name)
		}
	}
}
