package exhaust

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
)

type Result struct {
	States         int    `json:"states"`
	Steps          int    `json:"steps"`    // explored transitions
	Acquires       int    `json:"acquires"` // transitions that acquire the lock; if there are none, the result "none" is vacuous
	Depth          int    `json:"depth"`    // steps from the first state to the farthest one
	Bytes          int    `json:"bytes"`    // memory used by the states
	Complete       bool   `json:"whole"`    // whether the search was exhaustive
	RejectedPaths  int    `json:"untimed"`  // violations that accept rejected
	Counterexample []Step `json:"story"`    // the shortest path to an accepted violation, with consistent names for nodes and clients, or nil
}

// Search explores all states until accept returns true for a violation, or no state is left. The
// result is incomplete if the states use more than maxBytes (0 means no limit) or ctx is done before
// that. A nil accept stands for one that always returns true.
func (m *model) Search(ctx context.Context, maxBytes int, accept func([]Step) bool) Result {
	r := Result{}
	states := newTable(m.codec.size())
	var packed []byte
	first := m.initialState()
	packed = m.codec.canonical(packed[:0], &first)
	states.add(packed, 0)
	nextDepth := 1 // index of the first state at the next depth
	for i := 0; i < states.count; i++ {
		if i == nextDepth {
			r.Depth++
			nextDepth = states.count
		}
		if maxBytes > 0 && states.bytes() > maxBytes || i%1024 == 0 && ctx.Err() != nil {
			break
		}
		s := m.codec.unpack(states.state(i))
		m.next(&s, func(t *state, step Step) {
			r.Steps++
			if step.Action == lockAcquired {
				r.Acquires++
			}
			packed = m.codec.canonical(packed[:0], t)
			if r.Counterexample != nil || !states.add(packed, i) || !m.violated(t) {
				return
			}
			if path := states.pathTo(m, states.count-1); accept == nil || accept(path) {
				r.Counterexample = path
			} else {
				r.RejectedPaths++
			}
		})
		if r.Complete = i == states.count-1 || r.Counterexample != nil; r.Counterexample != nil {
			break
		}
	}
	r.States, r.Bytes = states.count, states.bytes()
	return r
}

// pathTo returns the path from the first state to the given one. Nodes and clients keep their names
// along the path.
func (tbl *table) pathTo(m *model, to int) []Step {
	var indexes []int
	for i := to; i != 0; i = tbl.parent(i) {
		indexes = append(indexes, i)
	}
	slices.Reverse(indexes)
	var out []Step
	var packed []byte
	s := m.initialState()
	for _, i := range indexes {
		var successor state
		found := false
		m.next(&s, func(t *state, step Step) {
			if packed = m.codec.canonical(packed[:0], t); !found && bytes.Equal(packed, tbl.state(i)) {
				successor, found = *t, true
				out = append(out, step)
			}
		})
		if !found {
			panic(fmt.Sprintf("after %v, no step leads to state %d: the canonical form depends on the names of nodes or clients", out, i))
		}
		s = successor
	}
	return out
}

// table is a set of states in insertion order. Each record holds a state and its predecessor.
// Records are allocated in chunks, so that less than one chunk is unused. A hash table with open
// addressing maps states to records.
type table struct {
	size   int // of a record: parentBytes for the predecessor, then the state
	count  int
	chunks [][]byte
	index  []uint32 // record number + 1; 0 if empty
	seed   maphash.Seed
}

const (
	parentBytes     = 4
	recordsPerChunk = 1 << 12 // records
)

func newTable(state int) *table {
	return &table{size: parentBytes + state, index: make([]uint32, 1<<10), seed: maphash.MakeSeed()}
}

func (t *table) record(i int) []byte {
	return t.chunks[i/recordsPerChunk][i%recordsPerChunk*t.size:][:t.size]
}

func (t *table) state(i int) []byte { return t.record(i)[parentBytes:] }
func (t *table) parent(i int) int   { return int(binary.LittleEndian.Uint32(t.record(i))) }
func (t *table) bytes() int         { return len(t.chunks)*recordsPerChunk*t.size + 4*len(t.index) }

// add adds a state, or returns false if the table already contains it.
func (t *table) add(state []byte, parent int) bool {
	if 4*t.count > 3*len(t.index) {
		t.grow()
	}
	at := t.slot(state)
	if t.index[at] != 0 {
		return false
	}
	if t.count == len(t.chunks)*recordsPerChunk {
		t.chunks = append(t.chunks, make([]byte, recordsPerChunk*t.size))
	}
	r := t.record(t.count)
	binary.LittleEndian.PutUint32(r, uint32(parent))
	copy(r[parentBytes:], state)
	t.count++
	t.index[at] = uint32(t.count)
	return true
}

// slot returns a state's position in the index, or the free position where it belongs.
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

// Reductions merge or skip states. They do not change the verdict: tests compare searches with and
// without them.
type Reductions struct {
	// Symmetry merges states that are equal except for the names of nodes and clients.
	Symmetry bool
	// Merge combines events with others. Replies arrive when the round ends or too late, keys expire
	// when the next request reads them, and a disk sync follows a change immediately or not before
	// the next change.
	Merge bool
	// Eager takes steps immediately if they do not restrict what can follow. A client starts as soon
	// as possible, and releases the lock as soon as it no longer considers itself the holder. A
	// window ends as soon as no client depends on it. A DEL that can't find a key is dropped.
	Eager bool
	// Dominate skips steps that do nothing but prevent others. A key that may expire counts as
	// expired, a message that would set such a key never arrives, and a refused SET counts as lost.
	Dominate bool
}

// exactReductions preserves every run. fullReductions preserves at least one run that violates the
// property, if there is one.
var (
	exactReductions = Reductions{Symmetry: true, Merge: true}
	fullReductions  = Reductions{Symmetry: true, Merge: true, Eager: true, Dominate: true}
)

// reducer applies a model's reductions.
type reducer struct{ *model }

// reduce replaces a state with its representative.
func (m reducer) reduce(t *state) {
	if m.extraReduction != nil {
		m.extraReduction(t)
	}
	if t.crashes == 0 {
		for n := range m.Nodes {
			t.node[n].diskKey, t.node[n].syncedCount = 0, 0
		}
	}
	if m.Eager {
		for c := range 2 {
			m.advanceClient(t, c)
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
			m.dropDels(t, &t.node[n])
		}
	}
	if m.Fence {
		m.dropTokens(t)
	}
}

// advanceClient takes the steps that a client may delay but can't avoid.
func (m reducer) advanceClient(t *state, c int) {
	client := &t.client[c]
	if client.phase == phaseLost || (client.phase == phaseHolding || client.phase == phaseExtending) && !m.believes(t, c) {
		m.release(t, c)
	}
	if client.phase == phaseHolding && m.Property == resourceSafety {
		m.advanceWork(t, c)
	}
	for a := range int(client.attempts) {
		if m.Property == leftKeys { // for this property, keys matter even if no client believes in them
			break
		}
		if a == int(client.attempts)-1 && (client.phase == phaseAcquiring || client.phase == phaseWriteBack || client.phase == phaseHolding || client.phase == phaseExtending) {
			continue
		}
		t.endedWindows[m.lease(c, a)] = uint8(1 + m.Extensions)
	}
	if client.phase == phaseIdle && int(client.attempts) < m.Attempts {
		m.start(t, c) // its messages may still be arbitrarily late
	}
}

// advanceWork makes a holder read immediately, unless the read would be refused, and send its write,
// which may arrive arbitrarily late.
func (m reducer) advanceWork(t *state, c int) {
	l := m.current(t, c)
	if t.sections[l] == sectionUnread && m.accepts(t, l) {
		m.applyRead(t, c)
	}
	if s := &t.sections[l]; *s == sectionRead || *s == sectionReadLate {
		*s += sectionSent - sectionRead
	}
}

// dominate removes keys and messages that do nothing but prevent other steps.
//
// If grants are counted, they affect tokens too. For the reference lock, dominate is still correct.
// Suppose B's token is not higher than a token that A received earlier. Then each node whose count B
// used either has forgotten what A wrote there or was not needed by A. So the same two tokens are
// issued if A's messages arrive only where A needs them and no other messages arrive, and that run
// contains nothing that dominate removes. With a broken lock, a violation may take more than these
// two holds, so dominate removes less if a broken lock counts grants.
func (m reducer) dominate(t *state, n *node) {
	countsMatter := m.Fence && m.Mistake != ""
	if m.mayExpire(t, n.key) && (!countsMatter || n.raise[n.key.lease()] != requestInFlight) {
		n.key = 0
	}
	if m.mayExpire(t, n.diskKey) {
		n.diskKey = 0
	}
	if n.downState != nodeUp && (n.downState == downStateFor(0) || m.mayExpire(t, key(n.downState-1))) {
		n.downState = nodeUp
	}
	for l := range m.leases() {
		if n.set[l] == noInFlight || n.set[l] == tombstonedSet && t.crashes == 0 {
			n.set[l] = requestNone
		}
		// With overwritingSet, such a SET still removes another key. With skipElapsedCheck, it still
		// counts as a vote.
		if int(t.endedWindows[l]) == 1+m.Extensions && !m.overwritingSet && !m.skipElapsedCheck && !countsMatter {
			if n.set[l] == requestInFlight || n.set[l] == tombstonedSet {
				n.set[l] = requestNone
			}
			n.ext[l], n.raise[l] = requestNone, requestNone
		}
	}
}

// dominateWrites removes writes that will be refused whenever they arrive.
func (m reducer) dominateWrites(t *state) {
	for l := range m.leases() {
		if s := t.sections[l]; (s == sectionSent || s == sectionSentLate) && !m.accepts(t, l) {
			m.applyWrite(t, l, false)
		}
	}
}

// dropDels removes every DEL that can't find a key with its token.
func (m reducer) dropDels(t *state, n *node) {
	for l := range m.leases() {
		if n.del[l] == requestInFlight && !m.mayFindKey(t, n, l) {
			n.del[l] = requestNone
		}
	}
}

// mayFindKey reports whether the node has a key with a lease's token or may still get one.
func (m reducer) mayFindKey(t *state, n *node, l int) bool {
	for _, k := range []key{n.key, n.diskKey} {
		if k > 0 && m.sameToken(t, k.lease(), l) {
			return true
		}
	}
	for k := range m.leases() {
		if !m.sameToken(t, k, l) {
			continue
		}
		if n.set[k] == requestInFlight || k%m.Attempts >= int(t.client[k/m.Attempts].attempts) {
			return true
		}
	}
	return false
}
