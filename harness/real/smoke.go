//go:build linux

package real

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness/lock"
	"lockpick/harness/lock/exec"
	"lockpick/harness/real/proc"
)

const (
	smokeTTL    = 4 * time.Second
	answerLimit = 10 * time.Second // for the library to serve a request; hello and open have exec.StartWithin
	contendTime = time.Second      // to wait for an answer while the lock is held
	smokeKey    = "smoke"
	maxErrorLen = 300 // in characters; a longer error is cut off
)

var smokeSettings = lock.Settings{Kind: exec.Name, TTL: smokeTTL, Timeout: 200 * time.Millisecond, Drift: 0.01, RetryMin: 10 * time.Millisecond, RetryMax: 30 * time.Millisecond}

// errSlow means that the lock may have expired before the end of a step, which then proves nothing.
var errSlow = fmt.Errorf("a step took longer than the lock's TTL of %v", smokeTTL)

// smokeRun is one run of the smoke test, with two clients and its own servers.
type smokeRun struct {
	ctx     context.Context
	group   *proc.Group
	argv    []string
	redis   string // path of redis-server
	nodes   []*proc.Redis
	clients [2]*smokeClient
}

// SmokeTest exercises an adapter with all requests of the protocol, using two clients and its own
// servers. It reports each step and stops at the first failure. An error means that the test itself
// could not be run.
func SmokeTest(ctx context.Context, dir, redis string, argv []string, report func(SmokeStep)) (passed bool, err error) {
	g, err := proc.NewGroup(dir)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	s := &smokeRun{ctx: ctx, group: g, argv: argv, redis: redis}
	for _, step := range []struct {
		name, expected string // a step without a name is lockpick's own and is not reported
		run            func() (got string, err error)
	}{
		{"hello", fmt.Sprintf("a first line that identifies the adapter, within %v", exec.StartWithin), s.hello},
		{"", "", s.startServers},
		{"open", fmt.Sprintf("an answer within %v", exec.StartWithin), s.open},
		{"acquire", fmt.Sprintf("a free lock within %v", answerLimit), s.acquire},
		{"contend", "no lock for a second client while the first holds it", s.contend},
		{"release", fmt.Sprintf("the lock for the second client before the TTL of %v has passed", smokeTTL), s.release},
		{"expire", fmt.Sprintf("the lock within %v after the TTL of a killed holder", answerLimit), s.expire},
		{"", "", s.stopServers},
		{"ping", "a pong within 2s while an acquire waits for stopped servers", s.ping},
		{"", "", s.continueServers},
		{"close", fmt.Sprintf("an answer and the exit of the process within %v", answerLimit), s.close},
	} {
		start := time.Now()
		got, err := step.run()
		switch {
		case errors.Is(err, errSlow), step.name == "" && err != nil:
			return false, err
		case err != nil:
			report(SmokeStep{step.name, step.expected, fmt.Sprintf("%.*s%s", maxErrorLen, err, s.stderr()), true})
			return false, nil
		case step.name != "":
			report(SmokeStep{step.name, step.expected, fmt.Sprintf("%s after %v", got, time.Since(start).Round(time.Microsecond)), false})
		}
	}
	return true, nil
}

// stderr returns the last lines of the adapters' stderr, with duplicates removed.
func (s *smokeRun) stderr() string {
	var all []string
	for _, c := range s.clients {
		if c != nil {
			all = append(all, c.StderrSuffix())
		}
	}
	return strings.Join(slices.Compact(all), "")
}

func (s *smokeRun) hello() (string, error) {
	for i := range s.clients {
		p, err := StartAdapter(s.group, fmt.Sprintf("the adapter of c%d", i+1), s.argv)
		if err != nil {
			return "", err
		}
		s.clients[i] = &smokeClient{AdapterProcess: p}
	}
	for _, c := range s.clients {
		err := withTimeout(exec.StartWithin, func() (err error) { c.adapter, err = exec.Connect(c.In, c.Out, time.Now); return err })
		if err != nil {
			return "", err
		}
	}
	h := s.clients[0].adapter.Hello
	text := h.Title()
	if len(h.Can) > 0 {
		text += ", which can " + strings.Join(h.Can, ", ") + ","
	}
	var options []string
	for _, o := range h.Options {
		options = append(options, o.Name+"="+strings.Join(o.Values, "|"))
	}
	if len(options) > 0 {
		text += " with options " + strings.Join(options, ", ") + ","
	}
	return text, nil
}

// withTimeout calls do and returns an error if do does not return within the limit.
func withTimeout(limit time.Duration, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("no answer within %v", limit)
	}
}

// startServers starts the servers that the lock needs according to the adapter's hello.
func (s *smokeRun) startServers() (_ string, err error) {
	hello := s.clients[0].adapter.Hello
	names := []string{"n1", "n2", "n3", "n4", "n5"}
	if name := hello.Store(); name != "" {
		store, err := proc.StoreOf(name)
		if err == nil {
			s.nodes, err = s.group.StartStore(s.ctx, store, names)
		}
		return "", err
	}
	if hello.Nodes == "one" {
		names = names[:1]
	}
	for _, name := range names {
		n, err := s.group.StartRedis(s.ctx, name, s.redis, "none")
		if err != nil {
			return "", err
		}
		s.nodes = append(s.nodes, n)
	}
	return "", nil
}

func (s *smokeRun) open() (string, error) {
	var nodes []lock.Node
	for _, n := range s.nodes {
		nodes = append(nodes, lock.Node{Name: n.Name, Addr: n.Addr()})
	}
	for i, c := range s.clients {
		if err := c.adapter.Open(s.ctx, "c"+strconv.Itoa(i+1), nodes, smokeSettings); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("quorum %d of %d", s.clients[0].adapter.Quorum, len(nodes)), nil
}

// acquire acquires a lock for each client. The second client's lock is a different one: acquiring
// it proves that this client is connected before it contends for the first client's lock.
func (s *smokeRun) acquire() (string, error) {
	first, second := s.clients[0], s.clients[1]
	err := second.acquireWithin(s.ctx, "other", answerLimit)
	if err == nil {
		err = second.release(s.ctx)
	}
	if err == nil {
		err = first.acquireWithin(s.ctx, smokeKey, answerLimit)
	}
	return "it", err
}

// contend leaves the acquire pending if the library waits for the lock. The smoke test does not
// check how long it may wait; real runs do.
func (s *smokeRun) contend() (string, error) {
	first, second := s.clients[0], s.clients[1]
	a := second.startAcquire(s.ctx, smokeKey)
	select {
	case <-a.done:
	case <-time.After(contendTime):
		return "no answer yet", nil
	}
	switch refusal, refused := errors.AsType[*exec.RefusedError](a.err); {
	case refused:
		second.pending = nil
		return refusal.Error(), nil
	case a.err != nil:
		return "", a.err
	case time.Since(first.lastAcquired.sentTime) > smokeTTL:
		return "", errSlow
	}
	return "", errors.New("the lock")
}

func (s *smokeRun) release() (string, error) {
	first, second := s.clients[0], s.clients[1]
	remaining := func() time.Duration { return smokeTTL - time.Since(first.lastAcquired.sentTime) }
	err := first.release(s.ctx)
	_, refused := errors.AsType[*exec.RefusedError](err)
	switch {
	case remaining() <= 0 && (err == nil || refused):
		return "", errSlow
	case err != nil:
		return "", err
	}
	return "it", second.acquireWithin(s.ctx, smokeKey, remaining())
}

// expire kills the holder, because a library may keep extending its lock as long as the process
// lives.
func (s *smokeRun) expire() (string, error) {
	first, second := s.clients[0], s.clients[1]
	if err := second.Kill(); err != nil {
		return "", err
	}
	err := first.acquireWithin(s.ctx, smokeKey, smokeTTL+answerLimit)
	if err == nil {
		err = first.release(s.ctx)
	}
	return "it", err
}

// stopServers stops the servers and starts an acquire that must wait for them.
func (s *smokeRun) stopServers() (_ string, err error) {
	for _, n := range s.nodes {
		_, pauseErr := n.Pause(s.ctx)
		err = errors.Join(err, pauseErr)
	}
	s.clients[0].startAcquire(s.ctx, smokeKey)
	time.Sleep(100 * time.Millisecond) // until the library has sent its requests
	return "", err
}

func (s *smokeRun) ping() (string, error) { return "it", s.clients[0].adapter.Ping(s.ctx) }

// continueServers resumes the servers and waits for the acquire to complete. It does not test how
// soon a library reconnects.
func (s *smokeRun) continueServers() (_ string, err error) {
	for _, n := range s.nodes {
		_, resumeErr := n.Resume(s.ctx)
		err = errors.Join(err, resumeErr)
	}
	select {
	case <-s.clients[0].pending.done:
	case <-time.After(answerLimit):
	}
	return "", err
}

func (s *smokeRun) close() (string, error) {
	c := s.clients[0]
	if err := withTimeout(answerLimit, func() error { return c.adapter.Close(s.ctx) }); err != nil {
		return "", err
	}
	c.In.Close()
	select {
	case <-c.Done():
	case <-time.After(answerLimit):
		return "", errors.New("an answer, but the process is still running")
	}
	unix.Kill(-c.PID(), unix.SIGKILL) // its child processes may still be running
	return "both", nil
}

// smokeClient is one client of a smoke test, with its adapter.
type smokeClient struct {
	*AdapterProcess
	adapter      *exec.Adapter
	pending      *acquireAttempt // pending acquire, or nil
	lastAcquired *acquireAttempt // last acquire that succeeded
}

// acquireAttempt is an acquire request. handle and err are set once done is closed.
type acquireAttempt struct {
	sentTime time.Time
	done     chan struct{} // closed once the request is answered
	handle   *exec.Handle
	err      error
}

// startAcquire starts to acquire a lock.
func (c *smokeClient) startAcquire(ctx context.Context, key string) *acquireAttempt {
	a := &acquireAttempt{sentTime: time.Now(), done: make(chan struct{})}
	waitTime := time.Duration(0)
	if c.adapter.Hello.Retries == "library" {
		waitTime = contendTime / 2
	}
	go func() {
		defer close(a.done)
		a.handle, a.err = c.adapter.Acquire(ctx, key, waitTime)
	}()
	c.pending = a
	return a
}

// acquireWithin tries to acquire a lock until it succeeds or the time limit has passed. If an
// earlier acquire is pending, acquireWithin first waits for its answer.
func (c *smokeClient) acquireWithin(ctx context.Context, key string, limit time.Duration) error {
	last := "no answer"
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(smokeSettings.RetryMax) {
		if c.pending == nil {
			c.startAcquire(ctx, key)
		}
		select {
		case <-c.pending.done:
		case <-time.After(time.Until(end)):
			continue
		}
		a := c.pending
		c.pending = nil
		refusal, refused := errors.AsType[*exec.RefusedError](a.err)
		if !refused {
			c.lastAcquired = a
			return a.err
		}
		last = refusal.Error()
	}
	return fmt.Errorf("%s, for %v", last, limit.Round(time.Millisecond))
}

// release releases the lock. A library may answer that it does not know whether it still held the
// lock.
func (c *smokeClient) release(ctx context.Context) error {
	err := withTimeout(answerLimit, func() error { return c.lastAcquired.handle.Release(ctx) })
	if refusal, refused := errors.AsType[*exec.RefusedError](err); refused && refusal.No == "unknown" {
		return nil
	}
	return err
}
