package network

import "fmt"

// Range is the local ports that a link dials its node from, by which its packets are
// told apart where a node's machine sees them.
type Range struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Ports is the range of a link.
func (n *Network) Ports(name string) (Range, error) {
	l, err := n.link("find the ports of", name)
	if err != nil {
		return Range{}, err
	}
	first, last := l.Ports()
	if first == 0 {
		return Range{}, fmt.Errorf("find the ports of %s: links dial from any", name)
	}
	return Range{first, last}, nil
}

// Silent sees that PING gets no answer on a link whose packets are lost below it.
func (n *Network) Silent(name string) (readBack string, err error) {
	l, err := n.link("see the silence of", name)
	if err != nil {
		return "", err
	}
	if err = n.ping(l, silence); err == nil {
		return "", fmt.Errorf("cut %s: PING is still answered", name)
	}
	return fmt.Sprintf("PING got no answer: %v", err), nil
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
