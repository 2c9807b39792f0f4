package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/words"
)

// incident is one time that a property was violated. A verdict counts them and shows one;
// the record has the others of mutual exclusion and of what befell the resource.
type incident struct {
	key      string
	from, to int64
	because  string
	events   []int64 // the last is what did the harm
}

// isOf reports whether a witness of the property shows this incident.
func (x incident) isOf(property string, w *checker.Witness) bool {
	if property == checker.MutualExclusion { // of a spell it shows the two that were longest together
		return x.key == w.Key && x.from <= w.From && w.To <= x.to
	}
	return x.to == w.To && slices.Contains(w.Events, x.events[len(x.events)-1])
}

func (r *run) incidents(property string) []incident {
	switch property {
	case checker.MutualExclusion:
		return r.sharedHolds()
	case checker.ResourceSafety:
		return r.harms()
	}
	return nil
}

// sharedHolds are the spells in which two clients or more surely believed in one lock.
func (r *run) sharedHolds() (all []incident) {
	byKey := map[string][]facts.Belief{}
	var keys []string
	ε := int64(r.f.Params.StampError)
	for _, x := range r.beliefs {
		if ε == 0 && x.Closes == 0 && x.To == r.f.End && x.End == facts.Still {
			x.To++ // it goes on
		}
		if x.From, x.To = x.From+ε, x.To-ε; x.From >= x.To {
			continue
		}
		if byKey[x.Key] == nil {
			keys = append(keys, x.Key)
		}
		byKey[x.Key] = append(byKey[x.Key], x)
	}
	for _, key := range keys {
		xs := byKey[key]
		slices.SortStableFunc(xs, func(x, y facts.Belief) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
		far, open := 0, false
		for i := 1; i < len(xs); i++ {
			from, to := xs[i].From, min(xs[i].To, xs[far].To)
			switch {
			case from >= to:
				open = false
			case !open:
				open = true
				all = append(all, incident{key, from, to, fmt.Sprintf("%s and %s both believed that they held %s", short(xs[far].Client), short(xs[i].Client), short(key)),
					[]int64{xs[far].Opens, xs[i].Opens}})
			default:
				last := &all[len(all)-1]
				last.to = max(last.to, to)
			}
			if xs[i].To > xs[far].To {
				far = i
			}
		}
	}
	return all
}

// harms are the writes that did away with another session's, or came between its writes.
func (r *run) harms() (all []incident) {
	type section struct{ key, session string }
	writes := map[string][]facts.Write{} // applied, by key, in the order of versions
	latest := map[section]int{}          // place of a session's last
	who := func(w facts.Write) string { return short(r.clientOf(w.Session)) }
	for _, w := range r.f.Writes() {
		if w.Type != history.OK {
			continue
		}
		before, me := writes[w.Key], section{w.Key, w.Session}
		own, again := latest[me]
		writes[w.Key], latest[me] = append(before, w), len(before)
		add := func(other facts.Write, how string) {
			all = append(all, incident{w.Key, facts.Applied(other.Event), facts.Applied(w.Event), how, []int64{other.N, w.N}})
		}
		i, _ := slices.BinarySearchFunc(before, w.Version+1, func(o facts.Write, v int64) int { return cmp.Compare(o.Made, v) })
		for i < len(before) && before[i].Session == w.Session {
			i++
		}
		switch {
		case i < len(before):
			o := before[i]
			add(o, fmt.Sprintf("lost update: %s's write, based on version %d, was applied to version %d: what %s had written at %s is lost",
				who(w), w.Version, w.Met, who(o), words.Seconds(facts.Applied(o.Event))))
		case again && own < len(before)-1:
			o := before[own+1]
			add(o, fmt.Sprintf("interleaving: %s wrote between two writes of %s", who(o), who(w)))
		}
	}
	return all
}
