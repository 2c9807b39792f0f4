package exhaust

import (
	"bytes"
	"encoding/binary"
)

// codec packs states of a scope. A packed state is a head, and of each node what it has and what
// became of the messages of each lease, in as many bytes as their bits take.
type codec struct {
	Scope
	symmetry bool
}

const (
	clientBits  = 11
	overBits    = 2
	budgetBits  = 6  // crashes, jumps: 3 each
	nodeBits    = 12 // key, disk, down: 4 each
	requestBits = 8  // SET and EXTEND: 3 each, DEL: 2
	tokenBits   = 5  // no token or count is above MaxNodes × maxLeases
	raiseBits   = 3
	sectionBits = 3
)

// headBits and perNode are how many bits a head takes, and a node.
func (c codec) headBits() int {
	n := 2*clientBits + c.leases()*overBits + budgetBits
	if c.Property != MutualExclusion {
		n += tokenBits + 1
	}
	switch c.Property {
	case resourceSafety:
		n += c.leases() * sectionBits
	case FencingOrder:
		n += 2 * tokenBits
	}
	if c.Fence {
		n += c.leases() * tokenBits
	}
	return n
}

func (c codec) perNode() int {
	n := nodeBits + c.leases()*requestBits
	if c.Fence {
		n += 2*tokenBits + c.leases()*(tokenBits+raiseBits)
	}
	return n
}

func (c codec) headBytes() int { return (c.headBits() + 7) / 8 }
func (c codec) nodeBytes() int { return (c.perNode() + 7) / 8 }
func (c codec) size() int      { return c.headBytes() + c.Nodes*c.nodeBytes() }

// words is a state in words: its head, and one for each node.
type words struct {
	head word
	node [MaxNodes]word
}

// pack packs a state, with the two clients in each other's place or not.
func (c codec) pack(s *state, swapped bool) words {
	var w words
	w.head = c.head(s, swapped)
	for i := range c.Nodes {
		w.node[i] = c.node(&s.node[i], swapped)
		if !c.symmetry {
			continue
		}
		for k := i; k > 0 && w.node[k].below(w.node[k-1]); k-- {
			w.node[k], w.node[k-1] = w.node[k-1], w.node[k]
		}
	}
	return w
}

// other is the lease that stands in a lease's place.
func (c codec) other(lease int, swapped bool) int {
	if !swapped {
		return lease
	}
	return (lease + c.Attempts) % c.leases()
}

func (c codec) head(s *state, swapped bool) word {
	var b packer
	for i := range 2 {
		k := s.client[i]
		if swapped {
			k = s.client[1-i]
		}
		b.put(uint64(k.phase)|uint64(k.begun)<<3|uint64(k.held)<<5|uint64(k.asked)<<8|uint64(k.gen)<<9|uint64(k.free)<<10, clientBits)
		if c.Property == FencingOrder {
			b.put(uint64(k.floor), tokenBits)
		}
	}
	b.put(uint64(s.crashes)|uint64(s.jumps)<<3, budgetBits)
	for l := range c.leases() {
		k := c.other(l, swapped)
		b.put(uint64(s.over[k]), overBits)
		if c.Property == resourceSafety {
			b.put(uint64(s.section[k]), sectionBits)
		}
		if c.Fence {
			b.put(uint64(s.fence[k]), tokenBits)
		}
	}
	if c.Property != MutualExclusion {
		b.put(uint64(s.top), tokenBits)
		if s.harm {
			b.put(1, 1)
		}
	}
	return b.word
}

func (c codec) node(n *node, swapped bool) word {
	named := func(k key) uint64 {
		if k > 0 {
			k = keyOf(c.other(k.lease(), swapped), k.generation())
		}
		return uint64(k)
	}
	var b packer
	x := named(n.key) | named(n.disk)<<4
	if n.down != up {
		x |= (named(key(n.down-1)) + 1) << 8
	}
	b.put(x, nodeBits)
	if c.Fence {
		b.put(uint64(n.count)|uint64(n.synced)<<tokenBits, 2*tokenBits)
	}
	for l := range c.leases() {
		k := c.other(l, swapped)
		del := uint64(n.del[k])
		if n.del[k] == plain {
			del = 2
		}
		b.put(uint64(n.set[k])|uint64(n.ext[k])<<3|del<<6, requestBits)
		if c.Fence {
			b.put(uint64(n.granted[k])|uint64(n.raise[k])<<tokenBits, tokenBits+raiseBits)
		}
	}
	return b.word
}

// unpack is the inverse of pack, of clients that were not swapped.
func (c codec) unpack(w words) state {
	var s state
	b := packer{word: w.head}
	for i := range 2 {
		s.client[i] = clientState{phase: phase(b.take(3)), begun: b.take(2), held: b.take(3), asked: b.take(1), gen: b.take(1), free: b.take(1)}
		if c.Property == FencingOrder {
			s.client[i].floor = b.take(tokenBits)
		}
	}
	s.crashes, s.jumps = b.take(3), b.take(3)
	for l := range c.leases() {
		s.over[l] = b.take(overBits)
		if c.Property == resourceSafety {
			s.section[l] = section(b.take(sectionBits))
		}
		if c.Fence {
			s.fence[l] = b.take(tokenBits)
		}
	}
	if c.Property != MutualExclusion {
		s.top, s.harm = b.take(tokenBits), b.take(1) == 1
	}
	for i := range c.Nodes {
		b, n := packer{word: w.node[i]}, &s.node[i]
		n.key, n.disk, n.down = key(b.take(4)), key(b.take(4)), b.take(4)
		if c.Fence {
			n.count, n.synced = b.take(tokenBits), b.take(tokenBits)
		}
		for l := range c.leases() {
			n.set[l], n.ext[l], n.del[l] = request(b.take(3)), request(b.take(3)), request(b.take(2))
			if n.del[l] == 2 {
				n.del[l] = plain
			}
			if c.Fence {
				n.granted[l], n.raise[l] = b.take(tokenBits), request(b.take(raiseBits))
			}
		}
	}
	return s
}

// append writes words, each without the bytes that are always 0.
func (c codec) append(b []byte, w words) []byte {
	b = w.head.append(b, c.headBytes())
	for _, x := range w.node[:c.Nodes] {
		b = x.append(b, c.nodeBytes())
	}
	return b
}

// read is the inverse of append.
func (c codec) read(b []byte) words {
	w := words{head: readWord(b[:c.headBytes()])}
	for n := range c.Nodes {
		w.node[n] = readWord(b[c.headBytes()+n*c.nodeBytes():][:c.nodeBytes()])
	}
	return w
}

// canonical appends the state that stands for all which differ from this one in names alone.
func (c codec) canonical(b []byte, s *state) []byte {
	b = c.append(b, c.pack(s, false))
	if !c.symmetry {
		return b
	}
	n := len(b)
	b = c.append(b, c.pack(s, true))
	if bytes.Compare(b[n:], b[:n]) < 0 {
		copy(b, b[n:])
	}
	return b[:n]
}

// word is 128 bits.
type word struct{ low, high uint64 }

func (w word) below(v word) bool { return w.high < v.high || w.high == v.high && w.low < v.low }

// append writes the first bytes of a word.
func (w word) append(b []byte, bytes int) []byte {
	var all [16]byte
	binary.LittleEndian.PutUint64(all[:8], w.low)
	binary.LittleEndian.PutUint64(all[8:], w.high)
	return append(b, all[:bytes]...)
}

func readWord(b []byte) word {
	var all [16]byte
	copy(all[:], b)
	return word{binary.LittleEndian.Uint64(all[:8]), binary.LittleEndian.Uint64(all[8:])}
}

// packer puts numbers into a word one after the other, or takes them out again.
type packer struct {
	word
	at int // so many bits are done
}

func (p *packer) put(x uint64, bits int) {
	if p.at < 64 {
		p.low |= x << p.at
		p.high |= x >> (64 - p.at) // nothing, where a shift is 64
	} else {
		p.high |= x << (p.at - 64)
	}
	p.at += bits
}

func (p *packer) take(bits int) uint8 {
	x := p.low & (1<<bits - 1)
	p.low = p.low>>bits | p.high<<(64-bits)
	p.high >>= bits
	return uint8(x)
}
