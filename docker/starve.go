//go:build linux

package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"lockpick/nemesis"
)

var _ nemesis.Starver = (*cluster)(nil)

// Starve leaves a node little of its machine, and reads back what the engine holds it to.
func (c *cluster) Starve(node string, cpu float64, memory int) (string, error) {
	n := c.at(node)
	n.changing.Lock()
	defer n.changing.Unlock()
	switch {
	case !n.Runs():
		return "", fmt.Errorf("starve %s: it does not run", node)
	case n.starved.Load():
		return "", fmt.Errorf("starve %s: it is starved already", node)
	}
	n.spoiled.Store(true)
	n.starved.Store(true)
	n.everStarved.Store(true)
	n.tell(c.Ctx)
	want := share{quota: time.Duration(cpu * float64(sharePeriod)).Round(time.Microsecond), memory: int64(memory)}
	if err := n.engine.bound(c.Ctx, n.id, want); err != nil {
		return "", fmt.Errorf("starve %s: %w", node, err)
	}
	is, err := n.engine.bounds(c.Ctx, n.id)
	if err != nil {
		return "", fmt.Errorf("starve %s: %w", node, err)
	}
	if is != want {
		return "", fmt.Errorf("starve %s: the engine says that it may use %v", node, is)
	}
	return fmt.Sprintf("container %.12s may use %v", n.id, is), nil
}

// Feed ends that, and says what the node met meanwhile. One that has ended for want of
// memory stays down.
func (c *cluster) Feed(node string) (string, error) {
	n := c.at(node)
	n.changing.Lock()
	defer n.changing.Unlock()
	err := n.engine.bound(c.Ctx, n.id, share{})
	if err != nil && n.ends() {
		err = n.engine.bound(c.Ctx, n.id, share{}) // for when it is started again
	}
	if err != nil {
		return "", fmt.Errorf("feed %s: %w", node, err)
	}
	heard, err := n.heard(c.Ctx)
	n.starved.Store(false)
	n.tell(c.Ctx)
	if err != nil {
		return "", fmt.Errorf("feed %s: %w", node, err)
	}
	met, err := n.engine.usage(c.Ctx, n.id)
	if err != nil {
		return "", fmt.Errorf("feed %s: %w", node, err)
	}
	back := met.String() + "; " + heard
	if met.periods > 0 && met.throttled == 0 {
		return back, nemesis.ErrIdle
	}
	return back, nil
}

// ends says whether it is just ending, of which the engine may know before we do.
func (n *node) ends() bool {
	select {
	case <-n.Done():
		return true
	case <-time.After(time.Second):
		return false
	}
}

// bound lets a container use no more than a share of its machine; the zero share is all.
func (e *engine) bound(ctx context.Context, id string, s share) error {
	r := container.Resources{CPUQuota: s.quota.Microseconds(), Memory: s.memory, MemorySwap: s.memory}
	if s == (share{}) {
		r = container.Resources{CPUQuota: -1, Memory: allMemory, MemorySwap: allMemory}
	}
	if s.quota > 0 {
		r.CPUPeriod = sharePeriod.Microseconds()
	}
	_, err := e.api.ContainerUpdate(ctx, id, container.UpdateConfig{Resources: r})
	return err
}

// allMemory is more than any machine has: an engine has no word for no bound, once
// there was one.
const allMemory = 1 << 50

// bounds is what the engine says that a container may use.
func (e *engine) bounds(ctx context.Context, id string) (share, error) {
	is, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return share{}, err
	}
	s := share{max(0, time.Duration(is.HostConfig.CPUQuota)*time.Microsecond), is.HostConfig.Memory}
	if s.memory == allMemory {
		s.memory = 0
	}
	return s, nil
}

// usage is what a container has lacked of its machine, as the engine says.
func (e *engine) usage(ctx context.Context, id string) (usage, error) {
	is, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return usage{}, err
	}
	if !is.State.Running {
		return usage{ended: fmt.Sprintf("it has ended with status %d, for want of memory: %v", is.State.ExitCode, is.State.OOMKilled)}, nil
	}
	answer, err := e.api.ContainerStatsOneShot(ctx, id)
	if err != nil {
		return usage{}, err
	}
	defer answer.Body.Close()
	var s container.StatsResponse
	err = json.NewDecoder(answer.Body).Decode(&s)
	cpu := s.CPUStats.ThrottlingData
	return usage{periods: cpu.Periods, throttled: cpu.ThrottledPeriods, memory: s.MemoryStats.Usage}, err
}

// starved says whether a container has ended for want of memory.
func (e *engine) starved(ctx context.Context, id string) bool {
	is, err := e.api.ContainerInspect(ctx, id)
	return err == nil && is.State.OOMKilled
}

// starves says why the engine can't bound what containers use; "": it can.
func (e *engine) starves(ctx context.Context) (reason string) {
	about, err := e.api.Info(ctx)
	switch {
	case err != nil:
		return "the engine does not say what it can bound: " + firstLine(err)
	case !about.CPUCfsQuota:
		return "the engine's kernel can't bound the processor of a container"
	case !about.MemoryLimit:
		return "the engine's kernel can't bound the memory of a container"
	}
	return ""
}

// share is what a container may use of its machine.
type share struct {
	quota  time.Duration // of processors in each sharePeriod; 0: no bound
	memory int64         // bytes, with swap; 0: no bound
}

// sharePeriod is what the kernel counts processor time by, unless told otherwise.
const sharePeriod = 100 * time.Millisecond

func (s share) String() string {
	var parts []string
	if s.quota > 0 {
		parts = append(parts, fmt.Sprintf("%v of a processor in each %v", s.quota, sharePeriod))
	}
	if s.memory > 0 {
		parts = append(parts, nemesis.Bytes(int(s.memory))+" of memory")
	}
	return strings.Join(parts, ", ")
}

// usage is what a container has met that was bound to a share of its machine.
type usage struct {
	ended              string // how; "": it has not
	periods, throttled uint64 // of sharePeriod; those in which it wanted more
	memory             uint64 // bytes that it uses
}

func (h usage) String() string {
	if h.ended != "" {
		return h.ended
	}
	return fmt.Sprintf("it was throttled in %d of %d periods, and uses %d KB of memory", h.throttled, h.periods, h.memory>>10)
}
