//go:build long

package scenarios_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	read "lockpick/harness/history/facts"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/reports/sequence"
	"lockpick/reports/timeline"
	"lockpick/scenarios"
)

// For each key that ended, the diagram and the timeline show the event that the node reported and
// the verdict names. The test covers the catalog and random plans.
func TestPicturesAgreeWithVerdicts(t *testing.T) {
	random := choose(t, "random-faults")
	losses, ends := 0, 0
	check := func(p scenarios.Found, seed uint64) {
		var record bytes.Buffer
		b := sim.New(kinds.All)
		s := p.Scenario.WithRandomPlan(seed)
		if !canSimulate(t, s) {
			return
		}
		if err := harness.Run(t.Context(), b, s, seed, history.NewRecorder(&record)); err != nil {
			t.Errorf("%s seed %d: %v", s.ID(), seed, err)
			return
		}
		h, err := history.Read(&record)
		if err != nil {
			t.Fatal(err)
		}
		x := runDrawings{h: h, f: read.Read(h), v: checker.Check(h)}
		x.read()
		for _, wrong := range x.contradictions() {
			t.Errorf("%s seed %d: %s", s.ID(), seed, wrong)
		}
		losses += x.numLosses
		ends += x.numEnds
	}
	for _, p := range choose(t) {
		check(p, 1)
	}
	plans := uint64(40)
	if nightly {
		plans = 200
	}
	for i := range plans {
		check(random[i%uint64(len(random))], 500+i)
	}
	t.Logf("%d keys ended, and verdicts name %d of them", ends, losses)
	if losses < 50 || ends < 10_000 {
		t.Error("too few keys ended for a meaningful test")
	}
}

// runDrawings is a run and the events that its diagram and timeline show.
type runDrawings struct {
	h *history.History
	f *read.Facts
	v verdict.Verdict

	diagramEvents map[int64]bool      // events that the diagram refers to
	timelineItems map[int64][][]int64 // for each event, the items that show it, each as a list of events

	numLosses, numEnds int
}

func (x *runDrawings) read() {
	x.diagramEvents, x.timelineItems = map[int64]bool{}, map[int64][][]int64{}
	d := sequence.ForVerdict(x.h, x.v)
	for _, n := range d.Notes {
		for _, e := range n.Events {
			x.diagramEvents[e] = true
		}
	}
	for _, a := range d.Arrows {
		for _, e := range a.Events {
			x.diagramEvents[e] = true
		}
	}
	for _, i := range timeline.New(x.h, x.v).Items {
		for _, e := range i.Events {
			x.timelineItems[e] = append(x.timelineItems[e], i.Events)
		}
	}
}

func (x *runDrawings) contradictions() (contradictions []string) {
	report := func(format string, args ...any) {
		contradictions = append(contradictions, fmt.Sprintf(format, args...))
	}
	lives := x.f.Lives()
	byFact := map[int64]*read.KeyInterval{}
	for _, node := range x.h.Params.Nodes {
		for _, key := range lives.Keys {
			for _, s := range lives.Intervals(node, key) {
				if s.End == nil {
					continue
				}
				x.numEnds++
				byFact[s.End.N] = s
				for _, item := range x.timelineItems[s.Start.N] {
					for _, n := range item {
						if other := x.endEvent(n); other != nil && n != s.End.N && other.Process == node && other.Key == key && other.Life.OldValue == s.Value && !slices.Contains(item, s.End.N) {
							report("the timeline says that event %d ended the key set by event %d, but event %d did", s.Start.N, n, s.End.N)
						}
					}
				}
			}
		}
	}
	r := x.v.Result(verdict.MutualExclusion)
	shown := sequence.ShownResult(x.v)
	if r == nil || r.Outcome != verdict.Violated {
		return contradictions
	}
	for _, l := range r.Losses {
		if l.Fact == 0 {
			continue
		}
		x.numLosses++
		s := byFact[l.Fact]
		if s == nil || s.Node != l.Node {
			report("the verdict names event %d on %s, which did not end a key", l.Fact, l.Node)
			continue
		}
		if !slices.ContainsFunc(x.timelineItems[l.Fact], func(item []int64) bool { return slices.Contains(item, s.Start.N) }) {
			report("the timeline does not show that event %d ended the key set by event %d on %s (%s)", l.Fact, s.Start.N, l.Node, l.Cause)
		}
		if shown.Property == verdict.MutualExclusion && !x.diagramEvents[l.Fact] && !x.diagramEvents[x.releaseNumber(s.End)] {
			report("the diagram does not show event %d, where %s lost a key (%s)", l.Fact, l.Node, l.Cause)
		}
	}
	return contradictions
}

// endEvent returns event n if it ended a key. Otherwise it returns nil.
func (x *runDrawings) endEvent(n int64) *history.Event {
	for i := range x.h.Events {
		if e := &x.h.Events[i]; e.N == n && e.Life != nil && e.Life.OldValue != "" && e.Life.Kind != history.KeyExpiry && e.Life.Kind != history.KeyKept {
			return e
		}
	}
	return nil
}

// releaseNumber returns the event number of the release that deleted a key, or 0.
func (x *runDrawings) releaseNumber(end *history.Event) int64 {
	for i := range x.h.Events {
		if e := &x.h.Events[i]; e.Process == end.Life.Sender && e.SentAt == end.SentAt && e.Op == history.OpRelease {
			return e.N
		}
	}
	return 0
}
