package resource

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// refusals finds wrong answers from a resource with fencing tokens. The order of the resource's log
// is exact, so timestamp errors do not matter.
func refusals(r *Log) []damage {
	var damages []damage
	highestByKey := map[string]*history.Event{} // by key: the first entry with the highest token accepted so far
	for _, e := range r.Log {
		highest := highestByKey[e.Key]
		isBelow := highest != nil && e.Fence < highest.Fence
		switch accepted := e.Type == history.OK; {
		case accepted && isBelow:
			damages = append(damages, refusal(r, verdict.StaleAccepted, "stale token accepted", e, highest, fmt.Sprintf(
				"%s's %s with token %d was accepted at %s", sessionName(r.Facts, e.Session), entryName(e), e.Fence, facts.Seconds(facts.AppliedAt(e)))))
		case accepted:
			if highest == nil || e.Fence > highest.Fence {
				highestByKey[e.Key] = e
			}
		case !isBelow:
			damages = append(damages, refusal(r, verdict.FreshRefused, "valid token refused", e, highest, fmt.Sprintf(
				"%s's %s with token %d was refused at %s", sessionName(r.Facts, e.Session), entryName(e), e.Fence, facts.Seconds(facts.AppliedAt(e)))))
		case wasHolderRefused(r, e, highest):
			damages = append(damages, refusal(r, verdict.HolderRefused, "valid holder refused", e, highest, fmt.Sprintf(
				"%s held %s when its %s with token %d was refused at %s", sessionName(r.Facts, e.Session), verdict.LockName(e.Key), entryName(e), e.Fence, facts.Seconds(facts.AppliedAt(e)))))
		}
	}
	return damages
}

// refusal describes a wrong answer. highest is the entry with the highest token before it, or nil.
func refusal(r *Log, class, kind string, e, highest *history.Event, text string) damage {
	h := damage{class: class, kind: kind, text: text, key: e.Key, event: e, from: facts.AppliedAt(e), sessions: []string{e.Session}, events: []*history.Event{highest, e}}
	if highest == nil {
		h.text += "; no token had been accepted before that"
		return h
	}
	h.text += fmt.Sprintf("; the highest token before that was %d, from %s at %s", highest.Fence, sessionName(r.Facts, highest.Session), facts.Seconds(facts.AppliedAt(highest)))
	h.from = facts.AppliedAt(highest)
	if highest.Session != e.Session {
		h.sessions = orderedNames(r.Facts, highest.Session, e.Session)
	}
	return h
}

// entryName returns the kind of operation to which a log entry is the answer.
func entryName(e *history.Event) string {
	if e.Cause == history.OpWrite {
		return "write"
	}
	return "read"
}

// wasHolderRefused reports whether the valid holder was refused because of an earlier holder's token.
// If the other session was granted the lock while this session held it, or both held it at once,
// there is no single valid holder. Then the lock is broken, not the fence.
func wasHolderRefused(r *Log, e, highest *history.Event) bool {
	w, held := windowAtRefusal(r, e)
	other := r.SessionByName(highest.Session)
	switch {
	case !held:
		return false
	case other == nil || other == w.Session:
		return true
	}
	margin := 2 * int64(r.Params.StampError)
	if !other.Granted() || other.Acquire.Return.T+margin >= w.From {
		return false
	}
	v, ok := r.index.lookup(other).windowUntil(w.From - margin + 1)
	return !ok || v.From >= w.To+margin
}

// windowAtRefusal returns the belief window during which a log entry was certainly answered. The
// window was open when the client called, and still open when the resource answered. If that
// instant is unknown, it was still open when the client got the answer.
func windowAtRefusal(r *Log, e *history.Event) (facts.Window, bool) {
	s := r.SessionByName(e.Session)
	if s == nil || !s.Granted() {
		return facts.Window{}, false
	}
	call, returnTime, answerTime := s.Acquire.Return.T, int64(facts.Never), facts.AppliedAt(e) // starting with the earliest possible call
	if x, ok := r.index.lookup(s).answeredBy(e); ok {
		call, returnTime = x.Call.T, x.OutcomeAt()
		if e.AppliedAt == 0 && returnTime != facts.Never {
			answerTime = returnTime
		}
	}
	answerTime += 2 * int64(r.Params.StampError)
	// If a client released the lock after getting the answer, that order is certain despite the
	// timestamp error. In any case, the deadline must be later than both.
	until := answerTime
	if answerTime <= r.index.lookup(s).deadlineAt(call) {
		until = min(until, returnTime)
	}
	w, ok := r.index.lookup(s).windowUntil(until)
	if !ok || w.From > call {
		return facts.Window{}, false
	}
	return w, true
}

// hasTokenFence reports whether the resource compares tokens, either the lock's or numbers that it
// counts itself. With check-and-set it compares claims, so there is no token order to check.
func hasTokenFence(r *facts.Facts) bool {
	return r.Params.Fence == "token" || r.Params.Fence == "counter"
}

// FencingOrder checks that fencing tokens rise and that the resource enforces them. It takes O(n
// log n) time.
//
// Tokens rise if no two acquires of a key get the same token, and if an acquire that returned
// before another acquire's winning attempt began has the lower token. The resource enforces them if
// it never accepts a token lower than one accepted before and never refuses any other token, for
// reads and writes alike and in the order of its own log. It must not refuse the valid holder
// (wasHolderRefused). Each token or answer that comes after another session's is an occasion.
func (r *Log) FencingOrder() verdict.Finding {
	grants := fencedGrants(r.Facts)
	failures, numAnswers, numTokens := disorders(r.Facts, grants), 0, 0
	if hasTokenFence(r.Facts) {
		failures, numAnswers = append(failures, refusals(r)...), len(r.Log)
	}
	for _, keyGrants := range grants {
		numTokens += len(keyGrants)
	}
	f := newFinding(r.Facts, failures)
	f.Occasions = countComparisons(r.Facts, grants)
	switch {
	case hasTokenFence(r.Facts) && r.UsedResource && (r.Truncation != "" || len(r.Log) == 0):
		f.Undecided = "the resource's log was not read back, or may be incomplete"
	case numTokens+numAnswers == 0:
		f.Because = "the lock issued no fencing tokens"
	case f.Occasions == 0:
		f.Because = "no key had tokens from two sessions to compare"
	case hasTokenFence(r.Facts):
		f.Because = fmt.Sprintf("%s rose, and the resource enforced them in %s", verdict.Plural(numTokens, "token"), verdict.Plural(numAnswers, "answer"))
	default:
		f.Because = fmt.Sprintf("%s rose; the resource doesn't check them", verdict.Plural(numTokens, "token"))
	}
	return f
}

// fencedGrant is an acquire that returned with a fencing token.
type fencedGrant struct {
	session *facts.Session
	token   int64
	start   int64 // when the winning attempt can have been granted at the earliest
	end     int64 // when the acquire returned
}

// fencedGrants returns the grants of each key in the order of their returns.
func fencedGrants(r *facts.Facts) [][]*fencedGrant {
	var keys [][]*fencedGrant
	for _, l := range r.Locks {
		var grants []*fencedGrant
		for s := range l.Sessions() {
			if s.Granted() && s.Acquire.Return.Fence != 0 {
				grants = append(grants, &fencedGrant{session: s, token: s.Acquire.Return.Fence, start: facts.Never, end: s.Acquire.Return.T})
			}
		}
		if grants != nil {
			keys = append(keys, grants)
		}
	}
	if keys != nil {
		dateAttempts(r, keys)
	}
	return keys
}

// dateAttempts finds the start of each winning attempt. The acquire's call is not precise enough,
// because an acquire may wait for a long time and make many attempts. The start is the earliest
// instant at which a node's vote was requested: the Sent time of the first set on the links that
// has the winning token and was sent during the acquire.
//
// The attempt itself began slightly earlier, in the client, but no node can have granted it before
// its request was sent. If a session held the lock at that instant, it is an earlier holder, and a
// token must be higher than those of all earlier holders. If attempts share a token, the earliest
// one counts. The call counts if there is no token or no such set, or if the record is truncated
// and may lack the first set. Each of these choices can hide a disorder, but none can invent one.
func dateAttempts(r *facts.Facts, keys [][]*fencedGrant) {
	type attempt struct{ client, key, token string }
	margin := 2 * int64(r.Params.StampError)
	type requestTimes struct {
		sent    []int64 // sorted
		unknown bool    // at least one request has no timestamp
	}
	votes := map[attempt]*requestTimes{}
	for _, grants := range keys {
		for _, g := range grants {
			if r.Truncation == "" {
				votes[attempt{g.session.Client(), g.session.Key(), g.session.Token()}] = &requestTimes{}
			}
		}
	}
	for _, e := range r.LockCommands {
		if e.Op != history.OpSet || e.Token == "" {
			continue
		}
		switch a := votes[attempt{facts.LinkClient(e.Process), e.Key, e.Token}]; {
		case a == nil:
		case e.SentAt == 0:
			a.unknown = true
		default:
			a.sent = append(a.sent, e.SentAt)
		}
	}
	for _, a := range votes {
		slices.Sort(a.sent)
	}
	for _, grants := range keys {
		for _, g := range grants {
			call := g.session.Acquire.Call.T
			if a := votes[attempt{g.session.Client(), g.session.Key(), g.session.Token()}]; a != nil {
				if i, _ := slices.BinarySearch(a.sent, call-margin); i < len(a.sent) && a.sent[i] <= g.end+margin {
					g.start = a.sent[i]
				}
				if a.unknown {
					g.start = min(g.start, call)
				}
			}
			if g.start == facts.Never {
				g.start = call
			}
		}
	}
}

// disorders finds tokens that were issued twice or are lower than an earlier holder's. One pass
// over the grants, ordered by start, is enough: each token must be higher than all tokens returned
// before.
func disorders(r *facts.Facts, keys [][]*fencedGrant) []damage {
	margin := 2 * int64(r.Params.StampError)
	var damages []damage
	for _, byEnd := range keys {
		byStart := slices.Clone(byEnd)
		slices.SortStableFunc(byStart, func(a, b *fencedGrant) int { return cmp.Compare(a.start, b.start) })
		grantByToken := map[int64]*fencedGrant{}
		var highest *fencedGrant
		numReturned := 0
		for _, g := range byStart {
			for ; byEnd[numReturned].end+margin < g.start; numReturned++ {
				if highest == nil || byEnd[numReturned].token > highest.token {
					highest = byEnd[numReturned]
				}
			}
			switch other := grantByToken[g.token]; {
			case highest != nil && highest.token > g.token:
				damages = append(damages, disorder(r, highest, g))
			case other != nil:
				damages = append(damages, disorder(r, other, g))
			}
			if grantByToken[g.token] == nil {
				grantByToken[g.token] = g
			}
		}
	}
	return damages
}

// disorder describes what is wrong with the tokens of an earlier and a later grant.
func disorder(r *facts.Facts, first, second *fencedGrant) damage {
	a, b := first.session, second.session
	h := damage{
		class: verdict.TokenOrder, kind: "token out of order", key: b.Key(), event: b.Acquire.Return, from: first.end,
		sessions: []string{a.Name(), b.Name()}, events: []*history.Event{a.Acquire.Return, b.Acquire.Call, b.Acquire.Return},
	}
	if first.token == second.token {
		h.class, h.kind, h.from = verdict.TokenTwice, "token issued twice", min(first.end, second.end)
		h.sessions = orderedNames(r, a.Name(), b.Name())
		h.text = fmt.Sprintf("%s both got token %d with %s, at %s and %s",
			verdict.PairNames(a, b), first.token, verdict.LockName(b.Key()), facts.Seconds(first.end), facts.Seconds(second.end))
		return h
	}
	h.text = fmt.Sprintf("%s got token %d with %s at %s, but %s had got token %d by %s, before that attempt began at %s",
		b.Client(), second.token, verdict.LockName(b.Key()), facts.Seconds(second.end), a.Client(), first.token, facts.Seconds(first.end), facts.Seconds(second.start))
	return h
}

// countComparisons counts the comparisons that test the token order: each token of a key except the
// first, and each answer about a key after the resource had answered another session.
func countComparisons(r *facts.Facts, grants [][]*fencedGrant) int {
	n := 0
	for _, keyGrants := range grants {
		n += len(keyGrants) - 1
	}
	if !hasTokenFence(r) {
		return n
	}
	second := sharedKeys(r.Log, func(e *history.Event) string { return e.Session })
	for i, e := range r.Log {
		if at, ok := second[e.Key]; ok && i >= at {
			n++
		}
	}
	return n
}
