package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/harness/resp"
	"lockpick/nemesis"
)

// clientRunner runs client programs on the network's hosts.
type clientRunner struct {
	net   *network
	locks map[string]lock.Kind // available to the programs
}

// RunClient runs the client program until it returns or is killed.
func (c *clientRunner) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	kind, ok := c.locks[s.Lock.Kind]
	if !ok {
		return fmt.Errorf("run client %s: there is no lock of kind %q", s.Name, s.Lock.Kind)
	}
	for _, srv := range c.net.servers {
		n := lock.Node{Name: srv.name, Addr: srv.addr.String()}
		if srv == c.net.resource {
			s.Resource = n
		} else {
			s.Nodes = append(s.Nodes, n)
		}
	}
	return c.run(ctx, s.Name, at, func(ctx context.Context, e client.Env) error {
		e.Lock = kind.New
		return client.Run(ctx, s, e)
	})
}

// run runs a program on the host of the named client.
func (c *clientRunner) run(ctx context.Context, name string, atPoint func(string), program func(context.Context, client.Env) error) error {
	h := c.net.host(name)
	if h == nil {
		return fmt.Errorf("run client %s: the scenario has no such client", name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.net.mu.Lock()
	alreadyStarted := h.started
	h.started, h.cancel = true, cancel
	c.net.mu.Unlock()
	if alreadyStarted {
		return fmt.Errorf("run client %s: it has already been started", name)
	}
	c.net.sleep(h.slot, c.net.now())
	done := make(chan error, 1)
	if h.bubble != nil {
		h.launch(ctx, atPoint, program, done)
	} else if h.passGate() {
		go func() {
			var err error
			if panicErr := protect("client "+name, func() { err = program(ctx, h.env(atPoint)) }); panicErr != nil {
				err = panicErr
			}
			done <- err
		}()
	}
	var err error
	select {
	case err = <-done:
	case <-h.killSignal:
	case <-h.overdueSignal(ctx):
		c.net.mu.Lock()
		defer c.net.mu.Unlock()
		h.hung = true
		h.kill()
		return nil
	}
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if h.killed {
		return harness.ErrKilled
	}
	h.ended = true
	h.hangUp()
	return err
}

// gracePeriod is how long a program may keep running after its context is canceled, to finish
// whatever it is waiting for.
const gracePeriod = 30 * time.Second

// overdueSignal returns a channel that is closed if the program is still running a grace period
// after its cancellation because a call of its lock doesn't return. The history then ends with the
// program's last events, and the host counts as killed.
func (h *host) overdueSignal(ctx context.Context) <-chan struct{} {
	overdue := make(chan struct{})
	var startTimer func()
	startTimer = func() {
		h.net.at(h.slot, h.net.now()+int64(gracePeriod), func() {
			switch {
			case h.killed || h.ended:
			case h.paused:
				h.whenRunning(h.slot, startTimer)
			default:
				close(overdue)
			}
		})
	}
	context.AfterFunc(ctx, func() {
		h.net.mu.Lock()
		defer h.net.mu.Unlock()
		if !h.killed && !h.ended {
			startTimer()
		}
	})
	return overdue
}

// host returns the named client's machine, or nil if there is no such client.
func (n *network) host(name string) *host {
	return find(n.hosts, func(h *host) bool { return h.name == name })
}

// node returns the named lock node. The resource is not a lock node.
func (n *network) node(name string) (*server, error) {
	if s := find(n.servers, func(s *server) bool { return s.name == name && s != n.resource }); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("there is no such client or node")
}

// runningNode returns the target node, or an error that ends with downMessage if the node is not
// running. The caller must hold the network's mutex.
func (n *network) runningNode(operation, target, downMessage string) (*server, error) {
	s, err := n.node(target)
	if err == nil && s.node == nil {
		err = errors.New(downMessage)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", operation, target, err)
	}
	return s, nil
}

// failoverTarget returns the target node, or an error if it has no running master or no replica.
func (n *network) failoverTarget(target string) (*server, error) {
	s, err := n.node(target)
	switch {
	case err != nil:
		return nil, fmt.Errorf("fail over %s: %w", target, err)
	case s.replica == nil:
		return nil, fmt.Errorf("fail over %s: it has no replica: set topology.replicas", target)
	case s.node == nil:
		return nil, fmt.Errorf("fail over %s: its master is down already", target)
	}
	return s, nil
}

// replica returns the replica at the end of a link, even if it has become the master.
func (n *network) replica(link string) *replica {
	for _, s := range n.servers {
		for _, r := range []*replica{s.replica, s.promotedReplica} {
			if r != nil && r.link == link {
				return r
			}
		}
	}
	return nil
}

// find returns the first match, or nil.
func find[T any](all []*T, match func(*T) bool) *T {
	if i := slices.IndexFunc(all, match); i >= 0 {
		return all[i]
	}
	return nil
}

var (
	_ nemesis.Killer     = (*cluster)(nil)
	_ nemesis.Restarter  = (*cluster)(nil)
	_ nemesis.Shutdowner = (*cluster)(nil)
)

// Kill implements nemesis.Killer.
func (c *cluster) Kill(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.host(target); h != nil {
		if endErr := h.endedError(); endErr != nil {
			return "", fmt.Errorf("kill %s: %w", target, endErr)
		}
		return fmt.Sprintf("%s was killed, its kernel closes %d connections", target, h.kill()), nil
	}
	s, err := c.runningNode("kill", target, "it is down already")
	if err != nil {
		return "", err
	}
	oldIdentity := s.identity()
	s.stop(syscall.ECONNRESET)
	return fmt.Sprintf("%s was killed; PING: %s", oldIdentity, s.ping()), nil
}

// Restart implements nemesis.Restarter.
func (c *cluster) Restart(target string) (string, error) {
	c.waitTurn(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("restart %s: %w", target, err)
	case s.node != nil:
		return "", fmt.Errorf("restart %s: it is up", target)
	}
	oldRunID := s.runID
	s.start()
	return fmt.Sprintf("was run_id %.8s, now %s; PING: %s", oldRunID, s.identity(), s.ping()), nil
}

// Shutdown implements nemesis.Shutdowner. The node writes everything to its disk before it exits.
func (c *cluster) Shutdown(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.runningNode("shut down", target, "it is down already")
	switch {
	case err != nil:
		return "", err
	case s.paused || s.disk != nil && s.disk.Stalled:
		return "", fmt.Errorf("shut down %s: it does not answer", target)
	}
	oldIdentity := s.identity()
	s.node.Shutdown()
	s.stop(io.EOF)
	return fmt.Sprintf("%s was shut down; PING: %s", oldIdentity, s.ping()), nil
}

// tokens maps key values to numbered placeholders, in the order in which the values first appear on
// a link. It is used for locks whose tokens come from a source that can't be seeded. The
// placeholders replace the tokens in the history and in hashes of message contents, so that a seed
// always gives the same history. Nodes and clients see the real values. For other locks the map is
// nil.
type tokens map[string]string

// placeholder returns the value's placeholder, or the value itself if it has none.
func (t tokens) placeholder(value string) string {
	if placeholder, ok := t[value]; ok {
		return placeholder
	}
	return value
}

// maskRequest assigns placeholders to new tokens in the commands and returns the request's bytes
// with all tokens replaced.
func (t tokens) maskRequest(payload []byte, commands []*resp.Command) []byte {
	if t == nil {
		return payload
	}
	for _, c := range commands {
		if c.Token != "" && t[c.Token] == "" {
			t[c.Token] = fmt.Sprintf("token-%d", len(t)+1)
		}
		for _, word := range c.Args {
			payload = t.replace(payload, word)
		}
	}
	return payload
}

// maskReply returns the reply's bytes with all tokens replaced.
func (t tokens) maskReply(payload []byte, commands []*resp.Command) []byte {
	if t == nil {
		return payload
	}
	for _, c := range commands {
		payload = t.maskValue(payload, c.Reply)
	}
	return payload
}

func (t tokens) maskValue(payload []byte, v resp.Value) []byte {
	for _, item := range v.Items {
		payload = t.maskValue(payload, item)
	}
	return t.replace(payload, v.Str)
}

func (t tokens) replace(payload []byte, word string) []byte {
	if placeholder, ok := t[word]; ok {
		return bytes.ReplaceAll(payload, []byte(word), []byte(placeholder))
	}
	return payload
}

// Every random value is a hash of its name, never the next value of a sequence, so that the order
// of draws doesn't matter.

// hashWords hashes words with the splitmix64 finalizer (Steele, Lea, Flood 2014).
func hashWords(words ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range words {
		h = (h ^ w) + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// hashBytes computes the FNV-1a hash.
func hashBytes[T string | []byte](b T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(b) {
		h = (h ^ uint64(b[i])) * 1099511628211
	}
	return h
}
