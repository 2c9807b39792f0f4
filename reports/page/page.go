// Package page renders report.html, a self-contained page about one run.
//
// A Page consists of the run and the drawings that other packages made of it. The sections have the
// ids verdict, story, setup, properties, timeline, faults, numbers, figures, history, again and limits.
// Event N is row #eN, and the result for a property is #p-PROPERTY.
//
// For each section, page.tmpl calls a function that turns the run into plain data. All text from a
// history goes through plainText and then through html/template.
//
// The package neither judges the run nor renders pictures, and accesses no files.
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

// Page is the content of report.html.
type Page struct {
	Run      outcome.Run
	Diagram  sequence.Diagram
	Picture  template.HTML // the diagram as an svg element; if "", the page shows the diagram as text
	Timeline Part          // without HTML, the page has no timeline
	Figures  []Figure
	Files    []string      // names of files in the page's directory to link to
	Back     template.HTML // links to the pages that list the run
}

// Part is a section created by another package.
type Part struct {
	HTML   template.HTML
	Style  template.CSS
	Script template.JS // runs at the end of the page
}

// Figure is a plot with a caption.
type Figure struct {
	Name, Title, Caption string
	SVG                  template.HTML // svg element
}

//go:embed page.tmpl
var layout string

//go:embed page.css
var style template.CSS

//go:embed page.js
var script template.JS

// pageTemplate parses the template on first use, because most commands render no page.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{"plain": plainText, "title": title, "subject": subject, "where": backendAndSeed,
		"lede": leadSentence, "states": violationSummary, "tone": tone, "badges": badges, "setup": setup, "claim": claim, "source": sourceLinks, "trouble": errorLines, "judged": resultRows,
		"faults": newFaultTable, "measured": measuredNumbers, "again": rerunTerms, "limits": limitTerms}).Parse(layout))
})

// Write renders the page. The same Page always produces the same bytes.
func Write(w io.Writer, p Page) error {
	if err := pageTemplate().Execute(w, struct {
		Page
		Style   template.CSS
		Script  template.JS
		Text    string
		History listing
	}{p, template.CSS(display.ColorsCSS) + style + sequence.Style + p.Timeline.Style, script, sequence.Text(p.Diagram, sequence.DefaultWidth), newListing(p.Run, p.Diagram)}); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Length limits for text from a history, in characters: for a sentence, a table cell, and a name in
// a sentence or cell.
const (
	maxTextLen = 600
	maxCellLen = 300
	maxNameLen = 60
)

// plainText makes text from a history safe to show. html/template escapes it for HTML.
func plainText(s string) string { return display.Sanitize(s, maxTextLen) }

// name is like plainText, but with the limit for names.
func name(s string) string { return display.Sanitize(s, maxNameLen) }

// term is an entry of a description list.
type term struct {
	Name, Text string
	Code       bool // Text is a shell command
}

// ref refers to event N. It is a link if the page has a row for the event.
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

// numberList contains a run's numbers: the few that most readers want, and all of them.
type numberList struct{ Main, All []number }

// number is a measured number. Name is the name that expectations use.
type number struct{ Name, Label, Value, Unit, Meaning, Reason string }

// numberLabels are the names of the numbers in the page.
var numberLabels = map[string]string{
	verdict.Grants:          "Grants",
	"grants-per-second":     "Rate of grants",
	"acquire-latency-p50":   "Time to acquire, median",
	"acquire-latency-p99":   "Time to acquire, 99th percentile",
	"acquire-latency-max":   "Time to acquire, longest",
	"double-hold-seconds":   "Time with two holders",
	"incidents":             "Periods with two holders",
	"writes":                "Writes",
	"refused-writes":        "Refused writes",
	"writes-outside-belief": "Writes after the lease",
	"lost-updates":          "Lost updates",
	"refused-holders":       "Refused reads and writes of holders",
	"validity-left-min":     "Validity after an acquire, least",
	"validity-left-p50":     "Validity after an acquire, median",
	"split-vote-rate":       "Split votes",
	"losing-streak":         "Longest series of split votes",
	"jain-index":            "Fairness",
	"unavailable-seconds":   "Time nobody could get the lock",
	"unavailable-share":     "Share of time nobody could get the lock",
	verdict.UnavailableMax:  "Longest time nobody could get the lock",
	"death-to-grant-max":    "Longest wait after a holder's death",
	verdict.OrphanKeys:      "Keys left behind",
	verdict.StalledSeconds:  "Stalls of the host",
	verdict.StalledMax:      "Longest stall of the host",
}

// mainNumbers are the numbers that are not folded.
var mainNumbers = []string{verdict.Grants, verdict.UnavailableMax, "double-hold-seconds", verdict.OrphanKeys}

// measuredNumbers returns the run's numbers, or nil if there are none.
func measuredNumbers(r outcome.Run) *numberList {
	var out numberList
	for _, n := range verdict.Numbers {
		x, ok := r.Verdict.Numbers[n.Name]
		if !ok {
			continue
		}
		v := number{Name: n.Name, Label: numberLabels[n.Name], Value: formatNumber(x), Unit: n.Unit, Meaning: n.Meaning, Reason: plainText(r.Verdict.Reasons[n.Name])}
		switch {
		case n.Unit == "share":
			v.Value, v.Unit = formatNumber(100*x), "%"
		case n.Unit == "/s":
			v.Unit = "per second"
		case n.Unit == "s" && x != 0 && math.Abs(x) < 1:
			v.Value, v.Unit = formatNumber(1000*x), "ms"
		}
		out.All = append(out.All, v)
	}
	for _, name := range mainNumbers {
		if i := slices.IndexFunc(out.All, func(v number) bool { return v.Name == name }); i >= 0 {
			out.Main = append(out.Main, out.All[i])
		}
	}
	if len(out.All) == 0 {
		return nil
	}
	return &out
}

// formatNumber formats integers in full and other numbers with three significant digits.
func formatNumber(x float64) string {
	switch {
	case x == math.Trunc(x) && math.Abs(x) < 1e15:
		return display.GroupDigits(int(x))
	case math.Abs(x) >= 0.01 && math.Abs(x) < 1e15:
		digits := 2 - int(math.Floor(math.Log10(math.Abs(x))))
		return strconv.FormatFloat(x, 'f', min(max(digits, 0), 3), 64)
	}
	return outcome.FormatNumber(x)
}

// rerunTerms lists the commands to rerun the run and the environment it ran in.
func rerunTerms(r outcome.Run) []term {
	p := r.History.Params
	var out []term
	add := func(title, text string, code bool) {
		if text != "" {
			out = append(out, term{Name: title, Text: plainText(text), Code: code})
		}
	}
	m := r.Manifest
	if m == nil {
		add("Rerun", "This is a bare history. To rerun it, you need its run.json, which is missing here.", false)
		add("Check", "lockpick check history.jsonl", true)
		add("Seed", fmt.Sprint(p.Seed), false)
		return out
	}
	add("Rerun", cmp.Or(r.Outcome.Command, m.Command), true)
	add("Replay this run", "lockpick replay .", true)
	add("Check and redraw", "lockpick check . ; lockpick report .", true)
	add("Seed", fmt.Sprint(m.Seed), false)
	add("Backend", m.Backend, false)
	if len(m.Overrides) > 0 {
		add("Overrides", strings.Join(m.Overrides, " "), true)
	}
	add("Started", m.StartTime.UTC().Format("2006-01-02 15:04:05.000 UTC"), false)
	add("lockpick", m.Version, false)
	add("Go", m.Go, false)
	add("Host", fmt.Sprintf("%s/%s, %s", m.OS, m.Arch, display.Plural(m.CPUs, "CPU")), false)
	return out
}

func limitTerms(r outcome.Run, l listing) []term {
	p, v := r.History.Params, r.Verdict
	var out []term
	add := func(title, format string, args ...any) {
		out = append(out, term{Name: title, Text: plainText(fmt.Sprintf(format, args...))})
	}
	add("One run", "This is one run with one seed. If no property is violated, this means only that no violation was found in this run under these faults. Other seeds produce other interleavings (--seeds 100).")
	addBackendLimits(r, add)
	switch {
	case v.Inconclusive():
		add("Inconclusive", "%s A run that does not exercise what it was designed to exercise counts neither for nor against the lock.", display.Sentence(v.Assumption))
	case v.Assumption != "":
		add("Only violations are conclusive", "%s The violations are valid. For all other properties, the run is inconclusive.", display.Sentence(v.Assumption))
	}
	for _, e := range r.History.Events {
		if e.Op == history.OpUnsupported {
			add("Not in the simulation", "%s on %s, %s. Redis supports it and would have answered differently (--backend process).", name(e.Value), name(e.Node), name(e.Cause))
		}
	}
	if v.Cut != "" {
		add("The record is truncated", "%s Later events are unknown. The violations before that point are valid.", display.Sentence(v.Cut))
	}
	var untested []string
	for _, res := range v.Results {
		if res.Outcome == verdict.NotExercised {
			untested = append(untested, res.Property)
		}
		if res.Outcome == verdict.Undecided && v.Assumption == "" {
			add(res.Property+" is inconclusive", "%s", display.Sentence(res.Because))
		}
	}
	if len(untested) > 0 {
		add("Not exercised", "This run gave the lock no occasion to violate %s, so it says nothing about these properties.", display.List(untested))
	}
	if p.Resource == "" {
		add("No resource", "The run has no protected resource, so the effect of violations on a resource could not be judged.")
	}
	if v.Second == verdict.Undecided && v.Assumption == "" {
		add("Second judge", "porcupine did not check the whole record, or the record is too long for its search. It did check the violations that were found.")
	}
	for _, why := range r.Outcome.RetryReasons {
		add("Retried", "%s", display.Sentence(why))
	}
	if m := r.Manifest; m != nil && len(m.Overrides) > 0 {
		add("Other settings", "Because settings were changed on the command line, the violations and numbers that the scenario expects no longer apply: %s.", strings.Join(m.Overrides, " "))
	}
	if r.Manifest == nil {
		add("No manifest", "This is a bare history. Its scenario's expectations are unknown, so it is checked against what is required of every lock.")
	}
	if l.NumOmitted > 0 {
		add("Not on this page", "%s of %s are not listed here. The history contains all of them: event N is on line N.", display.Plural(l.NumOmitted, "event"), display.GroupDigits(l.NumEvents))
	}
	return out
}

func addBackendLimits(r outcome.Run, add func(title, format string, args ...any)) {
	switch backend := r.History.Params.Backend; backend {
	case "sim":
		add("Simulated", "Network, nodes, disks and time were simulated. The clients and the lock's code were real. The simulation does not cover behavior of a real redis-server, kernel or network that is not in its model (--backend process).")
	case "":
		add("Backend", "The history does not name its backend.")
	default:
		add("Real, on one machine", "The nodes were real servers on one machine, connected by its loopback device. The same seed gives the same plan, but not the same interleaving: a race that did not occur in this run may occur in the next.")
		if m := r.Manifest; m != nil {
			add("Scaled", "On real backends, durations are scaled (--scale): in this run, the lock's TTL was %s. Delays that don't scale, such as scheduling, matter more for short leases.", display.Duration(int64(m.Scenario.Lock.TTL)))
		}
	}
}

// maxRows limits the number of events on a page, to what a browser can display at once. It keeps a
// page at about a megabyte.
const maxRows = 3000

// maxChoices limits the number of processes the filter offers.
const maxChoices = 300

// listing is the part of the history listed on the page.
type listing struct {
	Rows                  []row
	Processes             []string
	Types                 []string
	NumEvents, NumOmitted int    // number of events, and how many are omitted
	Span                  string // time span listed completely, if not all

	HasRow map[int64]bool // whether an event is listed, by number
}

// row is an event or a gap where events are omitted.
type row struct {
	N                             int64
	Time, Process, Type, Op, What string
	Cited                         bool // by the verdict or the diagram
	Highlighted                   bool // cited, or an event of a fault
	Gap                           string
}

// newListing lists all events of a short history. Of a long history, it lists the cited events and
// the events around the first violation.
func newListing(r outcome.Run, d sequence.Diagram) listing {
	events := r.History.Events
	cited := citedEvents(r, d)
	namedEvents := maps.Clone(cited)
	for i := range events {
		if e := &events[i]; e.Process == history.Nemesis && len(namedEvents) < maxNamedEvents {
			namedEvents[e.N] = true
		}
	}
	l := listing{NumEvents: len(events), HasRow: map[int64]bool{}}
	from, to := 0, len(events)
	if len(events) > maxRows {
		window := max(maxRows-len(namedEvents), maxRows/2)
		middle := center(r)
		from = min(max(middle-window/2, 0), len(events)-window)
		to = from + window
		l.Span = display.Seconds(events[from].T) + " to " + display.Seconds(events[to-1].T)
	}
	gap := 0 // index of the first event since the last row
	budget := maxRows - (to - from)
	for i := range events {
		e := &events[i]
		inside := from <= i && i < to
		if !inside && (!namedEvents[e.N] || budget == 0) {
			continue
		}
		if !inside {
			budget--
		}
		l.gap(events, gap, i)
		gap = i + 1
		l.HasRow[e.N] = true
		l.Rows = append(l.Rows, row{N: e.N, Time: display.Decimal(e.T, 6), Process: name(e.Process), Type: name(string(e.Type)),
			Op: operationName(e), What: eventDetail(e), Highlighted: namedEvents[e.N], Cited: cited[e.N]})
	}
	l.gap(events, gap, len(events))
	l.collectChoices()
	return l
}

// operationName returns an event's operation as shown in the list.
func operationName(e *history.Event) string {
	if e.Op == history.OpLife {
		return "key"
	}
	return name(e.Op)
}

// gap adds a row for the omitted events[from:to].
func (l *listing) gap(events []history.Event, from, to int) {
	if from >= to {
		return
	}
	l.NumOmitted += to - from
	l.Rows = append(l.Rows, row{Gap: fmt.Sprintf("%s omitted, %s to %s", display.Plural(to-from, "event"), display.Seconds(events[from].T), display.Seconds(events[to-1].T))})
}

// center returns the index of the event that a long history is listed around: the middle of the
// violation or, without a violation, the first fault or the first event.
func center(r outcome.Run) int {
	at := int64(0)
	if x := sequence.ShownResult(r.Verdict); x != nil && x.Witness != nil {
		at = x.Witness.From + (x.Witness.To-x.Witness.From)/2
	} else if all := facts.Read(r.History).Faults; len(all) > 0 {
		at = all[0].FirstEvent().T
	}
	i, _ := slices.BinarySearchFunc(r.History.Events, at, func(e history.Event, t int64) int { return cmp.Compare(e.T, t) })
	return i
}

// maxNamedEvents limits the number of cited events outside the window that get a row.
const maxNamedEvents = maxRows / 2

// citedEvents returns the numbers of the events that the verdict or the diagram refers to.
func citedEvents(r outcome.Run, d sequence.Diagram) map[int64]bool {
	out := map[int64]bool{}
	add := func(ns []int64) {
		for _, n := range ns {
			if len(out) < maxNamedEvents {
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

// collectChoices collects the processes and types of the listed events for the filter.
func (l *listing) collectChoices() {
	processes, types := map[string]bool{}, map[string]bool{}
	for _, r := range l.Rows {
		if r.Gap != "" {
			continue
		}
		if len(processes) < maxChoices {
			processes[r.Process] = true
		}
		types[r.Type] = true
	}
	l.Processes, l.Types = slices.SortedFunc(maps.Keys(processes), compareNatural), slices.Sorted(maps.Keys(types))
}

// compareNatural sorts c2 before c10.
func compareNatural(a, b string) int {
	if x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789"); x == y && len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
