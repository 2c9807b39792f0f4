package checker

import (
	"fmt"
	"testing"

	"lockpick/checker/verdict"
)

// Neither judge reports a violation that the timestamp error can explain. The error never reorders
// extensions.
func TestLeaseStampError(t *testing.T) {
	const earlyLoss = `
params clients=c1 stampError=%s
0     c1 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=1.010
1.001 c1 invoke release session=c1/1
1.005 c1 fail release session=c1/1
9     harness end run`
	const extendedTwice = `
params clients=c1,c2 stampError=%s
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=1
0.020 c1 invoke extend session=c1/1
0.023 c1 ok extend session=c1/1 until=2
0.024 c1 invoke extend session=c1/1
0.027 c1 ok extend session=c1/1 until=5
3     c2 invoke acquire session=c2/1
3.003 c2 ok acquire session=c2/1 until=8
9     harness end run`
	const handover = `
params clients=c1,c2 stampError=%s
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=5
0.020 c2 invoke acquire session=c2/1
1.000 c2 ok acquire session=c2/1 until=8
1.001 c1 invoke release session=c1/1
1.005 c1 ok release session=c1/1
9     harness end run`
	const atOnce = `
params clients=c1 stampError=%s
0     c1 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=5
0.013 c1 invoke release session=c1/1
0.015 c1 fail release session=c1/1
9     harness end run`
	const withoutDeadline = `
params clients=c1,c2 stampError=%s
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=2
0.020 c1 invoke extend session=c1/1
0.023 c1 ok extend session=c1/1
3     c2 invoke acquire session=c2/1
3.003 c2 ok acquire session=c2/1 until=8
9     harness end run`
	for _, row := range []struct {
		story, ε string
		want     verdict.Outcome
	}{
		{handover, "0s", verdict.Violated}, {handover, "400us", verdict.Violated}, {handover, "500us", verdict.Holds},
		{atOnce, "0s", verdict.Violated},       // one client's operations are in order, whatever the timestamps
		{withoutDeadline, "0s", verdict.Holds}, // an extension without a deadline moves no deadline
		{earlyLoss, "0s", verdict.Violated}, {earlyLoss, "2ms", verdict.Violated}, {earlyLoss, "2500us", verdict.Holds}, {earlyLoss, "2s", verdict.Holds},
		{extendedTwice, "0s", verdict.Violated}, {extendedTwice, "100ms", verdict.Violated}, {extendedTwice, "2s", verdict.Holds},
	} {
		v := Check(parseHistory(t, fmt.Sprintf(row.story, row.ε)))
		if got := v.Result(verdict.LeaseLinearizable); got.Outcome != row.want || v.Second != row.want || v.Disagreement != "" {
			t.Errorf("stamp error %s: %s, porcupine %s, want %s: %s %s", row.ε, got.Outcome, v.Second, row.want, got.Because, v.Disagreement)
		}
	}
}

// The longest overlap on any key is reported.
func TestLongestOverlapIsReported(t *testing.T) {
	text := "params clients=c1,c2\n0 c1 begin client\n0 c2 begin client"
	for i, lasts := range []string{"0.9", "3", "2"} {
		for _, c := range []string{"c1", "c2"} {
			text += fmt.Sprintf("\n0.01%d %s invoke acquire session=%s/%d key=k%d\n0.01%[1]d5 %[2]s ok acquire session=%[2]s/%[4]d key=k%[5]d until=%s",
				i, c, c, i, i, lasts)
		}
	}
	res := Check(parseHistory(t, text+"\n9 harness end run")).Result(verdict.LeaseLinearizable)
	if res.Outcome != verdict.Violated || res.Incidents != 3 || res.Witness.Key != "k1" {
		t.Errorf("got %+v", res)
	}
}
