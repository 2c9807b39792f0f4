package checker

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// In contestedLock, c1 and c2 make attempts on a free lock without getting a majority.
const contestedLock = `params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10 mayBeIdle
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
0.010  c2 invoke acquire session=c2/1
`

// In firstRoundLeftovers, an acquire uses one token for all rounds, and its first round left its
// keys behind.
const firstRoundLeftovers = `
0.500  c2-n2,n3 ok set token=B
0.499  n2,n3 life set value=B by=c2
0.500  c2-n1 fail set token=B
1      c2-n1 ok set token=B
0.999  n1 life set value=B by=c2
1.009  n1 life deleted old=B by=c2
1      c2-n2,n3 fail set token=B
1.010  c2-n1 ok release token=B
2      c2-n1 ok set token=B
1.999  n1 life set value=B by=c2
2.009  n1 life deleted old=B by=c2
2      c2-n2,n3 fail set token=B
2.010  c2-n1 ok release token=B
`

// The cause of unavailability is what blocked most attempts, according to the nodes.
func TestUnavailabilityCause(t *testing.T) {
	for name, row := range map[string]struct{ wire, want, end string }{
		"no record of the nodes": {"", verdict.Unexplained, ""},
		"no reports from the nodes": {`
1      c1-n1 ok set token=A1
1.001  c1-n2,n3 fail set token=A1
`, verdict.Unexplained, ""},
		"keys of a finished attempt": {`
0.500  c2-n2,n3 ok set token=Z
0.499  n2,n3 life set value=Z by=c2
0.900  c2-n1,n2,n3 fail set token=Y
1      c1-n1 ok set token=A1
0.999  n1 life set value=A1 by=c1
1.001  c1-n2,n3 fail set token=A1
1.009  n1 life deleted old=A1 by=c1
1.010  c1-n1 ok release token=A1
`, verdict.LeftKeys, ""},
		"its own keys with the same token": {firstRoundLeftovers, verdict.LeftKeys, ""},
		"a node that is down, and a key left on another": {`
0.5    nemesis begin kill node=n3
0.999  n2 life set value=Z by=c2
1      c1-n1 ok set token=A1
1.001  c1-n2 fail set token=A1
0.999  n1 life set value=A1 by=c1
1.009  n1 life deleted old=A1 by=c1
1.010  c1-n1 ok release token=A1
8      nemesis end kill node=n3
`, verdict.NoMajority, ""},
		"one vote each": {`
0.999  n1 life set value=A1 by=c1
0.999  n2 life set value=B1 by=c2
1.009  n1 life deleted old=A1 by=c1
1.009  n2 life deleted old=B1 by=c2
1      c1-n1 ok set token=A1
1      c2-n2 ok set token=B1
1.001  c1-n2,n3 fail set token=A1
1.001  c2-n1,n3 fail set token=B1
1.010  c1-n1 ok release token=A1
1.010  c2-n2 ok release token=B1
`, verdict.SplitVote, "2.9"},
		"refused without a key": {`
0.999  n1 life set value=A1 by=c1
1.009  n1 life deleted old=A1 by=c1
1.999  n1 life set value=B1 by=c2
2.009  n1 life deleted old=B1 by=c2
1      c1-n1 ok set token=A1
1.001  c1-n2,n3 fail set token=A1
1.010  c1-n1 ok release token=A1
2      c2-n1 ok set token=B1
2.001  c2-n2,n3 fail set token=B1
2.010  c2-n1 ok release token=B1
`, verdict.TurnedAway, "2.9"},
	} {
		checkUnavailability(t, name, row.wire, row.want, cmp.Or(row.end, "9"))
	}
}

// checkUnavailability checks the cause if contestedLock is not granted until end.
func checkUnavailability(t *testing.T, name, wire, want, end string) {
	t.Helper()
	v := Check(parseHistory(t, contestedLock+wire+strings.ReplaceAll("END c1 fail acquire session=c1/1\nEND c2 fail acquire session=c2/1\nEND c1 end client\nEND c2 end client\n9.1 harness end run cause=completed", "END", end)))
	for _, res := range v.Results {
		if res.Property == verdict.FaultTolerance && (res.Outcome != verdict.Violated || res.Cause != want) {
			t.Errorf("%s: %s (%s), want violated (%s): %s", name, res.Outcome, res.Cause, want, res.Because)
		}
		if want == verdict.WaitedLong && !strings.HasSuffix(res.Because, "gave no answer") && res.Property == verdict.FaultTolerance {
			t.Errorf("%s: the reason is not a missing answer: %s", name, res.Because)
		}
	}
}

// If it is known how long a long attempt lasted, its cause is the nodes that did not answer.
func TestUnavailabilityCauseOfLongAttempts(t *testing.T) {
	for name, row := range map[string]struct{ wire, want, end string }{
		"an attempt that keeps waiting for nodes that do not answer": {`
1      c1-n1 ok set token=A1 sent=0.999 applied=0.9995 answered=1
0.9995 n1 life set value=A1 by=c1
1      c1-n2 info set token=A1 sent=0.999 applied=8.5 answered=0
1      c1-n3 info set token=A1 sent=0.999 applied=8.5 answered=0
7.010  c1-n1 ok release token=A1 sent=7.009 applied=7.0095 answered=7.010
7.0095 n1 life deleted old=A1 by=c1
`, verdict.WaitedLong, ""},
		"an attempt that waits for them only during its release": {`
1      c1-n1 ok set token=A1
0.999  n1 life set value=A1 by=c1
1      c1-n2,n3 fail set token=A1
1.010  c1-n1 ok release token=A1
1.009  n1 life deleted old=A1 by=c1
1      c1-n2,n3 info release token=A1 sent=1.008 applied=8.5 answered=0
`, verdict.WaitedLong, ""},
		"an attempt with lost requests and no release before the next attempt": {`
1      c1-n1,n2,n3 info set token=A1 sent=0.998 applied=8.5 answered=0
7.500  c1-n1 ok set token=A2
7.499 n1 life set value=A2 by=c1
7.509 n1 life deleted old=A2 by=c1
7.500  c1-n2,n3 fail set token=A2
7.510  c1-n1 ok release token=A2
`, verdict.WaitedLong, ""},
		"several such attempts in quick succession": {`
1.300  c2-n1,n2,n3 info set token=B1 sent=1.298 applied=8.5 answered=0
1      c1-n1,n2,n3 info set token=A1 sent=0.998 applied=8.5 answered=0
1.200  c1-n1,n2,n3 info set token=A2 sent=1.198 applied=8.5 answered=0
1.400  c1-n1 ok set token=A3
1.399 n1 life set value=A3 by=c1
1.409 n1 life deleted old=A3 by=c1
1.400  c1-n2,n3 fail set token=A3
1.410  c1-n1 ok release token=A3
`, verdict.TooFewVotes, "2.9"},
		"the same, released after the node timeout": {`
1.300  c2-n1 ok set token=B1
1.299  n1 life set value=B1 by=c2
1.300  c2-n2,n3 info set token=B1 sent=1.298 applied=8.5 answered=0
1.410  c2-n1 ok release token=B1
1.409  n1 life deleted old=B1 by=c2
1      c1-n1 ok set token=A1
0.999  n1 life set value=A1 by=c1
1      c1-n2,n3 info set token=A1 sent=0.998 applied=8.5 answered=0
1.110  c1-n1 ok release token=A1
1.109  n1 life deleted old=A1 by=c1
`, verdict.TooFewVotes, "2.9"},
	} {
		checkUnavailability(t, name, row.wire, row.want, cmp.Or(row.end, "9"))
	}
}

// A key left behind by its holder's release is reported as such, even if it prevents a majority
// only together with a node that is down.
func TestUnavailabilityCauseAfterRelease(t *testing.T) {
	unansweredRelease := change{"c1 ok release", "c1 ok release", "c1 info release"}
	for name, changes := range map[string][]change{
		"an answered release": nil, "a release without an answer": {unansweredRelease}, "a release in progress": {withoutLines("c1 ok release")},
	} {
		got := judge(newRecord(parseHistory(t, historyVariant(t, "release-to-a-quorum", changes))), verdict.FaultTolerance)
		if got.Cause != verdict.LeftKeys || !strings.HasSuffix(got.Because, "could not contact n1, and found keys on n3 that c1's release at 1 s had left there") {
			t.Errorf("%s: %s: %s", name, got.Cause, got.Because)
		}
	}
}

// A key that was set after its client got the lock with another token belongs to no hold. An
// abandoned attempt left it behind.
func TestUnavailabilityCauseAfterStraySet(t *testing.T) {
	const straySet = `params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10 mayBeIdle
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
0.050  c1-n1,n2 info set token=A sent=0.011 applied=50 answered=0
0.300  c1-n1,n2,n3 ok set token=B
0.299  n1,n2,n3 life set value=B by=c1
0.310  c1 ok acquire session=c1/1 token=B until=10
0.320  c1 invoke release session=c1/1
0.325  c1-n1,n2,n3 ok release token=B
0.324  n1,n2,n3 life deleted old=B by=c1
0.330  c1 ok release session=c1/1
0.400  c1-n1,n2 ok set token=A
0.399  n1,n2 life set value=A by=c1
1      c2 invoke acquire session=c2/1
1.050  c2-n3 ok set token=C
1.049  n3 life set value=C by=c2
1.050  c2-n1,n2 fail set token=C
1.060  c2-n3 ok release token=C
1.059  n3 life deleted old=C by=c2
9      c2 fail acquire session=c2/1
9      c1 end client
9      c2 end client
9.1    harness end run cause=completed`
	got := judge(newRecord(parseHistory(t, straySet)), verdict.FaultTolerance)
	if got.Cause != verdict.LeftKeys || !strings.HasSuffix(got.Because, "found keys on n1 and n2 that c1's attempts had left there") {
		t.Errorf("%s: %s", got.Cause, got.Because)
	}
}

// In singleNodeLock, a lock on one node has a TTL of 2 s, and its holder c1 dies. c2 keeps trying
// until 9 s.
const singleNodeLock = `params clients=c1,c2 nodes=n1 quorum=1 ttl=2s nodeTimeout=50ms retryMax=100ms slack=100ms rate=0.01 rounds=10 mayBeIdle
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
0.012  c1-n1 ok set token=A
0.011  n1 life set value=A by=c1 TTL
0.013  c1 ok acquire session=c1/1 token=A until=1.9
LOSS
0.020  c2 invoke acquire session=c2/1
TRIES
9      c2 fail acquire session=c2/1
9      c2 end client
9.1    harness end run cause=completed`

// A key that exists beyond its TTL is reported as the cause, however it was left behind. A key that
// its owner should have deleted within its TTL counts as left behind.
func TestUnavailabilityCauseOutlivedTTL(t *testing.T) {
	var attempts []string
	for i := range 80 {
		at := 0.1 + float64(i)/10
		attempts = append(attempts, fmt.Sprintf("%.3f c2-n1 fail set token=B%d", at, i))
	}
	const kill = "0.015 nemesis begin kill node=c1 step=1"
	for name, row := range map[string]struct{ ttl, loss, property, cause, text string }{
		"of a dead holder": {"ttl=20", kill, verdict.DeadlockFreedom, verdict.OutlivedTTL, "found keys on n1 that existed after their TTL of 2 s: c1 gave them 20 s to live"},
		"of a dead holder, while nobody holds the lock": {"ttl=20", kill, verdict.FaultTolerance, verdict.OutlivedTTL, "c1 gave them 20 s to live"},
		"of a holder that never releases":               {"ttl=20", "", verdict.FaultTolerance, verdict.OutlivedTTL, "c1 gave them 20 s to live"},
		"of a holder that is cut off": {"ttl=20", "0.015 nemesis begin cut node=c1-n1 step=1\n0.016 c1 invoke release session=c1/1\n0.070 c1 info release session=c1/1",
			verdict.DeadlockFreedom, verdict.OutlivedTTL, "c1 gave them 20 s to live"},
		"of a holder that is paused": {"ttl=20", "0.015 nemesis begin pause node=c1 step=1", verdict.DeadlockFreedom, verdict.OutlivedTTL, "c1 gave them 20 s to live"},
		"without an expiry, by an extension": {"ttl=2", "0.5 n1 life expiry value=A by=c1 command=persist\n" + "0.6 nemesis begin kill node=c1 step=1",
			verdict.DeadlockFreedom, verdict.OutlivedTTL, "c1 gave them no expiry"},
		"that others extend": {"ttl=2", kill + "\n1.9 n1 life expiry value=A by=c2 ttl=2\n3.5 n1 life expiry value=A by=c2 ttl=2\n5 n1 life expiry value=A by=c2 ttl=20",
			verdict.DeadlockFreedom, verdict.OutlivedTTL, "c1's were extended by c2"},
		"that its own client extends after giving up the lock": {"ttl=2", "0.016 c1 invoke release session=c1/1\n0.3 c1 info release session=c1/1\n1.9 n1 life expiry value=A by=c1 ttl=2\n3.5 n1 life expiry value=A by=c1 ttl=2\n5 n1 life expiry value=A by=c1 ttl=20",
			verdict.FaultTolerance, verdict.LeftKeys, "found keys on n1 that c1's release at 0.016 s had left there"},
		"of a holder whose release should have deleted it": {"ttl=20", "0.016 c1 invoke release session=c1/1\n0.018 c1 ok release session=c1/1",
			verdict.FaultTolerance, verdict.OutlivedTTL, "c1 gave them 20 s to live"},
	} {
		loss := row.loss
		h := parseHistory(t, strings.NewReplacer("TTL\n", row.ttl+"\n", "LOSS", loss, "TRIES", strings.Join(attempts, "\n")).Replace(singleNodeLock))
		for i := range h.Events {
			if l := h.Events[i].Life; l != nil && l.Command == "persist" {
				l.Expiry = 0
			}
		}
		got := judge(newRecord(h), row.property)
		if got.Cause != row.cause || !strings.HasSuffix(got.Because, row.text) {
			t.Errorf("%s: %s (%s): %s", name, got.Outcome, got.Cause, got.Because)
		}
	}
}

// A lock that pauses between attempts waited too long if it retries before the limit, or if it
// paused equally long before. A lock that has never paused and sends no more requests hangs, even
// if it returns because its client is stopped.
func TestUnavailabilityCauseOfPauses(t *testing.T) {
	const freeLock = `params clients=c1 nodes=n1 quorum=1 ttl=2s nodeTimeout=50ms retryMax=100ms slack=100ms rate=0.01 rounds=10 limit=20s mayBeIdle life
0      harness begin run
0.001  c1 begin client
0.010  c1 invoke acquire session=c1/1
EVENTS
20.1   harness end run cause=completed`
	success := "%s c1-n1 ok set token=Z\n%[1]s n1 life set value=Z by=c1\n%[1]s c1 ok acquire session=c1/1 token=Z until=19.9\n19.95 c1 end client"
	stoppedClient := "20 c1 fail acquire session=c1/1 cause=context canceled\n20 c1 end client"
	attempts := func(at ...string) (all string) {
		for _, t := range at {
			all += t + " c1-n1 fail set token=A cause=no answer answered=0\n"
		}
		return all
	}
	for name, row := range map[string]struct{ events, cause, text string }{
		"it retries after 8 s": {attempts("1") + fmt.Sprintf(success, "9"), verdict.WaitedLong, "contacted no node from 0.998 s to 9 s, but the longest retry delay is 0.1 s"},
		"an answer is late, and it retries long after that": {"3 c1-n1 ok set token=A sent=1 applied=2.9\n2.9 n1 life set value=A by=c1\n2.91 n1 life deleted old=A by=c1\n3.01 c1-n1 ok release token=A sent=1.05 applied=2.91\n" +
			fmt.Sprintf(success, "9"), verdict.WaitedLong, "c1's attempt at 1 s took 7.998 s, and contacted no node for the lock from 3.01 s to 8.998 s"},
		"each pause is as long, to the limit":          {attempts("1", "8") + stoppedClient, verdict.WaitedLong, "but the longest retry delay is 0.1 s"},
		"each pause is twice as long, to the limit":    {attempts("0.9", "3.9", "9.9") + stoppedClient, verdict.WaitedLong, "but the longest retry delay is 0.1 s"},
		"it tries once and returns when it is stopped": {attempts("1") + stoppedClient, verdict.Hung, "c1's acquire, called at 0.01 s, contacted no node after 0.998 s"},
		"it tries once and never returns":              {attempts("1"), verdict.Hung, "contacted no node after 0.998 s"},
		"it never tries and never returns":             {"", verdict.Unexplained, "no attempt was recorded on the links"},
	} {
		got := judge(newRecord(parseHistory(t, strings.Replace(freeLock, "EVENTS", row.events, 1))), verdict.FaultTolerance)
		if got.Cause != row.cause || !strings.HasSuffix(got.Because, row.text) {
			t.Errorf("%s: %s (%s): %s", name, got.Outcome, got.Cause, got.Because)
		}
	}
}

// An attempt had too few votes, or its vote was split, only if the nodes' answers show it.
func TestUnavailabilityCauseByVotes(t *testing.T) {
	const fiveNodes = `params clients=c1,c2,c3 nodes=n1,n2,n3,n4,n5 quorum=3 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10 mayBeIdle life
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.001  c3 begin client
0.010  c1 invoke acquire session=c1/1
EVENTS
2.9    c1 fail acquire session=c1/1
3      harness end run cause=completed`
	keyEvents := func(nodes, value, client string) string {
		return "1.000 " + nodes + " life set value=" + value + " by=" + client + "\n1.100 " + nodes + " life deleted old=" + value + " by=" + client + "\n"
	}
	var atOnce string
	for i := range 29 {
		at := 0.05 + float64(i)/10
		atOnce += fmt.Sprintf("%.2f c1 invoke acquire session=c1/%d\n%[1]g c1 fail acquire session=c1/%[2]d\n", at, i+2)
	}
	rivals := "0.010 c2 invoke acquire session=c2/1\n0.010 c3 invoke acquire session=c3/1\n" + keyEvents("n2,n3", "B", "c2") + keyEvents("n4,n5", "C", "c3") +
		"1.001 c2-n2,n3 ok set token=B\n1.001 c3-n4,n5 ok set token=C\n1.05 c2-n1,n4,n5 fail set token=B\n1.05 c3-n1,n2,n3 fail set token=C\n"
	for name, row := range map[string]struct{ events, cause, text, last string }{
		"requests to two of five nodes": {keyEvents("n1,n2", "A", "c1") + "1.001 c1-n1,n2 ok set token=A\n", verdict.TooFewVotes, "had 2 of the 3 votes it needed; n1 and n2 voted for it; it did not contact n3, n4 and n5", ""},
		"three votes that it does not use": {keyEvents("n1,n2,n3", "A", "c1") + "1.001 c1-n1,n2,n3 ok set token=A\n1.001 c1-n4,n5 fail set token=A cause=LOADING\n",
			verdict.TooFewVotes, "had the votes of n1, n2 and n3, which are a quorum, but did not take the lock", ""},
		"three nodes answer with errors": {keyEvents("n1,n2", "A", "c1") + "1.001 c1-n1,n2 ok set token=A\n1.001 c1-n3,n4,n5 fail set token=A cause=LOADING\n",
			verdict.TooFewVotes, "had 2 of the 3 votes it needed; n1 and n2 voted for it; n3, n4 and n5 answered with an error", ""},
		"three refuse without a key": {keyEvents("n1,n2", "A", "c1") + "1.001 c1-n1,n2 ok set token=A\n1.001 c1-n3,n4,n5 fail set token=A\n", verdict.TurnedAway, "was refused by 3 nodes that had no key", ""},
		"two others have two nodes each": {rivals + keyEvents("n1", "A", "c1") + "1.02 c1-n1 ok set token=A\n1.05 c1-n2,n3,n4,n5 fail set token=A\n",
			verdict.SplitVote, "found keys of other clients' attempts on n4 and n5", ""},
		"another has one node, and two do not answer": {"0.010 c2 invoke acquire session=c2/1\n" + keyEvents("n3", "B", "c2") + keyEvents("n1,n2", "A", "c1") + "1.001 c2-n3 ok set token=B\n" +
			"1.02 c1-n1,n2 ok set token=A\n1.05 c1-n3 fail set token=A\n1.05 c1-n4,n5 info set token=A answered=0\n1.15 c1-n1,n2 ok release token=A\n", verdict.SplitVote, "found keys of other clients' attempts on n3", ""},
		"others have two nodes each, and it is released before the refusals arrive": {"0.010 c2 invoke acquire session=c2/1\n0.010 c3 invoke acquire session=c3/1\n" +
			keyEvents("n2,n3", "B", "c2") + keyEvents("n4,n5", "C", "c3") + keyEvents("n1", "A", "c1") + "1.001 c2-n2,n3 ok set token=B\n1.001 c3-n4,n5 ok set token=C\n" +
			"1.02 c1-n1 ok set token=A sent=0.97\n1.06 c1-n2,n3,n4,n5 fail set token=A sent=0.97\n1.06 c1-n1 ok release token=A sent=1.05",
			verdict.TooFewVotes, "c1's attempt at 0.97 s had 1 of the 3 votes it needed; n1 voted for it; n2, n3, n4 and n5 had not answered in time, and the attempt was over by 1.05 s", ""},
		"two nodes are down, and two have left keys": {"0.010 c2 invoke acquire session=c2/1\n0.2 c2-n1,n2,n4,n5 ok set token=B\n0.199 n1,n2,n4,n5 life set value=B by=c2\n" +
			"0.300 c2 fail acquire session=c2/1\n0.4 nemesis begin kill node=n1\n0.4 nemesis begin kill node=n2\n" + keyEvents("n3", "A", "c1") + "1.001 c1-n3 ok set token=A\n1.05 c1-n4,n5 fail set token=A\n",
			verdict.LeftKeys, "could not contact n1 and n2, and found keys on n4 and n5 that c2's attempts had left there", ""},
		"acquires return errors at once": {"0.010 c1 fail acquire session=c1/1\n" + atOnce, verdict.GaveUp, "c1's acquire at 0.01 s returned an error at 0.01 s and contacted no node", ""},
		"acquires return errors": {"1 c1 fail acquire session=c1/1\n1.05 c1 invoke acquire session=c1/2\n1.1 c1 fail acquire session=c1/2\n1.15 c1 invoke acquire session=c1/3\n",
			verdict.GaveUp, "c1's acquire at 0.01 s returned an error at 1 s and contacted no node", "2.9    c1 fail acquire session=c1/3\n"},
	} {
		text := strings.Replace(fiveNodes, "EVENTS", row.events, 1)
		if row.cause == verdict.GaveUp { // in the first such row, no acquire is in progress any more
			text = strings.Replace(text, "2.9    c1 fail acquire session=c1/1\n", row.last, 1)
		}
		got := judge(newRecord(parseHistory(t, text)), verdict.FaultTolerance)
		if got.Cause != row.cause || !strings.HasSuffix(got.Because, row.text) {
			t.Errorf("%s: %s (%s): %s", name, got.Outcome, got.Cause, got.Because)
		}
	}
}

// If an attempt loses to one with a quorum, the cause is why the other one failed. A vote cannot be
// split on a single node.
func TestUnavailabilityCauseWithQuorum(t *testing.T) {
	const waitingClients = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=50ms retryMax=100ms slack=100ms rate=0.01 rounds=10 mayBeIdle
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
0.012  c1-n1 ok set token=A sent=0.010 applied=0.011 answered=7
0.011  n1 life set value=A by=c1
0.020  c2 invoke acquire session=c2/1
TRIES
7.005  n1 life deleted old=A by=c1 sent=7.004
7.006  c1-n1 ok release token=A sent=7.004
7.010  c1 fail acquire session=c1/1
7.010  c2 fail acquire session=c2/1
7.1    harness end run cause=completed`
	var attempts []string
	for i := range 60 {
		attempts = append(attempts, fmt.Sprintf("%.3f c2-n1 fail set token=B%d", 0.1+float64(i)/10, i))
	}
	got := judge(newRecord(parseHistory(t, strings.Replace(waitingClients, "TRIES", strings.Join(attempts, "\n"), 1))), verdict.FaultTolerance)
	if got.Cause != verdict.WaitedLong || !strings.HasSuffix(got.Because, "c1's attempt at 0.01 s took 6.994 s, and n1 did not answer until 7 s") {
		t.Errorf("%s (%s): %s", got.Outcome, got.Cause, got.Because)
	}
}
