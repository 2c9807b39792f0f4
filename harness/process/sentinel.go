//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

var _ nemesis.SentinelFailOverer = (*cluster)(nil)

const (
	sentinels = 3
	quorum    = 2 // of them must agree that a master is down

	promoteBound = 30 * time.Second // elections, some in vain, a second of Redis's own randomness, and a busy machine
	demoteBound  = 15 * time.Second // Redis before 7.0 waits for 8 s, and looks each 10 s

	// urgent is failover-timeout while a master is down: where each sentinel has voted for
	// itself, they vote again after twice as long. A promotion must be done in one of it.
	urgent = 3 * time.Second
)

// startSentinels starts those that watch the nodes which the plan leaves to them, and
// returns once they know each other and the replicas. They don't watch the others:
// who pauses a node by another fault doesn't want it replaced. They reach everybody
// past all links, so that no cut between a client and a node is one for them.
func (c *cluster) startSentinels(s harness.Scenario, bin string) error {
	nodes := s.BySentinel()
	if len(nodes) == 0 {
		return nil
	}
	// For as long as failover-timeout a sentinel leaves a replica alone that follows
	// another address than the master's, and ours follow their links, which can be cut.
	c.leisure = s.Limit + 3*time.Minute
	c.sentinels = make([]*proc.Sentinel, sentinels)
	return c.bySentinels(func(i int) (err error) {
		if c.sentinels[i], err = c.group.StartSentinel(c.ctx, fmt.Sprintf("sentinel%d", i+1), bin); err != nil {
			return err
		}
		for _, node := range nodes {
			set := proc.SentinelSettings{Quorum: quorum, DownAfter: s.Topology.DownAfter, FailoverTimeout: c.leisure}
			if err := c.sentinels[i].Watch(c.ctx, node, c.nodes[node].Addr(), set); err != nil {
				return err
			}
		}
		for _, node := range nodes {
			if err := c.sentinels[i].Ready(c.ctx, node, sentinels); err != nil {
				return err
			}
		}
		return nil
	})
}

// bySentinels does something for each of them, all at once.
func (c *cluster) bySentinels(f func(i int) error) error {
	errs := make([]error, len(c.sentinels))
	var all sync.WaitGroup
	for i := range c.sentinels {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// FailOverBySentinel takes a node's master away and waits until a quorum of its
// sentinels says that the replica is the master, and the replica says so, too. Only
// then the clients' links lead to it.
func (c *cluster) FailOverBySentinel(node string, stop bool) (string, error) {
	c.mu.Lock()
	master, replica := c.nodes[node], c.replicas[node]
	c.mu.Unlock()
	if replica == nil {
		return "", fmt.Errorf("fail over %s: it has no replica", node)
	}
	if n := c.agree(node, master.Addr()); n < quorum {
		return "", fmt.Errorf("fail over %s: only %d sentinels watch its master", node, n)
	}
	take := master.Kill
	if stop {
		take = master.Stop
	}
	gone, err := take()
	if err != nil {
		return "", err
	}
	began := c.Now()
	if err := c.awaitPromotion(node, replica); err != nil {
		return "", fmt.Errorf("fail over %s: %w", node, err)
	}
	took := (c.Now() - began).Round(time.Millisecond)
	defer c.mesh.Gate(node)()
	back, err := replica.Promoted(c.ctx)
	if err != nil {
		return "", err
	}
	c.takePlace(node, replica)
	c.mu.Lock()
	c.formers[node] = master
	c.mu.Unlock()
	return fmt.Sprintf("promoted by its sentinels after %v: %s; %s", took, back, gone), nil
}

// agree counts the sentinels that say a node's master is at addr.
func (c *cluster) agree(node, addr string) int {
	n := 0
	for _, s := range c.sentinels {
		if is, err := s.Master(c.ctx, node); err == nil && is == addr {
			n++
		}
	}
	return n
}

var errNoPromotion = errors.New("its sentinels promoted nobody")

func (c *cluster) awaitPromotion(node string, replica *proc.Redis) error {
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.promotes, errNoPromotion)
	defer cancel()
	hurried := map[*proc.Sentinel]bool{}
	for c.agree(node, replica.Addr()) < quorum {
		c.hurry(node, hurried)
		select {
		case <-ctx.Done():
			if c.ctx.Err() != nil {
				return context.Cause(c.ctx)
			}
			err := fmt.Errorf("%w in %v; the last word of one of them: %s", errNoPromotion, c.promotes, lastLine(c.sentinels[0].Log()))
			return errors.Join(err, c.bySentinels(func(i int) error { return c.sentinels[i].SetFailoverTimeout(c.ctx, node, c.leisure) }))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// hurry shortens failover-timeout in each sentinel that takes a node's master for
// dead. Not before: with a master that is well they would make its replica follow it
// past the link.
func (c *cluster) hurry(node string, done map[*proc.Sentinel]bool) {
	for _, s := range c.sentinels {
		if !done[s] && s.SeesDown(c.ctx, node) {
			done[s] = s.SetFailoverTimeout(c.ctx, node, urgent) == nil
		}
	}
}

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// ReturnMaster brings an old master back, as it was stopped or with what its disk has
// kept, and waits until the sentinels have made it follow the new one. Where they
// don't, that is what became of it, and no error.
func (c *cluster) ReturnMaster(node string) (string, error) {
	c.mu.Lock()
	old, now := c.formers[node], c.nodes[node]
	delete(c.formers, node)
	c.mu.Unlock()
	if old == nil {
		return "", fmt.Errorf("return the old master of %s: its sentinels have replaced none", node)
	}
	var err error
	if old.Runs() {
		_, err = old.Continue()
	} else {
		_, err = old.Restart(c.ctx)
	}
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", node, err)
	}
	had, err := old.Keys(c.ctx)
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", node, err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, demoteBound)
	defer cancel()
	for {
		if follows, err := old.Follows(ctx, now.Addr()); err == nil && follows {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Sprintf("the old master is back with %d keys, and does not follow the new one after %v", had, demoteBound), nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	has, err := old.Keys(c.ctx)
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", node, err)
	}
	return fmt.Sprintf("the old master is back with %d keys and follows the new one, now with %d", had, has), nil
}
