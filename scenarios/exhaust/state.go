package exhaust

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// phase is what a client is doing.
type phase uint8

const (
	idle      phase = iota
	asking          // an attempt is under way
	raising         // it has the votes, and writes its fencing token back
	holding         // it has the lock
	extending       // and has asked for more time
	lost            // a majority said that it hasn't: it will release
)

// request is what became of one to a node.
type request uint8

const (
	none     request = iota // never sent, or it is of no matter any more
	flying                  // sent
	yes                     // answered, and the answer is on its way
	no                      //
	heardYes                // answered, and the answer has arrived
	heardNo                 //
	plain                   // sent, of a DEL that asks for no token
	doomed                  // sent, of a SET that the node was told to refuse
)

// key is what a node has: nothing, or the key of a lease that was set or extended, which tells
// the window after which it may expire.
type key uint8

// keyOf is the key of a lease, set by its attempt (0) or by its extension (1).
func keyOf(lease, generation int) key { return key(1 + 2*lease + generation) }

func (k key) lease() int      { return int(k-1) / 2 }
func (k key) generation() int { return int(k-1) % 2 }

// state is all there is to know. Leases are numbered by attempts: client × Attempts + attempt.
type state struct {
	client         [2]clientState
	over           [maxLeases]uint8 // windows that are over: the attempt's, then the extension's
	crashes, jumps uint8            // left
	node           [MaxNodes]node

	fence   [maxLeases]uint8   // tokens, as long as anybody may ask for them
	section [maxLeases]section // what became of a hold's work on the resource
	top     uint8              // the highest token that the resource has seen, or with FencingOrder that was given
	harm    bool               // what must not happen did
}

// clientState is one contender.
type clientState struct {
	phase phase
	begun uint8 // attempts
	held  uint8 // those that came to a hold, a bit each, where tokens are shared
	asked uint8 // extensions of this hold
	gen   uint8 // of the window it believes in: 0 the attempt's, 1 the extension's
	free  uint8 // 1: no window bounds its belief
	floor uint8 // with FencingOrder: one more than top was when the first SET of this attempt arrived; 0: none has
}

// node is one server, and the messages to it and from it.
type node struct {
	key           key
	disk          key // what is synced, with EverySec
	down          uint8
	set, ext, del [maxLeases]request

	count, synced uint8 // grants that it has counted, and those of them that are on the disk
	granted       [maxLeases]uint8
	raise         [maxLeases]request // of a count to a lease's token
}

// A node is up, or down with the key it lost.
const up = 0

func downWith(k key) uint8 { return uint8(k) + 1 }

// Model is a scope with the reductions that its search makes.
type Model struct {
	Scope
	Reductions
	rules
	codec codec
	also  func(*state) // one more reduction: tests plant wrong ones
}

// New makes a model of a scope that Check has passed.
func New(s Scope, r Reductions) *Model {
	if s.Restart == "" {
		s.Restart = Forgets
	}
	if s.Property == "" {
		s.Property = MutualExclusion
	}
	m := &Model{Scope: s, Reductions: r, rules: s.rules()}
	if m.firstCount {
		m.Symmetry = false // it matters which node is the first
	}
	m.codec = codec{s, m.Symmetry}
	return m
}

func (s Scope) leases() int         { return 2 * s.Attempts }
func (m *Model) lease(c, a int) int { return c*m.Attempts + a }

// current is the lease of a client's latest attempt.
func (m *Model) current(s *state, c int) int { return m.lease(c, int(s.client[c].begun)-1) }

// same says whether two leases have one token.
func (m *Model) same(s *state, l, k int) bool {
	switch {
	case l == k || m.shares == everybody:
		return true
	case m.shares == nobody || l/m.Attempts != k/m.Attempts:
		return false
	}
	l, k = min(l, k), max(l, k)
	between := uint8(1)<<(k%m.Attempts) - uint8(1)<<(l%m.Attempts)
	return s.client[l/m.Attempts].held&between == 0
}

// believes says whether a client takes the lock for its own.
func (m *Model) believes(s *state, c int) bool {
	k := &s.client[c]
	if k.phase != holding && k.phase != extending {
		return false
	}
	return k.free == 1 || s.over[m.current(s, c)] <= k.gen
}

// violated says whether both do, or another property is violated.
func (m *Model) violated(s *state) bool {
	switch m.Property {
	case MutualExclusion:
		return m.believes(s, 0) && m.believes(s, 1)
	case LeftKeys:
		return left(m, s)
	}
	return s.harm
}

// mayExpire says whether a key's last window is over.
func (m *Model) mayExpire(s *state, k key) bool {
	return k > 0 && int(s.over[k.lease()]) > k.generation()
}

// first is the state in which nothing has happened.
func (m *Model) first() state {
	s := state{crashes: uint8(m.Crashes), jumps: uint8(m.Jumps)}
	reducer{m}.reduce(&s)
	return s
}

// next calls yield with each state that can follow. It keeps none of them.
func (m *Model) next(s *state, yield func(*state, Step)) {
	w := walk{m, s, yield}
	for c := range 2 {
		w.client(c)
	}
	for n := range m.Nodes {
		w.node(n)
	}
	if m.Property == resourceSafety {
		w.writes()
	}
}

// walk is what follows one state.
type walk struct {
	*Model
	from  *state
	yield func(*state, Step)
}

// step is a state that follows, by what changes.
func (w walk) step(did Step, change func(*state)) {
	t := *w.from
	change(&t)
	reducer{w.Model}.reduce(&t)
	w.yield(&t, did)
}

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

// action is a kind of step.
type action string

// What can happen: to a client, to its window, to a message, to a node.
const (
	started      action = "starts"
	acquired     action = "acquires"
	failed       action = "fails to acquire"
	released     action = "releases"
	Extending    action = "begins to extend"
	Extended     action = "extends"
	extendLost   action = "learns that it is lost"
	extendFailed action = "fails to extend"
	over         action = "window is over"
	reply        action = "reply arrives"
	Raising      action = "writes its token back"
	Read         action = "reads"
	writing      action = "sends its write"
	set          action = "SET"
	extend       action = "EXTEND"
	del          action = "DEL"
	Raise        action = "RAISE"
	write        action = "WRITE"
	expired      action = "key expires"
	synced       action = "syncs its disk"
	crashed      action = "crashes"
	restarted    action = "is back"
	votes        action = "votes again"
	Lost         action = "is lost"
	jumped       action = "clock jumps"
)

// Step is one transition.
type Step struct {
	Action  action `json:"action"`
	Client  int    `json:"client"` // 1 or 2; 0: none
	Attempt int    `json:"attempt"`
	Node    int    `json:"node"`              // from 1; 0: none
	Yes     bool   `json:"yes,omitempty"`     // what the node answers
	Expired bool   `json:"expired,omitempty"` // it finds that the key has expired
	Synced  bool   `json:"synced,omitempty"`  // what it changes is on the disk at once
	Heard   uint8  `json:"heard,omitempty"`   // nodes, a bit each, whose counts of grants the client has heard
	Behind  uint8  `json:"behind,omitempty"`  // those of them to which it writes its token back
	Fence   uint8  `json:"fence,omitempty"`   // the token
}

// String is the step in words.
func (s Step) String() string {
	who := fmt.Sprintf("c%d", s.Client)
	if s.Attempt > 1 {
		who += fmt.Sprintf(" (attempt %d)", s.Attempt)
	}
	switch s.Action {
	case set, extend, del, Raise, reply:
		answer := "no"
		if s.Yes {
			answer = "yes"
		}
		if s.Expired {
			answer += ", the key there had expired"
		}
		if s.Synced {
			answer += ", on disk"
		}
		if s.Action == reply {
			return fmt.Sprintf("%s hears from n%d: %s", who, s.Node, answer)
		}
		return fmt.Sprintf("%s of %s at n%d: %s", s.Action, who, s.Node, answer)
	case acquired, Raising:
		if s.Fence > 0 {
			who += fmt.Sprintf(", with token %d,", s.Fence)
		}
		return fmt.Sprintf("%s %s", who, s.Action)
	case Read, write:
		text := fmt.Sprintf("%s %s", who, s.Action)
		if s.Action == write {
			text = fmt.Sprintf("the write of %s arrives", who)
		}
		if !s.Yes {
			text += ", and is refused"
		}
		return text
	case over:
		return who + "'s window is over"
	case expired, jumped:
		return fmt.Sprintf("n%d's %s", s.Node, s.Action)
	case Lost:
		return fmt.Sprintf("DEL of %s to n%d is lost", who, s.Node)
	case crashed, restarted, votes, synced:
		return fmt.Sprintf("n%d %s", s.Node, s.Action)
	}
	return fmt.Sprintf("%s %s", who, s.Action)
}
