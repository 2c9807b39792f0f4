package exhaust

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

func (m *Model) crash(t *state, n int) {
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
			if w.Property == LeftKeys && !w.debts && !expired {
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
			bury(w.Model, &t.node[n], l)
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
func (m *Model) counts(t *state, n, l int, a action, old key) {
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
