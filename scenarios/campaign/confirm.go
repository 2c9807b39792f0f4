package campaign

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// near is how far apart two runs may have the same thing, once their courses differ.
const near = int64(20 * time.Millisecond)

// confirm tries the cause of a violation of mutual exclusion that nobody expected, or of any.
// What comes of it changes neither the cause nor the exit code.
func (j Job) confirm(ctx context.Context, b harness.Backend, h *history.History, o *outcome.Outcome) {
	i := slices.IndexFunc(o.Judgements, func(x outcome.Judgement) bool {
		return x.Property == checker.MutualExclusion && x.Got == checker.Violated && (j.Confirm || !x.AsExpected)
	})
	if i < 0 {
		return
	}
	c, err := confirm(ctx, b, j.Scenario, j.Seed, h, o.Verdict)
	if err != nil {
		o.Fail(outcome.ExitBackend, err)
		return
	}
	o.Judgements[i].Confirmation = c
}

// confirm runs a violation of mutual exclusion again with the facts that are its cause
// undone. That merely the overlap is gone would say little: most losses between two grants
// are needed for the second one, as when a failed attempt cleans up on the same nodes. So
// each node is asked for what the cause says of it: with the key kept, it refuses.
func confirm(ctx context.Context, b harness.Backend, s scenario.Scenario, seed uint64, h *history.History, v checker.Verdict) (*outcome.Confirmation, error) {
	r := v.Result(checker.MutualExclusion)
	if r == nil || r.Outcome != checker.Violated {
		return nil, nil
	}
	c := &outcome.Confirmation{State: outcome.NotApplicable, Why: "no key ended before its time"}
	x := newTrial(h, r)
	if len(x.ends) == 0 {
		return c, nil
	}
	again, ok := b.(harness.Sparer)
	if !ok {
		c.State, c.Why = outcome.FactsSuffice, b.Name()+" can't run the seed again: what its nodes told stands"
		return c, nil
	}
	try := func(ends []*ending) (result, error) {
		c.Runs++
		h, err := x.rerun(ctx, again, s, seed, ends)
		if err != nil {
			return result{}, err
		}
		return x.judge(h, ends), nil
	}
	all, err := try(x.ends)
	if err != nil {
		return nil, err
	}
	if all.overlaps || all.grants != "" {
		c.State, c.Why = outcome.Refuted, "with the keys kept the two overlap all the same"
		if all.grants != "" {
			c.Why = fmt.Sprintf("with the keys kept %s votes for %s all the same", all.grants, x.client)
		}
		return c, nil
	}
	for _, e := range x.ends {
		one := all
		if len(x.ends) > 1 {
			if one, err = try([]*ending{e}); err != nil {
				return nil, err
			}
		}
		if !one.overlaps {
			c.Alone = append(c.Alone, e.put.Process)
		}
	}
	switch {
	case len(c.Alone) == 0:
		c.State, c.Why = outcome.Jointly, fmt.Sprintf("had one of the %d nodes kept its key, the two would have overlapped all the same; had all, not", len(x.ends))
	case all.later:
		c.State, c.Why = outcome.PutOff, "with the keys kept the two don't overlap there, but later, through another loss"
	default:
		c.State, c.Why = outcome.Confirmed, "with the keys kept each node refuses the second, and the two don't overlap"
	}
	return c, nil
}

// trial is one violation, to be tried again.
type trial struct {
	ends    []*ending
	first   string // session
	client  string // of the second session
	granted int64  // when that was granted
}

// ending is one key's end before its time.
type ending struct {
	end, put *history.Event // the fact, and the one of the key that took its place
	value    string
	first    string // client
	due      int64  // when the key's time was over
}

func newTrial(h *history.History, r *checker.Result) *trial {
	x := &trial{}
	f := facts.Read(h)
	lives := f.Lives()
	byNumber := map[int64]*history.Event{}
	for i := range f.Events {
		byNumber[f.Events[i].N] = &f.Events[i]
	}
	turns := 0
	for _, l := range r.Losses {
		if l.First == r.Losses[0].First {
			turns++
		}
		if l.Fact == 0 {
			continue
		}
		end, put := byNumber[l.Fact], byNumber[l.Put]
		stays := lives.Stays(l.Node, end.Key)
		i := slices.IndexFunc(stays, func(s *facts.Stay) bool { return s.End == end })
		x.ends = append(x.ends, &ending{end: end, put: put, value: end.Life.Old, first: f.Named(l.First).Client(), due: stays[i].Due()})
	}
	if len(r.Losses) == 0 {
		return x
	}
	first, second := r.Losses[0].First, r.Losses[0].Second
	if turns*2 < len(r.Losses) {
		first, second = second, first
	}
	x.first, x.client = first, f.Named(second).Client()
	x.granted = f.Named(second).Acquire.Return.T
	return x
}

// rerun runs the seed again, and lets none of these keys end before its time is over, but
// by its own client's hand.
func (x *trial) rerun(ctx context.Context, b harness.Sparer, s scenario.Scenario, seed uint64, ends []*ending) (*history.History, error) {
	from := int64(facts.Never) // the courses differ from the first of them on, so that another may come earlier
	for _, k := range ends {
		from = min(from, k.end.T)
	}
	spare := func(e history.Event) bool {
		for _, k := range ends {
			if e.Process != k.end.Process || e.Key != k.end.Key || e.Life.Old != k.value || e.T < from || e.T >= k.due {
				continue
			}
			client, _, _ := strings.Cut(e.Life.By, "-")
			own := e.Life.What == history.KeyDeleted && client == k.first
			return !own || k.end.Life.What == history.KeyDeleted
		}
		return false
	}
	var record bytes.Buffer
	if err := harness.Run(ctx, b.Sparing(spare), s, seed, history.NewRecorder(&record)); err != nil {
		return nil, fmt.Errorf("run it again with keys kept: %w", err)
	}
	return history.Read(&record)
}

// result is what came of a run with keys kept.
type result struct {
	overlaps bool   // the same pair, at the same time
	later    bool   // the same, later
	grants   string // a node that gave the second its vote all the same
}

func (x *trial) judge(h *history.History, ends []*ending) (r result) {
	f := facts.Read(h)
	beliefs := f.Beliefs()
	for _, a := range beliefs {
		if a.Session != x.first {
			continue
		}
		for _, b := range beliefs {
			if b.Client != x.client || b.Session == a.Session || b.Key != a.Key || max(a.From, b.From) >= min(a.To, b.To) {
				continue
			}
			switch d := b.From - x.granted; {
			case d > near:
				r.later = true
			case d >= -near:
				r.overlaps = true
			}
		}
	}
	for _, e := range ends {
		if !notConfirmed(f.Lives().Stays(e.end.Process, e.end.Key), e) {
			r.grants = e.end.Process
		}
	}
	return r
}

// refused reports whether a node that kept the first's key had it when the second came,
// and did not take the second's.
func notConfirmed(stays []*facts.Stay, e *ending) bool {
	at := e.put.T
	kept := slices.ContainsFunc(stays, func(s *facts.Stay) bool {
		return s.Value == e.value && s.From() <= at && (s.End == nil || s.End.T > at)
	})
	taken := slices.ContainsFunc(stays, func(s *facts.Stay) bool {
		d := s.From() - at
		return s.By() == e.put.Life.By && s.Value == e.put.Life.Value && d >= -near && d <= near
	})
	return kept && !taken
}
