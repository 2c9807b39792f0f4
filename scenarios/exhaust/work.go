package exhaust

// works says when a client that holds the lock gives it back: when it has worked, and the resource
// has answered, for which it waits until its lease is over.
//
//	end ── held ──► sent ─────► write arrives ──► release
//	 reads           └─ or its lease is over ─────► release … the write arrives
func (t limits) works(c int, a *attempt) {
	held := t.held(c)
	if t.extends(c) { // the time that it takes comes on top
		held += t.lasts(storyAsking(t.scope.Nodes, a.ext, a.longer, a.lost))
	}
	t.exact(a.end, a.sent, held)
	switch {
	case t.scope.Property != resourceSafety:
		t.exact(a.end, a.release, held)
	case a.refused:
		t.exact(a.end, a.release, 0)
	case a.write != nil && a.write.inTime:
		t.exact(a.write.at, a.release, 0)
		t.most(t.lease(a), a.release, storyWindow()-t.gap)
	default:
		t.exact(t.lease(a), a.release, storyWindow())
	}
}

// lease is when the window began in which a client believes in the end.
func (t limits) lease(a *attempt) instant {
	switch {
	case a.longer:
		return a.extend
	case t.scope.Mistake == noElapsed:
		return a.end
	}
	return a.start
}

// resource is the order of what the resource sees: reads, which follow at once when a client has
// acquired, and writes, which were sent while it believed.
func (t limits) resource() {
	last := instant(-1)
	next := func(at instant) {
		if last >= 0 {
			t.least(last, at, t.gap)
		}
		last = at
	}
	for i, s := range t.path {
		if s.Client == 0 {
			continue
		}
		switch a := t.attempts[s.Client-1][s.Attempt-1]; s.Action {
		case acquired:
			if !t.reads(s) {
				next(a.end)
			}
		case Read:
			t.exact(a.end, t.when[i], 0)
			next(t.when[i])
		case write:
			t.least(a.sent, a.write.at, t.gap)
			next(a.write.at)
		}
	}
	for c := range t.attempts {
		for _, a := range t.attempts[c] {
			if a.won && !a.refused {
				t.most(t.lease(a), a.sent, storyWindow()-t.gap)
				if a.write != nil && !a.write.inTime {
					t.least(a.release, a.write.at, t.gap)
				}
			}
		}
	}
}

// reads says whether the path speaks of a hold's read.
func (t limits) reads(of Step) bool {
	for _, s := range t.path {
		if s.Action == Read && s.Client == of.Client && s.Attempt == of.Attempt {
			return true
		}
	}
	return false
}

// later says that an attempt began after each lock that was given before its first SET arrived.
func (t limits) later() {
	var given []instant
	begun := map[*attempt]bool{}
	for _, s := range t.path {
		if s.Client == 0 {
			continue
		}
		switch a := t.attempts[s.Client-1][s.Attempt-1]; {
		case s.Action == acquired:
			given = append(given, a.end)
		case s.Action == set && !begun[a]:
			begun[a] = true
			for _, g := range given {
				t.least(g, a.start, t.gap)
			}
		}
	}
}
