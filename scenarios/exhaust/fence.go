package exhaust

import "math/bits"

// Where grants are counted an attempt has two rounds: all nodes are asked for the key and for their
// counts of its grants, and the highest of them, which is the token, is written back to those that
// granted with a lower one. Who does not confirm that has no vote.
//
//	SET ──► counts 3, 1, 2 ──► token 3 ──► RAISE to 3 on the second and the third ──► votes

// fenced is how an attempt that counts can go on once its first round is over. It matters
// which counts were heard: where replies are merged into that, any that can be there may be.
func (w walk) fenced(c int) {
	l := w.current(w.from, c)
	voted, _ := w.replies(c, func(n *node) *request { return &n.set[l] })
	for heard := voted; ; heard = (heard - 1) & voted {
		if bits.OnesCount8(heard) >= w.quorum {
			w.count(c, heard)
		}
		if !w.Merge || heard == 0 {
			break
		}
	}
	if w.Merge || bits.OnesCount8(voted) < w.quorum || w.from.over[l] > 0 {
		w.step(w.of(c, failed), func(t *state) { w.fail(t, c) })
	}
}

// count gives the token by the counts that were heard.
func (w walk) count(c int, heard uint8) {
	l := w.current(w.from, c)
	fence, behind := w.token(l, heard)
	did := w.of(c, Raising)
	did.Heard, did.Behind, did.Fence = heard, behind, fence
	if behind == 0 {
		if w.from.over[l] == 0 || w.noElapsed {
			did.Action = acquired
			w.step(did, func(t *state) { w.acquire(t, c, fence) })
		}
		return
	}
	w.step(did, func(t *state) {
		t.client[c].phase, t.fence[l] = raising, fence
		for i := range w.Nodes {
			n := &t.node[i]
			switch n.granted[l] = 0; {
			case behind>>i&1 == 1:
				n.set[l], n.raise[l] = none, flying
			case heard>>i&1 == 1:
				n.set[l] = heardYes // its vote stands
			case n.set[l] != flying:
				n.set[l] = none
			}
		}
	})
}

// token is the highest count of those that were heard, and which of them are behind it.
func (w walk) token(l int, heard uint8) (fence, behind uint8) {
	for i := range w.Nodes {
		if n := &w.from.node[i]; heard>>i&1 == 1 && (!w.firstCount || fence == 0) {
			fence = max(fence, n.granted[l])
		}
	}
	for i := range w.Nodes {
		if n := &w.from.node[i]; heard>>i&1 == 1 && n.granted[l] < fence && !w.firstCount {
			behind |= 1 << i
		}
	}
	return fence, behind
}

// raised is how an attempt can end whose token is being written back.
func (w walk) raised(c int) {
	l := w.current(w.from, c)
	confirmed, _ := w.replies(c, func(n *node) *request { return &n.raise[l] })
	votes := bits.OnesCount8(confirmed)
	for i := range w.Nodes {
		if w.from.node[i].set[l] == heardYes {
			votes++
		}
	}
	won := votes >= w.quorum && (w.from.over[l] == 0 || w.noElapsed)
	if won {
		did := w.of(c, acquired)
		did.Fence = w.from.fence[l]
		w.step(did, func(t *state) { w.acquire(t, c, did.Fence) })
	}
	if !won || w.Merge {
		w.step(w.of(c, failed), func(t *state) { w.fail(t, c) })
	}
}

// acquire is the end of an attempt that got the lock, with a token or without.
func (m *Model) acquire(t *state, c int, fence uint8) {
	l := m.current(t, c)
	m.deaf(t, l)
	t.client[c].phase, t.fence[l] = holding, fence
	if m.noElapsed {
		t.client[c].free = 1
	}
	if m.Property == FencingOrder {
		t.harm = t.harm || fence < t.client[c].floor
		t.top = max(t.top, fence)
		t.client[c].floor = 0
	}
}

// begins notes that a SET of an attempt has arrived: it may have been sent just now, and the attempt
// have begun, after every lock that was given so far.
func (m *Model) begins(t *state, c, l int) {
	if me := &t.client[c]; m.Property == FencingOrder && me.floor == 0 && me.phase == asking && l == m.current(t, c) {
		me.floor = t.top + 1
	}
}

// fail is the end of one that did not.
func (m *Model) fail(t *state, c int) {
	l, refused := m.current(t, c), uint8(0)
	for n := range m.Nodes {
		if t.node[n].set[l] == heardNo {
			refused |= 1 << n
		}
	}
	m.deaf(t, l)
	m.end(t, c, flying)
	spare(m, t, l, refused)
	t.client[c].floor = 0
}

// settle forgets tokens that nobody will ask for, so that states don't differ in them.
func (m *Model) settle(t *state) {
	for l := range m.leases() {
		c := l / m.Attempts
		asked := t.section[l] == sent || t.section[l] == sentLate
		if int(t.client[c].begun) > 0 && l == m.current(t, c) {
			p := t.client[c].phase
			asked = asked || p == raising || m.Property == resourceSafety && (p == holding || p == extending)
		}
		for n := range m.Nodes {
			asked = asked || t.node[n].raise[l] == flying
		}
		if !asked {
			t.fence[l] = 0
		}
	}
}
