package resource

import (
	"fmt"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// refusals finds answers that a resource which goes by tokens should not have given. The
// order of its log is exact, so no error of stamps comes in.
func refusals(r *Log) []harm {
	var harms []harm
	tops := map[string]*history.Event{} // by key: the first entry with the highest token accepted so far
	for _, e := range r.Log {
		top := tops[e.Key]
		below := top != nil && e.Fence < top.Fence
		switch accepted := e.Type == history.OK; {
		case accepted && below:
			harms = append(harms, refusal(r, verdict.StaleAccepted, "stale token accepted", e, top, fmt.Sprintf(
				"%s's %s with token %d was accepted at %s", who(r.Facts, e.Session), entryName(e), e.Fence, facts.Seconds(instant(e)))))
		case accepted:
			if top == nil || e.Fence > top.Fence {
				tops[e.Key] = e
			}
		case !below:
			harms = append(harms, refusal(r, verdict.FreshRefused, "good token refused", e, top, fmt.Sprintf(
				"%s's %s with token %d was refused at %s", who(r.Facts, e.Session), entryName(e), e.Fence, facts.Seconds(instant(e)))))
		case refusedHolder(r, e, top):
			harms = append(harms, refusal(r, verdict.HolderRefused, "valid holder refused", e, top, fmt.Sprintf(
				"%s held %s when its %s with token %d was refused at %s", who(r.Facts, e.Session), verdict.LockName(e.Key), entryName(e), e.Fence, facts.Seconds(instant(e)))))
		}
	}
	return harms
}

// refusal is a wrong answer; top is the entry with the highest token until then, if there was one.
func refusal(r *Log, class, kind string, e, top *history.Event, text string) harm {
	h := harm{class: class, kind: kind, text: text, key: e.Key, at: e, from: instant(e), sessions: []string{e.Session}, events: []*history.Event{top, e}}
	if top == nil {
		h.text += ", and none had been accepted before"
		return h
	}
	h.text += fmt.Sprintf(", and the highest before was %d, of %s at %s", top.Fence, who(r.Facts, top.Session), facts.Seconds(instant(top)))
	h.from = instant(top)
	if top.Session != e.Session {
		h.sessions = ordered(r.Facts, top.Session, e.Session)
	}
	return h
}

// entryName is what a log entry is an answer to.
func entryName(e *history.Event) string {
	if e.Cause == history.OpWrite {
		return "write"
	}
	return "read"
}

// refusedHolder reports whether an entry was refused to the valid holder because
// of the token of somebody who had held the lock before it. If the other was
// granted the lock only while this one held it, or both held it at once, there is
// no one valid holder: the fence does its work, and the lock is to blame.
func refusedHolder(r *Log, e, top *history.Event) bool {
	w, held := heldWhenRefused(r, e)
	other := r.Named(top.Session)
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
	v, ok := r.courses.of(other).until(w.From - margin + 1)
	return !ok || v.From >= w.To+margin
}

// heldWhenRefused is the belief window in which a log entry surely was answered:
// open when the client called, and still open when the resource had answered, or
// where nobody saw that, when the client was told.
func heldWhenRefused(r *Log, e *history.Event) (facts.Window, bool) {
	s := r.Named(e.Session)
	if s == nil || !s.Granted() {
		return facts.Window{}, false
	}
	call, told, answered := s.Acquire.Return.T, int64(facts.Never), instant(e) // it can't have called before
	if x, ok := r.courses.of(s).answeredBy(e); ok {
		call, told = x.Call.T, x.Returned()
		if e.Applied == 0 && told != facts.Never {
			answered = told
		}
	}
	answered += 2 * int64(r.Params.StampError)
	// A client that was told and released only then, did so in this order, whatever the
	// error of the stamps. Its deadline must lie behind both all the same.
	until := answered
	if answered <= r.courses.of(s).claimedAt(call) {
		until = min(until, told)
	}
	w, ok := r.courses.of(s).until(until)
	if !ok || w.From > call {
		return facts.Window{}, false
	}
	return w, true
}
