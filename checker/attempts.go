package checker

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// attempt is one round of asking the nodes: the sets of one token, by one client.
// It belongs to the session during whose acquire it was begun.
type attempt struct {
	session  *session
	token    string
	from, to int64            // the first set was sent, the last was answered or given up
	over     int64            // the attempt was over by then: the next was begun, or acquire returned, or the holder had released
	yes, no  int              // nodes that answered in time for the client to know
	won      bool             // its session got the lock by it
	sets     []*history.Event // that a node applied, or may have
	deletes  []*history.Event // with its token, applied or not
}

// wire is what the links saw of one lock, put in the order of its attempts.
type wire struct {
	attempts []*attempt            // in the order of their begin
	last     map[*session]*attempt // of each session
	extended map[*session]int64    // when a node last applied an extension of it
}

// applied is when a node had done what was asked, as far as the record knows.
func applied(e *history.Event) int64 { return cmp.Or(e.Applied, e.T) }

// wires reads what the links saw of every lock, in one pass.
func (r *record) wires() map[string]*wire {
	if r.seen != nil {
		return r.seen
	}
	in := wireReader{record: r, locks: map[string]*wire{}, places: map[place]*seat{}}
	if len(r.Links) > 0 {
		for s := range r.Sessions() {
			b := in.seat(s.Client(), s.Key())
			b.sessions = append(b.sessions, s)
		}
	}
	for _, e := range r.Links {
		in.event(e)
	}
	for _, w := range in.locks {
		slices.SortStableFunc(w.attempts, func(a, b *attempt) int { return cmp.Compare(a.from, b.from) })
		r.finish(w)
	}
	r.seen = in.locks
	return r.seen
}

type wireReader struct {
	*record
	locks  map[string]*wire
	places map[place]*seat
}

// place is one client at one lock.
type place struct{ client, key string }

// seat is what is known of a client at a lock while its commands are read.
type seat struct {
	sessions []*session
	attempts map[string]*attempt // by token
	current  *attempt
}

func (in *wireReader) seat(client, key string) *seat {
	b := in.places[place{client, key}]
	if b == nil {
		b = &seat{attempts: map[string]*attempt{}}
		in.places[place{client, key}] = b
	}
	return b
}

func (in *wireReader) event(e *history.Event) {
	b := in.seat(facts.LinkClient(e.Process), e.Key)
	w := in.locks[e.Key]
	if w == nil {
		w = &wire{last: map[*session]*attempt{}, extended: map[*session]int64{}}
		in.locks[e.Key] = w
	}
	switch a := b.attempt(e); {
	case e.Op == history.OpSet:
		if a == nil {
			a = b.begin(e)
			if a == nil {
				return // of no session
			}
			w.attempts = append(w.attempts, a)
		}
		a.set(e)
	case e.Op == history.OpExtend && e.Type != history.Fail:
		if s := b.session(e.Sent); s != nil {
			w.extended[s] = max(w.extended[s], applied(e))
		}
	case e.Op == history.OpRelease && a != nil:
		a.deletes = append(a.deletes, e)
	}
}

// attempt is the one that a command's token belongs to, or nil.
func (b *seat) attempt(e *history.Event) *attempt {
	if b.current == nil || b.current.token != e.Token {
		if a := b.attempts[e.Token]; a != nil {
			b.current = a
			return a
		}
		return nil
	}
	return b.current
}

func (b *seat) begin(e *history.Event) *attempt {
	s := b.session(e.Sent)
	if s == nil {
		return nil
	}
	a := &attempt{session: s, token: e.Token, from: e.Sent}
	b.attempts[e.Token], b.current = a, a
	return a
}

// session is the last that had been called at an instant.
func (b *seat) session(at int64) *session {
	return lastCalled(b.sessions, at)
}

func (a *attempt) set(e *history.Event) {
	a.from, a.to = min(a.from, e.Sent), max(a.to, e.T)
	known := e.Answered > 0
	switch {
	case e.Type == history.OK && known:
		a.yes++
	case e.Type == history.Fail && e.Cause == "" && known:
		a.no++
	}
	if e.Type != history.Fail {
		a.sets = append(a.sets, e)
	}
}

// finish says of each attempt of a lock whether it won, and when it was over.
func (r *record) finish(w *wire) {
	for _, a := range w.attempts {
		s := a.session
		if last := w.last[s]; last != nil {
			last.over = min(last.over, a.from)
		}
		w.last[s] = a
		a.over = s.Acquire.Returned()
		if s.Granted() {
			a.over = released(s)
		}
		if t, ok := r.Gone[s.Client()]; ok {
			a.over = min(a.over, t)
		}
	}
	for s, a := range w.last {
		a.won = s.Granted()
	}
}

// deletion of an attempt's key on a node: when it was applied, or never, and
// when it was sent, 0 if it was not.
func (a *attempt) deletion(set *history.Event) (at, sent int64) {
	at = never
	for _, d := range a.deletes {
		if d.Node != set.Node {
			continue
		}
		if sent == 0 || d.Sent < sent {
			sent = d.Sent
		}
		if d.Applied > applied(set) {
			at = min(at, d.Applied)
		}
	}
	return at, sent
}
