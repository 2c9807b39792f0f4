package checker

import (
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// In resourcePrelude, c1 believes it holds the lock from 0.2 s to 5 s, and c2 from 5.2 s to 10 s.
const resourcePrelude = `
params clients=c1,c2 nodes=n1 fence=none
0.1 c1 invoke acquire session=c1/1
0.2 c1 ok acquire session=c1/1 until=5
5.1 c2 invoke acquire session=c2/1
5.2 c2 ok acquire session=c2/1 until=10`

// secondBelief contains c1's read, c2's write, and c1's next belief, from 7 s to 12 s.
const secondBelief = `
4.0 c1 invoke read session=c1/1
4.1 c1 ok read session=c1/1
4.5 c1 invoke extend session=c1/1
5.3 c2 invoke write session=c2/1 value=y version=0
5.4 c2 ok write session=c2/1
7.0 c1 ok extend session=c1/1 until=12`

// resourceLogs are logs of the resource, some with client events.
var resourceLogs = []struct {
	name      string
	history   string
	outcome   verdict.Outcome
	class     string
	incidents int
	because   string
}{
	{"two writes of one section with the same base", `
11 r1 ok log session=c1/1 version=0 applied=1 cause=read
11 r1 ok log session=c1/1 value=x1 version=0 applied=2 cause=write
11 r1 ok log session=c1/1 value=x2 version=0 applied=3 cause=write`, verdict.NotExercised, "", 0, "in 2 writes"},
	{"the same after another session's write", `
11 r1 ok log session=c1/1 value=x version=0 applied=3 cause=write
11 r1 ok log session=c2/1 value=y1 version=1 applied=6 cause=write
11 r1 ok log session=c2/1 value=y2 version=1 applied=7 cause=write`, verdict.Holds, "", 0, "in 3 writes"},
	{"an update lost twice counts twice", `
11 r1 ok log session=c2/1 value=y version=0 applied=6 cause=write
11 r1 ok log session=c1/1 value=x1 version=0 applied=7 cause=write
11 r1 ok log session=c1/1 value=x2 version=0 applied=8 cause=write`, verdict.Violated, verdict.Overrun, 2, "lost update: c1's write, based on version 0, was applied at 7 s to version 1"},
	{"each key has its own versions", `
11 r1 ok log session=c1/1 value=x version=0 applied=1 cause=write
11 r1 ok log session=c2/1 key=lock-2 value=y version=0 applied=6 cause=write`, verdict.NotExercised, "", 0, ""},
	{"the resource's versions count", `
11 r1 ok log session=c1/1 version=7 applied=1 cause=read
11 r1 ok log session=c1/1 value=x version=7 applied=2 cause=write
11 r1 ok log session=c2/1 version=8 applied=6 cause=claim
11 r1 ok log session=c2/1 value=y version=8 applied=7 cause=write`, verdict.Holds, "", 0, ""},
	{"a refused read does not count", `
11 r1 ok log session=c1/1 value=x version=0 applied=2 cause=write
11 r1 fail log session=c2/1 version=0 applied=6 cause=read
11 r1 ok log session=c2/1 value=y version=1 applied=7 cause=write`, verdict.Holds, "", 0, ""},
	{"a write outside belief that does no damage", `
11 r1 ok log session=c1/1 version=0 applied=1 cause=read
11 r1 ok log session=c1/1 value=x version=0 applied=5.1 cause=write`, verdict.NotExercised, "", 0, ""},
	{"acknowledged and missing", `
5.3 c2 invoke write session=c2/1 value=y version=0
5.4 c2 ok write session=c2/1
11 r1 ok log session=c1/1 value=x version=0 applied=2 cause=write`, verdict.Violated, verdict.Unexplained, 1, "missing write: c2's write was acknowledged"},
	{"refused but applied", `
5.3 c2 invoke write session=c2/1 value=y version=0
5.4 c2 fail write session=c2/1
11 r1 ok log session=c2/1 value=y version=0 applied=5.35 cause=write`, verdict.Violated, verdict.Unexplained, 1, "refused write: c2's write was refused"},
	{"unknown outcome, applied or not", `
5.3 c2 invoke write session=c2/1 value=y version=0
5.4 c2 info write session=c2/1
5.5 c2 invoke write session=c2/1 value=z version=0
5.6 c2 info write session=c2/1
11 r1 ok log session=c2/1 value=y version=0 applied=5.35 cause=write`, verdict.NotExercised, "", 0, ""},
	{"an unused resource", "", verdict.NotExercised, "", 0, "in 0 writes"},
	{"the log is missing", `
5.3 c2 invoke read session=c2/1
5.4 c2 ok read session=c2/1`, verdict.Undecided, "", 0, "was not read back"},
	{"no log, and two sessions of one client wrote with the same base", `
2 c1 invoke write session=c1/1 value=x version=0
2.1 c1 ok write session=c1/1
2.2 c1 invoke release session=c1/1
2.3 c1 ok release session=c1/1
3 c1 invoke acquire session=c1/2
3.1 c1 ok acquire session=c1/2 until=5
3.2 c1 invoke write session=c1/2 value=y version=0
3.3 c1 ok write session=c1/2`, verdict.Violated, verdict.LockBroken, 1, "both based on version 0, were acknowledged, so one is lost"},
	{"no log, same base, and the read was before the lease lapsed", secondBelief + `
7.2 c1 invoke write session=c1/1 value=x version=0
7.3 c1 ok write session=c1/1`, verdict.Violated, verdict.Overrun, 1, "both based on version 0"},
	{"the same, with another read after the write", secondBelief + `
7.2 c1 invoke write session=c1/1 value=x version=0
7.3 c1 ok write session=c1/1
7.4 c1 invoke read session=c1/1
7.5 c1 ok read session=c1/1`, verdict.Violated, verdict.Overrun, 1, "both based on version 0"},
	{"the same, with another read before the write", secondBelief + `
7.1 c1 invoke read session=c1/1
7.15 c1 ok read session=c1/1
7.2 c1 invoke write session=c1/1 value=x version=0
7.3 c1 ok write session=c1/1`, verdict.Violated, verdict.LockBroken, 1, "both based on version 0"},
	{"the same, and that read had no answer", secondBelief + `
7.1 c1 invoke read session=c1/1
7.15 c1 info read session=c1/1
7.2 c1 invoke write session=c1/1 value=x version=0
7.3 c1 ok write session=c1/1`, verdict.Violated, verdict.Overrun, 1, "both based on version 0"},
	{"no log, and the same base belongs to two locks", `
2 c1 invoke write session=c1/1 value=x version=0
2.1 c1 ok write session=c1/1
5.3 c2 invoke acquire session=c2/2 key=lock-2
5.4 c2 ok acquire session=c2/2 key=lock-2 until=10
5.5 c2 invoke write session=c2/2 key=lock-2 value=y version=0
5.6 c2 ok write session=c2/2 key=lock-2`, verdict.Undecided, "", 0, "was not read back"},
	{"no log, and one of two writes with the same base was not acknowledged", `
2 c1 invoke write session=c1/1 value=x version=0
2.1 c1 ok write session=c1/1
5.3 c2 invoke write session=c2/1 value=y version=0
5.4 c2 info write session=c2/1`, verdict.Undecided, "", 0, "was not read back"},
	{"a cut record and an unused resource", `
cut in the middle`, verdict.NotExercised, "", 0, "in 0 writes"},
	{"an incomplete log", `
cut in the middle
5.3 c2 invoke write session=c2/1 value=y version=0
5.4 c2 ok write session=c2/1
11 r1 ok log session=c1/1 value=x version=0 applied=2 cause=write`, verdict.Undecided, "", 0, "may not have been read back completely"},
	{"an overwriting write within a section counts once", `
11 r1 ok log session=c1/1 value=x1 version=0 applied=3 cause=write
11 r1 ok log session=c2/1 value=y version=1 applied=6 cause=write
11 r1 ok log session=c1/1 value=x2 version=1 applied=7 cause=write`, verdict.Violated, verdict.Overrun, 1, ""},
	{"two keys written in turn", `
11 r1 ok log session=c1/1 value=x1 version=0 applied=1 cause=write
11 r1 ok log session=c2/1 key=lock-2 value=y version=0 applied=6 cause=write
11 r1 ok log session=c1/1 value=x2 version=1 applied=7 cause=write`, verdict.NotExercised, "", 0, ""},
	{"a write of unknown value", `
5.3 c2 invoke write session=c2/1 version=0
5.4 c2 ok write session=c2/1
11 r1 ok log session=c1/1 value=x version=0 applied=2 cause=write`, verdict.NotExercised, "", 0, ""},
	{"two sessions of one client", `
0.3 c1 invoke release session=c1/1
0.4 c1 ok release session=c1/1
0.5 c1 invoke acquire session=c1/2
0.6 c1 ok acquire session=c1/2 until=5
11 r1 ok log session=c1/1 value=x version=0 applied=0.25 cause=write
11 r1 ok log session=c1/2 value=y version=1 applied=1 cause=write`, verdict.NotExercised, "", 0, "no other client used the resource"},
	{"the host stalled before a client worked past its lease", `
2 nemesis begin stall node=machine
3 nemesis end stall node=machine
11 r1 ok log session=c1/1 version=0 applied=4 cause=read
11 r1 ok log session=c2/1 value=y version=0 applied=5.3 cause=write
11 r1 ok log session=c1/1 value=x version=0 applied=5.5 cause=write`, verdict.Violated, verdict.Overrun, 1, ""},
	{"the host stalled for as long as a client worked past its lease", `
4.5 nemesis begin stall node=machine
5 nemesis end stall node=machine
11 r1 ok log session=c1/1 version=0 applied=4 cause=read
11 r1 ok log session=c2/1 value=y version=0 applied=5.3 cause=write
11 r1 ok log session=c1/1 value=x version=0 applied=5.5 cause=write`, verdict.Undecided, "", 0, "the host stalled"},
	{"a client that worked before its lease began", `
11 r1 ok log session=c2/1 version=0 applied=4.8 cause=read
11 r1 ok log session=c1/1 value=x version=0 applied=4.9 cause=write
11 r1 ok log session=c2/1 value=y version=0 applied=5.3 cause=write`, verdict.Violated, verdict.Overrun, 1, ""},
	{"an unknown session's write", `
11 r1 ok log session=c9/1 value=x version=0 applied=2 cause=write
11 r1 ok log session=c2/1 value=y version=0 applied=6 cause=write`, verdict.Violated, verdict.Overrun, 1, "what session c9/1 had written"},
}

func TestResourceSafety(t *testing.T) {
	for _, row := range resourceLogs {
		t.Run(row.name, func(t *testing.T) {
			res := judge(newRecord(parseHistory(t, resourcePrelude+row.history+"\n12 harness end run")), verdict.ResourceSafety)
			if res.Outcome != row.outcome || res.Cause != row.class || res.Incidents != row.incidents || !strings.Contains(res.Because, row.because) {
				t.Errorf("got %s %s, %d incidents: %s\nwant %s %s, %d: %s", res.Outcome, res.Cause, res.Incidents, res.Because,
					row.outcome, row.class, row.incidents, row.because)
			}
		})
	}
}
