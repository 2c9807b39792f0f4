package exhaust

import (
	"fmt"
	"math/bits"
	"slices"
)

// clientSteps yields a client's next steps and the ends of its windows.
func (w walk) clientSteps(c int) {
	me := &w.from.client[c]
	switch me.phase {
	case idle:
		if int(me.attempts) < w.Attempts {
			w.step(Step{Action: started, Client: c + 1, Attempt: int(me.attempts) + 1}, func(t *state) { w.start(t, c) })
		}
	case acquiring:
		if w.Fence {
			w.fencedAttemptSteps(c)
		} else {
			w.attemptSteps(c)
		}
	case raising:
		w.raisingSteps(c)
	case holding:
		w.step(w.clientStep(c, released), func(t *state) { w.release(t, c) })
		if w.Property == resourceSafety {
			w.resourceSteps(c)
		}
		if int(me.extensions) < w.Extends && w.believes(w.from, c) {
			w.step(w.clientStep(c, extendStarted), func(t *state) {
				t.client[c].phase = extending
				t.client[c].extensions++
				send(t, w.Nodes, func(n *node) *request { return &n.ext[w.current(t, c)] }, inFlight)
			})
		}
	case extending:
		w.extensionSteps(c)
	case lost:
		w.step(w.clientStep(c, released), func(t *state) { w.release(t, c) })
	}
	for a := range int(me.attempts) {
		l := w.lease(c, a)
		if w.from.endedWindows[l] < w.windows(w.from, c, a) {
			w.step(Step{Action: windowEnded, Client: c + 1, Attempt: a + 1}, func(t *state) { t.endedWindows[l]++ })
		}
	}
}

// windows returns how many windows of an attempt have begun and so can end.
func (m *model) windows(s *state, c, a int) uint8 {
	me := &s.client[c]
	if a == int(me.attempts)-1 {
		switch me.phase {
		case acquiring, raising:
			return 1
		case holding, extending:
			return 1 + me.extensions
		}
	}
	return uint8(1 + m.Extends)
}

// clientStep returns a step of a client's latest attempt.
func (w walk) clientStep(c int, a action) Step {
	return Step{Action: a, Client: c + 1, Attempt: int(w.from.client[c].attempts)}
}

func (m *model) start(t *state, c int) {
	t.client[c].phase = acquiring
	t.client[c].attempts++
	send(t, m.Nodes, func(n *node) *request { return &n.set[m.current(t, c)] }, inFlight)
}

// release makes a client release its lock.
func (m *model) release(t *state, c int) {
	how := inFlight
	if m.plainDel {
		how = unconditional
	}
	if m.sharing == shareInAcquire {
		t.client[c].acquired |= 1 << (t.client[c].attempts - 1)
	}
	m.stopWork(t, m.current(t, c))
	m.end(t, c, how)
}

// end ends an attempt or a hold: the client sends a DEL to all nodes.
func (m *model) end(t *state, c int, how request) {
	me := &t.client[c]
	me.phase, me.extensions, me.generation, me.unbounded = idle, 0, 0, 0
	send(t, m.Nodes, func(n *node) *request { return &n.del[m.current(t, c)] }, how)
}

func send(t *state, nodes int, to func(*node) *request, how request) {
	for n := range nodes {
		*to(&t.node[n]) = how
	}
}

// attemptSteps yields the possible ends of an attempt. Without Merge, every reply arrives in a step
// of its own first.
func (w walk) attemptSteps(c int) {
	l := w.current(w.from, c)
	voted, _ := w.replies(c, func(n *node) *request { return &n.set[l] })
	won := bits.OnesCount8(voted) >= w.quorum && (w.from.endedWindows[l] == 0 || w.noElapsed)
	if won {
		w.step(w.clientStep(c, acquired), func(t *state) { w.acquire(t, c, 0) })
	}
	if !won || w.Merge { // with Merge, replies may still be in flight
		w.step(w.clientStep(c, acquireFailed), func(t *state) { w.fail(t, c) })
	}
}

// extensionSteps yields the possible ends of an extension.
func (w walk) extensionSteps(c int) {
	l := w.current(w.from, c)
	ends := func(a action, p phase, more uint8) {
		w.step(w.clientStep(c, a), func(t *state) {
			w.dropReplies(t, l)
			t.client[c].phase = p
			t.client[c].generation += more
		})
	}
	agreed, refused := w.replies(c, func(n *node) *request { return &n.ext[l] })
	against := bits.OnesCount8(refused)
	won := bits.OnesCount8(agreed) >= w.extendQuorum
	if won && w.from.endedWindows[l] <= w.from.client[c].generation {
		ends(extendSucceeded, holding, 1)
	}
	if against >= w.Nodes/2+1 && (w.Merge || !won) {
		ends(extendLost, lost, 0)
	}
	if w.Merge || !won && against < w.Nodes/2+1 || won && w.from.endedWindows[l] > w.from.client[c].generation {
		ends(extendFailed, holding, 0)
	}
}

// replies returns bit sets of the nodes whose replies in a round agree or refuse. They cover the
// replies that the client has received, and with Merge those that it may have received. Without
// Merge, replies yields the arrival of the others.
func (w walk) replies(c int, field func(*node) *request) (agreed, refused uint8) {
	for n := range w.Nodes {
		r := *field(&w.from.node[n])
		switch {
		case r == receivedYes || w.Merge && r == replyYes:
			agreed |= 1 << n
		case r == receivedNo || w.Merge && r == replyNo:
			refused |= 1 << n
		case r == replyYes || r == replyNo:
			did := w.clientStep(c, replyArrived)
			did.Node, did.Yes = n+1, r == replyYes
			w.step(did, func(t *state) { *field(&t.node[n]) += receivedYes - replyYes })
		}
	}
	return agreed, refused
}

// dropReplies drops the replies to a lease's requests when no client is waiting for them anymore.
func (m *model) dropReplies(t *state, l int) {
	for i := range m.Nodes {
		n := &t.node[i]
		for _, r := range []*request{&n.set[l], &n.ext[l], &n.raise[l]} {
			if *r != inFlight {
				*r = none
			}
		}
		n.granted[l] = 0
	}
}

// nodeSteps yields the next steps at a node. A node that is down rejects messages without a reply,
// as if they had never arrived.
func (w walk) nodeSteps(n int) {
	s, me := w.from, &w.from.node[n]
	at := func(a action) Step { return Step{Action: a, Node: n + 1} }
	if me.down != up {
		if lost := key(me.down - 1); lost == 0 || w.mayExpire(s, lost) {
			back := nodeRestarted
			if w.Quarantine {
				back = quarantineEnded
			}
			w.step(at(back), func(t *state) { t.node[n].down = up })
		}
		if !w.Quarantine {
			return
		}
	}
	if s.crashes > 0 && (!w.Dominate || me.key > 0 || me.disk > 0 || me.count > 0) { // otherwise the crash loses nothing
		w.step(at(nodeCrashed), func(t *state) { w.crash(t, n) })
	}
	if s.jumps > 0 && me.key > 0 {
		w.step(at(clockJumped), func(t *state) {
			t.jumps--
			t.node[n].key = 0
		})
	}
	if w.Merge {
		w.messageSteps(n, false)
		if w.mayExpire(s, me.key) {
			w.messageSteps(n, true)
		}
		return
	}
	if w.mayExpire(s, me.key) {
		w.step(at(keyExpired), func(t *state) { t.node[n].key = 0 })
	}
	if w.Restart == restartEverySec && (me.disk != me.key || me.synced != me.count) {
		w.step(at(diskSynced), func(t *state) { t.node[n].sync() })
	}
	w.messageSteps(n, false)
}

func (m *model) crash(t *state, n int) {
	t.crashes--
	me := &t.node[n]
	before := *me
	switch m.Restart {
	case RestartEmpty:
		me.key, me.count = 0, 0
	case RestartDelayed:
		me.down, me.key, me.count = downWith(me.key), 0, 0
	case restartEverySec:
		me.key, me.count = me.disk, me.synced
	}
	afterCrash(m, t, n, &before)
}

func (n *node) sync() { n.disk, n.synced = n.key, n.count }

// messageSteps yields the arrivals of messages at a node. expired says whether the messages find the
// node's key expired.
func (w walk) messageSteps(n int, expired bool) {
	me := w.from.node[n]
	for l := range w.leases() {
		if (me.set[l] == inFlight || me.set[l] == tombstoned) && me.down == up { // a node in quarantine does not answer SETs
			w.arrive(n, l, setArrived, expired)
			w.expiredTombstoneStep(n, l, expired)
		}
		if me.ext[l] == inFlight {
			w.arrive(n, l, extendArrived, expired)
		}
		if me.raise[l] == inFlight {
			w.arrive(n, l, raiseArrived, expired)
		}
		if me.del[l] != none {
			w.arrive(n, l, delArrived, expired)
			if w.Property == leftKeys && !w.debts && !expired {
				w.step(Step{Action: delLost, Client: l/w.Attempts + 1, Attempt: l%w.Attempts + 1, Node: n + 1}, func(t *state) { t.node[n].del[l] = none })
			}
		}
	}
}

// arrive yields the arrival of a message. With fsync everysec, its change is synced either
// immediately or not before the next change. A sync in between is equivalent to one of these.
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
		case setArrived:
			w.recordBegin(t, l/w.Attempts, l)
		case delArrived:
			addTombstone(w.model, &t.node[n], l)
		}
		if w.Fence && did.Yes {
			w.updateCount(t, n, l, a, old)
		}
		w.sendReply(t, n, l, a, did.Yes)
	}
	w.step(did, deliver)
	if w.Merge && w.Restart == restartEverySec && w.from.crashes > 0 {
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

// updateCount updates a node's grant count after a request that took effect.
func (m *model) updateCount(t *state, n, l int, a action, old key) {
	switch me := &t.node[n]; a {
	case setArrived:
		if !m.hardened || old == 0 { // otherwise the node has counted this grant before
			me.count++
		}
		me.granted[l] = me.count
	case raiseArrived:
		me.count = max(me.count, t.fence[l])
	}
}

// apply applies a lease's request to a node. It returns the node's new key and whether the node
// grants the request.
func (w walk) apply(me *node, old key, l int, a action) (left key, ok bool) {
	own := old > 0 && w.sameToken(w.from, old.lease(), l)
	switch {
	case a == setArrived && me.set[l] == tombstoned:
		return old, false
	case a == setArrived && w.hardened && own:
		return old, true
	case a == setArrived && (old == 0 || w.noNX):
		return keyOf(l, 0), true
	case a == extendArrived && own && old.lease() > l && old.lease()/w.Attempts == l/w.Attempts:
		return old, true // the key was set by a later attempt with the same token, and must not expire earlier
	case a == extendArrived && own:
		return keyOf(l, 1), true
	case a == raiseArrived && own:
		return old, true
	case a == delArrived && (own || me.del[l] == unconditional && old > 0):
		return 0, true
	}
	return old, false
}

// sendReply sends the reply to a request if the client is still waiting for it.
func (w walk) sendReply(t *state, n, l int, a action, ok bool) {
	r, wanted := &t.node[n].del[l], idle
	switch a {
	case setArrived:
		r, wanted = &t.node[n].set[l], acquiring
	case extendArrived:
		r, wanted = &t.node[n].ext[l], extending
	case raiseArrived:
		r, wanted = &t.node[n].raise[l], raising
	}
	c := l / w.Attempts
	waits := a != delArrived && w.current(t, c) == l && t.client[c].phase == wanted
	switch {
	case !waits:
		*r = none
		t.node[n].granted[l] = 0
	case ok:
		*r = replyYes
	default:
		*r = replyNo
	}
}

// section is how far a hold's work on the resource has progressed. The client reads the value and
// sends one write based on it. The write is late if another write was applied in between.
type section uint8

const (
	unread section = iota
	read
	readLate
	sent
	sentLate
	wrote
)

// resourceSteps yields a holder's next steps on the resource. A read is a single step, because what
// it returns matters, but not when it was sent.
func (w walk) resourceSteps(c int) {
	l := w.current(w.from, c)
	switch w.from.section[l] {
	case unread:
		did := w.clientStep(c, readDone)
		did.Yes = w.accepts(w.from, l)
		w.step(did, func(t *state) { w.applyRead(t, c) })
	case read, readLate:
		if w.believes(w.from, c) { // the client checks its clock before it writes, but the write may arrive arbitrarily late
			w.step(w.clientStep(c, writeSent), func(t *state) { t.section[l] += sent - read })
		}
	}
}

func (m *model) accepts(s *state, l int) bool { return !m.Fence || s.fence[l] >= s.maxToken }

// applyRead applies a client's read. If the resource refuses it, the client releases the lock.
func (m *model) applyRead(t *state, c int) {
	l := m.current(t, c)
	if !m.accepts(t, l) {
		m.release(t, c)
		return
	}
	t.section[l] = read
	m.recordToken(t, l)
}

// recordToken makes the resource remember a token if it is the highest so far.
func (m *model) recordToken(t *state, l int) {
	if m.Fence {
		t.maxToken = max(t.maxToken, t.fence[l])
	}
}

// writeSteps yields the arrivals of writes.
func (w walk) writeSteps() {
	for l := range w.leases() {
		if s := w.from.section[l]; s != sent && s != sentLate {
			continue
		}
		did := Step{Action: writeArrived, Client: l/w.Attempts + 1, Attempt: l%w.Attempts + 1, Yes: w.accepts(w.from, l)}
		w.step(did, func(t *state) { w.applyWrite(t, l, did.Yes) })
	}
}

// applyWrite applies or refuses a write.
func (m *model) applyWrite(t *state, l int, accepted bool) {
	if accepted {
		m.recordToken(t, l)
		t.violated = t.violated || t.section[l] == sentLate
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

// stopWork ends a hold's work on the resource, but not a write in flight.
func (m *model) stopWork(t *state, l int) {
	if s := &t.section[l]; *s != sent && *s != sentLate {
		*s = unread
	}
}

// With fencing tokens, an attempt has two rounds. In the first round, each node sets the key and
// replies with its grant count for the key. The highest count is the token. In the second round,
// the client writes the token back to the nodes that granted with a lower count, and their votes
// count once they confirm.
//
//	SET ──► counts 3, 1, 2 ──► token 3 ──► RAISE to 3 on the second and third node ──► votes

// fencedAttemptSteps yields the possible continuations of an attempt with fencing tokens after its
// first round, for each set of counts that the client may have received. With Merge, that is any
// subset of the counts sent.
func (w walk) fencedAttemptSteps(c int) {
	l := w.current(w.from, c)
	voted, _ := w.replies(c, func(n *node) *request { return &n.set[l] })
	for heard := voted; ; heard = (heard - 1) & voted {
		if bits.OnesCount8(heard) >= w.quorum {
			w.issueToken(c, heard)
		}
		if !w.Merge || heard == 0 {
			break
		}
	}
	if w.Merge || bits.OnesCount8(voted) < w.quorum || w.from.endedWindows[l] > 0 {
		w.step(w.clientStep(c, acquireFailed), func(t *state) { w.fail(t, c) })
	}
}

// issueToken yields the step after the first round. received is the set of nodes whose counts the
// client received.
func (w walk) issueToken(c int, heard uint8) {
	l := w.current(w.from, c)
	fence, behind := w.token(l, heard)
	did := w.clientStep(c, raiseStarted)
	did.Heard, did.Behind, did.Fence = heard, behind, fence
	if behind == 0 {
		if w.from.endedWindows[l] == 0 || w.noElapsed {
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
				n.set[l], n.raise[l] = none, inFlight
			case heard>>i&1 == 1:
				n.set[l] = receivedYes // its vote counts
			case n.set[l] != inFlight:
				n.set[l] = none
			}
		}
	})
}

// token returns the highest count received and the set of nodes with a lower count.
func (w walk) token(l int, heard uint8) (fence, behind uint8) {
	for i := range w.Nodes {
		if n := &w.from.node[i]; heard>>i&1 == 1 && (!w.firstNodeCount || fence == 0) {
			fence = max(fence, n.granted[l])
		}
	}
	for i := range w.Nodes {
		if n := &w.from.node[i]; heard>>i&1 == 1 && n.granted[l] < fence && !w.firstNodeCount {
			behind |= 1 << i
		}
	}
	return fence, behind
}

// raisingSteps yields the possible ends of an attempt whose token is being written back.
func (w walk) raisingSteps(c int) {
	l := w.current(w.from, c)
	confirmed, _ := w.replies(c, func(n *node) *request { return &n.raise[l] })
	votes := bits.OnesCount8(confirmed)
	for i := range w.Nodes {
		if w.from.node[i].set[l] == receivedYes {
			votes++
		}
	}
	won := votes >= w.quorum && (w.from.endedWindows[l] == 0 || w.noElapsed)
	if won {
		did := w.clientStep(c, acquired)
		did.Fence = w.from.fence[l]
		w.step(did, func(t *state) { w.acquire(t, c, did.Fence) })
	}
	if !won || w.Merge {
		w.step(w.clientStep(c, acquireFailed), func(t *state) { w.fail(t, c) })
	}
}

// acquire ends a successful attempt.
func (m *model) acquire(t *state, c int, fence uint8) {
	l := m.current(t, c)
	m.dropReplies(t, l)
	t.client[c].phase, t.fence[l] = holding, fence
	if m.noElapsed {
		t.client[c].unbounded = 1
	}
	if m.Property == fencingOrder {
		t.violated = t.violated || fence < t.client[c].minToken
		t.maxToken = max(t.maxToken, fence)
		t.client[c].minToken = 0
	}
}

// recordStart records that an attempt's first SET has arrived. As far as the model knows, the
// attempt started just before, after every grant so far.
func (m *model) recordBegin(t *state, c, l int) {
	if me := &t.client[c]; m.Property == fencingOrder && me.minToken == 0 && me.phase == acquiring && l == m.current(t, c) {
		me.minToken = t.maxToken + 1
	}
}

// fail ends a failed attempt.
func (m *model) fail(t *state, c int) {
	l, refused := m.current(t, c), uint8(0)
	for n := range m.Nodes {
		if t.node[n].set[l] == receivedNo {
			refused |= 1 << n
		}
	}
	m.dropReplies(t, l)
	m.end(t, c, inFlight)
	skipRefused(m, t, l, refused)
	t.client[c].minToken = 0
}

// dropTokens clears tokens that will not be used again, so that states do not differ in those alone.
func (m *model) dropTokens(t *state) {
	for l := range m.leases() {
		c := l / m.Attempts
		asked := t.section[l] == sent || t.section[l] == sentLate
		if int(t.client[c].attempts) > 0 && l == m.current(t, c) {
			p := t.client[c].phase
			asked = asked || p == raising || m.Property == resourceSafety && (p == holding || p == extending)
		}
		for n := range m.Nodes {
			asked = asked || t.node[n].raise[l] == inFlight
		}
		if !asked {
			t.fence[l] = 0
		}
	}
}

// hardenedLock is the lock of redlock.New. It differs from the specification's lock as follows:
//
//   - Acquire returns once a quorum has granted the lock, or no longer can. This adds no behavior to the
//     model, where a round may end at any moment and messages may arrive later or never.
//   - It sends no DEL to a node that refused the SET. If the reply to the SET is missing, it sends a
//     tombstone, which makes the node refuse that SET.
//   - It repeats a DEL until the node replies. Until then, the DEL is called a debt. A second arrival
//     makes no difference unless the first one's tombstone has expired.
//   - Grant counts start at the time on the node's clock. So a node that lost its counts continues above
//     all earlier counts, provided that the clocks agree.
//   - With Scope.Quarantine, a restarted node refuses every SET until the keys it lost would have
//     expired.
//
// Package wire needs no tombstones, because messages on one connection stay in order, so a SET
// never arrives after its DEL. In the model it may arrive later, but then has no effect.
const hardenedLock = "hardened"

// Parts of the hardened lock that Scope.OmittedPart can leave out.
const (
	tombstones = "tombstones"
	debts      = "debts"
	clockCount = "clock-counts"
)

// Locks lists the names of the locks.
func Locks() []string { return []string{"redlock", hardenedLock} }

// Parts lists the values of Scope.OmittedPart.
func Parts() []string { return []string{tombstones, debts, clockCount} }

// hardening says which parts of the hardened lock are active.
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
		return fmt.Errorf("lock is %q; valid values are %q", s.Lock, Locks())
	case s.Without != "" && !slices.Contains(Parts(), s.Without):
		return fmt.Errorf("without is %q; valid values are %q", s.Without, Parts())
	case (s.Without != "" || s.Quarantine) && !hardened:
		return fmt.Errorf("tombstones, debts, clock counts and quarantine exist only in lock %q", hardenedLock)
	case hardened && s.Mistake != "":
		return fmt.Errorf("%s is a mistake in the specification's lock; lock %q can only leave out one of %q", s.Mistake, hardenedLock, Parts())
	case s.Without == clockCount && !s.Fence:
		return fmt.Errorf("%s require fencing tokens, but the lock does not issue any", clockCount)
	case s.Quarantine && (s.Crashes == 0 || s.Restart == RestartDelayed):
		return fmt.Errorf("quarantine requires nodes that crash and restart immediately")
	case s.Quarantine && s.Restart == restartEverySec && s.Extends > 0 && s.Crashes > 1:
		return fmt.Errorf("the model does not cover nodes in quarantine that also lose an extension")
	case s.Property == leftKeys && (s.Crashes > 0 || s.Jumps > 0 || s.Mistake != ""):
		return fmt.Errorf("%s requires a scope without faults or mistakes", leftKeys)
	}
	return nil
}

// modelOnly is the cause of a violation that can't be replayed outside the model.
const modelOnly = "in the model"

// CanRun reports whether a violation in the scope can be replayed: the lock exists outside the
// model, the checker judges the property, and a scenario can express the steps. It can't if nodes
// of the hardened lock restart with older counts, because that violation involves failed attempts.
func (s Scope) CanRun() bool {
	return s.Without == "" && s.Property != leftKeys && !(s.Lock == hardenedLock && s.Property == fencingOrder && s.Restart == restartEverySec)
}

// skipRefusingNodes drops the hardened lock's DELs to nodes that refused the SET, which have no key to
// delete.
func skipRefused(m *model, t *state, l int, refused uint8) {
	for n := range m.Nodes {
		if m.hardened && refused>>n&1 == 1 {
			t.node[n].del[l] = none
		}
	}
}

// addTombstone makes a node refuse a lease's SET that is still in flight.
func addTombstone(m *model, n *node, l int) {
	if m.tombstones && n.set[l] == inFlight {
		n.set[l] = tombstoned
	}
}

// expiredTombstoneStep yields the arrival of a SET after its tombstone has expired, if possible. A
// tombstone lives for a TTL, like a key, so the attempt's window has ended by then.
func (w walk) expiredTombstoneStep(n, l int, expired bool) {
	if w.from.node[n].set[l] != tombstoned || w.from.endedWindows[l] == 0 {
		return
	}
	late := *w.from
	late.node[n].set[l] = inFlight
	if w.debts {
		late.node[n].del[l] = inFlight // the client repeats the DEL until it gets a reply
	}
	walk{w.model, &late, w.yield}.arrive(n, l, setArrived, expired)
}

// afterCrash applies what a crash does besides losing keys and counts. Messages sent before the
// crash may still arrive, so a SET takes effect if its tombstone was lost. A node that lost its
// count continues from its clock, which is above all earlier counts.
func afterCrash(m *model, t *state, n int, before *node) {
	me := &t.node[n]
	if m.Restart != RestartAlways {
		for l := range m.leases() {
			if me.set[l] == tombstoned {
				me.set[l] = inFlight
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

// hasOrphanKey reports whether a node has a key that no client will delete: its attempt or hold has
// ended, its window has not, and no DEL is in flight.
func hasOrphanKey(m *model, s *state) bool {
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
