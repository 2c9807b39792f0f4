package exhaust

// Reductions are what a search does not tell apart. Each leaves the verdict as it is: tests
// compare them with a search that makes none.
type Reductions struct {
	// Symmetry: which node and which client it is does not matter.
	Symmetry bool
	// Merge: a reply arrives when the round ends, or too late; a key expires when the next
	// request finds it; a disk syncs when something changes, or after the next change.
	Merge bool
	// Eager: what takes nothing away from what can follow is done at once. A client starts when
	// it can, and gives up a lock that it can't believe in; a window ends when nobody believes by
	// it; a DEL that can find nothing is dropped.
	Eager bool
	// Dominate: what can only stand in others' way is left out. A key that may expire has; a
	// message that sets such a key never arrives; a refused SET is as good as a lost one.
	Dominate bool
}

// Exactly keeps every run, Fully what is needed to find a violation if there is one.
var (
	Exactly = Reductions{Symmetry: true, Merge: true}
	Fully   = Reductions{Symmetry: true, Merge: true, Eager: true, Dominate: true}
)

// reducer makes the reductions of a model.
type reducer struct{ *Model }

// reduce replaces a state by the one that stands for it.
func (m reducer) reduce(t *state) {
	if m.also != nil {
		m.also(t)
	}
	if t.crashes == 0 {
		for n := range m.Nodes {
			t.node[n].disk, t.node[n].synced = 0, 0
		}
	}
	if m.Eager {
		for c := range 2 {
			m.hurry(t, c)
		}
	}
	if m.Dominate {
		for n := range m.Nodes {
			m.dominate(t, &t.node[n])
		}
		m.dominateWrites(t)
	}
	if m.Eager {
		for n := range m.Nodes {
			m.drop(t, &t.node[n])
		}
	}
	if m.Fence {
		m.settle(t)
	}
}

// hurry does what a client would only wait with.
func (m reducer) hurry(t *state, c int) {
	me := &t.client[c]
	if me.phase == lost || (me.phase == holding || me.phase == extending) && !m.believes(t, c) {
		m.release(t, c)
	}
	if me.phase == holding && m.Property == resourceSafety {
		m.hurryWork(t, c)
	}
	for a := range int(me.begun) {
		if m.Property == LeftKeys { // it matters how long keys live that nobody believes by
			break
		}
		if a == int(me.begun)-1 && (me.phase == asking || me.phase == raising || me.phase == holding || me.phase == extending) {
			continue
		}
		t.over[m.lease(c, a)] = uint8(1 + m.Extends)
	}
	if me.phase == idle && int(me.begun) < m.Attempts {
		m.start(t, c) // its messages may all be late
	}
}

// hurryWork has a holder read at once, unless it is refused, and send its write, which may take as
// long as it likes.
func (m reducer) hurryWork(t *state, c int) {
	l := m.current(t, c)
	if t.section[l] == unread && m.accepts(t, l) {
		m.reads(t, c)
	}
	if s := &t.section[l]; *s == read || *s == readLate {
		*s += sent - read
	}
}

// dominate leaves out what can only stand in others' way.
//
// A grant that is counted also goes into tokens. With the reference that takes nothing away: let B
// have a token no higher than A's before it. Then each node that B heard has forgotten what A wrote
// there, or A did not need it. So both get one token where nobody else's message arrives, and A's
// only where it needs them; and of what is left out here there is nothing in that.
// A mistake may need more than the two.
func (m reducer) dominate(t *state, n *node) {
	counted := m.Fence && m.Mistake != ""
	if m.mayExpire(t, n.key) && (!counted || n.raise[n.key.lease()] != flying) {
		n.key = 0
	}
	if m.mayExpire(t, n.disk) {
		n.disk = 0
	}
	if n.down != up && (n.down == downWith(0) || m.mayExpire(t, key(n.down-1))) {
		n.down = up
	}
	for l := range m.leases() {
		if n.set[l] == no || n.set[l] == doomed && t.crashes == 0 {
			n.set[l] = none
		}
		// Where SET overwrites, it takes a key away; where nobody looks at the clock, it is a vote.
		if int(t.over[l]) == 1+m.Extends && !m.noNX && !m.noElapsed && !counted {
			if n.set[l] == flying || n.set[l] == doomed {
				n.set[l] = none
			}
			n.ext[l], n.raise[l] = none, none
		}
	}
}

// dominateWrites leaves out writes that will be refused whenever they arrive.
func (m reducer) dominateWrites(t *state) {
	for l := range m.leases() {
		if s := t.section[l]; (s == sent || s == sentLate) && !m.accepts(t, l) {
			m.write(t, l, false)
		}
	}
}

// drop leaves out each DEL that can find no key of its token.
func (m reducer) drop(t *state, n *node) {
	for l := range m.leases() {
		if n.del[l] == flying && !m.mayFind(t, n, l) {
			n.del[l] = none
		}
	}
}

// mayFind says whether a key with the token of a lease is on a node, or may come to it.
func (m reducer) mayFind(t *state, n *node, l int) bool {
	for _, k := range []key{n.key, n.disk} {
		if k > 0 && m.same(t, k.lease(), l) {
			return true
		}
	}
	for k := range m.leases() {
		if !m.same(t, k, l) {
			continue
		}
		if n.set[k] == flying || k%m.Attempts >= int(t.client[k/m.Attempts].begun) {
			return true
		}
	}
	return false
}
