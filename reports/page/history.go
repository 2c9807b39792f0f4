package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/sequence"
	"lockpick/reports/words"
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

	rows map[int64]bool // numbers of the events that have a row
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
func keep(p Page) listing {
	events := p.Run.History.Events
	told := toldEvents(p)
	named := withFaults(told, p.Run.History)
	l := listing{All: len(events), rows: map[int64]bool{}}
	from, to := 0, len(events)
	if len(events) > mostRows {
		window := max(mostRows-len(named), mostRows/2)
		middle := centre(p)
		from = min(max(middle-window/2, 0), len(events)-window)
		to = from + window
		l.Around = words.Seconds(events[from].T) + " to " + words.Seconds(events[to-1].T)
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
		l.rows[e.N] = true
		l.Rows = append(l.Rows, row{N: e.N, Time: words.Decimal(e.T, 6), Process: name(e.Process), Type: name(string(e.Type)),
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
	l.Rows = append(l.Rows, row{Gap: fmt.Sprintf("%s left out, %s to %s", words.Plural(to-from, "event"), words.Seconds(events[from].T), words.Seconds(events[to-1].T))})
}

// centre is the index of the event around which a long history is shown: where the
// harm begins, or the first fault, or the beginning.
func centre(p Page) int {
	at := int64(0)
	if r := sequence.Shown(p.Run.Verdict); r != nil && r.Witness != nil {
		at = r.Witness.From + (r.Witness.To-r.Witness.From)/2
	} else if all := facts.Read(p.Run.History).Faults; len(all) > 0 {
		at = ends(p.Run.History)
		for _, f := range all {
			at = min(at, f.First().T)
		}
	}
	i, _ := slices.BinarySearchFunc(p.Run.History.Events, at, func(e history.Event, t int64) int {
		switch {
		case e.T < t:
			return -1
		case e.T > t:
			return 1
		}
		return 0
	})
	return i
}

// mostNamed bounds the events that have a row wherever they lie.
const mostNamed = mostRows / 2

// toldEvents are the numbers of the events that the verdict and the diagram speak of.
func toldEvents(p Page) map[int64]bool {
	out := map[int64]bool{}
	add := func(ns []int64) {
		for _, n := range ns {
			if len(out) < mostNamed {
				out[n] = true
			}
		}
	}
	for _, r := range p.Run.Verdict.Results {
		if r.Witness != nil {
			add(r.Witness.Events)
		}
	}
	d := p.Diagram
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

// withFaults adds the events of the nemesis.
func withFaults(told map[int64]bool, h *history.History) map[int64]bool {
	out := maps.Clone(told)
	for i := range h.Events {
		if e := &h.Events[i]; e.Process == history.Nemesis && len(out) < mostNamed {
			out[e.N] = true
		}
	}
	return out
}

func (l *listing) choices() {
	processes, types := map[string]bool{}, map[string]bool{}
	for _, r := range l.Rows {
		if r.Gap == "" && len(processes) < mostChoices {
			processes[r.Process] = true
		}
		if r.Gap == "" {
			types[r.Type] = true
		}
	}
	for p := range processes {
		l.Processes = append(l.Processes, p)
	}
	for t := range types {
		l.Types = append(l.Types, t)
	}
	slices.SortFunc(l.Processes, natural)
	slices.Sort(l.Types)
}

// natural sorts c2 before c10.
func natural(a, b string) int {
	if x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789"); x == y && len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
