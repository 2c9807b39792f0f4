//go:build linux

package real

import (
	"context"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/fuse"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
)

// New returns a run that has not begun, without servers.
func New[S server](ctx context.Context, rec *history.Recorder) *Run[S] {
	r := &Run[S]{rec: rec, True: proc.TrueClock, clients: map[string]*Client{}, ended: map[string]bool{}}
	r.Timeline = proc.NewTimeline(ctx)
	r.Ctx = r.Timeline.Context()
	r.Clocks = clocks{Recorder: rec, Origin: r.Origin, Node: r.clockOf, Client: func(name string) *clientClock {
		p := r.Client(name)
		if p == nil {
			return nil
		}
		return &clientClock{In: p.In, Clocks: p.clocks, Ended: p.Done(), Paused: p.Paused, True: r.True}
	}, Over: r.over}
	r.Disks = &fuse.Disks{Kill: r.Kill, Runs: func(node string) bool { return r.Nodes.Server(node).Runs() }}
	r.Nodes = &Nodes[S]{Context: r.Ctx, Kill: r.Kill, Pause: r.Pause, Turn: r.turn,
		Gate: func(node string) (func() error, error) { return r.Links.Gate(node) }}
	return r
}

// SetUp does, once the links are there, what is left to be done before a run can begin:
// the nodes tell of their keys where they can, each replica follows its node over a link
// of its own, and sentinels watch.
func (r *Run[S]) SetUp(s scenario.Scenario, replicas map[string]S, sentinel startSentinel) error {
	addrs := map[string]string{}
	for _, node := range s.NodeNames() {
		addrs[node] = r.Nodes.Server(node).Redis().Addr()
	}
	r.tells = s.Topology.Server == "" && r.LetTell(addrs) == nil // the run does without: Probe says what keeps them from it
	for node, replica := range replicas {
		link, err := r.OpenReplication(node, addrs[node])
		if err != nil {
			return err
		}
		if err := r.replicate(node, replica, link); err != nil {
			return err
		}
	}
	if err := r.Watch(s, sentinel); err != nil {
		return err
	}
	if s.Topology.Server == "" && s.Topology.Persistence == "everysec" {
		return r.awaitSecond(s.NodeNames()[0])
	}
	return nil
}

// awaitSecond lets a run under everysec begin with a second of the nodes' wall clock.
// Redis up to 7.0 counts by these, not from its last sync: a plan that places a crash
// between two syncs needs no luck then.
func (r *Run[S]) awaitSecond(node string) error {
	now, err := r.ReadTime(r.Nodes.Server(node))
	if err != nil {
		return err
	}
	select {
	case <-r.Ctx.Done():
		return context.Cause(r.Ctx)
	case <-time.After(time.Second - time.Duration(now.Wall)%time.Second):
		return nil
	}
}

// turn lets a node's links lead to its replica. The disk was the dead master's.
func (r *Run[S]) turn(node, upstream string) error {
	r.Forget(node)
	r.Again(node, upstream, history.Failover)
	return r.Links.Turn(node, upstream)
}
