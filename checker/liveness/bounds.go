package liveness

import "lockpick/harness/history"

// quorumOf is how many of so many nodes are a majority.
func quorumOf(nodes int) int { return nodes/2 + 1 }

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
