package liveness

import (
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// taken is what a kind of fault takes away from what it hits, for as long as it
// is in force.
type taken int

const (
	// none: no answer comes later, nor fails to come.
	none taken = iota
	// little: nothing that a lock needs for longer than a node time-out. A client has
	// other connections, and what was kept shows in its stamps.
	little
	// answers: the client or node does nothing, the link carries nothing. That a node
	// which was killed comes back without its keys is no matter here: it can vote, and
	// what it forgot can only free a lock.
	answers
	// all: nobody is promised anything, wherever it hits.
	all
)

// takes is what each kind of fault takes away. A kind that isn't here takes all, such as those
// that turn a clock: keys then live longer, and clients wait longer, by what the record
// doesn't tell. A clock that jumps is another matter: see takenBy. So is a stall of the host,
// which is nobody's fault and lengthens bounds: see stalls.go.
var takes = map[string]taken{
	history.OpStall: none,
	facts.Kill:      answers, facts.Shutdown: answers, facts.PowerLoss: answers, facts.Failover: answers, // of a client or node
	facts.Pause: answers, "gc": answers, // of a client
	"slow-disk": answers, "full-disk": answers, "unplug": answers, "starve": answers, // of a node
	facts.Cut: answers, "delay": answers, "throttle": answers, "lose": answers, // of a link
	"hold": little, "drop": little, // a single message
	"touch": little, // another key
}

// costs is the same for kinds of which the record says it.
var costs = map[string]taken{history.CostsNothing: none, history.CostsLittle: little, history.CostsAnswers: answers}

// quorumOf is how many nodes' votes the lock needs: as many as the record says, or a majority.
func quorumOf(p *history.Params) int {
	if nodes := len(p.Nodes); p.Quorum <= 0 || p.Quorum > nodes {
		return nodes/2 + 1
	}
	return p.Quorum
}

// rounds is how long a lock that is free and available may go without a grant.
func rounds(p *history.Params) int64 {
	return int64(p.Rounds)*int64(p.NodeTimeout+p.RetryMax) + int64(p.Slack)
}

// missingFigure names a figure that a bound of liveness needs and the history lacks.
func missingFigure(p *history.Params) string {
	switch {
	case p.TTL == 0:
		return "TTL"
	case p.NodeTimeout == 0:
		return "node time-out"
	case p.RetryMax == 0:
		return "retry delay"
	}
	return ""
}
