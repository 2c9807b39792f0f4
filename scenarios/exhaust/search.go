package exhaust

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
)

// Result is what a search came to.
type Result struct {
	States   int    `json:"states"`
	Steps    int    `json:"steps"`    // transitions that were made
	Acquires int    `json:"acquires"` // of those the ones that took the lock: with none, "none" is hollow
	Depth    int    `json:"depth"`    // of the state that is farthest from the first
	Bytes    int    `json:"bytes"`    // that the states take
	Whole    bool   `json:"whole"`    // all was looked at
	Untimed  int    `json:"untimed"`  // violations that were refused
	Story    []Step `json:"story"`    // the shortest way to a violation, by names of its own; nil: there is none
}

// Search looks at all states until there is a violation that accept takes, nothing is left, the states
// take more than so many bytes (0: as many as they like), or ctx has ended; the last two leave the
// result not whole.
func (m *model) Search(ctx context.Context, bytesAtMost int, accept func([]Step) bool) Result {
	r := Result{}
	all := newTable(m.codec.size())
	var name []byte
	first := m.first()
	name = m.codec.canonical(name[:0], &first)
	all.add(name, 0)
	level := 1 // where the next depth begins
	for i := 0; i < all.count; i++ {
		if i == level {
			r.Depth++
			level = all.count
		}
		if bytesAtMost > 0 && all.bytes() > bytesAtMost || i%1024 == 0 && ctx.Err() != nil {
			break
		}
		s := m.codec.unpack(all.state(i))
		m.next(&s, func(t *state, did Step) {
			r.Steps++
			if did.Action == acquired {
				r.Acquires++
			}
			name = m.codec.canonical(name[:0], t)
			if r.Story != nil || !all.add(name, i) || !m.violated(t) {
				return
			}
			if story := all.story(m, all.count-1); accept == nil || accept(story) {
				r.Story = story
			} else {
				r.Untimed++
			}
		})
		if r.Whole = i == all.count-1 || r.Story != nil; r.Story != nil {
			break
		}
	}
	r.States, r.Bytes = all.count, all.bytes()
	return r
}

// story walks to a state of the table from the first one, by names that stay the same on the way.
func (all *table) story(m *model, to int) []Step {
	var way []int
	for i := to; i != 0; i = all.parent(i) {
		way = append(way, i)
	}
	slices.Reverse(way)
	var out []Step
	var name []byte
	s := m.first()
	for _, i := range way {
		var after state
		found := false
		m.next(&s, func(t *state, did Step) {
			if name = m.codec.canonical(name[:0], t); !found && bytes.Equal(name, all.state(i)) {
				after, found = *t, true
				out = append(out, did)
			}
		})
		if !found {
			panic(fmt.Sprintf("after %v there is no way to state %d: the names of a state depend on its names", out, i))
		}
		s = after
	}
	return out
}

// table is a set of states in the order in which they were added, each with the one it came
// from: records in chunks, so that no more than a chunk is ever unused, and an index of them by
// hash with open addressing.
type table struct {
	size   int // of a record: its parent in parentBytes, and the state
	count  int
	chunks [][]byte
	index  []uint32 // 0: empty, else the record's number and one
	seed   maphash.Seed
}

const (
	parentBytes = 4
	perChunk    = 1 << 12 // records
)

func newTable(state int) *table {
	return &table{size: parentBytes + state, index: make([]uint32, 1<<10), seed: maphash.MakeSeed()}
}

func (t *table) record(i int) []byte {
	return t.chunks[i/perChunk][i%perChunk*t.size:][:t.size]
}

func (t *table) state(i int) []byte { return t.record(i)[parentBytes:] }
func (t *table) parent(i int) int   { return int(binary.LittleEndian.Uint32(t.record(i))) }
func (t *table) bytes() int         { return len(t.chunks)*perChunk*t.size + 4*len(t.index) }

// add adds a state, unless it is there.
func (t *table) add(state []byte, parent int) bool {
	if 4*t.count > 3*len(t.index) {
		t.grow()
	}
	at := t.slot(state)
	if t.index[at] != 0 {
		return false
	}
	if t.count == len(t.chunks)*perChunk {
		t.chunks = append(t.chunks, make([]byte, perChunk*t.size))
	}
	r := t.record(t.count)
	binary.LittleEndian.PutUint32(r, uint32(parent))
	copy(r[parentBytes:], state)
	t.count++
	t.index[at] = uint32(t.count)
	return true
}

// slot is where a state is in the index, or where it would be.
func (t *table) slot(state []byte) int {
	at := int(maphash.Bytes(t.seed, state) & uint64(len(t.index)-1))
	for t.index[at] != 0 && !bytes.Equal(t.state(int(t.index[at]-1)), state) {
		at = (at + 1) & (len(t.index) - 1)
	}
	return at
}

func (t *table) grow() {
	t.index = make([]uint32, 2*len(t.index))
	for i := range t.count {
		t.index[t.slot(t.state(i))] = uint32(i + 1)
	}
}

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

// exactly keeps every run, fully what is needed to find a violation if there is one.
var (
	exactly = Reductions{Symmetry: true, Merge: true}
	fully   = Reductions{Symmetry: true, Merge: true, Eager: true, Dominate: true}
)

// reducer makes the reductions of a model.
type reducer struct{ *model }

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
		if m.Property == leftKeys { // it matters how long keys live that nobody believes by
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
