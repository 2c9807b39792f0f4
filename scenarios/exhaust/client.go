package exhaust

import "math/bits"

// client is what a client can do next, and its windows.
func (w walk) client(c int) {
	me := &w.from.client[c]
	switch me.phase {
	case idle:
		if int(me.begun) < w.Attempts {
			w.step(Step{Action: started, Client: c + 1, Attempt: int(me.begun) + 1}, func(t *state) { w.start(t, c) })
		}
	case asking:
		if w.Fence {
			w.fenced(c)
		} else {
			w.attempt(c)
		}
	case raising:
		w.raised(c)
	case holding:
		w.step(w.of(c, released), func(t *state) { w.release(t, c) })
		if w.Property == resourceSafety {
			w.work(c)
		}
		if int(me.asked) < w.Extends && w.believes(w.from, c) {
			w.step(w.of(c, Extending), func(t *state) {
				t.client[c].phase = extending
				t.client[c].asked++
				send(t, w.Nodes, func(n *node) *request { return &n.ext[w.current(t, c)] }, flying)
			})
		}
	case extending:
		w.extension(c)
	case lost:
		w.step(w.of(c, released), func(t *state) { w.release(t, c) })
	}
	for a := range int(me.begun) {
		l := w.lease(c, a)
		if w.from.over[l] < w.windows(w.from, c, a) {
			w.step(Step{Action: over, Client: c + 1, Attempt: a + 1}, func(t *state) { t.over[l]++ })
		}
	}
}

// windows is how many windows an attempt has that can end.
func (m *Model) windows(s *state, c, a int) uint8 {
	me := &s.client[c]
	if a == int(me.begun)-1 {
		switch me.phase {
		case asking, raising:
			return 1
		case holding, extending:
			return 1 + me.asked
		}
	}
	return uint8(1 + m.Extends)
}

// of is a step of a client's latest attempt.
func (w walk) of(c int, a action) Step {
	return Step{Action: a, Client: c + 1, Attempt: int(w.from.client[c].begun)}
}

func (m *Model) start(t *state, c int) {
	t.client[c].phase = asking
	t.client[c].begun++
	send(t, m.Nodes, func(n *node) *request { return &n.set[m.current(t, c)] }, flying)
}

// release ends a hold.
func (m *Model) release(t *state, c int) {
	how := flying
	if m.plainDel {
		how = plain
	}
	if m.shares == attempts {
		t.client[c].held |= 1 << (t.client[c].begun - 1)
	}
	m.leave(t, m.current(t, c))
	m.end(t, c, how)
}

// end ends an attempt or a hold: all nodes are asked to forget it.
func (m *Model) end(t *state, c int, how request) {
	me := &t.client[c]
	me.phase, me.asked, me.gen, me.free = idle, 0, 0, 0
	send(t, m.Nodes, func(n *node) *request { return &n.del[m.current(t, c)] }, how)
}

func send(t *state, nodes int, to func(*node) *request, how request) {
	for n := range nodes {
		*to(&t.node[n]) = how
	}
}

// attempt is how an attempt can end. Unless replies are merged into that, each arrives first.
func (w walk) attempt(c int) {
	l := w.current(w.from, c)
	voted, _ := w.replies(c, func(n *node) *request { return &n.set[l] })
	won := bits.OnesCount8(voted) >= w.quorum && (w.from.over[l] == 0 || w.noElapsed)
	if won {
		w.step(w.of(c, acquired), func(t *state) { w.acquire(t, c, 0) })
	}
	if !won || w.Merge { // where they are merged, answers may still be on their way
		w.step(w.of(c, failed), func(t *state) { w.fail(t, c) })
	}
}

// extension is how an extension can end.
func (w walk) extension(c int) {
	l := w.current(w.from, c)
	ends := func(a action, p phase, more uint8) {
		w.step(w.of(c, a), func(t *state) {
			w.deaf(t, l)
			t.client[c].phase = p
			t.client[c].gen += more
		})
	}
	agreed, refused := w.replies(c, func(n *node) *request { return &n.ext[l] })
	against := bits.OnesCount8(refused)
	won := bits.OnesCount8(agreed) >= w.renewal
	if won && w.from.over[l] <= w.from.client[c].gen {
		ends(Extended, holding, 1)
	}
	if against >= w.Nodes/2+1 && (w.Merge || !won) {
		ends(extendLost, lost, 0)
	}
	if w.Merge || !won && against < w.Nodes/2+1 || won && w.from.over[l] > w.from.client[c].gen {
		ends(extendFailed, holding, 0)
	}
}

// replies are the nodes, a bit each, of which a client knows what they answered in a round, or could
// know where replies are merged.
func (w walk) replies(c int, of func(*node) *request) (agreed, refused uint8) {
	for n := range w.Nodes {
		r := *of(&w.from.node[n])
		switch {
		case r == heardYes || w.Merge && r == yes:
			agreed |= 1 << n
		case r == heardNo || w.Merge && r == no:
			refused |= 1 << n
		case r == yes || r == no:
			did := w.of(c, reply)
			did.Node, did.Yes = n+1, r == yes
			w.step(did, func(t *state) { *of(&t.node[n]) += heardYes - yes })
		}
	}
	return agreed, refused
}

// deaf forgets the answers to a lease's rounds that are over: nobody waits for them any more.
func (m *Model) deaf(t *state, l int) {
	for i := range m.Nodes {
		n := &t.node[i]
		for _, r := range []*request{&n.set[l], &n.ext[l], &n.raise[l]} {
			if *r != flying {
				*r = none
			}
		}
		n.granted[l] = 0
	}
}
