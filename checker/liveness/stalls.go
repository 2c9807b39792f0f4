package liveness

import (
	"slices"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// A stall of the host is no fault: it lengthens a bound by its own length and by what it can
// have delayed, and erases nothing.
//
//	bound        |==============|
//	stalls         ▒▒      ▒       ▒▒▒
//	lengthened   |=====================|
//	gap          |------------------------------|     violated: stalls do not explain the rest
//	gap          |------------------|                 undecided: only stalls may explain it
//
// What a stall can have delayed is an attempt that was under way: where so many answers did
// not come in time that the attempt may have failed for that alone, its client has lost a round.
// Keys that stayed on a node because the host was slow are in lockState.slow.

// delayed is how much of a span, and of the time that clients may take to notice that an outage
// before it is over, the host stalled or attempts of these clients were lost to stalls.
func (c *lockState) delayed(clients []string, in spans.Span) int64 {
	if len(c.stalls) == 0 {
		return 0
	}
	if in.From > spans.Ever+c.down.settling {
		in.From -= c.down.settling
	}
	if len(clients) == 1 {
		return c.delays(clients[0]).Share(in)
	}
	var all []spans.Span
	for _, client := range clients {
		all = append(all, spans.After(c.spoiled()[client], in.From)...)
	}
	return spans.Share(spans.Union(append(all, spans.After(c.stalls, in.From)...)), in)
}

// delays returns the spans in which the host stalled or the client's attempts were lost to a stall.
func (c *lockState) delays(client string) spans.Measured {
	m, ok := c.delaysOf[client]
	if !ok {
		m = spans.Measure(spans.Union(slices.Concat(c.stalls, c.spoiled()[client])))
		c.delaysOf[client] = m
	}
	return m
}

// spoiled returns, by client, the rounds lost to stalls: from the start of an attempt to the latest
// instant at which its client tries again.
func (c *lockState) spoiled() map[string][]spans.Span {
	if c.spoils != nil {
		return c.spoils
	}
	c.spoils = map[string][]spans.Span{}
	if c.wire == nil {
		return c.spoils
	}
	timeout, retry := int64(c.Params.NodeTimeout), int64(c.Params.RetryMax)
	for _, a := range c.wire.Attempts {
		if !a.Won && spans.Meets(c.stalls, spans.Of(a.From, a.To+1)) && c.couldHaveWon(a) {
			client := a.Session.Client()
			c.spoils[client] = append(c.spoils[client], spans.Of(a.From, max(a.To, a.From+timeout)+retry))
		}
	}
	for client, list := range c.spoils {
		c.spoils[client] = spans.Union(list)
	}
	return c.spoils
}

// couldHaveWon reports whether an attempt had too few votes, and would have had enough if each
// node whose answer was late had given one. Nodes that a fault kept away are not late.
func (c *lockState) couldHaveWon(a *facts.Attempt) bool {
	answers := map[string]*history.Event{}
	for _, e := range a.Asked {
		answers[e.Node] = e
	}
	votes, late := 0, 0
	for _, n := range c.Params.Nodes {
		switch e := answers[n]; {
		case e != nil && !c.missing(e):
			if e.Type == history.OK {
				votes++
			}
		case !spans.Meets(c.down.link(a.Session.Client(), n), spans.Of(a.From, a.To+1)):
			late++
		}
	}
	quorum := quorumOf(&c.Params)
	return votes < quorum && votes+late >= quorum
}

// stalledFor says how long the host stalled in a span, and that this may be why.
func (c *lockState) stalledFor(in spans.Span) string {
	return "the host stalled for " + facts.Seconds(spans.Share(c.stalls, in)) + " meanwhile, which may be why"
}
