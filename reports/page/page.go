// Package page makes report.html, a run on one page that needs no network.
//
// Write turns a Page into it: the verdict, what happened, the timeline, the faults,
// the numbers and figures, the history, how to run it again, and what the run can't
// tell. A Page holds the run and what other packages have drawn of it. Its sections
// have the ids verdict, story, properties, timeline, faults, numbers, figures, history, again and
// limits, event N is the row #eN, and a property's result is #p-PROPERTY.
//
// Each section is a file: a function from the run to plain data, which page.tmpl
// asks for and writes out. Whatever stems from a history goes through plain first, and then through
// html/template.
//
// Deliberately missing: judging, drawing, and files.
package page

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

// Page is what report.html shows.
type Page struct {
	Run      outcome.Run
	Diagram  sequence.Diagram
	Picture  template.HTML // the diagram as an svg element; "": its text is all there is
	Timeline Part          // its HTML is "" where there is none
	Figures  []Figure
	Files    []string // names of the files beside the page that it links to
}

// Part is a piece of a page that another package made.
type Part struct {
	HTML   template.HTML
	Style  template.CSS
	Script template.JS // runs at the end of the page
}

// Figure is a plot.
type Figure struct {
	Name, Title, Caption string
	SVG                  template.HTML // an svg element
}

//go:embed page.tmpl
var layout string

//go:embed page.css
var style template.CSS

//go:embed page.js
var script template.JS

// pageTemplate parses the template on first use: most commands draw no page.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{"plain": plain, "title": title, "subject": subject, "where": where,
		"lede": lede, "states": states, "tone": tone, "badges": badges, "setup": setup, "claim": claim, "source": source, "trouble": trouble, "judged": judged,
		"faults": faults, "measured": measured, "again": again, "limits": limits}).Parse(layout))
})

// Write writes the page. The same Page gives the same bytes.
func Write(w io.Writer, p Page) error {
	if err := pageTemplate().Execute(w, struct {
		Page
		Style   template.CSS
		Script  template.JS
		Text    string
		History listing
	}{p, template.CSS(display.ColorsCSS) + style + sequence.Style + p.Timeline.Style, script, sequence.Text(p.Diagram, sequence.DefaultWidth), keep(p.Run, p.Diagram)}); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// How much is shown of one text: a sentence, and a name in a sentence or a cell.
const (
	longestText = 600
	longestCell = 300
	longestName = 60
)

// plain makes a text from a history one that can be read on a page.
// html/template does the rest.
func plain(s string) string { return display.Visible(s, longestText) }

// name is plain for a name.
func name(s string) string { return display.Visible(s, longestName) }

// full begins with a capital, unless that would change a name, and ends with a full
// stop.
func full(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	word, _, _ := strings.Cut(s, " ")
	if !strings.ContainsFunc(strings.TrimRight(word, ",:;"), func(r rune) bool { return r < 'a' || r > 'z' }) {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// term is a word and what belongs to it.
type term struct {
	Name, Text string
	Code       bool // the text is to be typed
}

// ref is an event that is linked to, where the page has its row.
type ref struct {
	N   int64
	Row bool
}

func refs(ns []int64, rows map[int64]bool) []ref {
	var out []ref
	for _, n := range ns {
		out = append(out, ref{N: n, Row: rows[n]})
	}
	return out
}

type number struct{ Name, Value, Unit, Meaning, Word string }

func measured(r outcome.Run) []number {
	var out []number
	for _, n := range verdict.Numbers {
		x, ok := r.Verdict.Numbers[n.Name]
		if !ok {
			continue
		}
		v := number{Name: n.Name, Value: figure(x), Unit: n.Unit, Meaning: n.Meaning, Word: plain(r.Verdict.Words[n.Name])}
		switch {
		case n.Unit == "share":
			v.Value, v.Unit = figure(100*x), "%"
		case n.Unit == "s" && x != 0 && math.Abs(x) < 1:
			v.Value, v.Unit = figure(1000*x), "ms"
		}
		out = append(out, v)
	}
	return out
}

// figure writes a number with three digits that count, and a count in full.
func figure(x float64) string {
	switch {
	case x == math.Trunc(x) && math.Abs(x) < 1e15:
		return display.Grouped(int(x))
	case math.Abs(x) >= 0.01 && math.Abs(x) < 1e15:
		digits := 2 - int(math.Floor(math.Log10(math.Abs(x))))
		return strconv.FormatFloat(x, 'f', min(max(digits, 0), 3), 64)
	}
	return outcome.Figure(x)
}

// again is how to run it again, and where it ran.
func again(r outcome.Run) []term {
	p := r.History.Params
	var out []term
	add := func(title, text string, code bool) {
		if text != "" {
			out = append(out, term{Name: title, Text: plain(text), Code: code})
		}
	}
	m := r.Manifest
	if m == nil {
		add("Run it again", "This is a bare history: what it takes to run it again stands in the run.json that is not here.", false)
		add("Judge it again", "lockpick check history.jsonl", true)
		add("Seed", fmt.Sprint(p.Seed), false)
		return out
	}
	add("Run it again", cmp.Or(r.Outcome.Command, m.Command), true)
	add("Replay this very run", "lockpick replay .", true)
	add("Judge, draw again", "lockpick check . ; lockpick report .", true)
	add("Seed", fmt.Sprint(m.Seed), false)
	add("Backend", m.Backend, false)
	if len(m.Sets) > 0 {
		add("Set by hand", strings.Join(m.Sets, " "), true)
	}
	add("Started", m.Started.UTC().Format("2006-01-02 15:04:05.000 UTC"), false)
	add("lockpick", m.Version, false)
	add("Go", m.Go, false)
	add("Host", fmt.Sprintf("%s/%s, %s", m.OS, m.Arch, display.Plural(m.CPUs, "CPU")), false)
	return out
}

func limits(r outcome.Run, l listing) []term {
	p, v := r.History.Params, r.Verdict
	var out []term
	add := func(title, format string, args ...any) {
		out = append(out, term{Name: title, Text: plain(fmt.Sprintf(format, args...))})
	}
	add("One run", "This is one run with one seed. That nothing was violated means: nothing was found in this run under these faults. Other seeds show other interleavings: --seeds 100.")
	backendLimits(r, add)
	switch {
	case v.ShowsNothing():
		add("Nothing decided", "%s A run that shows nothing of what it was made for counts neither for the lock nor against it.", full(v.Assumption))
	case v.Assumption != "":
		add("Only violations are decided", "%s What was violated was violated all the same; of what was not, the run shows nothing.", full(v.Assumption))
	}
	for _, e := range r.History.Events {
		if e.Op == history.OpLack {
			add("Not in the simulation", "%s of %s, %s. Redis has it, and its answer would have been another one: --backend process.", name(e.Value), name(e.Node), name(e.Cause))
		}
	}
	if v.Cut != "" {
		add("The record is cut", "%s What came after it is unknown; what was violated before it stays violated.", full(v.Cut))
	}
	var untested []string
	for _, res := range v.Results {
		if res.Outcome == verdict.NotExercised {
			untested = append(untested, res.Property)
		}
		if res.Outcome == verdict.Undecided && v.Assumption == "" {
			add(res.Property+" is undecided", "%s", full(res.Because))
		}
	}
	if len(untested) > 0 {
		add("Never put to the test", "This run gave no occasion to violate %s: nothing is said of them here.", display.List(untested))
	}
	if p.Resource == "" {
		add("No resource", "The history tells of no protected resource, so what the lock is for could not be judged.")
	}
	if v.Second == verdict.Undecided && v.Assumption == "" {
		add("The second judge", "porcupine was not asked about the whole record, or it is too long for its search; it was asked about what was found to be violated.")
	}
	for _, why := range r.Outcome.Retried {
		add("An earlier try did not count", "%s", full(why))
	}
	if m := r.Manifest; m != nil && len(m.Sets) > 0 {
		add("Other settings", "Settings were changed on the command line, so the violations and numbers that the scenario expects no longer apply: %s.", strings.Join(m.Sets, " "))
	}
	if r.Manifest == nil {
		add("No manifest", "This is a bare history. What its scenario expected is not known; it is held against what every lock should hold to.")
	}
	if l.Left > 0 {
		add("Not on this page", "%s of %s have no row here. The history has all of them, event N in line N.", display.Plural(l.Left, "event"), display.Grouped(l.All))
	}
	return out
}

func backendLimits(r outcome.Run, add func(title, format string, args ...any)) {
	switch backend := r.History.Params.Backend; backend {
	case "sim":
		add("Simulated", "Network, nodes, disks and time were simulated. The clients and the lock's code were real; what a real redis-server, kernel or network does besides what is modelled is not seen: --backend process.")
	case "":
		add("Where it ran", "The history does not say where it was made.")
	default:
		add("Real, on one machine", "The nodes were real servers on one machine, over its loopback device. The same seed gives the same plan, not the same interleaving: what a race missed this time may come the next time.")
		if m := r.Manifest; m != nil {
			add("Scaled", "On real backends durations are scaled (--scale); the lock's TTL was %s here. Margins that a machine takes in fixed time, such as scheduling, weigh more in short leases.", display.Span(int64(m.Scenario.Lock.TTL)))
		}
	}
}

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
