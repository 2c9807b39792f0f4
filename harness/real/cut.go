package real

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"lockpick/harness/real/proc"
	"lockpick/harness/real/proxy"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

var _ nemesis.Cutter = (*Network)(nil)

const (
	silence = 20 * time.Millisecond // without an answer for so long, a link is cut: it takes 0.1 ms otherwise
	patient = 2 * time.Second       // a mended link answers within

	// slowly is how long a PING is waited for that is meant to be slow.
	slowly = time.Second
)

// word is what a node is asked to see whether its link passes anything.
func word(n *Network, l *proxy.Link) string {
	if stored(n, l) {
		return "GET " + n.Store.Question
	}
	return "PING"
}

// stored says whether a link leads to a member of a store.
func stored(n *Network, l *proxy.Link) bool {
	return n.Store != nil && nodeOf(l) != scenario.ResourceName
}

// Cut cuts a link, and sees what PING meets there.
func (n *Network) Cut(name, mode, way string) (string, error) {
	l, err := n.link("cut", name)
	if err != nil {
		return "", err
	}
	before, within := -1, silence
	if way == nemesis.Reply && !n.Mute(nodeOf(l)) && !stored(n, l) {
		before = pings(n, name)
	}
	if l.Disturbed() {
		within = slowly // it may be slow as well
	}
	if err := l.Cut(mode, way); err != nil {
		return "", err
	}
	err = n.ping(l, within)
	asked := word(n, l)
	switch {
	case err == nil:
		return "", fmt.Errorf("cut %s: %s is still answered", name, asked)
	case mode == nemesis.CutReset:
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return "", fmt.Errorf("cut %s: %s was not reset: %w", name, asked, err)
		}
		return asked + " was reset", nil
	case mode == nemesis.CutRefuse:
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return "", fmt.Errorf("cut %s: %s was not refused: %w", name, asked, err)
		}
		return asked + " was refused", nil
	case way == nemesis.Reply && before >= 0:
		if !pinged(n, name, before) {
			return "", fmt.Errorf("cut %s: PING did not reach the node, and only replies are cut", name)
		}
		return fmt.Sprintf("PING got no answer, though the node gave one: %v", err), nil
	}
	return fmt.Sprintf("%s got no answer: %v", asked, err), nil
}

// pinged waits until the node of a link has answered PING more often than before. On a
// busy machine the PING may still be on its way when its sender's patience is over.
func pinged(n *Network, name string, before int) bool {
	for end := time.Now().Add(patient); pings(n, name) <= before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) || n.ctx.Err() != nil {
			return false
		}
	}
	return true
}

// pings is how many times the node of a link has answered PING, or −1 if it is down.
func pings(n *Network, name string) int {
	_, node, _ := nemesis.SplitLink(name)
	if n.Down(node) {
		return -1
	}
	v, err := proc.Ask(n.ctx, n.Addr(node), "INFO", "commandstats")
	if err != nil {
		return -1
	}
	_, stat, _ := strings.Cut(v.Str, "cmdstat_ping:calls=")
	count := 0
	fmt.Sscanf(stat, "%d", &count) // nothing there: it has answered none
	return count
}

// Mend mends a link and sees that PING gets an answer, if its node lives.
func (n *Network) Mend(name string) (string, error) {
	l, err := n.link("mend", name)
	if err != nil {
		return "", err
	}
	if err := l.Mend(); err != nil {
		return "", err
	}
	back, err := n.answers(l)
	if err != nil {
		return "", fmt.Errorf("mend %s: %w", name, err)
	}
	return back, nil
}

// answers reads back that a link passes PING, as far as its node lives and
// nothing else is done to it.
func (n *Network) answers(l *proxy.Link) (string, error) {
	if l.Disturbed() {
		return "something else is done to the link", nil
	}
	if n.Mute(nodeOf(l)) {
		return "the node is stopped, or waits for its disk, and answers nobody", nil
	}
	err := n.ping(l, patient)
	switch {
	case err == nil:
		return word(n, l) + " was answered", nil
	case l.Disturbed():
		return "something else is done to the link", nil
	case n.Mute(nodeOf(l)):
		return "the node was stopped, or waits for its disk, and answers nobody", nil
	case errors.Is(err, context.DeadlineExceeded) && stored(n, l) && !n.Down(nodeOf(l)):
		return "the node runs, and has not joined a majority of the others", nil
	case errors.Is(err, context.DeadlineExceeded) && !n.Down(nodeOf(l)): // whose address may swallow what is sent there
		return "", err
	}
	return fmt.Sprintf("the node is down: %v", err), nil
}

func nodeOf(l *proxy.Link) string {
	_, node, _ := nemesis.SplitLink(l.Name())
	return node
}

func (n *Network) ping(l *proxy.Link, within time.Duration) error {
	ctx, cancel := context.WithTimeout(n.ctx, within)
	defer cancel()
	var err error
	if stored(n, l) {
		err = n.Store.Ask(ctx, l.Addr())
	} else {
		_, err = proc.Ask(ctx, l.Addr(), "PING")
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("none within %v: %w", within, ctx.Err())
	}
	return err
}

// Range is the local ports that a link dials its node from, by which its packets are
// told apart where a node's machine sees them.
type portRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Ports is the range of a link.
func (n *Network) Ports(name string) (portRange, error) {
	l, err := n.link("find the ports of", name)
	if err != nil {
		return portRange{}, err
	}
	first, last := l.Ports()
	if first == 0 {
		return portRange{}, fmt.Errorf("find the ports of %s: links dial from any", name)
	}
	return portRange{first, last}, nil
}

// Silent sees that PING gets no answer on a link whose packets are lost below it.
func (n *Network) Silent(name string) (readBack string, err error) {
	l, err := n.link("see the silence of", name)
	if err != nil {
		return "", err
	}
	if err = n.ping(l, silence); err == nil {
		return "", fmt.Errorf("cut %s: %s is still answered", name, word(n, l))
	}
	return fmt.Sprintf("%s got no answer: %v", word(n, l), err), nil
}

// Heard sees that PING gets an answer when packets pass again, as far as the node can.
func (n *Network) Heard(name string) (readBack string, err error) {
	l, err := n.link("hear", name)
	if err != nil {
		return "", err
	}
	if readBack, err = n.answers(l); err != nil {
		return "", fmt.Errorf("mend %s: %w", name, err)
	}
	return readBack, nil
}
