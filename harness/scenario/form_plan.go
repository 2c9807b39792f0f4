package scenario

import (
	"time"

	"go.yaml.in/yaml/v3"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// planForm is a list of steps, or how a seed draws them.
func planForm(unit time.Duration, most int) shape {
	random := object{name: "plan", fields: []field{{key: "random", doc: "each seed draws its own plan, in this way", shape: randomForm(unit), must: true}}}
	return either{
		field{key: "plan", shape: sequence{"plan", 0, most, object{name: "a step", fields: []field{
			{key: "when", doc: "what sets the fault off", shape: triggerForm(unit), must: true},
			{key: "fault", doc: "what is done to whom", shape: faultForm(unit), must: true},
			{key: "drawn", doc: "whether it counts as drawn by dice: it need not come, nor meet anything", shape: truth},
		}}, false}},
		field{at: whole, shape: random},
		func(n *yaml.Node) bool { return n.Kind == yaml.MappingNode && child(n, "random") >= 0 },
		func(s any) bool { return s.(*Scenario).Random != nil },
	}
}

func triggerForm(unit time.Duration) shape {
	before := field{key: "before", doc: "later it sets nothing off, and it need not come", shape: duration(unit)}
	event := eventForm("when").below("event")
	event.fields = append(event.fields, field{key: "every", at: "event.every", doc: "each time instead of the nth", shape: truth}, before)
	event.fresh = func(t any) { t.(*nemesis.Trigger).Event = &nemesis.Event{Nth: 1} }
	return choice{"when", []form{
		{"at", object{name: "when", fields: []field{{key: "at", doc: "time since the run began", shape: duration(0), must: true}}}},
		{"event", event},
		{"point", object{name: "when", fresh: func(t any) { t.(*nemesis.Trigger).Point = &nemesis.OnPoint{Nth: 1} }, fields: []field{
			{key: "client", at: "point.client", doc: "whose", shape: clientName, must: true},
			{key: "point", at: "point.point", doc: "place in the client's program, where it waits for the fault", shape: oneOf("point", client.Points...), must: true},
			{key: "nth", at: "point.nth", doc: "which time, from 1", shape: integer(1, maxCount)},
			before,
		}}},
		{"message", object{name: "when", fresh: func(t any) { t.(*nemesis.Trigger).Message = &nemesis.OnMessage{Nth: 1} }, fields: []field{
			{key: "link", at: "message.link", doc: "between a client and a node or the resource, as in c1-n3", shape: target, must: true},
			{key: "message", at: "message.message", doc: "command on the wire", shape: oneOf("message", nemesis.MessageKinds...), must: true},
			{key: "of", at: "message.of", doc: "its request or its reply", shape: oneOf("direction", nemesis.Request, nemesis.Reply), must: true},
			{key: "nth", at: "message.nth", doc: "which one on the link, from 1", shape: integer(1, maxCount)},
			before,
		}}},
	}}
}

func eventForm(name string) object {
	return object{name: name, fresh: func(e any) { *e.(*nemesis.Event) = nemesis.Event{Nth: 1} }, fields: []field{
		{key: "client", doc: "whose", shape: clientName, must: true},
		{key: "event", doc: "what is seen in the history", shape: oneOf("event", nemesis.EventNames()...), must: true},
		{key: "nth", doc: "which time, from 1", shape: integer(1, maxCount)},
		{key: "after", doc: "and this much later", shape: duration(0)},
	}}
}

func faultForm(unit time.Duration) object {
	var kinds, modes []string
	for _, k := range nemesis.Kinds {
		kinds, modes = append(kinds, k.Name), append(modes, k.Modes...)
	}
	timer := object{name: "timer", fields: []field{
		{key: "rate", doc: "how fast it runs; 1 is right", shape: rate},
		{key: "step", doc: "how far it is set forward meanwhile", shape: duration(0)},
	}}
	return object{name: "fault", fields: []field{
		{key: "kind", doc: "which fault", shape: oneOf("fault", kinds...), must: true},
		{key: "targets", doc: "clients, nodes or links", shape: wordsOf("targets", target)},
		{key: "mode", doc: "how", shape: oneOf("mode", modes...)},
		{key: "for", doc: "how long it lasts", shape: duration(unit)},
		{key: "until", doc: "the event that ends it", shape: eventForm("until")},
		{key: "way", doc: "of a link; both if it isn't given", shape: oneOf("way", nemesis.Request, nemesis.Reply)},
		{key: "by", doc: "how far a clock goes wrong, as in 11s or -5s", shape: signed(unit)},
		{key: "rate", doc: "how fast a clock runs; 1 is right", shape: rate},
		{key: "delay", doc: "how late messages are", shape: between(unit)},
		{key: "share", doc: "of the messages; all if it isn't given", shape: upToAll},
		{key: "bandwidth", doc: "bytes a second", shape: integer(1, 1<<30)},
		{key: "cpu", doc: "share of one processor that a node may use", shape: processor},
		{key: "memory", doc: "bytes that it may use", shape: size},
		{key: "every", doc: "of what comes again and again: the time between", shape: between(unit)},
		{key: "lasts", doc: "and how long each one lasts; most are short, some long", shape: between(unit)},
		{key: "timer", doc: "the clock that counts `for`, where it is wrong", shape: timer},
	}}
}

// randomForm is how a seed draws its plan.
func randomForm(unit time.Duration) object {
	var modes []string
	for _, k := range nemesis.Kinds {
		modes = append(modes, nemesis.Random{}.ModesOf(k)...)
	}
	fresh := func(r any) {
		*r.(*nemesis.Random) = nemesis.Random{Every: nemesis.Span{Min: time.Second, Max: 5 * time.Second}, Lasts: nemesis.Span{Min: 10 * time.Millisecond, Max: 20 * time.Second}, Safety: 0.6}
	}
	return object{name: "random", fresh: fresh, fields: []field{
		{key: "faults", doc: "what may be drawn; a seed uses about half of them", shape: wordsOf("faults", oneOf("fault", nemesis.Choices()...)), must: true},
		{key: "within", doc: "keeps clocks and restarts within what Redlock assumes", shape: oneOf("bound", nemesis.Assumptions)},
		{key: "every", doc: "time between two faults of a kind: where a seed's mean lies", shape: between(unit)},
		{key: "lasts", doc: "the shortest fault, and the longest; most are short", shape: between(unit)},
		{key: "safety", doc: "share of the limit after which all is healed, and somebody must acquire", shape: percent(1)},
		{key: "modes", doc: "of faults that have several; all if it isn't given", shape: wordsOf("modes", oneOf("mode", modes...))},
		{key: "shapes", doc: "of what hits links; all if it isn't given", shape: wordsOf("shapes", oneOf("shape", nemesis.Shapes...))},
	}}
}
