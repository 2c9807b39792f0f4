package timeline

import (
	"fmt"
	"math"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
)

// inferred is the lives of keys by what the links saw and what befell the node, for want of
// the node's own word: a set or an extension that was accepted says that the key is there,
// one of somebody else's that it was gone.
func (r *run) inferred() map[string][][]life {
	out := map[string][][]life{}
	for node, commands := range r.f.ByNode() {
		byKey := map[string][]*event{}
		var keys []string
		for _, e := range commands {
			if byKey[e.Key] == nil {
				keys = append(keys, e.Key)
			}
			byKey[e.Key] = append(byKey[e.Key], e)
		}
		for _, key := range keys {
			in := inference{run: r, node: node}
			for _, e := range byKey[key] {
				in.command(e)
			}
			in.end(never, nil, "")
			out[node] = append(out[node], in.lives)
		}
	}
	return out
}

// inference is one key on one node while its commands are read.
type inference struct {
	*run
	node  string
	lives []life

	open *life  // nil: there is no key
	set  *event // that set it
	last int64  // when it was set or extended for the last time
	seen int64  // when it was there for the last time
}

func (in *inference) command(e *event) {
	ok := e.Type == history.OK
	switch {
	case ok && e.Op == history.OpSet:
		in.end(e.Applied, e, fmt.Sprintf("gone when %s set its own", facts.Sender(e)))
		in.begin(e)
	case in.open == nil:
	case ok && e.Op == history.OpExtend && e.Token == in.set.Token:
		in.open.events, in.open.due = append(in.open.events, e), in.due(e.Applied, e.TTL)
		in.last, in.seen = e.Applied, e.Applied
	case ok && e.Op == history.OpRelease:
		how := "a release deleted it"
		if e.Token != in.set.Token {
			how = facts.Sender(e) + "'s release deletes it, which is not its own"
		}
		in.seen = e.Applied
		in.end(e.Applied, e, how)
	case e.Type == history.Fail && e.Op == history.OpSet && e.Cause == "" && e.Applied < in.open.due:
		in.seen = e.Applied // refused, so it was there
	}
}

func (in *inference) begin(set *event) {
	in.open = &life{key: set.Key, owner: facts.Sender(set), session: in.owners[set.Token], from: set.Applied,
		due: in.due(set.Applied, set.TTL), events: []*event{set}}
	if in.open.session != "" {
		in.open.owner = in.clientOf(in.open.session)
	}
	in.set, in.last, in.seen = set, set.Applied, set.Applied
}

// end ends the life that there is, if there is one, at an instant by which the key is
// surely gone, and by a command that shows it.
func (in *inference) end(at int64, by *event, how string) {
	l := in.open
	if l == nil {
		return
	}
	in.open = nil
	gone, why := in.ends(l, at)
	l.to = min(gone, at)
	own := by != nil && l.to == at && by.Op == history.OpRelease && by.Token == in.set.Token
	switch {
	case own && in.believes(l.session, at):
		l.early, l.how = true, fmt.Sprintf("%s's own release deletes it late, while it believes that it holds the lock", facts.Sender(by))
	case own:
		l.how = facts.Sender(by) + " deletes it"
	case l.to < l.due && l.to < in.run.end && gone <= at:
		l.early, l.how = true, why
	case by != nil && l.to == at && at < l.due:
		l.early, l.how = true, how
	}
	if by != nil && l.to == by.Applied {
		l.events = append(l.events, by)
	}
	in.lives = append(in.lives, *l)
}

// due is when a time to live that began at an instant is over as the node's
// clock runs then; what happens to that clock later, ends tells.
func (in *inference) due(at, ttl int64) int64 {
	rate := clockAt(in.f.TurnsOf(in.node), at).Rate
	if ttl <= 0 || ttl > math.MaxInt64/4 || rate <= 0 {
		return never
	}
	return at + int64(float64(ttl)/rate)
}

// clockAt is the turn by which a clock runs at an instant.
func clockAt(turns []facts.Turn, at int64) facts.Turn {
	now := facts.Turn{Rate: 1}
	for _, t := range turns {
		if t.T > at {
			break
		}
		now = t
	}
	return now
}

// ends is when a key is gone at the latest by what befell its node after it was last seen
// there, and by what; shown is when another command showed that it was gone.
func (in *inference) ends(l *life, shown int64) (int64, string) {
	at, why := in.turnedAway(l)
	for _, f := range in.f.Faults {
		if f.Target != in.node || f.Begin == nil || f.Begin.T <= in.seen || f.Begin.T >= at {
			continue
		}
		switch {
		case nemesis.ToldOf(f.Kind).State == nemesis.Down:
			if f.End == nil || in.f.Params.Persistence == "none" || f.End.T <= shown && shown < at {
				at, why = f.Begin.T, f.Kind+": the node forgets it"
			}
		case f.Kind == history.Failover:
			at, why = f.Begin.T, "failover to a replica that has not got it"
		}
	}
	return at, why
}

// turnedAway is when the node's clock ends a key, which is when it is due unless somebody
// turns that clock.
func (in *inference) turnedAway(l *life) (int64, string) {
	at, why := l.due, ""
	turns := in.f.TurnsOf(in.node)
	for i, t := range turns {
		if t.T <= in.last || t.T <= in.seen || i == 0 && !t.Wrong() || t.T >= at || l.due == never {
			continue
		}
		jump := t.Offset - clockAt(turns, t.T-1).Ahead(t.T)
		if end := t.T + max(0, l.due-t.T-jump); jump > (l.due-in.last)/1000 && end < at {
			at, why = end, "its "+clockWords(t)
		}
	}
	return at, why
}

// believes reports whether a session is believed in at an instant.
func (r *run) believes(session string, at int64) bool {
	return slices.ContainsFunc(r.bySession[session], func(x facts.Belief) bool { return x.From <= at && at < x.To })
}
