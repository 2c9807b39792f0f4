package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/nemesis"
)

// faults is the help page of what the nemesis can do, made from its table.
func faults() string {
	var b strings.Builder
	width := 0
	for _, k := range nemesis.Kinds {
		width = max(width, len(k.Name))
	}
	indent := width + 2
	for _, k := range nemesis.Kinds {
		fmt.Fprintf(&b, "%-*s", indent, k.Name)
		b.WriteString(wrapped(indent, indent, k.Doc) + "\n")
		for _, fact := range facts(k) {
			b.WriteString(strings.Repeat(" ", indent) + wrapped(indent, indent+7, fact) + "\n")
		}
	}
	b.WriteString(faultsBelow)
	return b.String()
}

// facts is what a scenario's author must know of a kind.
func facts(k nemesis.Kind) []string {
	var on, needs, takes, powers []string
	for _, t := range k.On {
		on = append(on, string(t))
		powers = append(powers, k.Capability(t))
	}
	for _, f := range k.Takes {
		if slices.Contains(k.Needs, f) {
			needs = append(needs, f)
		} else {
			takes = append(takes, f)
		}
	}
	hits := "hits:  " + strings.Join(on, ", ")
	if k.Nests {
		hits += "; may be in force for several steps at once"
	}
	out := []string{hits}
	add := func(what string, words []string) {
		if len(words) > 0 {
			out = append(out, what+strings.Join(words, ", "))
		}
	}
	add("needs: ", needs)
	add("takes: ", takes)
	add("modes: ", k.Modes)
	for _, m := range k.Modes {
		if c := k.ModeNeeds[m]; c != "" {
			powers = append(powers, c+" for "+m)
		}
	}
	add("power: ", powers)
	out = append(out, "within: "+cmp.Or(k.Within, "none"))
	return out
}

const faultsBelow = `
"power" is what a backend must be able to do; doctor says which can here. "within" is
what Redlock's assumptions allow of it, as random plans keep to them. The first
mode is taken where none is given. Besides what stands there, each takes "for", how
long it lasts, and "until", an event that ends it; with neither it lasts until the run
ends. A fault is written as {kind: cut, targets: [c1-n3, n4], mode: drop, for: 3s}.
Targets are clients (c1), nodes (n3) and links (c1-n3, or c1-r1 to the resource, or
n3-replica); a client or a node as target of what hits links means all its links.

  way        request or reply: of a link one direction only
  by         how far a clock goes wrong, as in 11s or -5s
  rate       how fast a clock runs; 1 is right
  delay      how late messages are, as in 1ms..50ms
  share      of the messages, as in 5%
  bandwidth  bytes a second
  cpu        share of one processor that a node may use, as in 0.02
  memory     bytes that it may use, as in 8MB
  every      of what comes again and again: the time between
  lasts      and how long each one lasts
  timer      {rate, step}: the clock that counts "for", where it is wrong

A failover by sentinels: three of them, quorum two, watch the node past all links and
take its master for dead after topology.down-after (1s). In the simulation they are a
model: they always agree, and promote the replica one to two seconds later, as drawn
from the seed. With "for" the old master is back so much later, and follows the new one.

Each is read back once it is in force, and what was seen is in the history. A run in
which a planned fault did not take effect is undecided, never a pass. Nor has one that
hit nothing: a link that carried nothing meanwhile, a node that was asked nothing and
had no key, or was down all the while, a client that neither wanted a lock nor had one,
a clock or messages off by less than 100µs, a loss of power that lost nothing where
nodes don't sync each write, a touch of nodes that keep nothing. What the dice drew is
exempt. "for" counts from when it is in force. What is planned for a target after
another fault's end waits for that end, as for a node that takes long to start again;
what is planned within it does not wait.

A plan that each seed draws (plan: {random: …}; run --dry-run shows it):

  faults     kinds, or a kind on one sort of target, as in pause-node; each seed uses
             about half of them
  within     assumptions: of each fault what stands above, so that clocks go wrong by less
             than the allowed drift, a node that may have forgotten comes back after a TTL,
             and nothing fails over
  every      time between two faults of a kind: where a seed's mean lies
  lasts      the shortest fault, and the longest; most are short
  safety     share of the limit in which faults come; then all is healed, and somebody
             must acquire again
  modes      of faults that have several
  shapes     of what hits links: isolate, halves, majority, bridge, ring, single, and
             one-way for any of them in one direction`
