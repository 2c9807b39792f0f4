package liveness

import "lockpick/harness/history"

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
