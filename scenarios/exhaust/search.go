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

// Bounds are where a search gives up; zero means unlimited.
type Bounds struct {
	Bytes int
}

// Search looks at all states until there is a violation that accept takes, nothing is left, a
// bound is reached, or ctx has ended; the last two leave the result not whole.
func (m *Model) Search(ctx context.Context, b Bounds, accept func([]Step) bool) Result {
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
		if b.Bytes > 0 && all.bytes() > b.Bytes || i%1024 == 0 && ctx.Err() != nil {
			break
		}
		s := m.codec.unpack(m.codec.read(all.state(i)))
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
func (all *table) story(m *Model, to int) []Step {
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
