package sequence

import (
	"cmp"
	"slices"
	"strings"
)

// mostLanes is how many lanes a reader can follow, and a terminal can show.
const mostLanes = 6

// lanes are what a diagram's marks stand on, from left to right.
type lanes struct {
	all     []lane
	at      map[string]int // process: lane
	storage int            // lane of the storage, -1: none
}

// lanesOf lays out a scene's lanes as Kleppmann drew them: the first client, the
// lock, the other clients, the storage.
func lanesOf(sc *scene) *lanes {
	ls := &lanes{at: map[string]int{}, storage: -1}
	clients := sc.clients()
	room := mostLanes - len(clients) - 1
	if len(clients) > 0 {
		ls.add(lane{Name: clients[0], Role: client, Members: clients[:1]})
	}
	for _, group := range sc.nodeGroups(room) {
		name := nodeRange(group)
		if len(group) == 0 {
			name = "locks"
		}
		ls.add(lane{Name: name, Role: locks, Members: group})
	}
	for _, c := range clients[min(1, len(clients)):] {
		ls.add(lane{Name: c, Role: client, Members: []string{c}})
	}
	if r := sc.resource(); r != "" {
		ls.storage = ls.add(lane{Name: r, Role: storage, Members: []string{r}})
	}
	return ls
}

func (ls *lanes) add(l lane) int {
	i := len(ls.all)
	ls.all = append(ls.all, l)
	for _, m := range l.Members {
		if _, ok := ls.at[m]; !ok {
			ls.at[m] = i
		}
	}
	return i
}

// of is the lane of a process; false: it has none.
func (ls *lanes) of(process string) (int, bool) {
	i, ok := ls.at[process]
	return i, ok
}

// named reports whether a subject is a process, or begins with one, whose name is left as
// it is.
func (ls *lanes) named(subject string) bool {
	subject, _, _ = strings.Cut(subject, " ")
	subject = strings.TrimSuffix(subject, ",")
	return slices.ContainsFunc(ls.all, func(l lane) bool {
		return short(l.Name) == subject || slices.ContainsFunc(l.Members, func(m string) bool { return short(m) == subject })
	})
}

// laneEvents are the wire commands to the nodes of one lane.
type laneEvents struct {
	lane   int
	events []*event
}

// byLane puts the commands to the nodes of one lane together, from left to right.
func (ls *lanes) byLane(events []*event) []laneEvents {
	lock := slices.IndexFunc(ls.all, func(l lane) bool { return l.Role == locks })
	laneOf := func(e *event) int {
		if lane, ok := ls.of(e.Node); ok {
			return lane
		}
		return lock
	}
	var out []laneEvents
	for _, g := range grouped(events, laneOf) {
		if lane := laneOf(g[0]); lane >= 0 {
			out = append(out, laneEvents{lane, g})
		}
	}
	slices.SortFunc(out, func(a, c laneEvents) int { return cmp.Compare(a.lane, c.lane) })
	return out
}

// sent is when the first of them was sent, 0 if nobody knows.
func (g laneEvents) sent() int64 {
	t := int64(never)
	for _, e := range g.events {
		if e.Sent != 0 {
			t = min(t, e.Sent)
		}
	}
	if t == never {
		return 0
	}
	return t
}

// applied is when the last of them was applied.
func (g laneEvents) applied() (t int64) {
	for _, e := range g.events {
		t = max(t, e.Applied)
	}
	return t
}
