package exhaust

import (
	"fmt"
	"math/bits"
	"slices"
)

// clientSteps yields a client's next steps and the ends of its windows.
func (w walk) clientSteps(c int) {
	client := &w.state.client[c]
	switch client.phase {
	case phaseIdle:
		if int(client.attempts) < w.Attempts {
			w.step(Step{Action: attemptStarted, Client: c + 1, Attempt: int(client.attempts) + 1}, func(t *state) { w.start(t, c) })
		}
	case phaseAcquiring:
		if w.Fence {
			w.fencedAttemptSteps(c)
		} else {
			w.attemptSteps(c)
		}
	case phaseRaising:
		w.raisingSteps(c)
	case phaseHolding:
		w.step(w.clientStep(c, lockReleased), func(t *state) { w.release(t, c) })
		if w.Property == resourceSafety {
			w.resourceSteps(c)
		}
		if int(client.extensions) < w.Extensions && w.believes(w.state, c) {
			w.step(w.clientStep(c, extendStarted), func(t *state) {
				t.client[c].phase = phaseExtending
				t.client[c].extensions++
				send(t, w.Nodes, func(n *node) *request { return &n.ext[w.current(t, c)] }, requestInFlight)
			})
		}
	case phaseExtending:
		w.extensionSteps(c)
	case phaseLost:
		w.step(w.clientStep(c, lockReleased), func(t *state) { w.release(t, c) })
	}
	for a := range int(client.attempts) {
		l := w.lease(c, a)
		if w.state.endedWindows[l] < w.windows(w.state, c, a) {
			w.step(Step{Action: windowEnded, Client: c + 1, Attempt: a + 1}, func(t *state) { t.endedWindows[l]++ })
		}
	}
}

// windows returns how many windows of an attempt have begun and so can end.
func (m *model) windows(s *state, c, a int) uint8 {
	client := &s.client[c]
	if a == int(client.attempts)-1 {
		switch client.phase {
		case phaseAcquiring, phaseRaising:
			return 1
		case phaseHolding, phaseExtending:
			return 1 + client.extensions
		}
	}
	return uint8(1 + m.Extensions)
}

// clientStep returns a step of a client's latest attempt.
func (w walk) clientStep(c int, a action) Step {
	return Step{Action: a, Client: c + 1, Attempt: int(w.state.client[c].attempts)}
}

func (m *model) start(t *state, c int) {
	t.client[c].phase = phaseAcquiring
	t.client[c].attempts++
	send(t, m.Nodes, func(n *node) *request { return &n.set[m.current(t, c)] }, requestInFlight)
}

// release makes a client release its lock.
func (m *model) release(t *state, c int) {
	del := requestInFlight
	if m.plainDel {
		del = unconditionalDel
	}
	if m.sharing == shareInAcquire {
		t.client[c].acquiredAttempts |= 1 << (t.client[c].attempts - 1)
	}
	m.stopWork(t, m.current(t, c))
	m.end(t, c, del)
}

// end ends an attempt or a hold: the client sends a DEL to all nodes.
func (m *model) end(t *state, c int, del request) {
	client := &t.client[c]
	client.phase, client.extensions, client.generation, client.unbounded = phaseIdle, 0, 0, 0
	send(t, m.Nodes, func(n *node) *request { return &n.del[m.current(t, c)] }, del)
}

func send(t *state, nodes int, field func(*node) *request, value request) {
	for n := range nodes {
		*field(&t.node[n]) = value
	}
}

// attemptSteps yields the possible ends of an attempt. Without Merge, every reply arrives in a step
// of its own first.
func (w walk) attemptSteps(c int) {
	l := w.current(w.state, c)
	voted, _ := w.replies(c, func(n *node) *request { return &n.set[l] })
	won := bits.OnesCount8(voted) >= w.quorum && (w.state.endedWindows[l] == 0 || w.skipElapsedCheck)
	if won {
		w.step(w.clientStep(c, lockAcquired), func(t *state) { w.acquire(t, c, 0) })
	}
	if !won || w.Merge { // with Merge, replies may still be in flight
		w.step(w.clientStep(c, acquireFailed), func(t *state) { w.fail(t, c) })
	}
}

// extensionSteps yields the possible ends of an extension.
func (w walk) extensionSteps(c int) {
	l := w.current(w.state, c)
	addStep := func(a action, p phase, increment uint8) {
		w.step(w.clientStep(c, a), func(t *state) {
			w.dropReplies(t, l)
			t.client[c].phase = p
			t.client[c].generation += increment
		})
	}
	agreeing, refusing := w.replies(c, func(n *node) *request { return &n.ext[l] })
	numRefusing := bits.OnesCount8(refusing)
	won := bits.OnesCount8(agreeing) >= w.extendQuorum
	if won && w.state.endedWindows[l] <= w.state.client[c].generation {
		addStep(extendSucceeded, phaseHolding, 1)
	}
	if numRefusing >= w.Nodes/2+1 && (w.Merge || !won) {
		addStep(extendLost, phaseLost, 0)
	}
	if w.Merge || !won && numRefusing < w.Nodes/2+1 || won && w.state.endedWindows[l] > w.state.client[c].generation {
		addStep(extendFailed, phaseHolding, 0)
	}
}

// replies returns bit sets of the nodes whose replies in a round agree or refuse. They cover the
// replies that the client has received, and with Merge those that it may have received. Without
// Merge, replies yields the arrival of the others.
func (w walk) replies(c int, field func(*node) *request) (agreeing, refusing uint8) {
	for n := range w.Nodes {
		r := *field(&w.state.node[n])
		switch {
		case r == yesReceived || w.Merge && r == yesInFlight:
			agreeing |= 1 << n
		case r == noReceived || w.Merge && r == noInFlight:
			refusing |= 1 << n
		case r == yesInFlight || r == noInFlight:
			arrival := w.clientStep(c, replyArrived)
			arrival.Node, arrival.Yes = n+1, r == yesInFlight
			w.step(arrival, func(t *state) { *field(&t.node[n]) += yesReceived - yesInFlight })
		}
	}
	return agreeing, refusing
}

// dropReplies drops the replies to a lease's requests when no client is waiting for them anymore.
func (m *model) dropReplies(t *state, l int) {
	for i := range m.Nodes {
		n := &t.node[i]
		for _, r := range []*request{&n.set[l], &n.ext[l], &n.raise[l]} {
			if *r != requestInFlight {
				*r = requestNone
			}
		}
		n.grantedCount[l] = 0
	}
}

// nodeSteps yields the next steps at a node. A node that is down rejects messages without a reply,
// as if they had never arrived.
func (w walk) nodeSteps(n int) {
	s, target := w.state, &w.state.node[n]
	nodeStep := func(a action) Step { return Step{Action: a, Node: n + 1} }
	if target.downState != nodeUp {
		if lostKey := key(target.downState - 1); lostKey == 0 || w.mayExpire(s, lostKey) {
			restart := nodeRestarted
			if w.Quarantine {
				restart = quarantineEnded
			}
			w.step(nodeStep(restart), func(t *state) { t.node[n].downState = nodeUp })
		}
		if !w.Quarantine {
			return
		}
	}
	if s.crashes > 0 && (!w.Dominate || target.key > 0 || target.diskKey > 0 || target.count > 0) { // otherwise the crash loses nothing
		w.step(nodeStep(nodeCrashed), func(t *state) { w.crash(t, n) })
	}
	if s.jumps > 0 && target.key > 0 {
		w.step(nodeStep(clockJumped), func(t *state) {
			t.jumps--
			t.node[n].key = 0
		})
	}
	if w.Merge {
		w.messageSteps(n, false)
		if w.mayExpire(s, target.key) {
			w.messageSteps(n, true)
		}
		return
	}
	if w.mayExpire(s, target.key) {
		w.step(nodeStep(keyExpired), func(t *state) { t.node[n].key = 0 })
	}
	if w.Restart == restartEverySec && (target.diskKey != target.key || target.syncedCount != target.count) {
		w.step(nodeStep(diskSynced), func(t *state) { t.node[n].sync() })
	}
	w.messageSteps(n, false)
}

func (m *model) crash(t *state, n int) {
	t.crashes--
	target := &t.node[n]
	before := *target
	switch m.Restart {
	case RestartEmpty:
		target.key, target.count = 0, 0
	case RestartDelayed:
		target.downState, target.key, target.count = downStateFor(target.key), 0, 0
	case restartEverySec:
		target.key, target.count = target.diskKey, target.syncedCount
	}
	afterCrash(m, t, n, &before)
}

func (n *node) sync() { n.diskKey, n.syncedCount = n.key, n.count }

// messageSteps yields the arrivals of messages at a node. expired says whether the messages find the
// node's key expired.
func (w walk) messageSteps(n int, expired bool) {
	target := w.state.node[n]
	for l := range w.leases() {
		if (target.set[l] == requestInFlight || target.set[l] == tombstonedSet) && target.downState == nodeUp { // a node in quarantine does not answer SETs
			w.arrive(n, l, setArrived, expired)
			w.expiredTombstoneStep(n, l, expired)
		}
		if target.ext[l] == requestInFlight {
			w.arrive(n, l, extendArrived, expired)
		}
		if target.raise[l] == requestInFlight {
			w.arrive(n, l, raiseArrived, expired)
		}
		if target.del[l] != requestNone {
			w.arrive(n, l, delArrived, expired)
			if w.Property == leftKeys && !w.debts && !expired {
				w.step(Step{Action: delLost, Client: l/w.Attempts + 1, Attempt: l%w.Attempts + 1, Node: n + 1}, func(t *state) { t.node[n].del[l] = requestNone })
			}
		}
	}
}

// arrive yields the arrival of a message. With fsync everysec, its change is synced either
// immediately or not before the next change. A sync in between is equivalent to one of these.
func (w walk) arrive(n, l int, a action, expired bool) {
	oldKey := w.state.node[n].key
	if expired {
		oldKey = 0
	}
	arrival := Step{Action: a, Client: l/w.Attempts + 1, Attempt: l%w.Attempts + 1, Node: n + 1, Expired: expired}
	var newKey key
	newKey, arrival.Yes = w.apply(&w.state.node[n], oldKey, l, a)
	deliver := func(t *state) {
		t.node[n].key = newKey
		switch a {
		case setArrived:
			w.recordStart(t, l/w.Attempts, l)
		case delArrived:
			addTombstone(w.model, &t.node[n], l)
		}
		if w.Fence && arrival.Yes {
			w.updateCount(t, n, l, a, oldKey)
		}
		w.sendReply(t, n, l, a, arrival.Yes)
	}
	w.step(arrival, deliver)
	if w.Merge && w.Restart == restartEverySec && w.state.crashes > 0 {
		after := *w.state
		if deliver(&after); after.node[n].key != after.node[n].diskKey || after.node[n].count != after.node[n].syncedCount {
			arrival.Synced = true
			w.step(arrival, func(t *state) {
				deliver(t)
				t.node[n].sync()
			})
		}
	}
}

// updateCount updates a node's grant count after a request that took effect.
func (m *model) updateCount(t *state, n, l int, a action, oldKey key) {
	switch target := &t.node[n]; a {
	case setArrived:
		if !m.hardened || oldKey == 0 { // otherwise the node has counted this grant before
			target.count++
		}
		target.grantedCount[l] = target.count
	case raiseArrived:
		target.count = max(target.count, t.tokens[l])
	}
}

// apply applies a lease's request to a node. It returns the node's new key and whether the node
// grants the request.
func (w walk) apply(target *node, oldKey key, l int, a action) (newKey key, ok bool) {
	isOwn := oldKey > 0 && w.sameToken(w.state, oldKey.lease(), l)
	switch {
	case a == setArrived && target.set[l] == tombstonedSet:
		return oldKey, false
	case a == setArrived && w.hardened && isOwn:
		return oldKey, true
	case a == setArrived && (oldKey == 0 || w.overwritingSet):
		return keyOf(l, 0), true
	case a == extendArrived && isOwn && oldKey.lease() > l && oldKey.lease()/w.Attempts == l/w.Attempts:
		return oldKey, true // the key was set by a later attempt with the same token, and must not expire earlier
	case a == extendArrived && isOwn:
		return keyOf(l, 1), true
	case a == raiseArrived && isOwn:
		return oldKey, true
	case a == delArrived && (isOwn || target.del[l] == unconditionalDel && oldKey > 0):
		return 0, true
	}
	return oldKey, false
}

// sendReply sends the reply to a request if the client is still waiting for it.
func (w walk) sendReply(t *state, n, l int, a action, ok bool) {
	r, waitingPhase := &t.node[n].del[l], phaseIdle
	switch a {
	case setArrived:
		r, waitingPhase = &t.node[n].set[l], phaseAcquiring
	case extendArrived:
		r, waitingPhase = &t.node[n].ext[l], phaseExtending
	case raiseArrived:
		r, waitingPhase = &t.node[n].raise[l], phaseRaising
	}
	c := l / w.Attempts
	isWaiting := a != delArrived && w.current(t, c) == l && t.client[c].phase == waitingPhase
	switch {
	case !isWaiting:
		*r = requestNone
		t.node[n].grantedCount[l] = 0
	case ok:
		*r = yesInFlight
	default:
		*r = noInFlight
	}
}

// section is how far a hold's work on the resource has progressed. The client reads the value and
// sends one write based on it. The write is late if another write was applied in between.
type section uint8

const (
	sectionUnread section = iota
	sectionRead
	sectionReadLate
	sectionSent
	sectionSentLate
	sectionWritten
)

// resourceSteps yields a holder's next steps on the resource. A read is a single step, because what
// it returns matters, but not when it was sent.
func (w walk) resourceSteps(c int) {
	l := w.current(w.state, c)
	switch w.state.sections[l] {
	case sectionUnread:
		readStep := w.clientStep(c, readDone)
		readStep.Yes = w.accepts(w.state, l)
		w.step(readStep, func(t *state) { w.applyRead(t, c) })
	case sectionRead, sectionReadLate:
		if w.believes(w.state, c) { // the client checks its clock before it writes, but the write may arrive arbitrarily late
			w.step(w.clientStep(c, writeSent), func(t *state) { t.sections[l] += sectionSent - sectionRead })
		}
	}
}

func (m *model) accepts(s *state, l int) bool { return !m.Fence || s.tokens[l] >= s.maxToken }

// applyRead applies a client's read. If the resource refuses it, the client releases the lock.
func (m *model) applyRead(t *state, c int) {
	l := m.current(t, c)
	if !m.accepts(t, l) {
		m.release(t, c)
		return
	}
	t.sections[l] = sectionRead
	m.recordToken(t, l)
}

// recordToken makes the resource remember a token if it is the highest so far.
func (m *model) recordToken(t *state, l int) {
	if m.Fence {
		t.maxToken = max(t.maxToken, t.tokens[l])
	}
}

// writeSteps yields the arrivals of writes.
func (w walk) writeSteps() {
	for l := range w.leases() {
		if s := w.state.sections[l]; s != sectionSent && s != sectionSentLate {
			continue
		}
		arrival := Step{Action: writeArrived, Client: l/w.Attempts + 1, Attempt: l%w.Attempts + 1, Yes: w.accepts(w.state, l)}
		w.step(arrival, func(t *state) { w.applyWrite(t, l, arrival.Yes) })
	}
}

// applyWrite applies or refuses a write.
func (m *model) applyWrite(t *state, l int, accepted bool) {
	if accepted {
		m.recordToken(t, l)
		t.violated = t.violated || t.sections[l] == sectionSentLate
		for k := range m.leases() {
			switch s := &t.sections[k]; *s {
			case sectionRead, sectionSent:
				*s++
			}
		}
	}
	t.sections[l] = sectionUnread
	if c := l / m.Attempts; l == m.current(t, c) && t.client[c].phase != phaseIdle {
		t.sections[l] = sectionWritten
	}
}

// stopWork ends a hold's work on the resource, but not a write in flight.
func (m *model) stopWork(t *state, l int) {
	if s := &t.sections[l]; *s != sectionSent && *s != sectionSentLate {
		*s = sectionUnread
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
	l := w.current(w.state, c)
	voted, _ := w.replies(c, func(n *node) *request { return &n.set[l] })
	for received := voted; ; received = (received - 1) & voted {
		if bits.OnesCount8(received) >= w.quorum {
			w.issueToken(c, received)
		}
		if !w.Merge || received == 0 {
			break
		}
	}
	if w.Merge || bits.OnesCount8(voted) < w.quorum || w.state.endedWindows[l] > 0 {
		w.step(w.clientStep(c, acquireFailed), func(t *state) { w.fail(t, c) })
	}
}

// issueToken yields the step after the first round. received is the set of nodes whose counts the
// client received.
func (w walk) issueToken(c int, received uint8) {
	l := w.current(w.state, c)
	fence, lagging := w.token(l, received)
	step := w.clientStep(c, raiseStarted)
	step.CountsReceived, step.LaggingNodes, step.Fence = received, lagging, fence
	if lagging == 0 {
		if w.state.endedWindows[l] == 0 || w.skipElapsedCheck {
			step.Action = lockAcquired
			w.step(step, func(t *state) { w.acquire(t, c, fence) })
		}
		return
	}
	w.step(step, func(t *state) {
		t.client[c].phase, t.tokens[l] = phaseRaising, fence
		for i := range w.Nodes {
			n := &t.node[i]
			switch n.grantedCount[l] = 0; {
			case lagging>>i&1 == 1:
				n.set[l], n.raise[l] = requestNone, requestInFlight
			case received>>i&1 == 1:
				n.set[l] = yesReceived // its vote counts
			case n.set[l] != requestInFlight:
				n.set[l] = requestNone
			}
		}
	})
}

// token returns the highest count received and the set of nodes with a lower count.
func (w walk) token(l int, received uint8) (fence, lagging uint8) {
	for i := range w.Nodes {
		if n := &w.state.node[i]; received>>i&1 == 1 && (!w.tokenFromFirstNode || fence == 0) {
			fence = max(fence, n.grantedCount[l])
		}
	}
	for i := range w.Nodes {
		if n := &w.state.node[i]; received>>i&1 == 1 && n.grantedCount[l] < fence && !w.tokenFromFirstNode {
			lagging |= 1 << i
		}
	}
	return fence, lagging
}

// raisingSteps yields the possible ends of an attempt whose token is being written back.
func (w walk) raisingSteps(c int) {
	l := w.current(w.state, c)
	confirmed, _ := w.replies(c, func(n *node) *request { return &n.raise[l] })
	votes := bits.OnesCount8(confirmed)
	for i := range w.Nodes {
		if w.state.node[i].set[l] == yesReceived {
			votes++
		}
	}
	won := votes >= w.quorum && (w.state.endedWindows[l] == 0 || w.skipElapsedCheck)
	if won {
		step := w.clientStep(c, lockAcquired)
		step.Fence = w.state.tokens[l]
		w.step(step, func(t *state) { w.acquire(t, c, step.Fence) })
	}
	if !won || w.Merge {
		w.step(w.clientStep(c, acquireFailed), func(t *state) { w.fail(t, c) })
	}
}

// acquire ends a successful attempt.
func (m *model) acquire(t *state, c int, fence uint8) {
	l := m.current(t, c)
	m.dropReplies(t, l)
	t.client[c].phase, t.tokens[l] = phaseHolding, fence
	if m.skipElapsedCheck {
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
func (m *model) recordStart(t *state, c, l int) {
	if client := &t.client[c]; m.Property == fencingOrder && client.minToken == 0 && client.phase == phaseAcquiring && l == m.current(t, c) {
		client.minToken = t.maxToken + 1
	}
}

// fail ends a failed attempt.
func (m *model) fail(t *state, c int) {
	l, refused := m.current(t, c), uint8(0)
	for n := range m.Nodes {
		if t.node[n].set[l] == noReceived {
			refused |= 1 << n
		}
	}
	m.dropReplies(t, l)
	m.end(t, c, requestInFlight)
	skipRefusingNodes(m, t, l, refused)
	t.client[c].minToken = 0
}

// dropTokens clears tokens that will not be used again, so that states do not differ in those alone.
func (m *model) dropTokens(t *state) {
	for l := range m.leases() {
		c := l / m.Attempts
		used := t.sections[l] == sectionSent || t.sections[l] == sectionSentLate
		if int(t.client[c].attempts) > 0 && l == m.current(t, c) {
			p := t.client[c].phase
			used = used || p == phaseRaising || m.Property == resourceSafety && (p == phaseHolding || p == phaseExtending)
		}
		for n := range m.Nodes {
			used = used || t.node[n].raise[l] == requestInFlight
		}
		if !used {
			t.tokens[l] = 0
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
		r.hardening = hardening{true, s.OmittedPart != tombstones, s.OmittedPart != debts, s.OmittedPart != clockCount}
	}
}

func (s Scope) checkHardened() error {
	hardened := s.Lock == hardenedLock
	switch {
	case s.Lock != "" && !hardened:
		return fmt.Errorf("lock is %q; valid values are %q", s.Lock, Locks())
	case s.OmittedPart != "" && !slices.Contains(Parts(), s.OmittedPart):
		return fmt.Errorf("without is %q; valid values are %q", s.OmittedPart, Parts())
	case (s.OmittedPart != "" || s.Quarantine) && !hardened:
		return fmt.Errorf("tombstones, debts, clock counts and quarantine exist only in lock %q", hardenedLock)
	case hardened && s.Mistake != "":
		return fmt.Errorf("%s is a mistake in the specification's lock; lock %q can only leave out one of %q", s.Mistake, hardenedLock, Parts())
	case s.OmittedPart == clockCount && !s.Fence:
		return fmt.Errorf("%s require fencing tokens, but the lock does not issue any", clockCount)
	case s.Quarantine && (s.Crashes == 0 || s.Restart == RestartDelayed):
		return fmt.Errorf("quarantine requires nodes that crash and restart immediately")
	case s.Quarantine && s.Restart == restartEverySec && s.Extensions > 0 && s.Crashes > 1:
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
	return s.OmittedPart == "" && s.Property != leftKeys && !(s.Lock == hardenedLock && s.Property == fencingOrder && s.Restart == restartEverySec)
}

// skipRefusingNodes drops the hardened lock's DELs to nodes that refused the SET, which have no key to
// delete.
func skipRefusingNodes(m *model, t *state, l int, refused uint8) {
	for n := range m.Nodes {
		if m.hardened && refused>>n&1 == 1 {
			t.node[n].del[l] = requestNone
		}
	}
}

// addTombstone makes a node refuse a lease's SET that is still in flight.
func addTombstone(m *model, n *node, l int) {
	if m.tombstones && n.set[l] == requestInFlight {
		n.set[l] = tombstonedSet
	}
}

// expiredTombstoneStep yields the arrival of a SET after its tombstone has expired, if possible. A
// tombstone lives for a TTL, like a key, so the attempt's window has ended by then.
func (w walk) expiredTombstoneStep(n, l int, expired bool) {
	if w.state.node[n].set[l] != tombstonedSet || w.state.endedWindows[l] == 0 {
		return
	}
	late := *w.state
	late.node[n].set[l] = requestInFlight
	if w.debts {
		late.node[n].del[l] = requestInFlight // the client repeats the DEL until it gets a reply
	}
	walk{w.model, &late, w.yield}.arrive(n, l, setArrived, expired)
}

// afterCrash applies what a crash does besides losing keys and counts. Messages sent before the
// crash may still arrive, so a SET takes effect if its tombstone was lost. A node that lost its
// count continues from its clock, which is above all earlier counts.
func afterCrash(m *model, t *state, n int, before *node) {
	target := &t.node[n]
	if m.Restart != RestartAlways {
		for l := range m.leases() {
			if target.set[l] == tombstonedSet {
				target.set[l] = requestInFlight
			}
		}
	}
	if m.clockCount && target.count == 0 {
		target.count = before.count
		for l := range m.leases() {
			target.count = max(target.count, t.tokens[l])
		}
		for k := range m.Nodes {
			target.count = max(target.count, t.node[k].count)
		}
	}
	if m.Quarantine && (target.downState == nodeUp || m.mayExpire(t, key(target.downState-1))) {
		target.downState = downStateFor(before.key)
	}
}

// hasOrphanKey reports whether a node has a key that no client will delete: its attempt or hold has
// ended, its window has not, and no DEL is in flight.
func hasOrphanKey(m *model, s *state) bool {
	for n := range m.Nodes {
		k := s.node[n].key
		if k == 0 || m.mayExpire(s, k) || s.node[n].del[k.lease()] != requestNone {
			continue
		}
		if c := k.lease() / m.Attempts; s.client[c].phase == phaseIdle || m.current(s, c) != k.lease() {
			return true
		}
	}
	return false
}
