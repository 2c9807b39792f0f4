package checker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

var returnRows = []struct {
	name, history string
	outcome       verdict.Outcome
	occasions     int
	incidents     int
	because       string
}{
	{"time left", "1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1 until=2.000001", verdict.Holds, 1, 0, "(1 grant)"},
	{"time left, and then none left", "1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1 until=2\n3 c1 invoke acquire session=c1/2\n4 c1 ok acquire session=c1/2 until=9",
		verdict.Holds, 1, 0, "(1 grant); 1 acquire returned past the lock's deadline, but may"},
	{"no deadline", "1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1", verdict.NotExercised, 0, 0, "with a deadline"},
	{"no deadline, and lost", "1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1\n5 c1 info lost session=c1/1", verdict.NotExercised, 0, 0, "with a deadline"},
	{"no deadline, and lost at once", "1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1\n2 c1 info lost session=c1/1", verdict.NotExercised, 0, 0, "with a deadline"},
	{"time left, and lost at once", "1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1 until=9\n2 c1 info lost session=c1/1", verdict.Holds, 1, 0, "(1 grant)"},
	{"kept running, and lost at once", "1 c1 invoke acquire session=c1/1\n2.5 c1 ok acquire session=c1/1 until=2\n2.5 c1 info lost session=c1/1", verdict.Violated, 1, 1, "the lock's deadline had passed at 2 s"},
	{"not granted", "1 c1 invoke acquire session=c1/1\n2 c1 info acquire session=c1/1 until=1", verdict.NotExercised, 0, 0, "with a deadline"},
	{"none left", "1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1 until=2", verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline, but may have been stopped after looking at the clock"},
	{"late by less than scheduling may take", "1 c1 invoke acquire session=c1/1\n2.2 c1 ok acquire session=c1/1 until=2", verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"kept running", "1 c1 invoke acquire session=c1/1\n2.5 c1 ok acquire session=c1/1 until=2", verdict.Violated, 1, 1,
		"c1's acquire of lock-1 returned at 2.5 s, but the lock's deadline had passed at 2 s; the client ran for 0.5 s after that"},
	{"the worse of two", "1 c1 invoke acquire session=c1/1\n2.3 c1 ok acquire session=c1/1 until=1.9\n3 c1 invoke acquire session=c1/2\n4 c1 ok acquire session=c1/2 until=3.5",
		verdict.Violated, 2, 2, "returned at 4 s, but the lock's deadline had passed at 3.5 s"},
	{"past its deadline when it was called", "3 c1 invoke acquire session=c1/1\n3.1 c1 ok acquire session=c1/1 until=2", verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"kept running after a stop", "1 c1 invoke acquire session=c1/1\n2 nemesis begin pause node=c1\n5 nemesis end pause node=c1\n6 c1 ok acquire session=c1/1 until=4",
		verdict.Violated, 1, 1, "; c1 had been paused at 2 s; the client ran for 1 s after that"},
	{"stopped before", "0.1 nemesis begin pause node=c1\n0.2 nemesis end pause node=c1\n1 c1 invoke acquire session=c1/1\n6 c1 ok acquire session=c1/1 until=4",
		verdict.Violated, 1, 1, "at 4 s; the client ran"},
	{"stopped until it returned", "1 c1 invoke acquire session=c1/1\n2 nemesis begin pause node=c1\n5.9 nemesis end pause node=c1\n6 c1 ok acquire session=c1/1 until=4",
		verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"about to be stopped", "1 c1 invoke acquire session=c1/1\n4.1 nemesis invoke pause node=c1\n5 nemesis begin pause node=c1\n5.9 nemesis end pause node=c1\n6 c1 ok acquire session=c1/1 until=4",
		verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"another process is stopped", "1 c1 invoke acquire session=c1/1\n2 nemesis begin pause node=n1\n5.9 nemesis end pause node=n1\n6 c1 ok acquire session=c1/1 until=4",
		verdict.Violated, 1, 1, "the client ran for 2 s after that"},
	{"the host stalled", "1 c1 invoke acquire session=c1/1\n4.1 nemesis begin stall node=machine\n5.95 nemesis end stall node=machine\n6 c1 ok acquire session=c1/1 until=4",
		verdict.Undecided, 0, 0, "1 acquire returned past the lock's deadline; the host stalled, which may be why"},
	{"a vote while it is stopped", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n2 nemesis begin pause node=c1\n3 c1-n2 ok set token=A\n5.9 nemesis end pause node=c1\n6 c1 ok acquire session=c1/1 token=A until=4",
		verdict.Violated, 1, 1, "; the vote of n2, which completed its quorum, cannot have arrived before 5.9 s"},
	{"a surplus vote while it is stopped", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n1.6 c1-n2 ok set token=A\n2 nemesis begin pause node=c1\n3 c1-n3 ok set token=A\n5.9 nemesis end pause node=c1\n6 c1 ok acquire session=c1/1 token=A until=4",
		verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"a vote as it is about to be stopped", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n2 nemesis invoke pause node=c1\n2.5 c1-n2 ok set token=A\n3 nemesis begin pause node=c1\n5.9 nemesis end pause node=c1\n6 c1 ok acquire session=c1/1 token=A until=4",
		verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"a vote after the deadline", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n4.01 c1-n2 ok set token=A\n4.1 c1 ok acquire session=c1/1 token=A until=4",
		verdict.Violated, 1, 1, "before 4.01 s"},
	{"a vote at the deadline, as it returns", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n4 c1-n2 ok set token=A\n4 c1 ok acquire session=c1/1 token=A until=4",
		verdict.Violated, 1, 1, "before 4 s"},
	{"one after and one at the deadline", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n4.01 c1-n2 ok set token=A\n4.1 c1 ok acquire session=c1/1 token=A until=4\n" +
		"5 c1 invoke acquire session=c1/2\n5.5 c1-n1 ok set token=B\n6 c1-n2 ok set token=B\n6 c1 ok acquire session=c1/2 token=B until=6",
		verdict.Violated, 2, 2, "before 4.01 s"},
	{"a vote after the deadline by the timestamp error", "params stampError=10ms\n1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n4.01 c1-n2 ok set token=A\n4.1 c1 ok acquire session=c1/1 token=A until=4",
		verdict.Violated, 1, 1, "before 4.01 s"},
	{"a vote after the deadline by less than the timestamp error", "params stampError=11ms\n1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n4.01 c1-n2 ok set token=A\n4.1 c1 ok acquire session=c1/1 token=A until=4",
		verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"an answer that is no vote, and a vote after the deadline", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n1.6 c1-n2 info set token=A\n4.01 c1-n3 ok set token=A\n4.1 c1 ok acquire session=c1/1 token=A until=4",
		verdict.Violated, 1, 1, "the vote of n3"},
	{"a refusal after the deadline", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n1.6 c1-n2 ok set token=A\n4.01 c1-n3 fail set token=A\n4.1 c1 ok acquire session=c1/1 token=A until=4",
		verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"too few votes until it returned", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n4.2 c1-n2 ok set token=A\n4.1 c1 ok acquire session=c1/1 token=A until=4",
		verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"a vote at the instant at which it is stopped", "1 c1 invoke acquire session=c1/1\n1.5 c1-n1 ok set token=A\n2 c1-n2 ok set token=A\n2 nemesis begin pause node=c1\n5.9 nemesis end pause node=c1\n6 c1 ok acquire session=c1/1 token=A until=4",
		verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
	{"too few votes", "1 c1 invoke acquire session=c1/1\n4.01 c1-n1 ok set token=A\n4.1 c1 ok acquire session=c1/1 token=A until=4",
		verdict.NotExercised, 0, 0, "1 acquire returned past the lock's deadline"},
}

func TestValidOnReturn(t *testing.T) {
	for _, row := range returnRows {
		t.Run(row.name, func(t *testing.T) {
			h := parseHistory(t, "params clients=c1 nodes=n1,n2,n3 quorum=2 slack=250ms\n"+row.history+"\n12 harness end run")
			if n := len(Incidents(h, verdict.ValidOnReturn, 100)); n != row.incidents {
				t.Errorf("%d incidents, want %d", n, row.incidents)
			}
			res := judge(newRecord(h), verdict.ValidOnReturn)
			if res.Outcome != row.outcome || res.Occasions != row.occasions || res.Incidents != row.incidents || !strings.Contains(res.Because, row.because) ||
				row.name == "stopped before" && strings.Contains(res.Because, "paused") {
				t.Errorf("got %s, %d of %d: %s\nwant %s, %d of %d: %s", res.Outcome, res.Incidents, res.Occasions, res.Because,
					row.outcome, row.incidents, row.occasions, row.because)
			}
		})
	}
	res := judge(newRecord(parseHistory(t, "params clients=c1\n1 c1 invoke acquire session=c1/1\n6 c1 ok acquire session=c1/1 until=4\n12 harness end run")), verdict.ValidOnReturn)
	if res.Outcome != verdict.Undecided || !strings.Contains(res.Because, "slack") {
		t.Errorf("without a slack: %s: %s", res.Outcome, res.Because)
	}
}

// TestLateReturnsAgainstAnyLook compares random late returns with a search for an instant at which
// a correct lock can have looked at its clock for the last time. At such an instant, before the
// deadline, the lock has its quorum and is not stopped, and afterwards it does not run for longer
// than scheduling may take.
func TestLateReturnsAgainstAnyLook(t *testing.T) {
	rnd, numViolated := rand.New(rand.NewPCG(1, 2)), 0
	for range 4000 {
		returnTime := int64(8 + rnd.IntN(12))
		deadline := 2 + rnd.Int64N(returnTime-1)
		b := &strings.Builder{}
		fmt.Fprintf(b, "params clients=c1 nodes=n1,n2,n3 quorum=2 slack=2s\n1 c1 invoke acquire session=c1/1\n")
		for n := 1; n <= 3; n++ {
			if rnd.IntN(5) > 0 {
				fmt.Fprintf(b, "%d.5 c1-n%d ok set token=A sent=1.1 applied=1.2\n", 1+rnd.IntN(int(returnTime)-1), n)
			}
		}
		for at := int64(1); at < returnTime-3 && rnd.IntN(3) > 0; {
			from := at + rnd.Int64N(4)
			begin := from + rnd.Int64N(2)
			if at = begin + 1 + rnd.Int64N(6); at > returnTime {
				break
			}
			fmt.Fprintf(b, "%d.1 nemesis invoke pause node=c1\n%d.2 nemesis begin pause node=c1\n%d.9 nemesis end pause node=c1\n", from, begin, at-1)
		}
		fmt.Fprintf(b, "%d c1 ok acquire session=c1/1 token=A until=%d\n30 harness end run\n", returnTime, deadline)
		h := parseHistory(t, b.String())
		want := deadline <= returnTime && !mayHaveLooked(h, deadline, returnTime)
		res := judge(newRecord(h), verdict.ValidOnReturn)
		if got := res.Outcome == verdict.Violated; got != want {
			t.Fatalf("%s: %s, want violated: %v\n%s", res.Outcome, res.Because, want, b)
		}
		if want {
			numViolated++
		}
	}
	if numViolated < 400 || numViolated > 3600 {
		t.Errorf("%d of 4000 histories are violated; the comparison is one-sided", numViolated)
	}
}

// mayHaveLooked tries every tenth of a second.
func mayHaveLooked(h *history.History, deadline, returnTime int64) bool {
	const beat, second = int64(1e8), int64(1e9)
	certainStops, possibleStops := map[int64]bool{}, map[int64]bool{}
	var stopped struct{ maybe, surely bool }
	votes, events := map[int64]int{}, h.Events
	for at := int64(0); at < returnTime*second; at += beat {
		for ; len(events) > 0 && events[0].T <= at; events = events[1:] {
			switch e := events[0]; {
			case e.Op == "pause":
				stopped.maybe, stopped.surely = e.Type != history.End, e.Type == history.Begin
			case e.Op == history.OpSet && e.AnsweredAt > 0:
				votes[e.AnsweredAt]++
			}
		}
		certainStops[at], possibleStops[at] = stopped.surely, stopped.maybe
	}
	for lookTime := int64(second); lookTime < deadline*second; lookTime += beat {
		numVotes := 0
		for at, n := range votes {
			if at <= lookTime {
				numVotes += n
			}
		}
		runTime := int64(0)
		for at := max(lookTime, deadline*second); at < returnTime*second; at += beat {
			if !possibleStops[at] {
				runTime += beat
			}
		}
		tooFew := len(votes) > 0 && sum(votes) >= 2 && numVotes < 2 // fewer recorded votes prove nothing
		if !certainStops[lookTime] && !tooFew && runTime <= 2*second {
			return true
		}
	}
	return false
}

func sum(votes map[int64]int) (n int) {
	for at := range votes {
		n += votes[at]
	}
	return n
}
