package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

// mostRows is how many events a page lists. A browser takes them in at once, and
// they make about a megabyte.
const mostRows = 3000

// mostChoices bounds the list of processes to choose from.
const mostChoices = 300

// listing is the history as far as the page lists it.
type listing struct {
	Rows      []row
	Processes []string
	Types     []string
	All, Left int // events, and those left out
	Around    string

	Has map[int64]bool // numbers of the events that have a row
}

// row is an event, or where events are left out.
type row struct {
	N                             int64
	Time, Process, Type, Op, What string
	Named, Printed                bool // the verdict, the diagram or a fault names it; not only a fault does
	Gap                           string
}

// keep chooses the events that have a row: all, or those that the page names and
// what lies around the first violation.
func keep(r outcome.Run, d sequence.Diagram) listing {
	events := r.History.Events
	told := toldEvents(r, d)
	named := maps.Clone(told)
	for i := range events {
		if e := &events[i]; e.Process == history.Nemesis && len(named) < mostNamed {
			named[e.N] = true
		}
	}
	l := listing{All: len(events), Has: map[int64]bool{}}
	from, to := 0, len(events)
	if len(events) > mostRows {
		window := max(mostRows-len(named), mostRows/2)
		middle := centre(r)
		from = min(max(middle-window/2, 0), len(events)-window)
		to = from + window
		l.Around = display.Seconds(events[from].T) + " to " + display.Seconds(events[to-1].T)
	}
	gap := 0 // where the events begin that are left out
	spare := mostRows - (to - from)
	for i := range events {
		e := &events[i]
		inside := from <= i && i < to
		if !inside && (!named[e.N] || spare == 0) {
			continue
		}
		if !inside {
			spare--
		}
		l.gap(events, gap, i)
		gap = i + 1
		l.Has[e.N] = true
		l.Rows = append(l.Rows, row{N: e.N, Time: display.Decimal(e.T, 6), Process: name(e.Process), Type: name(string(e.Type)),
			Op: name(e.Op), What: detail(e), Named: named[e.N], Printed: told[e.N]})
	}
	l.gap(events, gap, len(events))
	l.choices()
	return l
}

// gap adds a row for events[from:to], which are left out.
func (l *listing) gap(events []history.Event, from, to int) {
	if from >= to {
		return
	}
	l.Left += to - from
	l.Rows = append(l.Rows, row{Gap: fmt.Sprintf("%s left out, %s to %s", display.Plural(to-from, "event"), display.Seconds(events[from].T), display.Seconds(events[to-1].T))})
}

// centre is the index of the event around which a long history is shown: where the
// harm begins, or the first fault, or the beginning.
func centre(r outcome.Run) int {
	at := int64(0)
	if x := sequence.Shown(r.Verdict); x != nil && x.Witness != nil {
		at = x.Witness.From + (x.Witness.To-x.Witness.From)/2
	} else if all := facts.Read(r.History).Faults; len(all) > 0 {
		at = all[0].First().T
		for _, f := range all {
			at = min(at, f.First().T)
		}
	}
	i, _ := slices.BinarySearchFunc(r.History.Events, at, func(e history.Event, t int64) int { return cmp.Compare(e.T, t) })
	return i
}

// mostNamed bounds the events that have a row wherever they lie.
const mostNamed = mostRows / 2

// toldEvents are the numbers of the events that the verdict and the diagram speak of.
func toldEvents(r outcome.Run, d sequence.Diagram) map[int64]bool {
	out := map[int64]bool{}
	add := func(ns []int64) {
		for _, n := range ns {
			if len(out) < mostNamed {
				out[n] = true
			}
		}
	}
	for _, res := range r.Verdict.Results {
		if res.Witness != nil {
			add(res.Witness.Events)
		}
	}
	for _, a := range d.Arrows {
		add(a.Events)
	}
	for _, b := range d.Bars {
		add(b.Events)
	}
	for _, n := range d.Notes {
		add(n.Events)
	}
	for _, b := range d.Bands {
		add(b.Events)
	}
	if d.Stop != nil {
		add(d.Stop.Events)
	}
	return out
}

// choices are the processes and types of the events that are listed.
func (l *listing) choices() {
	processes, types := map[string]bool{}, map[string]bool{}
	for _, r := range l.Rows {
		if r.Gap != "" {
			continue
		}
		if len(processes) < mostChoices {
			processes[r.Process] = true
		}
		types[r.Type] = true
	}
	l.Processes, l.Types = slices.SortedFunc(maps.Keys(processes), natural), slices.Sorted(maps.Keys(types))
}

// natural sorts c2 before c10.
func natural(a, b string) int {
	if x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789"); x == y && len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
