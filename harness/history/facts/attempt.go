package facts

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
)

// Attempt is one round of asking the nodes: the sets of one token, by one client.
// It belongs to the session during whose acquire it was begun. Where a lock uses one
// token for several acquires, so does all that is asked with it.
type Attempt struct {
	Session  *Session
	Token    string
	From, To int64            // the first set was sent, the last was answered or given up
	Over     int64            // the attempt was over by then: the next was begun, or acquire returned, or the holder had released
	Yes, No  int              // nodes that answered in time for the client to know
	Won      bool             // its session got the lock by it
	Sets     []*history.Event // that a node applied, or may have
	Deletes  []*history.Event // with its token, applied or not

	end     int64               // without a next attempt, it was over by then
	deleted map[string]deletion // by node; made when first asked for
}

// Wire is what the links saw of one lock, put in the order of its attempts.
type Wire struct {
	Attempts []*Attempt            // in the order of their begin
	Last     map[*Session]*Attempt // of each session
	Extended map[*Session]int64    // when a node last applied an extension of it
}

// Wires reads what the links saw of every lock, in one pass, when it is first asked for.
func (f *Facts) Wires() map[string]*Wire {
	if f.wires != nil {
		return f.wires
	}
	in := wireReader{locks: map[string]*Wire{}, places: map[asker]*bidder{}}
	if len(f.Links) > 0 {
		for s := range f.Sessions() {
			b := in.bidder(s.Client(), s.Key())
			b.sessions = append(b.sessions, s)
		}
	}
	for _, e := range f.Links {
		in.event(e)
	}
	for _, w := range in.locks {
		slices.SortStableFunc(w.Attempts, func(a, b *Attempt) int { return cmp.Compare(a.From, b.From) })
		f.settle(w)
	}
	f.wires = in.locks
	return f.wires
}

type wireReader struct {
	locks  map[string]*Wire
	places map[asker]*bidder
}

// asker is one client at one lock.
type asker struct{ client, key string }

// bidder is what is known of a client at a lock while its commands are read.
type bidder struct {
	sessions []*Session
	attempts map[string]*Attempt // by token
	current  *Attempt
}

func (in *wireReader) bidder(client, key string) *bidder {
	b := in.places[asker{client, key}]
	if b == nil {
		b = &bidder{attempts: map[string]*Attempt{}}
		in.places[asker{client, key}] = b
	}
	return b
}

func (in *wireReader) event(e *history.Event) {
	b := in.bidder(Sender(e), e.Key)
	w := in.locks[e.Key]
	if w == nil {
		w = &Wire{Last: map[*Session]*Attempt{}, Extended: map[*Session]int64{}}
		in.locks[e.Key] = w
	}
	switch a := b.attempt(e); {
	case e.Op == history.OpSet:
		if a == nil {
			a = b.begin(e)
			if a == nil {
				return // of no session
			}
			w.Attempts = append(w.Attempts, a)
		}
		a.set(e)
	case e.Op == history.OpExtend && e.Type != history.Fail:
		if s := LastCalled(b.sessions, e.Sent); s != nil {
			w.Extended[s] = max(w.Extended[s], Applied(e))
		}
	case e.Op == history.OpRelease && a != nil:
		a.Deletes = append(a.Deletes, e)
	}
}

// attempt is the one that a command's token belongs to, or nil.
func (b *bidder) attempt(e *history.Event) *Attempt {
	if b.current == nil || b.current.Token != e.Token {
		if a := b.attempts[e.Token]; a != nil {
			b.current = a
			return a
		}
		return nil
	}
	return b.current
}

func (b *bidder) begin(e *history.Event) *Attempt {
	s := LastCalled(b.sessions, e.Sent)
	if s == nil {
		return nil
	}
	a := &Attempt{Session: s, Token: e.Token, From: e.Sent}
	b.attempts[e.Token], b.current = a, a
	return a
}

func (a *Attempt) set(e *history.Event) {
	a.From, a.To = min(a.From, e.Sent), max(a.To, e.T)
	known := e.Answered > 0
	switch {
	case e.Type == history.OK && known:
		a.Yes++
	case e.Type == history.Fail && e.Cause == "" && known:
		a.No++
	}
	if e.Type != history.Fail {
		a.Sets = append(a.Sets, e)
	}
}

// settle says of each attempt of a lock whether it won, and when it was over.
func (f *Facts) settle(w *Wire) {
	for _, a := range w.Attempts {
		s := a.Session
		if last := w.Last[s]; last != nil {
			last.Over = min(last.Over, a.From)
			a.end = last.end
		} else {
			a.end = f.over(s)
		}
		a.Over = a.end
		w.Last[s] = a
	}
	for s, a := range w.Last {
		a.Won = s.Granted()
	}
}

// over is when a session's acquire had returned without the lock, its holder had released,
// or its client was gone.
func (f *Facts) over(s *Session) int64 {
	at := s.Acquire.Returned()
	if s.Granted() {
		at = s.Released()
	}
	if t, ok := f.Gone[s.Client()]; ok {
		at = min(at, t)
	}
	return at
}

// deletion is the commands on one node to delete an attempt's key.
type deletion struct {
	sent    int64   // the first was
	applied []int64 // in the order of time
}

// Deletion of an attempt's key on a node: when it was applied, or Never, and
// when it was sent, 0 if it was not.
func (a *Attempt) Deletion(set *history.Event) (at, sent int64) {
	if len(a.Deletes) == 0 {
		return Never, 0
	}
	if a.deleted == nil {
		a.deleted = deletions(a.Deletes)
	}
	d := a.deleted[set.Node]
	i, _ := slices.BinarySearch(d.applied, Applied(set)+1)
	if i < len(d.applied) {
		return d.applied[i], d.sent
	}
	return Never, d.sent
}

// deletions puts the commands of an attempt in order: one token may have been used for all.
func deletions(commands []*history.Event) map[string]deletion {
	all := map[string]deletion{}
	for _, e := range commands {
		d := all[e.Node]
		if d.sent == 0 || e.Sent < d.sent {
			d.sent = e.Sent
		}
		d.applied = append(d.applied, e.Applied)
		all[e.Node] = d
	}
	for _, d := range all {
		slices.Sort(d.applied)
	}
	return all
}

// LastCalled is the last of one client's sessions, in the order of their calls, that it
// had called by an instant, or nil.
func LastCalled(sessions []*Session, at int64) *Session {
	i, _ := slices.BinarySearchFunc(sessions, at, func(s *Session, at int64) int {
		if s.Acquire.Call.T > at {
			return 1
		}
		return -1
	})
	if i == 0 {
		return nil
	}
	return sessions[i-1]
}
