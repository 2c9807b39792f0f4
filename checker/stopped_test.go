package checker

import (
	"reflect"
	"slices"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/history/story"
)

// Keys that the harness read off the nodes are for people: what is made of a
// history is the same without them.
func TestKeysOnNodesAreNotJudged(t *testing.T) {
	for file, h := range stories(t) {
		with := &history.History{Params: h.Params, Cut: h.Cut}
		for _, e := range h.Events {
			with.Events = append(with.Events, e)
			if e.T > 0 && len(h.Events) > 1 && e.T < h.Events[len(h.Events)-1].T {
				for i, typ := range []history.Type{history.OK, history.Fail, history.Info} {
					with.Events = append(with.Events, history.Event{N: 1000 + e.N*3 + int64(i), T: e.T, Process: history.Harness,
						Type: typ, Op: history.OpKey, Key: "lock-1", Node: "n1", Token: e.Token, TTL: 7})
				}
			}
		}
		if got, want := Check(with), Check(h); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: with keys:\n%s\nwithout:\n%s", file, tell(with, got), tell(h, want))
		}
	}
}

// A run that was stopped at a violation is judged up to there: the overlap does
// not grow while the run is taken down, and what was to come is no reproach.
func TestStoppedRunIsJudgedUpToThere(t *testing.T) {
	h, err := story.Parse("params clients=c1,c2 nodes=n1\nstep 1 pause c2 at 30 s\n0 c1 begin client\n0 c2 begin client\n" +
		"1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1 until=10\n" +
		"3 c2 invoke acquire session=c2/1\n4 c2 ok acquire session=c2/1 until=12\n" +
		"4.5 harness info stop key=lock-1 cause=stopped at event 7\n" +
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
	mutex := v.Result(MutualExclusion)
	if mutex.Outcome != Violated || mutex.Witness.From != 4e9 || mutex.Witness.To != 4.5e9 {
		t.Errorf("%s: %+v", mutex.Outcome, mutex.Witness)
	}
	if got := v.Result(DeadlockFreedom).Outcome; got != Undecided {
		t.Errorf("a step was still to come, and deadlock-freedom %s", got)
	}
}

func withSchema(p history.Params) *history.Params {
	p.Schema = history.Schema
	return &p
}
