package exhaust

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/driver"
)

// grantingConn is a client's connection to a node of the hardened lock.
type grantingConn struct{ conn }

func (g grantingConn) Grant(ctx context.Context, key, token string, t driver.Terms) (int64, error) {
	return grantCount(g.Set(ctx, key, token, t.TTL))
}

func (g grantingConn) Abandon(ctx context.Context, key, token string, _ time.Duration) (bool, error) {
	return g.Release(ctx, key, token)
}

// hardenedCommands returns the hardened lock's commands. Its releases use the abandon script, which
// does the same after a grant.
func hardenedCommands(t *testing.T, quarantine bool) commands {
	scripts, px, q := hardenedScripts(t), fmt.Sprint(runTTL.Milliseconds()), "0"
	if quarantine {
		q = px
	}
	return commands{
		setArrived:    {"EVAL", scripts[setArrived], "5", "k", "k:fence", "k:gone:0", "known", "quarantine", "0", px, "", q},
		extendArrived: {"EVAL", scripts[extendArrived], "1", "k", "0", px},
		delArrived:    {"EVAL", scripts[delArrived], "2", "k", "k:gone:0", "0", px},
	}
}

// contendHardened runs a client that contends for the hardened lock.
func (r *run) contendHardened(t *testing.T, c, attempts int) {
	cfg := *r.hardened
	cfg.TTL, cfg.Timeout, cfg.Tries, cfg.RetryMin, cfg.RetryMax = runTTL, runTimeout, 1, time.Millisecond, 20*time.Millisecond
	for n := range r.nodes {
		cfg.Nodes = append(cfg.Nodes, grantingConn{conn{r, c, n}})
	}
	l, err := redlock.New(cfg)
	if err != nil {
		t.Error(err)
		return
	}
	defer l.Close()
	pause := func(did ...Step) {
		r.mu.Lock()
		for _, s := range did {
			if !slices.Contains(r.steps, s) {
				r.record(s)
			}
		}
		d := r.delay()
		r.mu.Unlock()
		time.Sleep(d)
	}
	for a := range attempts {
		pause()
		s, err := l.Acquire(t.Context(), "k")
		if err != nil {
			pause(Step{Action: acquireFailed, Client: c + 1, Attempt: a + 1})
			continue
		}
		pause(r.stepOf(lockAcquired, c, s.Token()))
		if s.Remaining() > 0 {
			switch err := s.Extend(t.Context()); {
			case err == nil:
				pause(r.stepOf(extendSucceeded, c, s.Token()))
			case errors.Is(err, redlock.ErrLost):
				pause(r.stepOf(extendLost, c, s.Token()))
			case !errors.Is(err, redlock.ErrExpired) || slices.Contains(r.steps, r.stepOf(extendStarted, c, s.Token())):
				pause(r.stepOf(extendFailed, c, s.Token()))
			}
		}
		r.mu.Lock()
		r.record(r.stepOf(lockReleased, c, s.Token()))
		r.mu.Unlock()
		s.Release(t.Context())
	}
}

// addUnrecorded adds the states after a step that runs do not record: the end of a quarantine.
func (m *model) addUnrecorded(current map[state]bool) {
	for changed := true; changed; {
		changed = false
		for s := range maps.Clone(current) {
			m.next(&s, func(after *state, did Step) {
				if did.Action == quarantineEnded && !current[*after] {
					current[*after], changed = true, true
				}
			})
		}
	}
}

var (
	hardenedContention    = Scope{Nodes: 3, Attempts: 2, Extensions: 1, Lock: hardenedLock}
	quarantinedContention = Scope{Nodes: 3, Attempts: 2, Extensions: 1, Crashes: 1, Lock: hardenedLock, Quarantine: true}
)

// playHardened lets two Lockers contend, and returns the steps and the number of SETs refused in
// quarantine.
func playHardened(t *testing.T, m *model, seed uint64, change func(*run)) (steps []Step, quarantined int) {
	var played *run
	steps = play(t, m, seed, func(r *run) {
		played, r.hardened, r.commands = r, new(redlock.Config), hardenedCommands(t, m.Quarantine)
		change(r)
	})
	return steps, played.quarantineRefusals
}

// This includes runs where nodes restart without data and do not vote during a quarantine.
func TestHardenedRunsArePaths(t *testing.T) { checkHardenedRuns(t, 60) }

func checkHardenedRuns(t *testing.T, runs int) {
	for _, scope := range []Scope{hardenedContention, quarantinedContention} {
		m, seen, quarantined := newModel(scope, Reductions{Merge: true}), map[string]int{}, 0
		for seed := range uint64(runs) {
			steps, q := playHardened(t, m, seed, func(*run) {})
			quarantined += q
			if followed := m.follow(steps); followed < len(steps) {
				t.Fatalf("%v, seed %d: the model does not allow step %d, %v, after %v", scope, seed, followed, steps[followed], steps[:followed])
			}
			for _, s := range steps {
				seen[fmt.Sprintf("%s yes %v", s.Action, s.Yes)]++
			}
		}
		t.Logf("%v: %d runs: %v, %d SETs in quarantine", scope, runs, seen, quarantined)
		for _, what := range []string{"SET yes true", "SET yes false", "EXTEND yes true", "EXTEND yes false", "DEL yes true", "DEL yes false",
			string(lockAcquired) + " yes false", string(acquireFailed) + " yes false", string(extendSucceeded) + " yes false"} {
			if seen[what] == 0 {
				t.Errorf("%v: no run contains %s", scope, what)
			}
		}
		if scope.Quarantine && quarantined == 0 {
			t.Error("no SET was refused in quarantine")
		}
	}
}

func TestWrongHardenedRunsAreDetected(t *testing.T) {
	for name, p := range map[string]struct {
		scope  Scope
		change func(*run)
	}{
		"nodes that ignore tombstones": {hardenedContention, func(r *run) {
			r.commands[setArrived][1] = strings.Replace(r.commands[setArrived][1], `redis.call("exists", KEYS[3]) == 1`, `false`, 1)
		}},
		"nodes that set no tombstones": {hardenedContention, func(r *run) {
			r.commands[delArrived][1] = strings.Replace(r.commands[delArrived][1], `redis.call("set", KEYS[2], "", "PX", ARGV[2])`, ``, 1)
		}},
		"nodes without a quarantine":   {quarantinedContention, func(r *run) { r.commands[setArrived][11] = "0" }},
		"a short quarantine":           {quarantinedContention, func(r *run) { r.commands[setArrived][11] = "1" }},
		"nodes that expire keys early": {hardenedContention, func(r *run) { r.clockRate = 1.5 }},
		"a stopped clock": {hardenedContention, func(r *run) {
			start := time.Now()
			r.hardened.Now = func() time.Time { return start }
		}},
	} {
		m, detected := newModel(p.scope, Reductions{Merge: true}), false
		for seed := uint64(0); seed < 400 && !detected; seed++ {
			steps, _ := playHardened(t, m, seed, p.change)
			detected = m.follow(steps) < len(steps)
		}
		if !detected {
			t.Errorf("%s: not detected", name)
		}
	}
}
