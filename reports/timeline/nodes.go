package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/reports/words"
)

const mostNodes = 24

// nodeLanes draws for each node whose key it has, and until when.
func (b *builder) nodeLanes() {
	names := b.first(b.h.Params.Nodes, mostNodes, "node")
	wires := map[string][]*event{} // by node, in the order in which it answered
	for i := range b.events {
		e := &b.events[i]
		if e.Node != "" && e.Applied != 0 && (e.Op == history.OpSet || e.Op == history.OpExtend || e.Op == history.OpRelease) {
			wires[e.Node] = append(wires[e.Node], e)
		}
	}
	for _, name := range slices.Compact(slices.Clone(names)) {
		es := wires[name]
		slices.SortStableFunc(es, func(x, y *event) int { return cmp.Or(cmp.Compare(x.Applied, y.Applied), cmp.Compare(x.N, y.N)) })
		b.lane(name, Node)
		row := b.row(16)
		byKey := map[string][]*event{}
		var keys []string
		for _, e := range es {
			if byKey[e.Key] == nil {
				keys = append(keys, e.Key)
			}
			byKey[e.Key] = append(byKey[e.Key], e)
		}
		for i, key := range keys {
			if i > 0 {
				if i >= mostKeys {
					b.omit(words.Plural(len(keys)-mostKeys, "more key") + " on " + short(name))
					break
				}
				row = b.row(16)
			}
			b.leases(row, name, byKey[key])
		}
		b.clockRow(name)
		b.stalls(name)
	}
}

// leases draws one key on one node, from each set to the end of what it set.
func (b *builder) leases(row int, node string, es []*event) {
	var set *event
	var due, seen int64 // by the node's clock the key ends at due; it was there at seen
	var of []*event
	done := func(at int64, by *event, how string) {
		if set == nil {
			return
		}
		nominal := due
		gone, why := b.ends(node, set, of, seen, due)
		to := min(gone, at)
		early := false
		switch {
		case by != nil && to == at && by.Op == history.OpRelease && by.Token == set.Token && b.believes(b.owners[set.Token], at):
			early, how = true, fmt.Sprintf("%s's own release deletes it late, while it believes that it holds the lock", linkClient(by))
		case by != nil && to == at && by.Op == history.OpRelease && by.Token == set.Token:
			how = linkClient(by) + " deletes it"
		case to < nominal && to < b.end && gone <= at:
			early, how = true, why
		case by != nil && to == at && at < nominal:
			early = true
		default:
			how = ""
		}
		b.lease(row, set, of, to, nominal, early, how, by)
		set = nil
	}
	for _, e := range es {
		switch {
		case e.Type == history.OK && e.Op == history.OpSet:
			done(e.Applied, e, fmt.Sprintf("gone when %s set its own", linkClient(e)))
			set, of, seen = e, []*event{e}, e.Applied
			due = b.due(node, e.Applied, e.TTL)
		case set == nil:
		case e.Type == history.OK && e.Op == history.OpExtend && e.Token == set.Token:
			of, seen = append(of, e), e.Applied
			due = b.due(node, e.Applied, e.TTL)
		case e.Type == history.OK && e.Op == history.OpRelease:
			how := "a release deleted it"
			if e.Token != set.Token {
				how = linkClient(e) + "'s release deletes it, which is not its own"
			}
			seen = e.Applied
			done(e.Applied, e, how)
		case e.Type == history.Fail && e.Op == history.OpSet && e.Cause == "":
			if e.Applied < due {
				seen = e.Applied // refused, so it was there
			}
		}
	}
	done(never, nil, "")
}

func (b *builder) lease(row int, set *event, of []*event, to, due int64, early bool, how string, by *event) {
	owner := linkClient(set)
	if s := b.owners[set.Token]; s != "" {
		owner = b.clientOf(s)
	}
	until := ""
	if due < never {
		until = "due to expire at " + words.Seconds(due) + " by its clock"
	}
	class := "lease"
	if early {
		class = "lease-early"
	}
	s := said{label: short(owner), session: b.owners[set.Token],
		detail: sentence(fmt.Sprintf("%s's %s", short(owner), short(set.Key)), until, how)}
	events := of
	if by != nil && to == by.Applied {
		events = append(slices.Clone(of), by)
	}
	b.put(row, class, set.Applied, to, s, events...)
	if early {
		b.put(row, "lost", to, to, said{detail: sentence(fmt.Sprintf("%s's key is gone", short(owner)), how), session: s.session}, events...)
	}
}

// due is when a time to live that began at an instant is over as the node's
// clock runs then; what happens to that clock later, ends tells.
func (b *builder) due(node string, at, ttl int64) int64 {
	if ttl <= 0 || ttl > math.MaxInt64/4 {
		return never
	}
	return at + int64(float64(ttl)/b.clockAt(node, at).rate)
}

func (b *builder) clockAt(node string, at int64) turn {
	now := turn{rate: 1}
	for _, t := range b.clocks[node] {
		if t.at > at {
			break
		}
		now = t
	}
	return now
}

// ends is when a key is gone at the latest by what befell its node, and by what.
// What was seen of the key later proves that it outlived that.
func (b *builder) ends(node string, set *event, of []*event, seen, due int64) (int64, string) {
	at, why := due, ""
	start := of[len(of)-1].Applied
	left := due - start
	for i, t := range b.clocks[node] {
		if t.at <= start || t.at <= seen || i == 0 && !t.wrong() {
			continue
		}
		if before := b.clockAt(node, t.at-1); t.at < at && due < never {
			jump := t.offset - before.offset - int64(float64(t.at-before.at)*(before.rate-1))*btoi(before.at > 0)
			if jump > left/1000 && t.at+max(0, due-t.at-jump) < at {
				at, why = t.at+max(0, due-t.at-jump), "its "+t.words()
			}
		}
	}
	for _, f := range b.faults {
		if f.target != node || f.begin == nil || f.begin.T <= seen || f.begin.T >= at {
			continue
		}
		switch f.kind {
		case "kill", "power-loss", "shutdown":
			if f.end != nil && strings.Contains(f.end.Cause, " 0 keys") || f.end == nil {
				at, why = f.begin.T, f.kind+": the node forgets it"
			}
		case "failover":
			at, why = f.begin.T, "failover to a replica that has not got it"
		}
	}
	return at, why
}

// believes reports whether a session is believed in at an instant.
func (b *builder) believes(session string, at int64) bool {
	return slices.ContainsFunc(b.bySession[session], func(x history.Belief) bool { return x.From <= at && at < x.To })
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// linkClient is the client's end of the link that a command passed.
func linkClient(e *event) string { return strings.TrimSuffix(e.Process, "-"+e.Node) }
