package exhaust

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// phase is what a client is doing.
type phase uint8

const (
	phaseIdle      phase = iota
	phaseAcquiring       // an attempt is in progress
	phaseRaising         // has the votes, and is writing its fencing token back
	phaseHolding
	phaseExtending // holds the lock, and has requested an extension
	phaseLost      // a majority refused the extension, so the client will release the lock
)

// request is the state of a client's request to a node.
type request uint8

const (
	requestNone request = iota // not sent, or no longer relevant
	requestInFlight
	yesInFlight      // granted; the reply is in flight
	noInFlight       // refused; the reply is in flight
	yesReceived      // granted; the reply has arrived
	noReceived       // refused; the reply has arrived
	unconditionalDel // a DEL in flight that does not check the token
	tombstonedSet    // a SET in flight that the node will refuse because of a tombstone
)

// key is a node's key: 0 if there is none, otherwise an encoding of its lease and generation, which
// identify the window after which it may expire.
type key uint8

// keyOf returns a lease's key as set by its attempt (generation 0) or its extension (generation 1).
func keyOf(lease, generation int) key { return key(1 + 2*lease + generation) }

func (k key) lease() int      { return int(k-1) / 2 }
func (k key) generation() int { return int(k-1) % 2 }

// state is a state of the model. Leases are numbered by attempt: client × Attempts + attempt.
type state struct {
	client         [2]clientState
	endedWindows   [maxLeases]uint8 // number of ended windows: the attempt's, then the extension's
	crashes, jumps uint8            // remaining faults
	node           [MaxNodes]node

	tokens   [maxLeases]uint8   // fencing tokens that may still be used
	sections [maxLeases]section // progress of each hold's work
	maxToken uint8              // the highest token that the resource has seen or, with fencingOrder, the highest issued
	violated bool               // whether the property was violated
}

type clientState struct {
	phase            phase
	attempts         uint8 // number of attempts so far
	acquiredAttempts uint8 // bit set of attempts that acquired the lock, if tokens are shared
	extensions       uint8 // number of extensions requested in the current hold
	generation       uint8 // the window of the current hold: 0 for the attempt's, 1 for the extension's
	unbounded        uint8 // 1 if the client considers itself the holder whether or not its window has ended
	minToken         uint8 // with fencingOrder, maxToken + 1 at the arrival of the attempt's first SET; 0 before that
}

// node is the state of a node and of the messages to and from it.
type node struct {
	key           key
	diskKey       key // the key on disk, with fsync everysec
	downState     uint8
	set, ext, del [maxLeases]request

	count, syncedCount uint8 // grant counts in memory and on disk
	grantedCount       [maxLeases]uint8
	raise              [maxLeases]request // requests to raise the count to a lease's token
}

// nodeUp is the downState of a node that is up. Otherwise downState encodes the key that the node
// lost.
const nodeUp = 0

func downStateFor(k key) uint8 { return uint8(k) + 1 }

// model is a scope with the reductions to apply.
type model struct {
	Scope
	Reductions
	rules
	codec          codec
	extraReduction func(*state) // for tests of wrong reductions; may be nil
}

// newModel returns a model of a valid scope.
func newModel(s Scope, r Reductions) *model {
	if s.Restart == "" {
		s.Restart = RestartEmpty
	}
	if s.Property == "" {
		s.Property = MutualExclusion
	}
	m := &model{Scope: s, Reductions: r, rules: s.rules()}
	if m.tokenFromFirstNode {
		m.Symmetry = false // the first node is special
	}
	m.codec = newCodec(s, m.Symmetry)
	return m
}

func (s Scope) leases() int         { return 2 * s.Attempts }
func (m *model) lease(c, a int) int { return c*m.Attempts + a }

// current returns the lease of a client's latest attempt.
func (m *model) current(s *state, c int) int { return m.lease(c, int(s.client[c].attempts)-1) }

// sameToken reports whether two leases have the same token.
func (m *model) sameToken(s *state, l, k int) bool {
	switch {
	case l == k || m.sharing == shareAlways:
		return true
	case m.sharing == shareNever || l/m.Attempts != k/m.Attempts:
		return false
	}
	l, k = min(l, k), max(l, k)
	between := uint8(1)<<(k%m.Attempts) - uint8(1)<<(l%m.Attempts)
	return s.client[l/m.Attempts].acquiredAttempts&between == 0
}

// believes reports whether a client considers itself the holder.
func (m *model) believes(s *state, c int) bool {
	k := &s.client[c]
	if k.phase != phaseHolding && k.phase != phaseExtending {
		return false
	}
	return k.unbounded == 1 || s.endedWindows[m.current(s, c)] <= k.generation
}

// violated reports whether a state violates the scope's property.
func (m *model) violated(s *state) bool {
	switch m.Property {
	case MutualExclusion:
		return m.believes(s, 0) && m.believes(s, 1)
	case leftKeys:
		return hasOrphanKey(m, s)
	}
	return s.violated
}

// mayExpire reports whether a key's window has ended, so that the key may expire.
func (m *model) mayExpire(s *state, k key) bool {
	return k > 0 && int(s.endedWindows[k.lease()]) > k.generation()
}

func (m *model) initialState() state {
	s := state{crashes: uint8(m.Crashes), jumps: uint8(m.Jumps)}
	reducer{m}.reduce(&s)
	return s
}

// next calls yield with each possible step and the state after it, which is valid only during the
// call.
func (m *model) next(s *state, yield func(*state, Step)) {
	w := walk{m, s, yield}
	for c := range 2 {
		w.clientSteps(c)
	}
	for n := range m.Nodes {
		w.nodeSteps(n)
	}
	if m.Property == resourceSafety {
		w.writeSteps()
	}
}

// walk enumerates the steps from one state.
type walk struct {
	*model
	state *state
	yield func(*state, Step)
}

// step yields a step and the state after it, which change makes from a copy of the current state.
func (w walk) step(step Step, change func(*state)) {
	t := *w.state
	change(&t)
	reducer{w.model}.reduce(&t)
	w.yield(&t, step)
}

// codec packs a scope's states. A packed state consists of a head and a part for each node, with
// its key and the messages of each lease. The head and each part occupy whole bytes.
type codec struct {
	Scope
	symmetry             bool
	headBytes, nodeBytes int
}

func newCodec(s Scope, symmetry bool) codec {
	c := codec{Scope: s, symmetry: symmetry}
	var zero state
	var head, node packer
	c.head(&zero, &head)
	c.node(&zero.node[0], &node)
	c.headBytes, c.nodeBytes = (head.offset+7)/8, (node.offset+7)/8
	return c
}

func (c codec) size() int { return c.headBytes + c.Nodes*c.nodeBytes }

// tokenBits is enough bits for a token or a count, which never exceeds MaxNodes × maxLeases.
const tokenBits = 5

// head packs or unpacks a state's fields, except its nodes.
func (c codec) head(s *state, p *packer) {
	for i := range s.client {
		k := &s.client[i]
		p.field((*uint8)(&k.phase), 3)
		p.field(&k.attempts, 2)
		p.field(&k.acquiredAttempts, 3)
		p.field(&k.extensions, 1)
		p.field(&k.generation, 1)
		p.field(&k.unbounded, 1)
		if c.Property == fencingOrder {
			p.field(&k.minToken, tokenBits)
		}
	}
	p.field(&s.crashes, 3)
	p.field(&s.jumps, 3)
	for l := range c.leases() {
		p.field(&s.endedWindows[l], 2)
		if c.Property == resourceSafety {
			p.field((*uint8)(&s.sections[l]), 3)
		}
		if c.Fence {
			p.field(&s.tokens[l], tokenBits)
		}
	}
	if c.Property != MutualExclusion {
		p.field(&s.maxToken, tokenBits)
		violated := uint8(0)
		if s.violated {
			violated = 1
		}
		p.field(&violated, 1)
		s.violated = violated == 1
	}
}

func (c codec) node(n *node, p *packer) {
	p.field((*uint8)(&n.key), 4)
	p.field((*uint8)(&n.diskKey), 4)
	p.field(&n.downState, 4)
	if c.Fence {
		p.field(&n.count, tokenBits)
		p.field(&n.syncedCount, tokenBits)
	}
	for l := range c.leases() {
		del := uint8(min(n.del[l], 2)) // none, in flight or unconditional
		p.field((*uint8)(&n.set[l]), 3)
		p.field((*uint8)(&n.ext[l]), 3)
		p.field(&del, 2)
		if n.del[l] = request(del); del == 2 {
			n.del[l] = unconditionalDel
		}
		if c.Fence {
			p.field(&n.grantedCount[l], tokenBits)
			p.field((*uint8)(&n.raise[l]), 3)
		}
	}
}

// swapClients returns a copy of the state with the clients exchanged.
func (c codec) swapClients(s *state) state {
	t := *s
	t.client[0], t.client[1] = s.client[1], s.client[0]
	swap := func(l int) int { return (l + c.Attempts) % c.leases() }
	rename := func(k *key) {
		if *k > 0 {
			*k = keyOf(swap(k.lease()), k.generation())
		}
	}
	for n := range c.Nodes {
		swapped := &t.node[n]
		rename(&swapped.key)
		rename(&swapped.diskKey)
		if swapped.downState != nodeUp {
			lost := key(swapped.downState - 1)
			rename(&lost)
			swapped.downState = downStateFor(lost)
		}
	}
	for l := range c.leases() {
		k := swap(l)
		t.endedWindows[l], t.sections[l], t.tokens[l] = s.endedWindows[k], s.sections[k], s.tokens[k]
		for n := range c.Nodes {
			swapped, original := &t.node[n], &s.node[n]
			swapped.set[l], swapped.ext[l], swapped.del[l], swapped.grantedCount[l], swapped.raise[l] = original.set[k], original.ext[k], original.del[k], original.grantedCount[k], original.raise[k]
		}
	}
	return t
}

// append appends a packed state to b. With symmetry, it sorts the nodes.
func (c codec) append(b []byte, s *state) []byte {
	var head packer
	var node [MaxNodes]packer
	c.head(s, &head)
	b = head.append(b, c.headBytes)
	for i := range c.Nodes {
		c.node(&s.node[i], &node[i])
		for k := i; c.symmetry && k > 0 && node[k].less(node[k-1].word); k-- {
			node[k], node[k-1] = node[k-1], node[k]
		}
	}
	for _, n := range node[:c.Nodes] {
		b = n.append(b, c.nodeBytes)
	}
	return b
}

// unpack is the inverse of append.
func (c codec) unpack(b []byte) (s state) {
	c.head(&s, &packer{word: readWord(b[:c.headBytes]), unpacking: true})
	for n := range c.Nodes {
		c.node(&s.node[n], &packer{word: readWord(b[c.headBytes+n*c.nodeBytes:][:c.nodeBytes]), unpacking: true})
	}
	return s
}

// canonical appends the packed representative of all states that equal s except for the names of
// nodes and clients.
func (c codec) canonical(b []byte, s *state) []byte {
	b = c.append(b, s)
	if !c.symmetry {
		return b
	}
	n, other := len(b), c.swapClients(s)
	b = c.append(b, &other)
	if bytes.Compare(b[n:], b[:n]) < 0 {
		copy(b, b[n:])
	}
	return b[:n]
}

// word is a 128-bit number.
type word struct{ low, high uint64 }

func (w word) less(v word) bool { return w.high < v.high || w.high == v.high && w.low < v.low }

// append appends the low-order bytes of a word to b.
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

// packer packs numbers into a word or unpacks them in the same order.
type packer struct {
	word
	offset    int // bits processed so far
	unpacking bool
}

func (p *packer) field(x *uint8, bits int) {
	if p.unpacking {
		*x = p.take(bits)
	} else {
		p.put(uint64(*x), bits)
	}
}

func (p *packer) put(x uint64, bits int) {
	if p.offset < 64 {
		p.low |= x << p.offset
		p.high |= x >> (64 - p.offset) // zero if the shift is 64
	} else {
		p.high |= x << (p.offset - 64)
	}
	p.offset += bits
}

func (p *packer) take(bits int) uint8 {
	x := p.low & (1<<bits - 1)
	p.low = p.low>>bits | p.high<<(64-bits)
	p.high >>= bits
	return uint8(x)
}

type action string

// Actions of clients, windows, messages and nodes. The values are printed.
const (
	attemptStarted  action = "starts"
	lockAcquired    action = "acquires"
	acquireFailed   action = "fails to acquire"
	lockReleased    action = "releases"
	extendStarted   action = "begins to extend"
	extendSucceeded action = "extends"
	extendLost      action = "learns that the lock is lost"
	extendFailed    action = "fails to extend"
	windowEnded     action = "window ends"
	replyArrived    action = "reply arrives"
	raiseStarted    action = "writes its token back"
	readDone        action = "reads"
	writeSent       action = "sends its write"
	setArrived      action = "SET"
	extendArrived   action = "EXTEND"
	delArrived      action = "DEL"
	raiseArrived    action = "RAISE"
	writeArrived    action = "WRITE"
	keyExpired      action = "key expires"
	diskSynced      action = "syncs its disk"
	nodeCrashed     action = "crashes"
	nodeRestarted   action = "restarts"
	quarantineEnded action = "votes again"
	delLost         action = "is lost"
	clockJumped     action = "clock jumps"
)

// Step is a transition of the model.
type Step struct {
	Action         action `json:"action"`
	Client         int    `json:"client"` // 1 or 2; 0 means none
	Attempt        int    `json:"attempt"`
	Node           int    `json:"node"`              // starts at 1; 0 means none
	Yes            bool   `json:"yes,omitempty"`     // whether the node or the resource grants the request
	Expired        bool   `json:"expired,omitempty"` // whether the request finds the key expired
	Synced         bool   `json:"synced,omitempty"`  // whether the change is synced immediately
	CountsReceived uint8  `json:"heard,omitempty"`   // set of nodes whose grant counts the client received
	LaggingNodes   uint8  `json:"behind,omitempty"`  // set of nodes that get the token written back
	Fence          uint8  `json:"fence,omitempty"`   // the fencing token
}

func (s Step) String() string {
	who := fmt.Sprintf("c%d", s.Client)
	if s.Attempt > 1 {
		who += fmt.Sprintf(" (attempt %d)", s.Attempt)
	}
	switch s.Action {
	case setArrived, extendArrived, delArrived, raiseArrived, replyArrived:
		answer := "no"
		if s.Yes {
			answer = "yes"
		}
		if s.Expired {
			answer += ", the key had expired"
		}
		if s.Synced {
			answer += ", on disk"
		}
		if s.Action == replyArrived {
			return fmt.Sprintf("%s receives the reply of n%d: %s", who, s.Node, answer)
		}
		return fmt.Sprintf("%s of %s at n%d: %s", s.Action, who, s.Node, answer)
	case lockAcquired, raiseStarted:
		if s.Fence > 0 {
			who += fmt.Sprintf(", with token %d,", s.Fence)
		}
		return fmt.Sprintf("%s %s", who, s.Action)
	case readDone, writeArrived:
		text := fmt.Sprintf("%s %s", who, s.Action)
		if s.Action == writeArrived {
			text = fmt.Sprintf("the write of %s arrives", who)
		}
		if !s.Yes {
			text += " and is refused"
		}
		return text
	case windowEnded:
		return who + "'s window ends"
	case keyExpired, clockJumped:
		return fmt.Sprintf("n%d's %s", s.Node, s.Action)
	case delLost:
		return fmt.Sprintf("DEL of %s to n%d is lost", who, s.Node)
	case nodeCrashed, nodeRestarted, quarantineEnded, diskSynced:
		return fmt.Sprintf("n%d %s", s.Node, s.Action)
	}
	return fmt.Sprintf("%s %s", who, s.Action)
}
