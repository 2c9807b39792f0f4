package scenario

import (
	"time"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

func stepForm(s *nemesis.Step, unit time.Duration) object {
	return object{"a step", []field{
		{key: "when", doc: "what sets the fault off", shape: triggerForm(&s.When, unit), must: true},
		{key: "fault", doc: "what is done to whom", shape: faultForm(&s.Fault, unit), must: true},
	}}
}

func triggerForm(t *nemesis.Trigger, unit time.Duration) shape {
	return choice{"when", []form{
		{"at", func() object {
			t.At = new(time.Duration)
			return object{"when", []field{{key: "at", doc: "time since the run began", shape: duration(t.At, 0), must: true}}}
		}},
		{"event", func() object {
			t.Event = &nemesis.Event{Nth: 1}
			o := eventForm("when", t.Event)
			o.fields = append(o.fields, field{key: "every", doc: "each time instead of the nth", shape: truth(func(b bool) { t.Event.Every = b })}, beforeField(t, unit))
			return o
		}},
		{"point", func() object {
			t.Point = &nemesis.OnPoint{Nth: 1}
			return object{"when", []field{
				{key: "client", doc: "whose", shape: clientName(&t.Point.Client), must: true},
				{key: "point", doc: "place in the client's program, where it waits for the fault", shape: oneOf(&t.Point.Point, "point", client.Points), must: true},
				{key: "nth", doc: "which time, from 1", shape: integer(&t.Point.Nth, 1, maxCount)},
				beforeField(t, unit),
			}}
		}},
		{"message", func() object {
			t.Message = &nemesis.OnMessage{Nth: 1}
			return object{"when", []field{
				{key: "link", doc: "between a client and a node or the resource, as in c1-n3", shape: target(&t.Message.Link), must: true},
				{key: "message", doc: "command on the wire", shape: oneOf(&t.Message.Message, "message", nemesis.MessageKinds), must: true},
				{key: "of", doc: "its request or its reply", shape: oneOf(&t.Message.Of, "direction", []string{nemesis.Request, nemesis.Reply}), must: true},
				{key: "nth", doc: "which one on the link, from 1", shape: integer(&t.Message.Nth, 1, maxCount)},
				beforeField(t, unit),
			}}
		}},
	}}
}

func beforeField(t *nemesis.Trigger, unit time.Duration) field {
	return field{key: "before", doc: "later it sets nothing off, and it need not come", shape: duration(&t.Before, unit)}
}

func eventForm(name string, e *nemesis.Event) object {
	e.Nth = 1
	return object{name, []field{
		{key: "client", doc: "whose", shape: clientName(&e.Client), must: true},
		{key: "event", doc: "what is seen in the history", shape: oneOf(&e.Event, "event", nemesis.EventNames()), must: true},
		{key: "nth", doc: "which time, from 1", shape: integer(&e.Nth, 1, maxCount)},
		{key: "after", doc: "and this much later", shape: duration(&e.After, 0)},
	}}
}

func faultForm(f *nemesis.Fault, unit time.Duration) object {
	var kinds, modes []string
	for _, k := range nemesis.Kinds {
		kinds, modes = append(kinds, k.Name), append(modes, k.Modes...)
	}
	return object{"fault", []field{
		{key: "kind", doc: "which fault", shape: oneOf(&f.Kind, "fault", kinds), must: true},
		{key: "targets", doc: "clients, nodes or links", shape: words{name: "targets", to: &f.Targets, item: target}},
		{key: "mode", doc: "how", shape: oneOf(&f.Mode, "mode", modes)},
		{key: "for", doc: "how long it lasts", shape: optional[time.Duration]{&f.For, func(d *time.Duration) shape { return duration(d, unit) }}},
		{key: "until", doc: "the event that ends it", shape: optional[nemesis.Event]{&f.Until, func(e *nemesis.Event) shape { return eventForm("until", e) }}},
		{key: "way", doc: "of a link; both if it isn't given", shape: oneOf(&f.Way, "way", []string{nemesis.Request, nemesis.Reply})},
		{key: "by", doc: "how far a clock goes wrong, as in 11s or -5s", shape: signed(&f.By, unit)},
		{key: "rate", doc: "how fast a clock runs; 1 is right", shape: factor(&f.Rate)},
		{key: "delay", doc: "how late messages are", shape: span(&f.Delay, unit)},
		{key: "share", doc: "of the messages; all if it isn't given", shape: percent(&f.Share, 1.0001)},
		{key: "bandwidth", doc: "bytes a second", shape: integer(&f.Bandwidth, 1, 1<<30)},
		{key: "cpu", doc: "share of one processor that a node may use", shape: processor(&f.CPU)},
		{key: "memory", doc: "bytes that it may use", shape: size(&f.Memory)},
		{key: "every", doc: "of what comes again and again: the time between", shape: span(&f.Every, unit)},
		{key: "lasts", doc: "and how long each one lasts; most are short, some long", shape: span(&f.Lasts, unit)},
		{key: "timer", doc: "the clock that counts `for`, where it is wrong", shape: optional[nemesis.Timer]{&f.Timer, timerForm}},
	}}
}

func timerForm(t *nemesis.Timer) shape {
	return object{"timer", []field{
		{key: "rate", doc: "how fast it runs; 1 is right", shape: factor(&t.Rate)},
		{key: "step", doc: "how far it is set forward meanwhile", shape: duration(&t.Step, 0)},
	}}
}

// randomForm is how a seed draws its plan.
func randomForm(r *nemesis.Random, unit time.Duration) shape {
	*r = nemesis.Random{Every: nemesis.Span{Min: time.Second, Max: 5 * time.Second}, Lasts: nemesis.Span{Min: 10 * time.Millisecond, Max: 20 * time.Second}, Safety: 0.6}
	var modes []string
	for _, k := range nemesis.Kinds {
		modes = append(modes, nemesis.Random{}.ModesOf(k)...)
	}
	several := func(name, sort string, to *[]string, allowed []string) shape {
		return words{name: name, to: to, item: func(to *string) word { return oneOf(to, sort, allowed) }}
	}
	return object{"random", []field{
		{key: "faults", doc: "what may be drawn; a seed uses about half of them", shape: several("faults", "fault", &r.Faults, nemesis.Choices()), must: true},
		{key: "within", doc: "keeps clocks and restarts within what Redlock assumes", shape: oneOf(&r.Within, "bound", []string{nemesis.Assumptions})},
		{key: "every", doc: "time between two faults of a kind: where a seed's mean lies", shape: span(&r.Every, unit)},
		{key: "lasts", doc: "the shortest fault, and the longest; most are short", shape: span(&r.Lasts, unit)},
		{key: "safety", doc: "share of the limit after which all is healed, and somebody must acquire", shape: percent(&r.Safety, 1)},
		{key: "modes", doc: "of faults that have several; all if it isn't given", shape: several("modes", "mode", &r.Modes, modes)},
		{key: "shapes", doc: "of what hits links; all if it isn't given", shape: several("shapes", "shape", &r.Shapes, nemesis.Shapes)},
	}}
}

// span is a range of durations above nothing.
func span(to *nemesis.Span, unit time.Duration) shape {
	r := &client.Range{}
	return then{between(r, unit), func() { *to = nemesis.Span(*r) }}
}
