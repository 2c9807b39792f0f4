package checker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker/verdict"
	"lockpick/harness/history/facts"
)

// change is a difference between a variant and its history. In the lines that contain line, old is
// replaced. If old is "", replacement is inserted before these lines. If both are "", the lines are
// removed.
type change struct{ line, old, replacement string }

func insertFault(kind, node string, from, to float64) change {
	return change{"harness end run", "", fmt.Sprintf("%g nemesis begin %s node=%s\n%g nemesis end %s node=%s\n", from, kind, node, to, kind, node)}
}

func withoutLines(line string) change { return change{line: line} }

// setOnN3At moves the set on n3 to the instant at.
func setOnN3At(at string) []change {
	return []change{{"ok set token=A", "0.012  c1-n1,n2,n3", at + "1 c1-n3 ok set token=A sent=0.01 applied=" + at + "\n0.012 c1-n1,n2"},
		{"life set value=A", "0.011  n1,n2,n3", at + " n3 life set value=A by=c1 sent=0.01\n0.011 n1,n2"}}
}

var (
	laterSets = []change{{"ok set token=A", "0.012  c1-n1,n2,n3", "1.003 c1-n3 ok set token=A sent=0.99 applied=1.002\n0.012 c1-n1,n2"},
		{"life set value=A", "0.011  n1,n2,n3", "1.002 n3 life set value=A by=c1 sent=0.99\n0.011 n1,n2"}}
	releaseToOneNode = []change{{"release token=A", "c1-n1,n2,n3", "c1-n1"}, {"deleted old=A", "n1,n2,n3", "n1"}}

	withoutNodeReports = withoutLines(" life ")
	c2Attempt          = change{"0.020  c1-n1", "", "0.010 c2 begin client\n0.011 c2 invoke acquire session=c2/1\n"}
)

// historyVariants are histories from testdata with a few changes, and the resulting outcomes.
var historyVariants = []struct {
	story, name string
	changes     []change
	property    string
	want        verdict.Outcome
}{
	{"one-token-many-rounds", "unchanged", nil, verdict.DeadlockFreedom, verdict.NotExercised},
	{"one-token-many-rounds", "a majority is up", []change{withoutLines("kill node=n1")}, verdict.DeadlockFreedom, verdict.Violated},
	{"one-token-many-rounds", "no release between rounds", []change{withoutLines("10.502 "), withoutLines("3.003 "), withoutLines("0.103 ")}, verdict.DeadlockFreedom, verdict.NotExercised},

	{"release-unanswered", "unchanged", nil, verdict.FaultTolerance, verdict.Violated},
	{"release-unanswered", "without node facts", []change{withoutNodeReports}, verdict.FaultTolerance, verdict.Violated},
	{"release-unanswered", "the release has not returned", []change{withoutLines("c1 info release")}, verdict.FaultTolerance, verdict.Violated},
	{"release-unanswered", "the release is answered late", []change{{"c1 info release", "1.050  c1 info", "5.050  c1 ok"}}, verdict.FaultTolerance, verdict.Violated},
	{"release-unanswered", "the release is answered soon, no key is left, and no client gets the lock", []change{{"c1 info release", "c1 info", "c1 ok"}}, verdict.FaultTolerance, verdict.Violated},
	{"release-unanswered", "granted in time", []change{{"c2", "5.1", "3.9"}, {"life set value=B", "5.099", "3.899"}, {"value=B", "sent=5.098", "sent=3.898"}}, verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "two nodes executed it", []change{
		{"release token=A", "c1-n1,n2,n3", "c1-n1,n2"}, {"deleted old=A", "n1,n2,n3", "n1,n2"}, {"value=B", "n1,n2,n3", "n1,n2"}, {"token=B", "n1,n2,n3", "n1,n2"},
		{"old=B", "n1,n2,n3", "n1,n2"}}, verdict.FaultTolerance, verdict.Violated},
	{"release-unanswered", "one node executed it", []change{
		{"release token=A", "1.003  c1-n1,n2,n3", "1.003  c1-n2,n3 info release token=A applied=0 answered=0\n1.003 c1-n1"}, {"deleted old=A", "n1,n2,n3", "n1"}},
		verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "one node executed it, without node facts", []change{withoutNodeReports,
		{"release token=A", "1.003  c1-n1,n2,n3", "1.003  c1-n2,n3 info release token=A applied=0 answered=0\n1.003 c1-n1"}},
		verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "the release reached one node", releaseToOneNode, verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "the release reached one node, and another sets its key later", slices.Concat(laterSets, releaseToOneNode), verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "the same, without node facts", slices.Concat(laterSets, releaseToOneNode, []change{withoutNodeReports}), verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "the release reached no node, and facts of two nodes are missing", []change{withoutLines("release token=A"), withoutLines("deleted old=A"),
		{"life set value=A", "0.011  n1,n2,n3 life", "0.01 n2,n3 life gap lo=0.005 hi=0.02\n0.011 n1 life"}}, verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "the nodes refused it", []change{{"release token=A", "ok release token=A answered=0", "fail release token=A answered=0 cause=MISCONF"}, withoutLines("deleted old=A")},
		verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "the nodes refused it, without node facts", []change{withoutNodeReports,
		{"release token=A", "ok release token=A answered=0", "fail release token=A answered=0 cause=MISCONF"}}, verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "the nodes' actions are unknown", []change{{"deleted old=A", "deleted old=A", "gap lo=1 hi=3"},
		{"release token=A", "ok release token=A answered=0", "info release token=A applied=0 answered=0"}}, verdict.FaultTolerance, verdict.Holds},
	{"release-unanswered", "the other client is cut off", []change{insertFault(facts.Cut, "c2-n1", 1, 4), insertFault(facts.Cut, "c2-n2", 1, 4)}, verdict.FaultTolerance, verdict.Holds},

	{"release-to-a-quorum", "unchanged", nil, verdict.FaultTolerance, verdict.Violated},
	{"release-to-a-quorum", "the client learned the answer of one node only", []change{{"c1 ok release", "c1 ok release", "c1 info release"}}, verdict.FaultTolerance, verdict.Violated},
	{"release-to-a-quorum", "cut off from the third node", []change{insertFault(facts.Cut, "c1-n3", 0.9, 1.5)}, verdict.FaultTolerance, verdict.Holds},
	{"release-to-a-quorum", "cut off from the third node earlier", []change{insertFault(facts.Cut, "c1-n3", 0.1, 0.3)}, verdict.FaultTolerance, verdict.Violated},
	{"release-to-a-quorum", "cut off from the third node later", []change{insertFault(facts.Cut, "c1-n3", 1.2, 3)}, verdict.FaultTolerance, verdict.Violated},
	{"release-to-a-quorum", "cut off from another node", []change{insertFault(facts.Cut, "c1-n2", 0.9, 1.5)}, verdict.FaultTolerance, verdict.Violated},
	{"release-to-a-quorum", "the third node was down meanwhile", []change{insertFault(facts.Kill, "n3", 0.1, 0.2)}, verdict.FaultTolerance, verdict.Holds},
	{"release-to-a-quorum", "the third node was down, and answered again before the release", []change{insertFault(facts.Kill, "n3", 0.1, 0.2),
		{"c1 invoke release", "", "0.9 c1 invoke extend session=c1/1\n0.903 c1-n3 ok extend token=A\n0.904 c1 ok extend session=c1/1 until=9.9\n"}}, verdict.FaultTolerance, verdict.Violated},
	{"release-to-a-quorum", "the message was lost", []change{{"c1 ok release", "", "1.05 c1-n3 info release token=A sent=1.001 applied=0 answered=0\n"}}, verdict.FaultTolerance, verdict.Holds},
	{"release-to-a-quorum", "the third node set its key late", setOnN3At("0.501"), verdict.FaultTolerance, verdict.Violated},
	{"release-to-a-quorum", "the third node set its key when the release was called", setOnN3At("1.000"), verdict.FaultTolerance, verdict.Violated},
	{"release-to-a-quorum", "the third node set its key after the release", setOnN3At("1.101"), verdict.FaultTolerance, verdict.Holds},
	{"release-to-a-quorum", "no node dies, so two are enough", []change{withoutLines("kill"),
		{"c2-n2 ok set token=B0", "", "2.029 n1 life set value=B0 by=c2 sent=2.028\n2.030 c2-n1 ok set token=B0\n2.031 c2 ok acquire session=c2/1 token=B0 until=9\n"}, withoutLines("token=B "), withoutLines("value=B "), withoutLines("11.0")},
		verdict.FaultTolerance, verdict.Holds},

	{"acquire-hangs", "unchanged", nil, verdict.FaultTolerance, verdict.Violated},
	{"acquire-hangs", "within the bound", []change{{"", "5.0", "2.9"}}, verdict.FaultTolerance, verdict.Holds},
	{"acquire-hangs", "the acquire has not returned", []change{withoutLines("c1-n3"), withoutLines("n3 life"), withoutLines("c1 ok"), withoutLines("c1 invoke release"), withoutLines("6.00")}, verdict.FaultTolerance, verdict.Violated},
	{"acquire-hangs", "the acquire gives up", []change{withoutLines("c1-n3"), withoutLines("n3 life"), {"c1 ok acquire", "c1 ok acquire session=c1/1 token=A until=9.8", "c1 info acquire session=c1/1"}, withoutLines("release")},
		verdict.FaultTolerance, verdict.Violated},
	{"acquire-hangs", "the client is paused", []change{insertFault(facts.Pause, "c1", 1, 4.5)}, verdict.FaultTolerance, verdict.Holds},
	{"acquire-hangs", "the client is paused, and another tries", []change{{"params", "clients=c1", "clients=c1,c2"}, c2Attempt, insertFault(facts.Pause, "c1", 1, 4.5)}, verdict.FaultTolerance, verdict.Holds},
	{"acquire-hangs", "another client tries", []change{{"params", "clients=c1", "clients=c1,c2"}, c2Attempt, insertFault(facts.Cut, "c1-n3", 1, 4)}, verdict.FaultTolerance, verdict.Violated},
	{"acquire-hangs", "the client dies", []change{withoutLines("c1-n3"), withoutLines("n3 life"), withoutLines("c1 ok"), withoutLines("c1 invoke release"), withoutLines("6.00"),
		insertFault(facts.Kill, "c1", 2, 8)}, verdict.FaultTolerance, verdict.NotExercised},
	{"acquire-hangs", "no majority is left", []change{insertFault(facts.Kill, "n3", 0.03, 4.9)}, verdict.FaultTolerance, verdict.Holds},
	{"acquire-hangs", "the host stalls for as long as the acquire is late", []change{insertFault("stall", "machine", 1, 4.5)}, verdict.FaultTolerance, verdict.Undecided},
	{"acquire-hangs", "the host stalls for less time", []change{insertFault("stall", "machine", 1, 3)}, verdict.FaultTolerance, verdict.Violated},
}

// Small changes to a history from testdata may change the correct outcome.
func TestLivenessAgainstVariants(t *testing.T) {
	for _, row := range historyVariants {
		r := newRecord(parseHistory(t, historyVariant(t, row.story, row.changes)))
		if r.Defect != "" {
			t.Fatalf("%s, %s: %s", row.story, row.name, r.Defect)
		}
		if got := judge(r, row.property); got.Outcome != row.want {
			t.Errorf("%s, %s: %s, want %s: %s", row.story, row.name, got.Outcome, row.want, got.Because)
		}
	}
}

// Each client gives up before the bound of 3 s has passed.
func TestUnavailabilityAgainstBound(t *testing.T) {
	for _, row := range []struct {
		second, until float64
		want          verdict.Outcome
	}{
		{2.5, 4.5, verdict.Violated},
		{2.5, 3.9, verdict.Holds},
		{3.1, 5.5, verdict.Holds}, // for a moment, no client tried
	} {
		h := parseHistory(t, fmt.Sprintf(`params clients=c1,c2 nodes=n1 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms rounds=10
0   c1 begin client
0   c2 begin client
1   c1 invoke acquire session=c1/1
3   c1 fail acquire session=c1/1
%g  c2 invoke acquire session=c2/1
%g  c2 fail acquire session=c2/1
6   c1 invoke acquire session=c1/2
6.1 c1 ok acquire session=c1/2 until=15
8   c1 invoke release session=c1/2
8   c1 ok release session=c1/2
9   harness end run`, row.second, row.until))
		if got := judge(newRecord(h), verdict.FaultTolerance); got.Outcome != row.want {
			t.Errorf("from %g to %g: %s, want %s: %s", row.second, row.until, got.Outcome, row.want, got.Because)
		}
	}
}

// historyVariant returns a history from testdata with changes.
func historyVariant(t *testing.T, name string, changes []change) string {
	t.Helper()
	a, err := txtar.ParseFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(a.Files[0].Data), "\n")
	for _, c := range changes {
		found := false
		for i, line := range lines {
			switch {
			case !strings.Contains(line, c.line) || c.old != "" && !strings.Contains(line, c.old):
				continue
			case c.old == "" && c.replacement != "":
				lines[i] = c.replacement + line
			case c.replacement == "":
				lines[i] = ""
			default:
				lines[i] = strings.Replace(line, c.old, c.replacement, 1)
			}
			found = true
		}
		if !found {
			t.Fatalf("%s has no line with %q and %q", name, c.line, c.old)
		}
	}
	return strings.Join(lines, "")
}
