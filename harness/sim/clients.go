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

// clients are the programs that run on a network's hosts.
type clients struct {
	net   *network
	locks map[string]lock.Kind // that they can use
}

// RunClient runs the client program until it returns or is killed.
func (c *clients) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
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

// run runs any program as a client.
func (c *clients) run(ctx context.Context, name string, at func(string), program func(context.Context, client.Env) error) error {
	h := c.net.host(name)
	if h == nil {
		return fmt.Errorf("run client %s: the scenario has no such client", name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.net.mu.Lock()
	again := h.started
	h.started, h.cancel = true, cancel
	c.net.mu.Unlock()
	if again {
		return fmt.Errorf("run client %s: it has been started before", name)
	}
	c.net.sleep(h.slot, c.net.now())
	done := make(chan error, 1)
	if h.own != nil {
		h.launch(ctx, at, program, done)
	} else if h.pass() {
		go func() {
			var err error
			if crash := protect("client "+name, func() { err = program(ctx, h.env(at)) }); crash != nil {
				err = crash
			}
			done <- err
		}()
	}
	var err error
	select {
	case err = <-done:
	case <-h.dead:
	case <-h.unheeding(ctx):
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

// grace is how long a program may go on that was told to stop, for what it still waits for.
const grace = 30 * time.Second

// unheeding is closed when the program was told to stop and has not for so long: a lock's call
// doesn't return. Its last words stand in the record, and it is as good as killed.
func (h *host) unheeding(ctx context.Context) <-chan struct{} {
	late := make(chan struct{})
	var wait func()
	wait = func() {
		h.net.at(h.slot, h.net.now()+int64(grace), func() {
			switch {
			case h.killed || h.ended:
			case h.paused:
				h.whenRunning(h.slot, wait)
			default:
				close(late)
			}
		})
	}
	context.AfterFunc(ctx, func() {
		h.net.mu.Lock()
		defer h.net.mu.Unlock()
		if !h.killed && !h.ended {
			wait()
		}
	})
	return late
}

// host is the machine of a client; nil: there is no such client.
func (n *network) host(name string) *host {
	return find(n.hosts, func(h *host) bool { return h.name == name })
}

// node is a machine that isn't the resource.
func (n *network) node(name string) (*server, error) {
	if s := find(n.servers, func(s *server) bool { return s.name == name && s != n.resource }); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("there is no such client or node")
}

// up is a node that runs, of which something is asked, or says that it is down. The
// network's mutex is held.
func (n *network) up(what, target, down string) (*server, error) {
	s, err := n.node(target)
	if err == nil && s.node == nil {
		err = errors.New(down)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, target, err)
	}
	return s, nil
}

// failing is a node that has a master and a replica.
func (n *network) failing(target string) (*server, error) {
	s, err := n.node(target)
	switch {
	case err != nil:
		return nil, fmt.Errorf("fail over %s: %w", target, err)
	case s.replica == nil:
		return nil, fmt.Errorf("fail over %s: it has no replica: give topology.replicas", target)
	case s.node == nil:
		return nil, fmt.Errorf("fail over %s: its master is down already", target)
	}
	return s, nil
}

// replica is the one at the end of a link, also if it has become a master since.
func (n *network) replica(link string) *replica {
	for _, s := range n.servers {
		for _, r := range []*replica{s.replica, s.promoted} {
			if r != nil && r.link == link {
				return r
			}
		}
	}
	return nil
}

// find is the first that is what it is asked to be, or nil.
func find[T any](all []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}

var (
	_ nemesis.Killer    = (*cluster)(nil)
	_ nemesis.Restarter = (*cluster)(nil)
	_ nemesis.Shutter   = (*cluster)(nil)
)

// Kill kills a client for good, or a node's process.
func (c *cluster) Kill(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.host(target); h != nil {
		if over := h.over(); over != nil {
			return "", fmt.Errorf("kill %s: %w", target, over)
		}
		return fmt.Sprintf("%s was killed, its kernel closes %d connections", target, h.kill()), nil
	}
	s, err := c.up("kill", target, "it is down already")
	if err != nil {
		return "", err
	}
	before := s.identity()
	s.end(syscall.ECONNRESET)
	return fmt.Sprintf("%s was killed; PING: %s", before, s.ping()), nil
}

// Restart starts a killed node.
func (c *cluster) Restart(target string) (string, error) {
	c.inTurn(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("restart %s: %w", target, err)
	case s.node != nil:
		return "", fmt.Errorf("restart %s: it is up", target)
	}
	before := s.runID
	s.start()
	return fmt.Sprintf("was run_id %.8s, now %s; PING: %s", before, s.identity(), s.ping()), nil
}

// Shutdown ends a node in good order: what it wrote is on its disk.
func (c *cluster) Shutdown(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.up("shut down", target, "it is down already")
	switch {
	case err != nil:
		return "", err
	case s.paused || s.disk != nil && s.disk.Stalled:
		return "", fmt.Errorf("shut down %s: it does not answer", target)
	}
	before := s.identity()
	s.node.Shutdown()
	s.end(io.EOF)
	return fmt.Sprintf("%s was shut down; PING: %s", before, s.ping()), nil
}

// tokens numbers the values of keys, by their first appearance on a link, where a lock draws
// them from a source that nobody can seed. The numbers stand for them in what is recorded,
// and where dice are named by what a message holds: so a seed has one history. Nodes and
// clients have the values themselves. nil: they are the seed's own.
type tokens map[string]string

// of is the number of a value, or the value.
func (t tokens) of(value string) string {
	if number, known := t[value]; known {
		return number
	}
	return value
}

// note numbers the tokens of commands, and returns a request's bytes with the numbers in
// their place.
func (t tokens) note(payload []byte, commands []*resp.Command) []byte {
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

// hide returns a reply's bytes with the numbers in the tokens' place.
func (t tokens) hide(payload []byte, answers []*resp.Command) []byte {
	if t == nil {
		return payload
	}
	for _, c := range answers {
		payload = t.hideValue(payload, c.Reply)
	}
	return payload
}

func (t tokens) hideValue(payload []byte, v resp.Value) []byte {
	for _, item := range v.Items {
		payload = t.hideValue(payload, item)
	}
	return t.replace(payload, v.Str)
}

func (t tokens) replace(payload []byte, word string) []byte {
	if number, known := t[word]; known {
		return bytes.ReplaceAll(payload, []byte(word), []byte(number))
	}
	return payload
}

// Every random value is a hash of its name, never the next one of a sequence, so
// that it doesn't matter who asks first.

// mix hashes words by the finaliser of splitmix64 (Steele, Lea, Flood 2014).
func mix(words ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range words {
		h = (h ^ w) + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// sum hashes bytes (FNV-1a).
func sum[T string | []byte](b T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(b) {
		h = (h ^ uint64(b[i])) * 1099511628211
	}
	return h
}
