package scenario

import (
	"go.yaml.in/yaml/v3"

	"lockpick/nemesis"
)

// plan is a list of steps, or how a seed draws them.
func (w *writer) plan(s *Scenario) *yaml.Node {
	if s.Random == nil {
		return w.list("plan", len(s.Plan), func(field string, i int) *yaml.Node { return w.step(field, &s.Plan[i]) })
	}
	r := s.Random
	value := w.section("random", func() []entry {
		return []entry{
			{"faults", "faults", w.words("faults", r.Faults)}, {"within", "within", nonZero(r.Within, say)},
			{"every", "every", leaf(ends(r.Every))}, {"lasts", "lasts", leaf(ends(r.Lasts))}, {"safety", "safety", leaf(share(r.Safety))},
			{"modes", "modes", w.words("modes", r.Modes)}, {"shapes", "shapes", w.words("shapes", r.Shapes)},
		}
	})
	key := leaf("random")
	w.fields[key] = w.path + ".random"
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, value}}
}

func (w *writer) step(field string, s *nemesis.Step) *yaml.Node {
	return w.section(field, func() []entry {
		return []entry{{"when", "when", w.trigger(&s.When)}, {"fault", "fault", w.fault(&s.Fault)}}
	})
}

// trigger writes all that a trigger has, in one mapping as in a file.
func (w *writer) trigger(t *nemesis.Trigger) *yaml.Node {
	return w.section("when", func() (all []entry) {
		in := func(part string, more ...entry) {
			for _, e := range more {
				e.field = part + "." + e.field
				all = append(all, e)
			}
		}
		if t.At != nil {
			all = append(all, entry{"at", "at", leaf(t.At.String())})
		}
		if t.Event != nil {
			in("event", w.event(t.Event)...)
		}
		if p := t.Point; p != nil {
			in("point", entry{"client", "client", leaf(p.Client)}, entry{"point", "point", leaf(p.Point)}, entry{"nth", "nth", leaf(say(p.Nth))})
		}
		if m := t.Message; m != nil {
			in("message", entry{"link", "link", leaf(m.Link)}, entry{"message", "message", leaf(m.Message)}, entry{"of", "of", leaf(m.Of)}, entry{"nth", "nth", leaf(say(m.Nth))})
		}
		return append(all, entry{"before", "before", nonZero(t.Before, say)})
	})
}

func (w *writer) event(e *nemesis.Event) []entry {
	return []entry{
		{"client", "client", leaf(e.Client)}, {"event", "event", leaf(e.Event)}, {"nth", "nth", leaf(say(e.Nth))},
		{"every", "every", nonZero(e.Every, say)}, {"after", "after", nonZero(e.After, say)},
	}
}

func (w *writer) fault(f *nemesis.Fault) *yaml.Node {
	return w.section("fault", func() []entry {
		all := []entry{
			{"kind", "kind", leaf(f.Kind)}, {"targets", "targets", w.words("targets", f.Targets)}, {"mode", "mode", nonZero(f.Mode, say)},
			{"for", "for", orNone(f.For, say)}, {"way", "way", nonZero(f.Way, say)}, {"by", "by", nonZero(f.By, say)}, {"rate", "rate", nonZero(f.Rate, decimal)},
			{"delay", "delay", nonZero(f.Delay, ends)}, {"share", "share", nonZero(f.Share, share)}, {"bandwidth", "bandwidth", nonZero(f.Bandwidth, say)},
			{"cpu", "cpu", nonZero(f.CPU, decimal)}, {"memory", "memory", nonZero(f.Memory, bytesOf)},
			{"every", "every", nonZero(f.Every, ends)}, {"lasts", "lasts", nonZero(f.Lasts, ends)},
		}
		if f.Until != nil {
			all = append(all, entry{"until", "until", w.section("until", func() []entry { return w.event(f.Until) })})
		}
		if f.Timer != nil {
			all = append(all, entry{"timer", "timer", w.section("timer", func() []entry {
				return []entry{{"rate", "rate", nonZero(f.Timer.Rate, decimal)}, {"step", "step", nonZero(f.Timer.Step, say)}}
			})})
		}
		return all
	})
}
