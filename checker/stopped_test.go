package checker

import (
	"slices"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/internal/histories"
)

// A run that was stopped is judged up to the stop: the overlap does not grow during the teardown,
// and missing steps do not count.
func TestStoppedRunIsJudgedUntilStop(t *testing.T) {
	h, err := histories.Parse("params clients=c1,c2 nodes=n1\nstep 1 pause c2 at 30 s\n0 c1 begin client\n0 c2 begin client\n" +
		"1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1 until=10\n" +
		"3 c2 invoke acquire session=c2/1\n4 c2 ok acquire session=c2/1 until=12\n" +
		"4.5 harness info stop cause=stopped at event 7\n" +
		"5 c1 invoke release session=c1/1\n6 c1 info release session=c1/1\n6 c1 end client\n9 harness end run")
	if err != nil {
		t.Fatal(err)
	}
	h, err = history.New(slices.Insert(h.Events, 0, history.Event{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: withSchema(h.Params)}))
	if err != nil {
		t.Fatal(err)
	}
	v := Check(h)
	if v.Cut != "stopped at event 7" || v.Assumption != "" {
		t.Errorf("cut %q, assumption %q", v.Cut, v.Assumption)
	}
	mutex := v.Result(verdict.MutualExclusion)
	if mutex.Outcome != verdict.Violated || mutex.Witness.From != 4e9 || mutex.Witness.To != 4.5e9 {
		t.Errorf("%s: %+v", mutex.Outcome, mutex.Witness)
	}
	if got := v.Result(verdict.DeadlockFreedom).Outcome; got != verdict.Undecided {
		t.Errorf("a step was still due, but deadlock-freedom is %s", got)
	}
}

func withSchema(p history.Params) *history.Params {
	p.Schema = history.Schema
	return &p
}
