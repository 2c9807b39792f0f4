//go:build linux

package docker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// packetLossScenario returns a scenario with a plan to drop packets on c1's links to n1 and to the
// resource, when the test chooses to.
func packetLossScenario() scenario.Scenario {
	s := twoNodes
	s.Plan = nemesis.Plan{{
		Fault: nemesis.Fault{Kind: "cut", Mode: nemesis.CutPackets, Targets: []string{"c1-n1", "c1-r1"}},
	}}
	return s
}

// isAnswered reports whether a PING over a link is answered before the timeout.
func (b testRun) isAnswered(client string, node int, timeout time.Duration) bool {
	b.Helper()
	addrs, _ := b.Addresses(client)
	ctx, cancel := context.WithTimeout(b.T.Context(), timeout)
	defer cancel()
	_, err := b.testbed.ask(ctx, append(addrs.Nodes, addrs.Resource)[node].Addr, "PING")
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		b.Logf("PING from %s: %v", client, err)
	}
	return err == nil
}

const (
	silenceWait = 100 * time.Millisecond
	answerWait  = 5 * time.Second
)

// CutPackets drops only packets on the given link, even after the node restarts. Closing a filter leaves
// no rules behind.
func TestCutPacketsOfOneLink(t *testing.T) {
	run(t, packetLossScenario(), func(b testRun) {
		for _, c := range []struct {
			link, way string
			node      int
		}{{"c1-n1", "", 0}, {"c1-n1", nemesis.Request, 0}, {"c1-n1", nemesis.Reply, 0}, {"c1-r1", "", 2}} {
			back := b.do("cut", func() (string, error) { return b.CutPackets(c.link, c.way) })
			if !strings.HasPrefix(back, "PING got no answer: ") || !strings.HasSuffix(back, " packets were dropped") {
				t.Errorf("%+v: cut returned %q", c, back)
			}
			if b.isAnswered("c1", c.node, silenceWait) || !b.isAnswered("c1", 1, answerWait) || c.node == 2 && !b.isAnswered("c2", 2, answerWait) {
				t.Errorf("%+v: the link is not cut, or another link is", c)
			}
			if _, err := b.CutPackets(c.link, c.way); err == nil || !strings.Contains(err.Error(), "already dropped") {
				t.Errorf("%+v: second cut: %v", c, err)
			}
			back = b.do("mend", func() (string, error) { return b.MendPackets(c.link) })
			if !strings.HasSuffix(back, " packets were dropped; PING was answered") {
				t.Errorf("%+v: restore returned %q", c, back)
			}
		}
		b.do("cut", func() (string, error) { return b.CutPackets("c1-n1", "") })
		b.do("kill", func() (string, error) { return b.Kill("n1") })
		b.do("restart", func() (string, error) { return b.Restart("n1") })
		if b.isAnswered("c1", 0, silenceWait) {
			t.Error("the link is not cut after the node's restart")
		}
		b.do("mend", func() (string, error) { return b.MendPackets("c1-n1") })
		if _, err := b.CutPackets("c2-n2", ""); err == nil {
			t.Error("no error for a node that the plan does not name")
		}
		b.do("cut", func() (string, error) { return b.CutPackets("c1-r1", "") }) // until the end of the run
		r1, f := b.ResourceServer.(*node), b.byNode["r1"]
		if err := f.close(t.Context()); err != nil {
			t.Error(err)
		}
		if r1.modified.Load() || !b.isAnswered("c1", 2, answerWait) {
			t.Error("closing the filter left rules behind")
		}
		delete(b.byNode, "r1")
	})
}

// If the kernel does not permit dropping packets, makeFilter fails, so that the run does not begin.
func TestFilterWithoutCapability(t *testing.T) {
	run(t, twoNodes, func(b testRun) {
		_, err := makeFilter(t.Context(), b.ResourceServer.(*node), "")
		if err == nil || !strings.Contains(err.Error(), "the capability NET_ADMIN is required") {
			t.Errorf("got %v, want the missing capability", err)
		}
	})
}
