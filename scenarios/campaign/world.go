package campaign

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// fewer leaves each step one of its targets, or takes them away one by one.
func fewer(best scenario.Scenario) (edits []edit) {
	for i, st := range best.Plan {
		targets := st.Fault.Targets
		if len(targets) < 2 {
			continue
		}
		for _, one := range targets {
			edits = append(edits, func(s *scenario.Scenario) bool {
				had := len(s.Plan[i].Fault.Targets)
				s.Plan[i].Fault.Targets = []string{one}
				return had > 1
			})
		}
		for _, gone := range targets {
			edits = append(edits, func(s *scenario.Scenario) bool {
				f := &s.Plan[i].Fault
				had := len(f.Targets)
				f.Targets = slices.DeleteFunc(f.Targets, func(t string) bool { return t == gone })
				return had > 1 && len(f.Targets) == had-1
			})
		}
	}
	return edits
}

// smallWorld takes clients, nodes and keys away, and numbers the clients from one on. What was
// about those that are gone goes with them, or comes to befall one that is left.
func smallWorld(best scenario.Scenario) (edits []edit) {
	for _, c := range slices.Backward(best.Clients) {
		edits = append(edits, func(s *scenario.Scenario) bool {
			return len(s.Clients) > 1 && without(s, func(name string) bool { return name == c.Name })
		}, func(s *scenario.Scenario) bool {
			i := slices.IndexFunc(s.Clients, func(x scenario.Client) bool { return x.Name != c.Name })
			j := slices.IndexFunc(s.Clients, func(x scenario.Client) bool { return x.Name == c.Name })
			if i < 0 || j < 0 {
				return false
			}
			heir := s.Clients[i].Name
			s.Clients = slices.Delete(s.Clients, j, j+1)
			renamed(s, func(name string) string {
				if name == c.Name {
					return heir
				}
				return name
			})
			return true
		}, func(s *scenario.Scenario) bool { // two that come twice do what three do
			if len(s.Clients) < 3 || s.Workload.Cycles == 0 || !without(s, func(name string) bool { return name == c.Name }) {
				return false
			}
			s.Workload.Cycles++
			for i := range s.Clients {
				s.Clients[i].Cycles = nil
			}
			return true
		})
	}
	for n := 1; n < best.Topology.Nodes; n++ {
		edits = append(edits, func(s *scenario.Scenario) bool {
			nodes := s.NodeNames()
			if n >= len(nodes) {
				return false
			}
			s.Topology.Nodes = n
			renamed(s, func(name string) string {
				if k := slices.Index(nodes, name); k >= n {
					return nodes[k%n]
				}
				return name
			})
			return true
		}, func(s *scenario.Scenario) bool {
			if n >= s.Topology.Nodes {
				return false
			}
			gone := s.NodeNames()[n:]
			s.Topology.Nodes = n
			without(s, func(name string) bool { return slices.Contains(gone, name) })
			return true
		})
	}
	for n := 1; n < best.Workload.Keys; n *= 2 {
		edits = append(edits, func(s *scenario.Scenario) bool { return lower(&s.Workload.Keys, n) })
	}
	return append(edits, renumbered)
}

// patience is how many times longer two clients may work for what three come to sooner.
const patience = 16

// patient takes one of several clients away, and lets the others work for longer.
func patient(best scenario.Scenario) (edits []edit) {
	for _, c := range slices.Backward(best.Clients) {
		edits = append(edits, func(s *scenario.Scenario) bool {
			if len(s.Clients) < 3 || !without(s, func(name string) bool { return name == c.Name }) {
				return false
			}
			s.Workload.For, s.Workload.Cycles, s.Limit = s.Workload.For*patience, s.Workload.Cycles*patience, s.Limit*patience
			return true
		})
	}
	return edits
}

// lower sets a number that is larger.
func lower[T cmp.Ordered](x *T, to T) bool {
	if *x <= to {
		return false
	}
	*x = to
	return true
}

// without takes clients or nodes away, by their names, and says whether there were any.
func without(s *scenario.Scenario, gone func(name string) bool) bool {
	about := func(target string) bool {
		left, right, isLink := nemesis.SplitLink(target)
		return gone(left) || isLink && gone(right)
	}
	before := len(s.Clients)
	s.Clients = slices.DeleteFunc(s.Clients, func(c scenario.Client) bool { return gone(c.Name) })
	for i, c := range s.Clients {
		if c.Start != nil && gone(c.Start.Client) {
			s.Clients[i].Start = nil
		}
		if s.Clients[i].Reach = slices.DeleteFunc(c.Reach, gone); len(s.Clients[i].Reach) == 0 {
			s.Clients[i].Reach = nil // all: who reaches nobody does nothing
		}
	}
	s.Topology.Addresses = slices.DeleteFunc(s.Topology.Addresses, gone)
	s.Plan = slices.DeleteFunc(s.Plan, func(st nemesis.Step) bool {
		w := st.When
		return w.Event != nil && gone(w.Event.Client) || w.Point != nil && gone(w.Point.Client) || w.Message != nil && about(w.Message.Link) ||
			st.Fault.Until != nil && gone(st.Fault.Until.Client) || len(st.Fault.Targets) > 0 && !slices.ContainsFunc(st.Fault.Targets, func(t string) bool { return !about(t) })
	})
	for i := range s.Plan {
		s.Plan[i].Fault.Targets = slices.DeleteFunc(s.Plan[i].Fault.Targets, about)
	}
	return len(s.Clients) < before
}

// renumbered calls the clients c1, c2 and so on where some were taken away.
func renumbered(s *scenario.Scenario) bool {
	before := s.ClientNames()
	renamed(s, func(name string) string {
		if i := slices.Index(before, name); i >= 0 {
			return fmt.Sprintf("c%d", i+1)
		}
		return name
	})
	return !slices.Equal(before, s.ClientNames())
}

// renamed calls clients and nodes otherwise. What is named twice in one place then, is so once.
func renamed(s *scenario.Scenario, called func(name string) string) {
	rename := func(name *string) {
		left, right, isLink := nemesis.SplitLink(*name)
		if *name = called(left); isLink {
			*name = nemesis.LinkName(*name, called(right))
		}
	}
	list := func(names []string) (once []string) {
		for _, n := range names {
			if rename(&n); !slices.Contains(once, n) {
				once = append(once, n)
			}
		}
		return once
	}
	event := func(e *nemesis.Event) {
		if e != nil {
			rename(&e.Client)
		}
	}
	for i := range s.Clients {
		c := &s.Clients[i]
		rename(&c.Name)
		event(c.Start)
		c.Reach = list(c.Reach)
	}
	for i := range s.Topology.Addresses {
		rename(&s.Topology.Addresses[i])
	}
	for i := range s.Plan {
		w, f := s.Plan[i].When, &s.Plan[i].Fault
		event(w.Event)
		if w.Point != nil {
			rename(&w.Point.Client)
		}
		if w.Message != nil {
			rename(&w.Message.Link)
		}
		event(f.Until)
		f.Targets = list(f.Targets)
	}
}

// plain sets a value to what it is where nobody says anything of it.
func plain[T comparable](of func(*scenario.Scenario) *T, to T) edit {
	return func(s *scenario.Scenario) bool {
		x := of(s)
		changed := *x != to
		*x = to
		return changed
	}
}

// absent leaves out what may be left out.
func absent[T any](of func(*scenario.Scenario) **T) edit {
	return func(s *scenario.Scenario) bool {
		x := of(s)
		was := *x
		*x = nil
		return was != nil
	}
}

// plainer leaves out settings.
func plainer(best scenario.Scenario) []edit {
	type sc = scenario.Scenario
	edits := []edit{
		plain(func(s *sc) *int { return &s.Topology.Replicas }, 0),
		plain(func(s *sc) *string { return &s.Topology.Persistence }, scenario.PersistNone),
		plain(func(s *sc) *string { return &s.Topology.Expiry }, ""),
		func(s *sc) bool {
			had := s.Topology.Addresses != nil
			s.Topology.Addresses = nil
			return had
		},
		plain(func(s *sc) *string { return &s.Workload.Fence }, client.FenceNone),
		plain(func(s *sc) *bool { return &s.Lock.Fence }, false),
		plain(func(s *sc) *string { return &s.Lock.Ask }, ""),
		plain(func(s *sc) *int { return &s.Lock.Extends }, 0),
		plain(func(s *sc) *int { return &s.Workload.Writes }, 1),
		plain(func(s *sc) *client.Range { return &s.Workload.Prepare }, client.Range{}),
		plain(func(s *sc) *bool { return &s.Workload.NoCheck }, false),
		plain(func(s *sc) *bool { return &s.Vacuous }, false),
	}
	if best.Expect[verdict.BoundedHold].Want == "" {
		edits = append(edits, plain(func(s *sc) *scenario.Limits { return &s.Limits }, scenario.Limits{}))
	}
	for i := range best.Clients {
		edits = append(edits,
			absent(func(s *sc) **nemesis.Event { return &s.Clients[i].Start }),
			func(s *sc) bool {
				had := s.Clients[i].Reach != nil
				s.Clients[i].Reach = nil
				return had
			},
			absent(func(s *sc) **client.Range { return &s.Clients[i].Think }),
			absent(func(s *sc) **client.Range { return &s.Clients[i].Hold }),
			absent(func(s *sc) **int { return &s.Clients[i].Cycles }))
	}
	for i := range best.Plan {
		edits = append(edits, plainStep(func(s *sc) *nemesis.Step { return &s.Plan[i] })...)
	}
	return edits
}

// plainStep leaves out what a step says besides what happens, to whom, and when.
func plainStep(of func(*scenario.Scenario) *nemesis.Step) []edit {
	type sc = scenario.Scenario
	return []edit{
		plain(func(s *sc) *string { return &of(s).Fault.Way }, ""),
		plain(func(s *sc) *float64 { return &of(s).Fault.Share }, 0),
		absent(func(s *sc) **nemesis.Timer { return &of(s).Fault.Timer }),
		absent(func(s *sc) **nemesis.Event { return &of(s).Fault.Until }),
		func(s *sc) bool {
			f := &of(s).Fault
			kind, _ := nemesis.KindOf(f.Kind)
			if len(kind.Modes) == 0 || f.Mode == kind.Modes[0] {
				return false
			}
			f.Mode = kind.Modes[0]
			return true
		},
		func(s *sc) bool {
			switch w := of(s).When; {
			case w.Event != nil:
				return lower(&w.Event.Nth, 1)
			case w.Point != nil:
				return lower(&w.Point.Nth, 1)
			case w.Message != nil:
				return lower(&w.Message.Nth, 1)
			}
			return false
		},
	}
}

// certain makes of a drawn step, which need not come, one that has to: all at once, and each
// by itself.
func certain(best scenario.Scenario) []edit {
	surely := func(st *nemesis.Step) bool {
		was := st.Drawn || st.When.Before > 0
		st.Drawn, st.When.Before = false, 0
		return was
	}
	all := []edit{func(s *scenario.Scenario) (any bool) {
		for i := range s.Plan {
			any = surely(&s.Plan[i]) || any
		}
		return any
	}}
	for i := range best.Plan {
		all = append(all, func(s *scenario.Scenario) bool { return surely(&s.Plan[i]) },
			plain(func(s *scenario.Scenario) *bool { return &s.Plan[i].Drawn }, false))
	}
	return all
}
