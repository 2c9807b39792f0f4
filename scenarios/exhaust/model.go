package exhaust

import (
	"fmt"
	"math/bits"
	"slices"
)

// client is what a client can do next, and its windows.
func (w walk) client(c int) {
	me := &w.from.client[c]
	switch me.phase {
	case idle:
		if int(me.begun) < w.Attempts {
			w.step(Step{Action: started, Client: c + 1, Attempt: int(me.begun) + 1}, func(t *state) { w.start(t, c) })
		}
	case asking:
		if w.Fence {
			w.fenced(c)
		} else {
			w.attempt(c)
		}
	case raising:
		w.raised(c)
	case holding:
		w.step(w.of(c, released), func(t *state) { w.release(t, c) })
		if w.Property == resourceSafety {
			w.work(c)
		}
		if int(me.asked) < w.Extends && w.believes(w.from, c) {
			w.step(w.of(c, Extending), func(t *state) {
				t.client[c].phase = extending
				t.client[c].asked++
				send(t, w.Nodes, func(n *node) *request { return &n.ext[w.current(t, c)] }, flying)
			})
		}
	case extending:
		w.extension(c)
	case lost:
		w.step(w.of(c, released), func(t *state) { w.release(t, c) })
	}
	for a := range int(me.begun) {
		l := w.lease(c, a)
		if w.from.over[l] < w.windows(w.from, c, a) {
			w.step(Step{Action: over, Client: c + 1, Attempt: a + 1}, func(t *state) { t.over[l]++ })
		}
	}
}

// windows is how many windows an attempt has that can end.
func (m *model) windows(s *state, c, a int) uint8 {
	me := &s.client[c]
	if a == int(me.begun)-1 {
		switch me.phase {
		case asking, raising:
			return 1
		case holding, extending:
			return 1 + me.asked
		}
	}
	return uint8(1 + m.Extends)
}

// of is a step of a client's latest attempt.
func (w walk) of(c int, a action) Step {
	return Step{Action: a, Client: c + 1, Attempt: int(w.from.client[c].begun)}
}

func (m *model) start(t *state, c int) {
	t.client[c].phase = asking
	t.client[c].begun++
	send(t, m.Nodes, func(n *node) *request { return &n.set[m.current(t, c)] }, flying)
}

// release ends a hold.
func (m *model) release(t *state, c int) {
	how := flying
	if m.plainDel {
		how = plain
	}
	if m.shares == attempts {
		t.client[c].held |= 1 << (t.client[c].begun - 1)
	}
	m.leave(t, m.current(t, c))
	m.end(t, c, how)
}

// end ends an attempt or a hold: all nodes are asked to forget it.
func (m *model) end(t *state, c int, how request) {
	me := &t.client[c]
	me.phase, me.asked, me.gen, me.free = idle, 0, 0, 0
	send(t, m.Nodes, func(n *node) *request { return &n.del[m.current(t, c)] }, how)
}

func send(t *state, nodes int, to func(*node) *request, how request) {
	for n := range nodes {
		*to(&t.node[n]) = how
	}
}

// attempt is how an attempt can end. Unless replies are merged into that, each arrives first.
func (w walk) attempt(c int) {
	l := w.current(w.from, c)
	voted, _ := w.replies(c, func(n *node) *request { return &n.set[l] })
	won := bits.OnesCount8(voted) >= w.quorum && (w.from.over[l] == 0 || w.noElapsed)
	if won {
		w.step(w.of(c, acquired), func(t *state) { w.acquire(t, c, 0) })
	}
	if !won || w.Merge { // where they are merged, answers may still be on their way
		w.step(w.of(c, failed), func(t *state) { w.fail(t, c) })
	}
}

// extension is how an extension can end.
func (w walk) extension(c int) {
	l := w.current(w.from, c)
	ends := func(a action, p phase, more uint8) {
		w.step(w.of(c, a), func(t *state) {
			w.deaf(t, l)
			t.client[c].phase = p
			t.client[c].gen += more
		})
	}
	agreed, refused := w.replies(c, func(n *node) *request { return &n.ext[l] })
	against := bits.OnesCount8(refused)
	won := bits.OnesCount8(agreed) >= w.renewal
	if won && w.from.over[l] <= w.from.client[c].gen {
		ends(Extended, holding, 1)
	}
	if against >= w.Nodes/2+1 && (w.Merge || !won) {
		ends(extendLost, lost, 0)
	}
	if w.Merge || !won && against < w.Nodes/2+1 || won && w.from.over[l] > w.from.client[c].gen {
		ends(extendFailed, holding, 0)
	}
}

// replies are the nodes, a bit each, of which a client knows what they answered in a round, or could
// know where replies are merged.
func (w walk) replies(c int, of func(*node) *request) (agreed, refused uint8) {
	for n := range w.Nodes {
		r := *of(&w.from.node[n])
		switch {
		case r == heardYes || w.Merge && r == yes:
			agreed |= 1 << n
		case r == heardNo || w.Merge && r == no:
			refused |= 1 << n
		case r == yes || r == no:
			did := w.of(c, reply)
			did.Node, did.Yes = n+1, r == yes
			w.step(did, func(t *state) { *of(&t.node[n]) += heardYes - yes })
		}
	}
	return agreed, refused
}

// deaf forgets the answers to a lease's rounds that are over: nobody waits for them any more.
func (m *model) deaf(t *state, l int) {
	for i := range m.Nodes {
		n := &t.node[i]
		for _, r := range []*request{&n.set[l], &n.ext[l], &n.raise[l]} {
			if *r != flying {
				*r = none
			}
		}
		n.granted[l] = 0
	}
}

// node is what can happen at a node next. What arrives at one that is down is refused, which
// is no answer: as if it never arrived.
func (w walk) node(n int) {
	s, me := w.from, &w.from.node[n]
	at := func(a action) Step { return Step{Action: a, Node: n + 1} }
	if me.down != up {
		if lost := key(me.down - 1); lost == 0 || w.mayExpire(s, lost) {
			back := restarted
			if w.Quarantine {
				back = votes
			}
			w.step(at(back), func(t *state) { t.node[n].down = up })
		}
		if !w.Quarantine {
			return
		}
	}
	if s.crashes > 0 && (!w.Dominate || me.key > 0 || me.disk > 0 || me.count > 0) { // else it takes nothing away
		w.step(at(crashed), func(t *state) { w.crash(t, n) })
	}
	if s.jumps > 0 && me.key > 0 {
		w.step(at(jumped), func(t *state) {
			t.jumps--
			t.node[n].key = 0
		})
	}
	if w.Merge {
		w.messages(n, false)
		if w.mayExpire(s, me.key) {
			w.messages(n, true)
		}
		return
	}
	if w.mayExpire(s, me.key) {
		w.step(at(expired), func(t *state) { t.node[n].key = 0 })
	}
	if w.Restart == everySec && (me.disk != me.key || me.synced != me.count) {
		w.step(at(synced), func(t *state) { t.node[n].sync() })
	}
	w.messages(n, false)
}

func (m *model) crash(t *state, n int) {
	t.crashes--
	me := &t.node[n]
	before := *me
	switch m.Restart {
	case Forgets:
		me.key, me.count = 0, 0
	case Delayed:
		me.down, me.key, me.count = downWith(me.key), 0, 0
	case everySec:
		me.key, me.count = me.disk, me.synced
	}
	forgets(m, t, n, &before)
}

func (n *node) sync() { n.disk, n.synced = n.key, n.count }

// messages are those that can arrive at a node, where the key has expired or not.
func (w walk) messages(n int, expired bool) {
	me := w.from.node[n]
	for l := range w.leases() {
		if (me.set[l] == flying || me.set[l] == doomed) && me.down == up { // in quarantine that is no answer
			w.arrive(n, l, set, expired)
			w.lapsed(n, l, expired)
		}
		if me.ext[l] == flying {
			w.arrive(n, l, extend, expired)
		}
		if me.raise[l] == flying {
			w.arrive(n, l, Raise, expired)
		}
		if me.del[l] != none {
			w.arrive(n, l, del, expired)
			if w.Property == leftKeys && !w.debts && !expired {
				w.step(Step{Action: Lost, Client: l/w.Attempts + 1, Attempt: l%w.Attempts + 1, Node: n + 1}, func(t *state) { t.node[n].del[l] = none })
			}
		}
	}
}

// arrive applies a message. With EverySec what it changes is on the disk at once, or not before
// the next change: a sync in between comes to the same as the one or the other.
func (w walk) arrive(n, l int, a action, expired bool) {
	old := w.from.node[n].key
	if expired {
		old = 0
	}
	did := Step{Action: a, Client: l/w.Attempts + 1, Attempt: l%w.Attempts + 1, Node: n + 1, Expired: expired}
	var left key
	left, did.Yes = w.apply(&w.from.node[n], old, l, a)
	deliver := func(t *state) {
		t.node[n].key = left
		switch a {
		case set:
			w.begins(t, l/w.Attempts, l)
		case del:
			bury(w.model, &t.node[n], l)
		}
		if w.Fence && did.Yes {
			w.counts(t, n, l, a, old)
		}
		w.answer(t, n, l, a, did.Yes)
	}
	w.step(did, deliver)
	if w.Merge && w.Restart == everySec && w.from.crashes > 0 {
		after := *w.from
		if deliver(&after); after.node[n].key != after.node[n].disk || after.node[n].count != after.node[n].synced {
			did.Synced = true
			w.step(did, func(t *state) {
				deliver(t)
				t.node[n].sync()
			})
		}
	}
}

// counts is what a request that took effect does to a node's count of grants.
func (m *model) counts(t *state, n, l int, a action, old key) {
	switch me := &t.node[n]; a {
	case set:
		if !m.hardened || old == 0 { // else it has granted that before
			me.count++
		}
		me.granted[l] = me.count
	case Raise:
		me.count = max(me.count, t.fence[l])
	}
}

// apply is what a node does with a request of a lease about the key it has.
func (w walk) apply(me *node, old key, l int, a action) (left key, ok bool) {
	own := old > 0 && w.same(w.from, old.lease(), l)
	switch {
	case a == set && me.set[l] == doomed:
		return old, false
	case a == set && w.hardened && own:
		return old, true
	case a == set && (old == 0 || w.noNX):
		return keyOf(l, 0), true
	case a == extend && own && old.lease() > l && old.lease()/w.Attempts == l/w.Attempts:
		return old, true // a later attempt's, with the same token: no expiry gets earlier
	case a == extend && own:
		return keyOf(l, 1), true
	case a == Raise && own:
		return old, true
	case a == del && (own || me.del[l] == plain && old > 0):
		return 0, true
	}
	return old, false
}

// answer sends the answer on its way, if somebody waits for it.
func (w walk) answer(t *state, n, l int, a action, ok bool) {
	r, wanted := &t.node[n].del[l], idle
	switch a {
	case set:
		r, wanted = &t.node[n].set[l], asking
	case extend:
		r, wanted = &t.node[n].ext[l], extending
	case Raise:
		r, wanted = &t.node[n].raise[l], raising
	}
	c := l / w.Attempts
	waits := a != del && w.current(t, c) == l && t.client[c].phase == wanted
	switch {
	case !waits:
		*r = none
		t.node[n].granted[l] = 0
	case ok:
		*r = yes
	default:
		*r = no
	}
}

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
func (m *model) accepts(s *state, l int) bool { return !m.Fence || s.fence[l] >= s.top }

// reads is a hold's read: who is refused gives the lock back.
func (m *model) reads(t *state, c int) {
	l := m.current(t, c)
	if !m.accepts(t, l) {
		m.release(t, c)
		return
	}
	t.section[l] = read
	m.see(t, l)
}

// see has the resource keep the highest token.
func (m *model) see(t *state, l int) {
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
func (m *model) write(t *state, l int, accepted bool) {
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
func (m *model) leave(t *state, l int) {
	if s := &t.section[l]; *s != sent && *s != sentLate {
		*s = unread
	}
}

// Where grants are counted an attempt has two rounds: all nodes are asked for the key and for their
// counts of its grants, and the highest of them, which is the token, is written back to those that
// granted with a lower one. Who does not confirm that has no vote.
//
//	SET ──► counts 3, 1, 2 ──► token 3 ──► RAISE to 3 on the second and the third ──► votes

// fenced is how an attempt that counts can go on once its first round is over. It matters
// which counts were heard: where replies are merged into that, any that can be there may be.
func (w walk) fenced(c int) {
	l := w.current(w.from, c)
	voted, _ := w.replies(c, func(n *node) *request { return &n.set[l] })
	for heard := voted; ; heard = (heard - 1) & voted {
		if bits.OnesCount8(heard) >= w.quorum {
			w.count(c, heard)
		}
		if !w.Merge || heard == 0 {
			break
		}
	}
	if w.Merge || bits.OnesCount8(voted) < w.quorum || w.from.over[l] > 0 {
		w.step(w.of(c, failed), func(t *state) { w.fail(t, c) })
	}
}

// count gives the token by the counts that were heard.
func (w walk) count(c int, heard uint8) {
	l := w.current(w.from, c)
	fence, behind := w.token(l, heard)
	did := w.of(c, Raising)
	did.Heard, did.Behind, did.Fence = heard, behind, fence
	if behind == 0 {
		if w.from.over[l] == 0 || w.noElapsed {
			did.Action = acquired
			w.step(did, func(t *state) { w.acquire(t, c, fence) })
		}
		return
	}
	w.step(did, func(t *state) {
		t.client[c].phase, t.fence[l] = raising, fence
		for i := range w.Nodes {
			n := &t.node[i]
			switch n.granted[l] = 0; {
			case behind>>i&1 == 1:
				n.set[l], n.raise[l] = none, flying
			case heard>>i&1 == 1:
				n.set[l] = heardYes // its vote stands
			case n.set[l] != flying:
				n.set[l] = none
			}
		}
	})
}

// token is the highest count of those that were heard, and which of them are behind it.
func (w walk) token(l int, heard uint8) (fence, behind uint8) {
	for i := range w.Nodes {
		if n := &w.from.node[i]; heard>>i&1 == 1 && (!w.firstCount || fence == 0) {
			fence = max(fence, n.granted[l])
		}
	}
	for i := range w.Nodes {
		if n := &w.from.node[i]; heard>>i&1 == 1 && n.granted[l] < fence && !w.firstCount {
			behind |= 1 << i
		}
	}
	return fence, behind
}

// raised is how an attempt can end whose token is being written back.
func (w walk) raised(c int) {
	l := w.current(w.from, c)
	confirmed, _ := w.replies(c, func(n *node) *request { return &n.raise[l] })
	votes := bits.OnesCount8(confirmed)
	for i := range w.Nodes {
		if w.from.node[i].set[l] == heardYes {
			votes++
		}
	}
	won := votes >= w.quorum && (w.from.over[l] == 0 || w.noElapsed)
	if won {
		did := w.of(c, acquired)
		did.Fence = w.from.fence[l]
		w.step(did, func(t *state) { w.acquire(t, c, did.Fence) })
	}
	if !won || w.Merge {
		w.step(w.of(c, failed), func(t *state) { w.fail(t, c) })
	}
}

// acquire is the end of an attempt that got the lock, with a token or without.
func (m *model) acquire(t *state, c int, fence uint8) {
	l := m.current(t, c)
	m.deaf(t, l)
	t.client[c].phase, t.fence[l] = holding, fence
	if m.noElapsed {
		t.client[c].free = 1
	}
	if m.Property == fencingOrder {
		t.harm = t.harm || fence < t.client[c].floor
		t.top = max(t.top, fence)
		t.client[c].floor = 0
	}
}

// begins notes that a SET of an attempt has arrived: it may have been sent just now, and the attempt
// have begun, after every lock that was given so far.
func (m *model) begins(t *state, c, l int) {
	if me := &t.client[c]; m.Property == fencingOrder && me.floor == 0 && me.phase == asking && l == m.current(t, c) {
		me.floor = t.top + 1
	}
}

// fail is the end of one that did not.
func (m *model) fail(t *state, c int) {
	l, refused := m.current(t, c), uint8(0)
	for n := range m.Nodes {
		if t.node[n].set[l] == heardNo {
			refused |= 1 << n
		}
	}
	m.deaf(t, l)
	m.end(t, c, flying)
	spare(m, t, l, refused)
	t.client[c].floor = 0
}

// settle forgets tokens that nobody will ask for, so that states don't differ in them.
func (m *model) settle(t *state) {
	for l := range m.leases() {
		c := l / m.Attempts
		asked := t.section[l] == sent || t.section[l] == sentLate
		if int(t.client[c].begun) > 0 && l == m.current(t, c) {
			p := t.client[c].phase
			asked = asked || p == raising || m.Property == resourceSafety && (p == holding || p == extending)
		}
		for n := range m.Nodes {
			asked = asked || t.node[n].raise[l] == flying
		}
		if !asked {
			t.fence[l] = 0
		}
	}
}

// hardenedLock is the lock that redlock.New makes. It does what the specification's does, and besides:
//
//   - it returns once a quorum has granted, or none can. Nothing new can come of that: where time is
//     not counted, a round may be over at any moment, and what it has sent arrives later or never.
//   - a node is not asked to forget what it has refused; where the node's answer to SET is missing it
//     is told to refuse that: a tombstone.
//   - a DEL is sent until it is answered: a debt. That it arrives twice makes no difference, unless the
//     tombstone that the first one left is gone by then.
//   - counts of grants begin at the node's clock, so that a node which forgot counts on above all that
//     was counted before, as long as clocks agree.
//   - with Scope.Quarantine a node that crashed refuses every SET until what it lost would have expired.
//
// Package wire needs no tombstones, for on one connection nothing overtakes: none of its SETs
// arrives after its DEL, and here none has an effect after it.
const hardenedLock = "hardened"

// Parts of it that Scope.Without can leave out.
const (
	tombstones = "tombstones"
	debts      = "debts"
	clockCount = "clock-counts"
)

// Locks and Parts list what Scope.Lock and Scope.Without can be.
func Locks() []string { return []string{"redlock", hardenedLock} }
func Parts() []string { return []string{tombstones, debts, clockCount} }

// hardening is those parts.
type hardening struct{ hardened, tombstones, debts, clockCount bool }

func (s Scope) harden(r *rules) {
	if s.Lock == hardenedLock {
		r.hardening = hardening{true, s.Without != tombstones, s.Without != debts, s.Without != clockCount}
	}
}

func (s Scope) checkHardened() error {
	hardened := s.Lock == hardenedLock
	switch {
	case s.Lock != "" && !hardened:
		return fmt.Errorf("lock is %q, and can be one of %q", s.Lock, Locks())
	case s.Without != "" && !slices.Contains(Parts(), s.Without):
		return fmt.Errorf("without is %q, and can be one of %q", s.Without, Parts())
	case (s.Without != "" || s.Quarantine) && !hardened:
		return fmt.Errorf("tombstones, debts, counts from the clock and quarantine are of lock %s", hardenedLock)
	case hardened && s.Mistake != "":
		return fmt.Errorf("%s is a mistake of the specification's lock; lock %s can go without one of %q", s.Mistake, hardenedLock, Parts())
	case s.Without == clockCount && !s.Fence:
		return fmt.Errorf("%s are of fencing tokens, and the lock gives none", clockCount)
	case s.Quarantine && (s.Crashes == 0 || s.Restart == Delayed):
		return fmt.Errorf("a quarantine is of nodes that crash and are back at once")
	case s.Quarantine && s.Restart == everySec && s.Extends > 0 && s.Crashes > 1:
		return fmt.Errorf("a node in quarantine that loses an extension besides is not searched")
	case s.Property == leftKeys && (s.Crashes > 0 || s.Jumps > 0 || s.Mistake != ""):
		return fmt.Errorf("%s is of scopes without faults and mistakes", leftKeys)
	}
	return nil
}

// inTheModel is the cause of a violation which no run shows.
const inTheModel = "in the model"

// Runs says whether what violates the scope can be run: there is a lock like that and a verdict on it,
// and a scenario can tell of it. What breaks the tokens of nodes that come back with older counts
// takes attempts that fail, of which it can't tell.
func (s Scope) Runs() bool {
	return s.Without == "" && s.Property != leftKeys && !(s.Lock == hardenedLock && s.Property == fencingOrder && s.Restart == everySec)
}

// spare leaves out the DELs to nodes that are known to have refused: they have nothing to forget.
func spare(m *model, t *state, l int, refused uint8) {
	for n := range m.Nodes {
		if m.hardened && refused>>n&1 == 1 {
			t.node[n].del[l] = none
		}
	}
}

// bury has a node refuse the SET of a lease that is still under way.
func bury(m *model, n *node, l int) {
	if m.tombstones && n.set[l] == flying {
		n.set[l] = doomed
	}
}

// lapsed is a SET that arrives when its tombstone may be gone, which lives a TTL, as keys do: by then
// the window of the attempt is over.
func (w walk) lapsed(n, l int, expired bool) {
	if w.from.node[n].set[l] != doomed || w.from.over[l] == 0 {
		return
	}
	late := *w.from
	late.node[n].set[l] = flying
	if w.debts {
		late.node[n].del[l] = flying // if no answer to it was heard, it comes again
	}
	walk{w.model, &late, w.yield}.arrive(n, l, set, expired)
}

// forgets is what a crash takes besides keys and counts. What was sent before it is taken to arrive all
// the same, so that a tombstone which is lost has its SET arrive. A node that knows no count any more
// counts from its clock, which is above all that there was.
func forgets(m *model, t *state, n int, before *node) {
	me := &t.node[n]
	if m.Restart != Always {
		for l := range m.leases() {
			if me.set[l] == doomed {
				me.set[l] = flying
			}
		}
	}
	if m.clockCount && me.count == 0 {
		me.count = before.count
		for l := range m.leases() {
			me.count = max(me.count, t.fence[l])
		}
		for k := range m.Nodes {
			me.count = max(me.count, t.node[k].count)
		}
	}
	if m.Quarantine && (me.down == up || m.mayExpire(t, key(me.down-1))) {
		me.down = downWith(before.key)
	}
}

// left says whether a key stays on a node for which nobody will ask: its attempt or hold is over, its
// window is not, and no DEL is on its way.
func left(m *model, s *state) bool {
	for n := range m.Nodes {
		k := s.node[n].key
		if k == 0 || m.mayExpire(s, k) || s.node[n].del[k.lease()] != none {
			continue
		}
		if c := k.lease() / m.Attempts; s.client[c].phase == idle || m.current(s, c) != k.lease() {
			return true
		}
	}
	return false
}
