package harness

import (
	"fmt"

	"lockpick/harness/history"
)

// Lack is something that clients asked a node for, which Redis has and a cluster's nodes
// don't.
type Lack struct {
	Node  string
	What  string // the command, or part of one
	Times int
}

// lacking is a cluster whose nodes don't have all that Redis has.
type lacking interface{ Lacks() []Lack }

// recordLacks records once what the cluster could not do: a lock that got an error there has
// not met Redis.
func recordLacks(on Cluster, rec record) {
	c, ok := on.(lacking)
	if !ok {
		return
	}
	for _, l := range c.Lacks() {
		rec.add(history.Event{Process: history.Harness, Type: history.Info, Op: history.OpLack, Node: l.Node, Value: l.What,
			Cause: fmt.Sprintf("asked for %d times", l.Times)})
	}
}
