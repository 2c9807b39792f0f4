package campaign

import (
	"reflect"
	"strconv"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// shorter lets the clients work for less, and ends the run as much sooner. It comes first, for it makes all that follows cheaper.
func shorter(best scenario.Scenario) (edits []edit) {
	tail := best.Limit - best.Workload.For
	for d := time.Second; d < best.Workload.For; d = (d * 3 / 2).Round(time.Second / 2) {
		edits = append(edits, func(s *scenario.Scenario) bool {
			if s.Workload.For <= d {
				return false
			}
			s.Workload.For, s.Limit = d, d+tail
			var plan nemesis.Plan
			for _, st := range s.Plan {
				if st.When.At == nil || *st.When.At < s.Limit { // what would come later never does
					plan = append(plan, st)
				}
			}
			s.Plan = plan
			return true
		})
	}
	return edits
}

// briefer bounds the clients' work by cycles, and these by fewer.
func briefer(best scenario.Scenario) (edits []edit) {
	for n := 1; n <= 8; n *= 2 {
		edits = append(edits, func(s *scenario.Scenario) bool {
			if s.Workload.For == 0 {
				return lower(&s.Workload.Cycles, n)
			}
			had := s.Workload.Cycles
			s.Workload.For, s.Workload.Cycles = 0, n
			return had == 0 || had >= n
		})
		for i, c := range best.Clients {
			if c.Cycles != nil {
				edits = append(edits, func(s *scenario.Scenario) bool { return s.Clients[i].Cycles != nil && lower(s.Clients[i].Cycles, n) })
			}
		}
	}
	return edits
}

// together lets all steps come when one of them does: what takes several instants often takes
// several nodes for no other reason.
func together(best scenario.Scenario) (edits []edit) {
	for i := range best.Plan[:min(len(best.Plan), mostHops)] {
		edits = append(edits, func(s *scenario.Scenario) (any bool) {
			for j := range s.Plan {
				any = any || !reflect.DeepEqual(s.Plan[j].When, s.Plan[i].When)
				s.Plan[j].When = s.Plan[i].When
			}
			return any
		})
	}
	return edits
}

// rounder makes times short and round, settles what is drawn from a range, and makes other
// numbers round.
func rounder(best scenario.Scenario) (edits []edit) {
	for i := range ranges(&best) {
		edits = append(edits,
			func(s *scenario.Scenario) bool {
				return settled(ranges(s)[i], func(r client.Range) time.Duration { return r.Min })
			},
			func(s *scenario.Scenario) bool {
				return settled(ranges(s)[i], func(r client.Range) time.Duration { return r.Max })
			},
			func(s *scenario.Scenario) bool {
				return settled(ranges(s)[i], func(r client.Range) time.Duration { return (r.Min + r.Max) / 2 })
			})
	}
	for i, st := range best.Plan {
		if at := st.When.At; at != nil {
			for d := time.Second; d < *at; d *= 2 {
				edits = append(edits, func(s *scenario.Scenario) bool { return lower(s.Plan[i].When.At, d) })
			}
		}
		if st.Fault.For == nil {
			continue
		}
		for d := 10 * time.Millisecond; d < *st.Fault.For; d *= 2 {
			edits = append(edits, func(s *scenario.Scenario) bool { return lower(s.Plan[i].Fault.For, d) })
		}
	}
	for i := range times(&best) {
		for _, unit := range []time.Duration{time.Second, time.Second / 2, time.Second / 10, 10 * time.Millisecond, time.Millisecond} {
			edits = append(edits, func(s *scenario.Scenario) bool {
				x := times(s)[i]
				was := *x
				*x = x.Round(unit)
				return *x != was
			})
		}
	}
	for i := range numbers(&best) {
		for digits := 1; digits <= 2; digits++ {
			edits = append(edits, func(s *scenario.Scenario) bool {
				x := numbers(s)[i]
				was := *x
				*x = rounded(was, digits)
				return *x != was
			})
		}
	}
	for i, st := range best.Plan {
		if st.Fault.Bandwidth > 0 {
			edits = append(edits, func(s *scenario.Scenario) bool {
				x := &s.Plan[i].Fault.Bandwidth
				was := *x
				*x = int(rounded(float64(was), 1))
				return *x != was
			})
		}
	}
	return edits
}

// settled makes of a range one time.
func settled(r *client.Range, at func(client.Range) time.Duration) bool {
	if r.Min == r.Max {
		return false
	}
	one := at(*r)
	r.Min, r.Max = one, one
	return true
}

// rounded is a number with so many digits that count.
func rounded(x float64, digits int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// ranges are those that a scenario draws times from.
func ranges(s *scenario.Scenario) []*client.Range {
	all := []*client.Range{&s.Workload.Think, &s.Workload.Hold, &s.Workload.Prepare}
	for i := range s.Clients {
		for _, own := range []*client.Range{s.Clients[i].Think, s.Clients[i].Hold} {
			if own != nil {
				all = append(all, own)
			}
		}
	}
	for i := range s.Plan {
		f := &s.Plan[i].Fault
		all = append(all, (*client.Range)(&f.Delay), (*client.Range)(&f.Every), (*client.Range)(&f.Lasts))
	}
	return all
}

// times are all of a scenario, but for the lock's own, which are its configuration.
func times(s *scenario.Scenario) []*time.Duration {
	all := []*time.Duration{&s.Workload.For, &s.Limit, &s.Workload.Extend, &s.Workload.CancelAfter}
	for _, r := range ranges(s) {
		all = append(all, &r.Min, &r.Max)
	}
	for i := range s.Clients {
		all = append(all, &s.Clients[i].Delay)
		if after := s.Clients[i].CancelAfter; after != nil {
			all = append(all, after)
		}
	}
	event := func(e *nemesis.Event) {
		if e != nil {
			all = append(all, &e.After)
		}
	}
	for i := range s.Plan {
		w, f := &s.Plan[i].When, &s.Plan[i].Fault
		if w.At != nil {
			all = append(all, w.At)
		}
		all = append(all, &w.Before, &f.By)
		if f.For != nil {
			all = append(all, f.For)
		}
		if f.Timer != nil {
			all = append(all, &f.Timer.Step)
		}
		event(w.Event)
		event(f.Until)
	}
	return all
}

// numbers are a plan's.
func numbers(s *scenario.Scenario) (all []*float64) {
	for i := range s.Plan {
		f := &s.Plan[i].Fault
		all = append(all, &f.Rate, &f.Share)
		if f.Timer != nil {
			all = append(all, &f.Timer.Rate)
		}
	}
	return all
}
