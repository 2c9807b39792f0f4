// Package cause finds out why two sessions could hold the same lock at once.
//
// The answers that clients received are not enough for this, so the package uses the nodes' reports
// of what happened to each key (history.Life). Any two quorums share a node, and on that node the
// first session's key was gone by the time the second session was granted the lock. For each shared
// node, the first matching row of this table explains how:
//
//	a session's keys are on fewer nodes than a quorum          never-set
//	it lived for less than the TTL because clocks disagree     clocks-disagree
//	the second grant came after it had expired                 notified-late, given-shorter, granted-late, client-clock
//	deleted by a client or from outside / by lockpick          deleted-by-other / deleted-by-harness
//	deleted by its holder, who had acquired the lock twice     released-early
//	deleted with all other keys / evicted for lack of memory   flushed / evicted
//	missing, or an older value, after a failover               failed-over
//	the same after a power loss of a persistent node           lost-unsynced
//	the same after any other restart                           restarted-and-forgot
//	expired, and the node's clock had gained enough            expired-early; given-shorter if the lock had to allow for it
//	overwritten with a different value                         overwritten
//	no match in the record, or the record contradicts it       unexplained
//
// If a key was removed early but would have expired before the second grant anyway, the early removal
// does not matter. The rows for all shared nodes are combined (explanation.Losses), each with the report
// and the planned steps behind it. The cause is named after the row that applies to the most nodes.
// If the nodes did not report their keys (Params.Life), overlaps are unexplained.
//
// Other packages decide whether two sessions held the same lock at once.
package cause

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// explanation explains why two sessions could both be granted the same lock.
type explanation struct {
	Cause      string
	Node       string
	Text       string
	Losses     []verdict.Loss
	SpareVotes int              // number of votes that the second session did not need
	Events     []*history.Event // evidence
}

// causeOrder decides between causes that apply to equally many nodes.
var causeOrder = []string{verdict.RestartedAndForgot, verdict.LostUnsynced, verdict.FailedOver, verdict.DeletedByOther, verdict.ReleasedEarly, verdict.DeletedByHarness,
	verdict.Flushed, verdict.Evicted, verdict.ClientClock, verdict.NotifiedLate, verdict.GrantedLate, verdict.GivenShorter, verdict.ClocksDisagree, verdict.ExpiredEarly,
	verdict.Overwritten, verdict.Unexplained}

// Explain finds the cause of an overlap of two sessions. Any two quorums share a node, so unless
// one session had no quorum, at least one node voted for both. On that node, the key that was set
// first was gone before the other was set, and the node reported how.
func Explain(r *facts.Facts, a, b *facts.Session) explanation {
	if !r.Params.ReportsKeys {
		return explainWithoutReports(r, a, b)
	}
	votes := map[*facts.Session]map[string]*facts.KeyInterval{a: votes(r, a), b: votes(r, b)}
	for _, s := range []*facts.Session{a, b} {
		if n := len(votes[s]); n < r.Params.Quorum {
			return explainNoQuorum(r, s, votes[s])
		}
	}
	x := explanation{SpareVotes: len(votes[b]) - r.Params.Quorum}
	for _, name := range r.Params.Nodes {
		va, vb := votes[a][name], votes[b][name]
		switch {
		case va == nil || vb == nil:
		case va.Start.Life.Seq <= vb.Start.Life.Seq:
			x.Losses = append(x.Losses, explainLoss(r, a, b, va, vb))
		default:
			x.Losses = append(x.Losses, explainLoss(r, b, a, vb, va))
			x.SpareVotes = len(votes[a]) - r.Params.Quorum
		}
	}
	if len(x.Losses) == 0 {
		return explanation{Cause: verdict.Unexplained, Text: "no node granted both sessions"}
	}
	return x.summarize()
}

// explainWithoutReports explains an overlap without reports from the nodes. Nobody knows what
// happened to the keys, but the record shows when a holder was notified of its loss.
func explainWithoutReports(r *facts.Facts, sessions ...*facts.Session) explanation {
	x := explanation{Cause: verdict.Unexplained, Text: "the record contains no information about the nodes"}
	for _, s := range sessions {
		if notice := r.Loss(s); notice != nil {
			x.Text += fmt.Sprintf(", and %s was notified of its loss at %s", s.Client(), facts.Seconds(notice.T))
			x.Events = append(x.Events, notice)
		}
	}
	return x
}

// explainNoQuorum explains an overlap with a session whose keys were on too few nodes for a quorum.
func explainNoQuorum(r *facts.Facts, s *facts.Session, votes map[string]*facts.KeyInterval) explanation {
	x := explanation{Cause: verdict.NeverSet}
	for _, n := range r.Params.Nodes {
		if v := votes[n]; v != nil {
			x.Events = append(x.Events, v.Start)
		} else if g := r.Lives().Gap(n, s.Acquire.Call.T, s.Acquire.Return.T); g != nil {
			return explanation{Cause: verdict.Unexplained, Node: n, Text: fmt.Sprintf("reports from %s may be missing for the time when %s set its keys", n, s.Client()), Events: []*history.Event{g}}
		}
	}
	x.Text = fmt.Sprintf("%s took the lock with %d of %d votes, but a quorum is %d", s.Client(), len(votes), len(r.Params.Nodes), r.Params.Quorum)
	return x
}

// votes returns, by node, the last key that the session's own link set during the session's
// acquire. Extending a key that the session already had counts as a vote. A key that was gone
// before the winning attempt began is not a vote, because a lock may use one token for all attempts
// of an acquire.
func votes(r *facts.Facts, s *facts.Session) map[string]*facts.KeyInterval {
	votes := map[string]*facts.KeyInterval{}
	winningFrom := int64(math.MinInt64)
	if w := r.AttemptsByLock()[s.Key()]; w != nil && w.LastAttempt[s] != nil && w.LastAttempt[s].Won {
		winningFrom = w.LastAttempt[s].From
	}
	isDuringAcquire := func(e *history.Event) bool {
		uncertainty := facts.TimestampUncertainty(e)
		return facts.LinkClient(e.Life.Sender) == s.Client() && e.T >= s.Acquire.Call.T-uncertainty && e.T <= s.Acquire.Return.T+uncertainty
	}
	for _, n := range r.Params.Nodes {
		for _, v := range r.Lives().Intervals(n, s.Key()) {
			if v.HasToken(s.Token()) && (isDuringAcquire(v.Start) || isDuringAcquire(v.ExpiryEvent)) && v.To() >= winningFrom {
				votes[n] = v
			}
		}
	}
	return votes
}

// summarize names the explanation after the cause that applies to the most nodes. Its text begins
// with the first loss that has this cause.
func (x explanation) summarize() explanation {
	counts := map[string]int{}
	for _, l := range x.Losses {
		counts[l.Cause]++
	}
	mainLoss := slices.MinFunc(x.Losses, func(a, b verdict.Loss) int {
		return cmp.Or(counts[b.Cause]-counts[a.Cause], slices.Index(causeOrder, a.Cause)-slices.Index(causeOrder, b.Cause))
	})
	x.Cause, x.Node, x.Text = mainLoss.Cause, mainLoss.Node, mainLoss.Text
	var sameCauseNodes []string
	for _, l := range x.Losses {
		x.Events = append(x.Events, l.Events...)
		switch {
		case l.Node == mainLoss.Node:
		case l.Cause == mainLoss.Cause:
			sameCauseNodes = append(sameCauseNodes, l.Node)
		}
	}
	if len(sameCauseNodes) > 0 {
		x.Text += "; likewise on " + verdict.JoinNames(sameCauseNodes)
	}
	for _, l := range x.Losses {
		if l.Cause != mainLoss.Cause {
			x.Text += "; " + l.Text
		}
	}
	return x
}

// explainLoss explains why the first session's key was gone from a node when the node granted the
// second session the lock.
func explainLoss(r *facts.Facts, first, second *facts.Session, firstVote, secondVote *facts.KeyInterval) verdict.Loss {
	for _, next := range r.Lives().Intervals(firstVote.Node, first.Key()) { // its own client may have changed the key, which then still belongs to the session
		isOwn := next.Start == firstVote.End && next.IsSetBy(first)
		if isOwn && next.Start.Life.Seq < secondVote.Start.Life.Seq {
			firstVote = next
		}
	}
	x := lossCase{&verdict.Loss{Node: firstVote.Node, First: first.Name(), Second: second.Name()}, first, second, firstVote, secondVote, firstVote.ExpiresAt()}
	x.Events = []*history.Event{firstVote.Start, secondVote.Start}
	end := firstVote.End
	if end == nil || end.Life.Seq > secondVote.Start.Life.Seq {
		x.Cause, x.Text = verdict.Unexplained, fmt.Sprintf("%s granted both, and the record does not show how %s's key ended", x.Node, first.Client())
	} else {
		x.Fact, x.SetEvent = end.N, secondVote.Start.N
		x.Events = append(x.Events, firstVote.ExpiryEvent, end)
		fillInLoss(r, x, end)
	}
	if g := r.Lives().Gap(x.Node, firstVote.Start.T, secondVote.Start.T); g != nil && x.Cause == verdict.Unexplained {
		x.Text += "; reports from that node may be missing"
		x.Events = append(x.Events, g)
	}
	return *x.Loss
}

// fillInLoss fills in the loss according to the first matching row of the decision table.
func fillInLoss(r *facts.Facts, x lossCase, end *history.Event) {
	first, secondVote, change := x.first, x.secondVote, end.Life.Kind
	switch {
	case isShortenedByClocks(r, x):
	case secondVote.Start.T+facts.TimestampUncertainty(secondVote.Start) >= x.expiryTime:
		explainOutlivedKey(r, x)
	case change == history.KeyDeleted:
		explainDeletion(r, x, end)
	case change == history.KeyFlushed:
		x.Cause, x.Text = verdict.Flushed, fmt.Sprintf("%s flushed %s at %s, which deleted %s's key along with all others", facts.Issuer(end), x.Node, facts.Seconds(end.T), first.Client())
	case change == history.KeyEvicted:
		x.Cause, x.Text = verdict.Evicted, fmt.Sprintf("%s ran out of memory and evicted %s's key at %s", x.Node, first.Client(), facts.Seconds(end.T))
	case change == history.KeyLost, change == history.KeyReverted:
		explainOutage(r, x, end)
	case change == history.KeyExpired:
		explainEarlyExpiry(r, x, end)
	case facts.LinkClient(end.Life.Sender) != "":
		x.Cause = verdict.Overwritten
		x.Text = fmt.Sprintf("%s of %s overwrote %s's key on %s at %s, which would have existed until %s",
			describeCommand(end), facts.Issuer(end), first.Client(), x.Node, facts.Seconds(end.T), describeExpiry(x.expiryTime))
	default:
		x.Cause, x.Text = verdict.Unexplained, fmt.Sprintf("%s reported %s's key as %s at %s", x.Node, first.Client(), change, facts.Seconds(end.T))
	}
}

// The rows of the decision table. Each fills in the cause, the text and the steps.

// tick is the resolution of expiry on a node: Redis keeps expiry times in whole milliseconds.
const tick = int64(time.Millisecond)

// lossCase describes a node that granted both sessions, while explainLoss determines how the first
// session's key ended.
type lossCase struct {
	*verdict.Loss
	first, second         *facts.Session
	firstVote, secondVote *facts.KeyInterval
	expiryTime            int64 // when the first session's key should have expired, by a correct clock
}

func describeExpiry(expiry int64) string {
	if expiry == facts.Never {
		return "it was deleted"
	}
	return facts.Seconds(expiry)
}

func describeCommand(e *history.Event) string {
	word := "the " + strings.ToUpper(cmp.Or(e.Life.Command, "command"))
	if e.Life.Script {
		word += " in a script"
	}
	return word
}

// isShortenedByClocks reports whether a key lived for less than its lock's TTL because the clocks of
// its client and its node disagree. If so, it fills in the loss. The client computes the expiry
// time by its own clock, and the node applies it by another. A lock should not compare the two
// clocks, whichever of them is wrong.
func isShortenedByClocks(r *facts.Facts, x lossCase) bool {
	at := x.firstVote.ExpiryEvent
	claimedDeadline := facts.Deadline(x.first.Acquire.Return)
	if x.first.HasExtension() || x.expiryTime == facts.Never || claimedDeadline <= x.expiryTime || x.secondVote.Start.T < x.expiryTime-tick {
		return false
	}
	ttl := int64(r.Params.TTLOf(x.first.Client()).TTL)
	shortfall := ttl - x.firstVote.Lifetime()
	node, client := clockError(r, x.Node, at), clockError(r, x.first.Client(), at)
	if shortfall <= tick || node-client < shortfall/2 || node-client > 2*shortfall { // the clocks are not the reason
		return false
	}
	wrongClocks := []string{}
	for name, offset := range map[string]int64{x.Node: node, x.first.Client(): client} {
		if offset > tick || offset < -tick {
			wrongClocks = append(wrongClocks, fmt.Sprintf("%s's clock was %s", name, describeOffset(offset)))
			x.Steps = append(x.Steps, clockSteps(r, name, math.MinInt64, at.T)...)
		}
	}
	slices.Sort(wrongClocks)
	slices.Sort(x.Steps)
	x.Fact = 0 // the key ended when the client had asked for it
	x.Cause = verdict.ClocksDisagree
	lifetimeText := "got " + facts.Seconds(x.firstVote.Lifetime()) + " instead of " + facts.Seconds(ttl)
	if x.firstVote.Lifetime() <= 0 {
		lifetimeText = "had expired when it was set"
	}
	x.Text = fmt.Sprintf("%s's key on %s %s, because %s", x.first.Client(), x.Node, lifetimeText, verdict.JoinNames(wrongClocks))
	return true
}

func describeOffset(offset int64) string {
	if offset < 0 {
		return facts.Seconds(-offset) + " behind"
	}
	return facts.Seconds(offset) + " ahead"
}

// clockError returns how far the wall clock of a node or client was from true time when a node
// reported an event. It returns 0 if the record does not show it.
func clockError(r *facts.Facts, name string, at *history.Event) int64 {
	if at.Process == name {
		if r.Params.Epoch == 0 {
			return 0
		}
		return at.Local - r.Params.Epoch - at.T
	}
	return facts.ClockAt(r.ClockChangesOf(name), at.T).OffsetAt(at.T)
}

// explainOutlivedKey explains a session that claimed the lock for longer than its key lived. The
// node did everything right.
func explainOutlivedKey(r *facts.Facts, x lossCase) {
	x.Fact = 0 // the key was not removed early
	first := x.first
	lifetime := x.firstVote.Lifetime()
	expiry := x.firstVote.ExpiredAt(r.ClockChangesOf(x.Node))
	key := fmt.Sprintf("%s's key on %s lived for its %s, until %s", first.Client(), x.Node, facts.Seconds(lifetime), facts.Seconds(expiry))
	if end := x.firstVote.End; end.Life.Kind != history.KeyExpired && end.T < expiry-tick {
		key = fmt.Sprintf("%s's key on %s was gone at %s, before its TTL of %s ended at %s", first.Client(), x.Node, facts.Seconds(end.T), facts.Seconds(lifetime), facts.Seconds(expiry))
	}
	if last := x.firstVote.ExpiryEvent; last != x.firstVote.OwnerExpiryEvent {
		key = fmt.Sprintf("%s set the expiry of %s's key on %s, which lived until %s", facts.Issuer(last), first.Client(), x.Node, facts.Seconds(expiry))
	}
	claimedDeadline := facts.Deadline(first.Acquire.Return)
	notice := r.Loss(first)
	switch {
	case notice != nil && notice.T == claimedDeadline && notice.T > x.expiryTime:
		x.Cause, x.Text = verdict.NotifiedLate, key+fmt.Sprintf(", and %s was notified of its loss at %s", first.Client(), facts.Seconds(notice.T))
		x.Steps = stepsHitting(r, first.Client(), x.expiryTime, notice.T)
	case clockFellBehind(r, first) && !withinDrift(r, x):
		x.Cause, x.Text = verdict.ClientClock, key+fmt.Sprintf(", but %s's clock fell behind", first.Client())
		x.Steps = clockSteps(r, first.Client(), first.Acquire.Call.T, x.secondVote.Start.T)
	case !first.HasExtension() && claimedDeadline != facts.Never && claimedDeadline-first.Acquire.Return.T > lifetime+tick: // even an immediate return would have been too late
		x.Cause, x.Text = verdict.GivenShorter, key+fmt.Sprintf(", but %s claimed the lock until %s", first.Client(), facts.Seconds(claimedDeadline))
	case x.second.Acquire.Return.T < first.Acquire.Return.T:
		x.Cause = verdict.GrantedLate
		x.Text = key + fmt.Sprintf(", but its acquire did not return until %s, when %s held the lock", facts.Seconds(first.Acquire.Return.T), x.second.Client())
		x.Steps = stepsHitting(r, first.Client(), first.Acquire.Call.T, first.Acquire.Return.T)
	case claimedDeadline == facts.Never && !deadlineFromExtension(first):
		x.Cause, x.Text = verdict.NotifiedLate, key+fmt.Sprintf(", and %s, whose lock has no deadline, was not notified", first.Client())
	case lastHeldAnswer(first) != nil:
		x.Cause = verdict.NotifiedLate
		x.Text = key + fmt.Sprintf(", but %s checked its lock at %s, and the lock answered that it was held", first.Client(), facts.Seconds(lastHeldAnswer(first).T))
		x.Steps = stepsHitting(r, first.Client(), x.expiryTime, lastHeldAnswer(first).T)
	case first.HasExtension():
		x.Cause, x.Text = verdict.GivenShorter, key+fmt.Sprintf(", but %s claimed the lock for longer", first.Client())
	default:
		x.Cause, x.Text = verdict.GivenShorter, key+fmt.Sprintf(", but %s claimed the lock until %s", first.Client(), facts.Seconds(claimedDeadline))
	}
}

// overclaim returns the event that contains the first session's last claim, and by how much the
// claim was too long. By the session's own clock, the claim may last for the TTL minus the drift,
// counted from when the key's expiry was set.
func overclaim(r *facts.Facts, x lossCase) (claim *history.Event, excess int64) {
	if x.first.Granted() {
		claim = x.first.Acquire.Return
	}
	for e := range x.first.Calls(history.OpExtend) {
		if e.Outcome() == history.OK && e.Return.ValidUntil != 0 && e.Return.T < x.secondVote.Start.T {
			claim = e.Return
		}
	}
	lease := r.Params.TTLOf(x.first.Client())
	if claim == nil || claim.ValidUntil == 0 || lease.Drift == 0 {
		return nil, 0
	}
	limit := x.firstVote.ExpiryEvent.T + facts.TimestampUncertainty(x.firstVote.ExpiryEvent) + int64(lease.TTL-lease.Drift)
	return claim, claim.T + r.ElapsedOnClock(claim, claim.ValidUntil) - limit - 2*tick
}

// withinDrift reports whether the first session claimed its lock for too long, although its clock
// lost no more time than the drift that a lock must allow for.
func withinDrift(r *facts.Facts, x lossCase) bool {
	claim, excess := overclaim(r, x)
	return excess > 0 && claim.ValidUntil-claim.T-r.ElapsedOnClock(claim, claim.ValidUntil) <= int64(r.Params.TTLOf(x.first.Client()).Drift)
}

// lastHeldAnswer returns the last answer to a check that the session still held the lock, or nil.
func lastHeldAnswer(s *facts.Session) (answer *history.Event) {
	for x := range s.Calls(history.OpExtend) {
		if x.Call.Value == history.OpCheck && x.Outcome() == history.OK {
			answer = x.Return
		}
	}
	return answer
}

// deadlineFromExtension reports whether the session's deadline comes from an extension because the
// outcome of its acquire is unknown.
func deadlineFromExtension(s *facts.Session) bool {
	for x := range s.Calls(history.OpExtend) {
		if x.Outcome() == history.OK && x.Return.ValidUntil != 0 {
			return !s.Granted()
		}
	}
	return false
}

// clockFellBehind reports whether the clock of a session's client advanced by less than true time
// since the acquire. It allows for the bound on the clock's rate, and a millisecond for reading it.
// True time is stamped before the client's clock is read, so a pause between the two can hide a
// loss. It cannot invent one, because readings are compared with the smallest lead so far. A clock
// change counts as a reading: it shows what the clock reads from then on. Clock errors before the
// acquire do not matter.
func clockFellBehind(r *facts.Facts, s *facts.Session) bool {
	end, _ := r.LastMoment(s)
	for w := range r.Windows(s) {
		end = w.To
	}
	var reference, change *history.Event
	isBehind := func(at, reading int64) bool {
		return reference != nil && at >= s.Acquire.Call.T &&
			(reference.Local-reference.T)-(reading-at) > int64(r.Params.Rate*float64(at-reference.T))+tick
	}
	for i := range r.Events {
		e := &r.Events[i]
		changed := e.Op == history.OpClock && e.Node == s.Client()
		if e.Process != s.Client() && !changed || e.Local == 0 || e.T > end || e.WallClock != s.Acquire.Return.WallClock {
			continue
		}
		if changed {
			change = e
		}
		if changed && e.T < s.Acquire.Call.T {
			reference = nil
		}
		if isBehind(e.T, e.Local) {
			return true
		}
		if reference == nil || e.Local-e.T < reference.Local-reference.T {
			reference = e
		}
	}
	return change != nil && isBehind(end, change.Local+end-change.T+int64(float64(end-change.T)*(float64(change.Drift)/1e9)))
}

// explainDeletion determines whose command deleted the key: a late release of the same client's
// earlier attempt, another session's release, one of the holder's own releases, or a command from
// outside the lock.
func explainDeletion(r *facts.Facts, x lossCase, end *history.Event) {
	issuer := end.Life.Sender
	client := facts.LinkClient(issuer)
	if issuer == "" || issuer == history.Harness || !slices.Contains(r.Params.Clients, client) {
		x.Cause = verdict.DeletedByHarness
		x.Text = fmt.Sprintf("%s deleted %s's key on %s at %s", facts.Issuer(end), x.first.Client(), x.Node, facts.Seconds(end.T))
		if issuer != "" && issuer != history.Harness {
			x.Cause, x.Text = verdict.DeletedByOther, fmt.Sprintf("%s of %s, which is not a client of this run, deleted %s's key on %s at %s", describeCommand(end), issuer, x.first.Client(), x.Node, facts.Seconds(end.T))
		}
		return
	}
	x.Cause = verdict.DeletedByOther
	command := describeCommand(end) + " of a failed attempt of " + client
	token := ""
	if d := r.ReleaseOf(end); d != nil {
		x.Events = append(x.Events, d)
		if isInnerRelease(x.first, client, d) {
			x.Cause = verdict.ReleasedEarly
			x.Text = fmt.Sprintf("%s had acquired the lock twice, and its first release, sent on %s at %s, deleted its key on %s at %s", client, issuer, facts.Seconds(end.SentAt), x.Node, facts.Seconds(end.T))
			return
		}
		command, token = "the release of "+describeReleaser(r, x.first, client, d), " without a token"
		if d.Token != "" {
			token = " with token " + d.Token
		}
	}
	x.Text = fmt.Sprintf("%s%s, sent on %s at %s, deleted %s's key on %s at %s", command, token, issuer, facts.Seconds(end.SentAt), x.first.Client(), x.Node, facts.Seconds(end.T))
	x.Steps = stepsDelaying(r, issuer, end)
}

// isInnerRelease reports whether a release command belongs to a lock that its holder had acquired
// more than once and therefore still held.
func isInnerRelease(s *facts.Session, client string, d *history.Event) bool {
	for x := range s.Calls(history.OpExtend) {
		if x.Call.Value == history.OpRelease && client == s.Client() && d.SentAt >= x.Call.T && d.SentAt <= x.ReturnedAt() {
			return true
		}
	}
	return false
}

// describeReleaser names the session or attempt that issued a release command.
func describeReleaser(r *facts.Facts, first *facts.Session, client string, d *history.Event) string {
	if client == first.Client() && d.SentAt < first.Acquire.Return.T {
		return "an earlier attempt of " + client
	}
	if s := sessionOfRelease(r, client, d); s != nil {
		return "session " + s.Name()
	}
	return "a failed attempt of " + client
}

// sessionOfRelease returns the session to which a release command belongs, or nil.
func sessionOfRelease(r *facts.Facts, client string, d *history.Event) *facts.Session {
	var session *facts.Session
	for s := range r.Sessions() {
		if s.Client() != client || s.Key() != d.Key {
			continue
		}
		if call := s.FirstRelease(); call != nil && call.T <= d.SentAt {
			session = s
		}
	}
	return session
}

// explainOutage explains how an outage made a node lose a key or revert it to an older value.
func explainOutage(r *facts.Facts, x lossCase, end *history.Event) {
	f := outageBefore(r, x.Node, end)
	key := x.first.Client() + "'s key"
	if end.Life.Kind == history.KeyReverted {
		key += " (an older value returned)"
	}
	switch {
	case end.Life.Replacement == history.Failover:
		x.Cause, x.Text = verdict.FailedOver, fmt.Sprintf("%s failed over to a replica without %s", x.Node, key)
	case f != nil && f.Kind == facts.PowerLoss && r.Params.Persistence != "none":
		x.Cause, x.Text = verdict.LostUnsynced, fmt.Sprintf("%s lost power before it had synced %s", x.Node, key)
	default:
		x.Cause, x.Text = verdict.RestartedAndForgot, fmt.Sprintf("%s restarted and forgot %s", x.Node, key)
	}
	if f != nil {
		x.Steps = stepsWhere(r, func(o *facts.Fault) bool { return o == f })
		x.Events = append(x.Events, f.Begin, f.End)
	}
}

// explainEarlyExpiry explains why a key expired too early on its node. The node's clock must have
// gained at least the missing time.
func explainEarlyExpiry(r *facts.Facts, x lossCase, end *history.Event) {
	from := x.firstVote.ExpiryEvent
	gain := (end.Local - end.T) - (from.Local - from.T)
	if shortfall := x.expiryTime - end.T; gain < shortfall-tick-facts.TimestampUncertainty(end)-facts.TimestampUncertainty(from) {
		x.Cause = verdict.Unexplained
		x.Text = fmt.Sprintf("%s's key expired on %s at %s, %s early, but the node's clock had gained only %s",
			x.first.Client(), x.Node, facts.Seconds(end.T), facts.Seconds(shortfall), facts.Seconds(gain))
		return
	}
	drift := int64(r.Params.TTLOf(x.first.Client()).Drift)
	if claim, excess := overclaim(r, x); excess > 0 && gain <= drift {
		x.Fact = 0 // a lock must allow for this drift
		x.Cause = verdict.GivenShorter
		x.Text = fmt.Sprintf("%s's clock gained %s, which is within the drift of %s that a lock must allow for, but %s claimed the lock until %s, %s too long",
			x.Node, facts.Seconds(gain), facts.Seconds(drift), x.first.Client(), facts.Seconds(facts.Deadline(claim)), facts.Seconds(excess))
		return
	}
	x.Cause = verdict.ExpiredEarly
	x.Text = fmt.Sprintf("%s's clock gained %s, and %s's key was gone there by %s, before its TTL of %s had passed",
		x.Node, facts.Seconds(gain), x.first.Client(), facts.Seconds(end.T), facts.Seconds(x.firstVote.Lifetime()))
	x.Steps = clockSteps(r, x.Node, from.T, end.T)
	for _, f := range r.Faults {
		if f.Target == x.Node && f.ChangesClock() && f.Begin != nil {
			if _, ok := slices.BinarySearch(x.Steps, f.Step); ok {
				x.Events = append(x.Events, f.Begin)
			}
		}
	}
}

// DescribeKeys describes what had happened to a session's keys when its client was told that it did
// not hold the lock. The client made that call and got the answer between from and to.
func DescribeKeys(r *facts.Facts, s *facts.Session, from, to int64) string {
	var call facts.Operation
	for x := range s.Actions() {
		if x.Outcome() == history.Fail && x.Call.T >= from && x.Return.T <= to {
			call = x
			break
		}
	}
	if !r.Params.ReportsKeys || call.Call == nil || s.Token() == "" {
		return "the record does not show why"
	}
	var descriptions, parts []string
	nodes := map[string][]string{}
	for _, n := range r.Params.Nodes {
		var key *facts.KeyInterval
		for _, y := range r.Lives().Intervals(n, s.Key()) {
			if y.IsSetBy(s) && y.From() <= call.Return.T {
				key = y
			}
		}
		if key == nil {
			continue
		}
		description := "the key still existed"
		if end := key.End; end != nil && end.T <= call.Return.T {
			description = describeEnd(s, call, key)
		}
		if !slices.Contains(descriptions, description) {
			descriptions = append(descriptions, description)
		}
		nodes[description] = append(nodes[description], n)
	}
	for _, description := range descriptions {
		parts = append(parts, description+" on "+verdict.JoinNames(nodes[description]))
	}
	if len(parts) == 0 {
		return "no node had its key"
	}
	return strings.Join(parts, "; ")
}

// describeEnd describes how a session's key ended before a call was answered.
func describeEnd(s *facts.Session, call facts.Operation, key *facts.KeyInterval) string {
	end := key.End
	client := facts.LinkClient(end.Life.Sender)
	switch end.Life.Kind {
	case history.KeyDeleted:
	case history.KeyExpired:
		if end.T < key.ExpiresAt()-tick {
			return "the key expired early"
		}
		return "the key had expired"
	case history.KeyFlushed:
		return "the key was flushed with all others"
	case history.KeyEvicted:
		return "the key was evicted"
	case history.KeyLost, history.KeyReverted:
		return "the key was lost in a " + cmp.Or(end.Life.Replacement, history.Restart)
	default:
		return facts.Issuer(end) + " overwrote the key"
	}
	if client != s.Client() {
		return facts.Issuer(end) + " deleted the key"
	}
	for x := range s.Actions() {
		switch {
		case end.SentAt < x.Call.T || end.SentAt > x.ReturnedAt() || end.SentAt == 0:
		case x.Call.Op == history.OpRelease:
			return "its own release, called at " + facts.Seconds(x.Call.T) + ", deleted the key"
		case x == call:
			return "the extension itself deleted the key"
		case x.Call.Op == history.OpExtend:
			return "its extension, called at " + facts.Seconds(x.Call.T) + ", deleted the key"
		}
	}
	return "a late release of " + client + ", sent at " + facts.Seconds(end.SentAt) + ", deleted the key"
}

// The planned steps that caused a report. An unplanned fault has no step. It is listed as
// history.UnplannedStep.

// mayBeActive reports whether a fault may have been active during a span.
func mayBeActive(f *facts.Fault, from, to int64) bool {
	return f.Begin != nil && f.FirstEvent().T <= to && (f.End == nil || f.End.T >= from)
}

// stepsWhere returns the steps of the matching faults in ascending order.
func stepsWhere(r *facts.Facts, match func(*facts.Fault) bool) (all []int) {
	for _, f := range r.Faults {
		if f.Step != 0 && match(f) {
			all = append(all, f.Step)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// clockSteps returns the steps that made the clock of a node or client wrong, or corrected it,
// during a span. A jump sets a clock when it begins and sets it back when it ends.
func clockSteps(r *facts.Facts, name string, from, to int64) []int {
	return stepsWhere(r, func(f *facts.Fault) bool {
		if f.Target != name || !f.ChangesClock() || !mayBeActive(f, from, to) {
			return false
		}
		startsWithin, endsWithin := f.Begin.T >= from, f.End != nil && f.End.T <= to
		return f.Kind != facts.ClockJump || startsWithin || endsWithin
	})
}

// stepsHitting returns the steps that delayed a client or its messages during a span.
func stepsHitting(r *facts.Facts, client string, from, to int64) []int {
	return stepsWhere(r, func(f *facts.Fault) bool { return f.Hits(client) && mayBeActive(f, from, to) })
}

// stepsDelaying returns the steps that hit a link, or either end of it, while a command was in
// flight.
func stepsDelaying(r *facts.Facts, link string, e *history.Event) []int {
	return stepsWhere(r, func(f *facts.Fault) bool {
		return (f.Target == link || f.Target == facts.LinkClient(link) || f.Target == e.Process) && e.SentAt != 0 && mayBeActive(f, e.SentAt, e.T)
	})
}

// outageBefore returns the fault that made a node lose a key: the last fault of a matching kind
// that had begun when the node reported the loss.
func outageBefore(r *facts.Facts, node string, e *history.Event) *facts.Fault {
	var outage *facts.Fault
	for _, f := range r.Faults {
		switch f.Kind {
		case facts.Kill, facts.Shutdown, facts.PowerLoss, facts.Failover:
			if f.Target == node && f.Begin != nil && f.FirstEvent().T <= e.T && (f.Kind == facts.Failover) == (e.Life.Replacement == history.Failover) {
				outage = f
			}
		}
	}
	return outage
}
