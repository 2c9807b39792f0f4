package checker

import (
	"fmt"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// boundedHold checks whether a client can keep a lock forever by extending it. The scenario limits
// how often a hold may be extended and how long it may last, from the grant until the client no longer believes that it holds the lock;
// the lock under test may have no limits of its own. Only granted extensions count. The timestamp
// error is subtracted from the length, so that only certain violations count. If a hold exceeds the
// limit by no more than the time the host was stalled during it, the property is undecided. It takes O(n) time.
func boundedHold(r *facts.Facts) (f verdict.Finding) {
	firstExceeded := int64(facts.Never)
	var stalledHold longHold
	stalls := spans.Stalls(r)
	maxExtensions, longest := 0, int64(0)
	for s := range r.Sessions() {
		if r.Params.MaxHold == 0 && !s.HasExtension() {
			continue
		}
		h, ok := measureHold(r, stalls, s)
		if !ok {
			continue
		}
		if s.HasExtension() {
			f.Occasions++
		}
		maxExtensions, longest = max(maxExtensions, h.extensions), max(longest, h.to-h.from)
		if h.stallTime > 0 && stalledHold.stallTime == 0 {
			stalledHold = h
		}
		if h.cause == "" {
			continue
		}
		describe := func() verdict.Result { return longHoldResult(r, h) }
		f.Incidents = append(f.Incidents, verdict.Incident{From: h.from, Describe: describe})
		if f.DescribeWorst == nil || h.exceededAt < firstExceeded {
			firstExceeded, f.DescribeWorst = h.exceededAt, describe
		}
	}
	p := r.Params
	switch {
	case stalledHold.stallTime > 0:
		f.Undecided = fmt.Sprintf("%s held %s %s (limit %s); the host stalled for %s in the meantime, which may be why", stalledHold.session.Client(),
			verdict.LockName(stalledHold.session.Key()), facts.FromTo(stalledHold.from, stalledHold.to), facts.Seconds(int64(r.Params.MaxHold)), facts.Seconds(stalledHold.stallTime))
	case f.Occasions == 0:
		f.Because = "no client extended a lock"
	case p.MaxExtends == 0 || p.MaxHold == 0:
		f.Undecided = "the history sets no limits on the number of extensions or the length of a hold"
	default:
		f.Because = fmt.Sprintf("the most extended hold had %s (limit %d), and the longest lasted %s (limit %s)",
			verdict.Plural(maxExtensions, "extension"), p.MaxExtends, facts.Seconds(longest), facts.Seconds(int64(p.MaxHold)))
	}
	return f
}

// longHold compares a hold with the limits.
type longHold struct {
	session    *facts.Session
	extensions int // number of granted extensions
	from, to   int64
	cause      string           // "" if the hold is within both limits
	exceededAt int64            // when it first exceeded a limit
	events     []*history.Event // evidence
	stallTime  int64            // how long the host stalled, if that may be why the hold was too long
}

// maxShownExtensions is the number of extensions that a witness shows: the last ones.
const maxShownExtensions = 8

// measureHold measures one hold, from its grant to the end of belief. If the outcome of the acquire
// is unknown, belief begins with the first granted extension. Without one, ok is false.
func measureHold(r *facts.Facts, stalls []spans.Span, s *facts.Session) (h longHold, ok bool) {
	if !s.Granted() && !s.HasExtension() {
		return h, false
	}
	h = longHold{session: s, exceededAt: facts.Never}
	var grantedExtensions []*history.Event
	for x := range s.Calls(history.OpExtend) {
		// Neither an inner release nor a check extends the lock.
		if x.Outcome() == history.OK && x.Call.Value != history.OpRelease && x.Call.Value != history.OpCheck {
			grantedExtensions = append(grantedExtensions, x.Return)
		}
	}
	h.extensions = len(grantedExtensions)
	if n := r.Params.MaxExtends; n > 0 && h.extensions > n {
		h.cause, h.exceededAt = verdict.ExtendedTooOften, grantedExtensions[n].T
		h.events = grantedExtensions[max(0, n+1-maxShownExtensions) : n+1]
	}
	var last facts.Window
	for last = range r.Windows(s) {
		if h.to == 0 {
			h.from = last.From
		}
		h.to = last.To
	}
	limit := int64(r.Params.MaxHold)
	certainLength := h.to - h.from - 2*int64(r.Params.TimestampUncertainty)
	switch stallTime := spans.Share(stalls, spans.New(h.from, h.to)); {
	case limit == 0 || certainLength <= limit || h.from+limit >= h.exceededAt:
	case certainLength-limit <= stallTime:
		h.stallTime = stallTime
	default:
		h.cause, h.exceededAt = verdict.HeldTooLong, h.from+limit
		h.events = []*history.Event{last.OpenEvent, last.CloseEvent}
	}
	return h, s.Granted() || h.to != 0
}

func longHoldResult(r *facts.Facts, h longHold) verdict.Result {
	s := h.session
	res := verdict.Result{Outcome: verdict.Violated, Cause: h.cause}
	res.Because = fmt.Sprintf("%s extended its hold of %s %s", s.Client(), verdict.LockName(s.Key()), describeTimes(h.extensions))
	if n := r.Params.MaxExtends; n > 0 {
		res.Because += fmt.Sprintf(" (limit %d)", n)
	}
	res.Because += fmt.Sprintf(" and held it %s", facts.FromTo(h.from, h.to))
	if limit := r.Params.MaxHold; limit > 0 {
		res.Because += " (limit " + facts.Seconds(int64(limit)) + ")"
	}
	res.Witness = &verdict.Witness{
		Events:   verdict.EventNumbers(append([]*history.Event{s.Acquire.Call, s.Acquire.Return}, h.events...)),
		Sessions: []string{s.Name()}, Key: s.Key(), From: h.from, To: h.to,
	}
	return res
}

func describeTimes(n int) string {
	if n == 1 {
		return "once"
	}
	return verdict.Plural(n, "time")
}
