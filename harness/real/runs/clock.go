//go:build linux

package runs

import (
	"time"

	"lockpick/harness/real/skew"
)

// TurnClock turns the clocks of a node or a client.
func (r *Run[S]) TurnClock(target string, by time.Duration, rate float64) (string, error) {
	return r.Clocks.Turn(target, by, rate)
}

// clockOf is a node's server, as far as its clock can be asked.
func (r *Run[S]) clockOf(node string) skew.Node {
	n, ok := r.Nodes.Find(node)
	if !ok {
		return skew.Node{}
	}
	read := func() (skew.Reading, error) { return r.ReadTime(n) }
	return skew.Node{Name: n.Redis().Name, Runs: n.Runs(), Mute: n.Mute(), Time: read, Ended: n.Ended}
}

// ReadTime asks a server for its clock, past the links.
func (r *Run[S]) ReadTime(s S) (skew.Reading, error) {
	reply, err := r.AskStamped(r.Ctx, s.Redis().Addr(), "TIME")
	if err != nil {
		return skew.Reading{}, err
	}
	return skew.Told(reply.Value, reply.From, reply.To)
}
