package exhaust

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// A packed state is a head of headBytes, and for each node a word of so many bytes as its bits
// take: what it has, then of each lease what became of the messages.
const (
	headBytes   = 5
	clientBits  = 11
	overBits    = 2
	nodeBits    = 12 // key, disk, down: 4 each
	requestBits = 8  // SET and EXTEND: 3 each, DEL: 2
)

// words is a state in as few words as it takes: its head, and one for each node.
type words struct {
	head uint64
	node [MaxNodes]uint64
}

// pack packs a state, with the two clients in each other's place or not.
func (m *Model) pack(s *state, swapped bool) words {
	var lease [maxLeases]int // which comes in this place
	for l := range m.leases() {
		lease[l] = l
		if swapped {
			lease[l] = (l + m.Attempts) % m.leases()
		}
	}
	named := func(k key) uint64 {
		if k > 0 {
			k = keyOf(lease[k.lease()], k.generation())
		}
		return uint64(k)
	}
	var w words
	at := 0
	put := func(x uint64, bits int) {
		w.head |= x << at
		at += bits
	}
	for c := range 2 {
		k := s.client[c]
		if swapped {
			k = s.client[1-c]
		}
		put(uint64(k.phase)|uint64(k.begun)<<3|uint64(k.held)<<5|uint64(k.asked)<<8|uint64(k.gen)<<9|uint64(k.free)<<10, clientBits)
	}
	for l := range m.leases() {
		put(uint64(s.over[lease[l]]), overBits)
	}
	put(uint64(s.crashes)|uint64(s.jumps)<<3, 6)
	for i := range m.Nodes {
		n := &s.node[i]
		x := named(n.key) | named(n.disk)<<4
		if n.down != up {
			x |= (named(key(n.down-1)) + 1) << 8
		}
		for l := range m.leases() {
			k := lease[l]
			del := uint64(n.del[k])
			if n.del[k] == plain {
				del = 2
			}
			x |= (uint64(n.set[k]) | uint64(n.ext[k])<<3 | del<<6) << (nodeBits + l*requestBits)
		}
		w.node[i] = x
	}
	if m.Symmetry {
		slices.Sort(w.node[:m.Nodes])
	}
	return w
}

// unpack is the inverse of pack, of clients that were not swapped.
func (m *Model) unpack(w words) state {
	var s state
	take := func(bits int) uint8 {
		x := w.head & (1<<bits - 1)
		w.head >>= bits
		return uint8(x)
	}
	for c := range 2 {
		s.client[c] = client{phase: phase(take(3)), begun: take(2), held: take(3), asked: take(1), gen: take(1), free: take(1)}
	}
	for l := range m.leases() {
		s.over[l] = take(overBits)
	}
	s.crashes, s.jumps = take(3), take(3)
	for i := range m.Nodes {
		x, n := w.node[i], &s.node[i]
		n.key, n.disk, n.down = key(x&15), key(x>>4&15), uint8(x>>8&15)
		x >>= nodeBits
		for l := range m.leases() {
			n.set[l], n.ext[l], n.del[l] = request(x&7), request(x>>3&7), request(x>>6&3)
			if n.del[l] == 2 {
				n.del[l] = plain
			}
			x >>= requestBits
		}
	}
	return s
}

func (m *Model) nodeBytes() int { return (nodeBits + m.leases()*requestBits + 7) / 8 }
func (m *Model) size() int      { return headBytes + m.Nodes*m.nodeBytes() }

// append writes words, each without the bytes that are always 0.
func (m *Model) append(b []byte, w words) []byte {
	var all [8]byte
	binary.LittleEndian.PutUint64(all[:], w.head)
	b = append(b, all[:headBytes]...)
	for _, x := range w.node[:m.Nodes] {
		binary.LittleEndian.PutUint64(all[:], x)
		b = append(b, all[:m.nodeBytes()]...)
	}
	return b
}

// read is the inverse of append.
func (m *Model) read(b []byte) words {
	var w words
	var all [8]byte
	copy(all[:], b[:headBytes])
	w.head = binary.LittleEndian.Uint64(all[:])
	for n := range m.Nodes {
		all = [8]byte{}
		copy(all[:], b[headBytes+n*m.nodeBytes():][:m.nodeBytes()])
		w.node[n] = binary.LittleEndian.Uint64(all[:])
	}
	return w
}

// canonical appends the state that stands for all which differ from this one in names alone.
func (m *Model) canonical(b []byte, s *state) []byte {
	b = m.append(b, m.pack(s, false))
	if !m.Symmetry {
		return b
	}
	n := len(b)
	b = m.append(b, m.pack(s, true))
	if bytes.Compare(b[n:], b[:n]) < 0 {
		copy(b, b[n:])
	}
	return b[:n]
}
