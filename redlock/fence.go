package redlock

import "context"

// grantFenced asks all nodes for the key and for their counts of its grants.
// The fencing token is the highest count of those that granted.
//
// Two quorums share a node, but the next holder's quorum may share only one
// whose count is low. So the token is written back to every node that granted
// and is behind, by a script that looks whether the key is still this
// attempt's, and a node which does not confirm it has no vote. Then each node of
// this quorum counts at least as high as the token, and the next grant on any of
// them is above it.
func (c *Client) grantFenced(ctx context.Context, key, token string) ([]Answer, int64) {
	answers := c.ask(ctx, c.all, Request{Op: OpSetFenced, Key: key, Token: token, Terms: Terms{TTL: c.cfg.TTL}})
	if Count(answers).Yes < Quorum(len(c.all)) {
		return answers, 0 // there is no lock to give a token to
	}
	fence, behind := Highest(answers)
	if len(behind) == 0 {
		return answers, fence
	}
	raised := c.ask(ctx, behind, Request{Op: OpRaiseFence, Key: key, Token: token, Count: fence})
	for _, r := range raised { // answers has one for each node, in order
		answers[r.Node] = r
	}
	return answers, fence
}

// Highest returns the highest count, and the nodes that granted with a lower one.
func Highest(answers []Answer) (fence int64, behind []int) {
	for _, a := range answers {
		if a.Yes() {
			fence = max(fence, a.Value)
		}
	}
	for _, a := range answers {
		if a.Yes() && a.Value < fence {
			behind = append(behind, a.Node)
		}
	}
	return fence, behind
}
