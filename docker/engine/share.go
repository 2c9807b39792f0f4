//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"lockpick/nemesis"
)

// Bound lets a container use no more than a share of its machine; the zero Share is all.
func (e *Engine) Bound(ctx context.Context, id string, s Share) error {
	r := container.Resources{CPUQuota: s.Quota.Microseconds(), Memory: s.Memory, MemorySwap: s.Memory}
	if s == (Share{}) {
		r = container.Resources{CPUQuota: -1, Memory: allMemory, MemorySwap: allMemory}
	}
	if s.Quota > 0 {
		r.CPUPeriod = SharePeriod.Microseconds()
	}
	_, err := e.API.ContainerUpdate(ctx, id, container.UpdateConfig{Resources: r})
	return err
}

// allMemory is more than any machine has: an engine has no word for no bound, once
// there was one.
const allMemory = 1 << 50

// Bounds is what the engine says that a container may use.
func (e *Engine) Bounds(ctx context.Context, id string) (Share, error) {
	is, err := e.API.ContainerInspect(ctx, id)
	if err != nil {
		return Share{}, err
	}
	s := Share{max(0, time.Duration(is.HostConfig.CPUQuota)*time.Microsecond), is.HostConfig.Memory}
	if s.Memory == allMemory {
		s.Memory = 0
	}
	return s, nil
}

// Used is what a container has lacked of its machine, as the engine says.
func (e *Engine) Used(ctx context.Context, id string) (usage, error) {
	is, err := e.API.ContainerInspect(ctx, id)
	if err != nil {
		return usage{}, err
	}
	if !is.State.Running {
		return usage{Ended: fmt.Sprintf("it has ended with status %d, for want of memory: %v", is.State.ExitCode, is.State.OOMKilled)}, nil
	}
	answer, err := e.API.ContainerStatsOneShot(ctx, id)
	if err != nil {
		return usage{}, err
	}
	defer answer.Body.Close()
	var s container.StatsResponse
	err = json.NewDecoder(answer.Body).Decode(&s)
	cpu := s.CPUStats.ThrottlingData
	return usage{Periods: cpu.Periods, Throttled: cpu.ThrottledPeriods, Memory: s.MemoryStats.Usage}, err
}

// Starved says whether a container has ended for want of memory.
func (e *Engine) Starved(ctx context.Context, id string) bool {
	is, err := e.API.ContainerInspect(ctx, id)
	return err == nil && is.State.OOMKilled
}

// Starves says why the engine can't bound what containers use; "": it can.
func (e *Engine) Starves(ctx context.Context) (reason string) {
	about, err := e.API.Info(ctx)
	switch {
	case err != nil:
		return "the engine does not say what it can bound: " + FirstLine(err)
	case !about.CPUCfsQuota:
		return "the engine's kernel can't bound the processor of a container"
	case !about.MemoryLimit:
		return "the engine's kernel can't bound the memory of a container"
	}
	return ""
}

// Share is what a container may use of its machine.
type Share struct {
	Quota  time.Duration // of processors in each SharePeriod; 0: no bound
	Memory int64         // bytes, with swap; 0: no bound
}

// SharePeriod is what the kernel counts processor time by, unless told otherwise.
const SharePeriod = 100 * time.Millisecond

func (s Share) String() string {
	var parts []string
	if s.Quota > 0 {
		parts = append(parts, fmt.Sprintf("%v of a processor in each %v", s.Quota, SharePeriod))
	}
	if s.Memory > 0 {
		parts = append(parts, nemesis.Bytes(int(s.Memory))+" of memory")
	}
	return strings.Join(parts, ", ")
}

// usage is what a container has met that was bound to a share of its machine.
type usage struct {
	Ended              string // how; "": it has not
	Periods, Throttled uint64 // of SharePeriod; those in which it wanted more
	Memory             uint64 // bytes that it uses
}

func (h usage) String() string {
	if h.Ended != "" {
		return h.Ended
	}
	return fmt.Sprintf("it was throttled in %d of %d periods, and uses %d KB of memory", h.Throttled, h.Periods, h.Memory>>10)
}
