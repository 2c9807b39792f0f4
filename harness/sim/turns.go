package sim

// inTurn waits for an instant that a node has for itself: whoever does something to several
// nodes at once does it to one after the other, so that what they tell has an order.
func (n *network) inTurn(target string) {
	n.mu.Lock()
	s, err := n.node(target)
	n.mu.Unlock()
	if err == nil {
		n.sleep(s.slot, n.now())
	}
}

// whenIdle waits while a node waits for a sync that will come back, or does what came
// meanwhile. The network's lock is held, and let go of meanwhile.
func (n *network) whenIdle(s *server) {
	for s.node != nil && !s.paused && (s.disk == nil || !s.disk.Stalled) && !s.runs() {
		slot, next := s.slot, n.now()+int64(minSync)
		n.mu.Unlock()
		n.sleep(slot, next)
		n.mu.Lock()
	}
}
