package exhaust

// section is what became of one hold's work on the resource: it reads what is there, and sends one
// write that is based on it. A write that was applied since then makes it late.
type section uint8

const (
	unread section = iota
	read
	readLate
	sent
	sentLate
	wrote
)

// work is what a holder can do next on the resource. A read that arrives late is one of which it
// hears when it may: only what it has read by then counts.
func (w walk) work(c int) {
	l := w.current(w.from, c)
	switch w.from.section[l] {
	case unread:
		did := w.of(c, Read)
		did.Yes = w.accepts(w.from, l)
		w.step(did, func(t *state) { w.reads(t, c) })
	case read, readLate:
		if w.believes(w.from, c) { // it looks at its clock, and the write may take as long as it likes
			w.step(w.of(c, writing), func(t *state) { t.section[l] += sent - read })
		}
	}
}

// accepts says whether the resource lets a lease's token pass.
func (m *Model) accepts(s *state, l int) bool { return !m.Fence || s.fence[l] >= s.top }

// reads is a hold's read: who is refused gives the lock back.
func (m *Model) reads(t *state, c int) {
	l := m.current(t, c)
	if !m.accepts(t, l) {
		m.release(t, c)
		return
	}
	t.section[l] = read
	m.see(t, l)
}

// see has the resource keep the highest token.
func (m *Model) see(t *state, l int) {
	if m.Fence {
		t.top = max(t.top, t.fence[l])
	}
}

// writes are those that can arrive at the resource.
func (w walk) writes() {
	for l := range w.leases() {
		if s := w.from.section[l]; s != sent && s != sentLate {
			continue
		}
		did := Step{Action: write, Client: l/w.Attempts + 1, Attempt: l%w.Attempts + 1, Yes: w.accepts(w.from, l)}
		w.step(did, func(t *state) { w.write(t, l, did.Yes) })
	}
}

// write applies a write, or refuses it.
func (m *Model) write(t *state, l int, accepted bool) {
	if accepted {
		m.see(t, l)
		t.harm = t.harm || t.section[l] == sentLate
		for k := range m.leases() {
			switch s := &t.section[k]; *s {
			case read, sent:
				*s++
			}
		}
	}
	t.section[l] = unread
	if c := l / m.Attempts; l == m.current(t, c) && t.client[c].phase != idle {
		t.section[l] = wrote
	}
}

// leave ends a hold's work: what it has sent is still on its way.
func (m *Model) leave(t *state, l int) {
	if s := &t.section[l]; *s != sent && *s != sentLate {
		*s = unread
	}
}
