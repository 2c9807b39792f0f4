package exhaust

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

// client is one contender.
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
