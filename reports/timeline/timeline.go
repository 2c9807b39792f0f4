// Package timeline lays out a run as a timeline that a reader can zoom.
//
// A Timeline is plain data. It consists of lanes, which represent a process, the faults, or the holders
// of a lock. A lane consists of rows, and a row contains items: bars, or marks if they have no duration.
// New creates a Timeline from a history and its verdict. All that timeline.js does is draw the visible
// part.
//
//	faults    ───────▨▨▨▨▨▨▨▨──────────   faults injected by the nemesis
//	holders   ──▁▁▁▁▁▁▁▁██▁▁▁──────────   number of clients that believe they hold a lock; must not exceed 1
//	c1        ─A▁▁▁C▨▨▨▨▨▨▨▨▨W─R───────   operations, with beliefs below them
//	n1        ──[c1's key ]─[c2's key]─   keys on a node
//	r1        ────────────●──✗─────────   writes at the time they were applied
//
// A long run is drawn completely only around the first violation or, without a violation, the first
// fault. Elsewhere, operations and writes are omitted, and beliefs and leases are folded. Omitted states
// what is missing.
//
// The checker defines what a belief and a violation is.
package timeline

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

// Timeline is the layout of a run. Times are true time in microseconds since the run began, and heights
// are in pixels. Text may contain anything from a history, so renderers must insert it as text.
type Timeline struct {
	End          int64    `json:"end"`    // of the run
	InitialView  span     `json:"open"`   // what to show first
	CompleteSpan span     `json:"whole"`  // where nothing is folded or omitted
	Height       int      `json:"height"` // of all lanes together
	Lanes        []lane   `json:"lanes"`  // from top to bottom
	Rows         []row    `json:"rows"`
	Lines        []line   `json:"lines"`
	Kinds        []kind   `json:"kinds"` // kinds of items
	Texts        []string `json:"texts"` // texts that items refer to; the first is ""
	Items        []item   `json:"items"` // ordered by row and time
	Views        []view   `json:"views"` // incidents, ordered by time
	First        int      `json:"first"` // index of the view to show first
	// Unlisted states which incidents have no view, or is "" if all have one.
	Unlisted string `json:"-"`
	Omitted  string `json:"omitted"` // states what is not drawn, or is ""
}

// span is a time interval.
type span [2]int64

// role states what a lane represents.
type role string

const (
	faultsRole   role = "faults"
	holdersRole  role = "holders"
	clientRole   role = "client"
	nodeRole     role = "node"
	resourceRole role = "resource"
)

// lane represents a process, the faults, or the holders of a lock.
type lane struct {
	Name string `json:"name"`
	Role role   `json:"role"`
	Y    int    `json:"y"`
	H    int    `json:"h"`
}

// row is a line in a lane. Items in a row do not overlap. If Cover is set, the row is a hatched
// background for the whole lane, whose items may overlap.
type row struct {
	Lane  int  `json:"lane"`
	Y     int  `json:"y"`
	H     int  `json:"h"`
	Cover bool `json:"cover,omitempty"`
}

// line is a step line. A point is a time and the value from then on.
type line struct {
	Row    int        `json:"row"`
	Points [][2]int64 `json:"points"`
}

// kind is the appearance and description of a kind of item.
type kind struct {
	Class string `json:"class"`
	Glyph string `json:"glyph,omitempty"` // shown if there is no room for a label
	Words string `json:"words"`
}

// item is a bar or, if From equals To, a mark. Label, Detail and Session are indexes of texts.
type item struct {
	Row, Kind int
	From, To  int64
	Label     int     // shown on the item
	Detail    int     // describes the item
	Session   int     // 0 if there is no session
	Events    []int64 // numbers of the events it stands for; never empty
}

// MarshalJSON encodes an item as a list of numbers, to save space: row, kind, from, duration, label,
// detail, session, events.
func (i item) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]int64{int64(i.Row), int64(i.Kind), i.From, i.To - i.From, int64(i.Label), int64(i.Detail), int64(i.Session)}, i.Events...))
}

// view is the time span to show for an incident.
type view struct {
	Property string  `json:"property"`
	Because  string  `json:"because"`
	From     int64   `json:"from"`
	To       int64   `json:"to"`
	Events   []int64 `json:"events"`

	shown bool // the verdict shows this incident first
}

// New lays out a run. It accepts any history, even one that no run could produce, and omits whatever is
// inconsistent.
func New(h *history.History, v verdict.Verdict) Timeline {
	b := newBuilder(h)
	b.addViews(v)
	b.drawFaultLane()
	b.drawHolderLanes()
	b.drawClientLanes()
	b.drawNodeLanes()
	b.drawResourceLane(v)
	c := b.chart
	slices.SortStableFunc(c.t.Items, func(x, y item) int {
		return cmp.Or(cmp.Compare(x.Row, y.Row), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	about, violated := b.focus()
	c.setInitialView(about, violated)
	c.foldFarItems(about)
	return c.t
}

// micros converts nanoseconds to microseconds.
func micros(ns int64) int64 { return ns / 1000 }

const noDeadline = facts.Never

const (
	maxTextLen = 400
	maxNameLen = 24
)

// shortName sanitizes and truncates a name to leave room for the lanes.
func shortName(name string) string {
	return display.Truncate(display.Sanitize(name, maxNameLen), maxNameLen)
}

// joinParts joins the nonempty parts.
func joinParts(parts ...string) string { return display.Join("; ", parts...) }

type event = history.Event

// run holds the facts about a run.
type run struct {
	f       *facts.Facts
	end     int64 // when the run ended, in nanoseconds
	beliefs []facts.Window
	owners  map[string]string // sessions by token

	history    *history.History
	violations map[string][]verdict.Result // cached results of incidents, by property
}

func newRun(h *history.History) *run {
	f := facts.Read(h)
	r := &run{f: f, beliefs: f.AllWindows(), owners: map[string]string{}, history: h, violations: map[string][]verdict.Result{}}
	for s := range f.Sessions() {
		if token := s.Token(); token != "" {
			r.owners[token] = s.Name()
		}
	}
	for i := range f.Events {
		e := &f.Events[i]
		if e.Op != history.OpLog {
			r.end = max(r.end, e.T)
		}
		if e == f.StopEvent {
			break
		}
	}
	r.end = max(r.end, 1000)
	return r
}

// clientOf returns a session's client. If the session is not in the record, it returns the part of the
// name before the slash.
func (r *run) clientOf(session string) string {
	if s := r.f.SessionByName(session); s != nil {
		return s.Client()
	}
	if i := strings.LastIndexByte(session, '/'); i > 0 {
		return session[:i]
	}
	return session
}

type builder struct {
	run   *run
	chart *chart
}

func newBuilder(h *history.History) *builder {
	r := newRun(h)
	return &builder{run: r, chart: &chart{end: r.end, kinds: map[string]int{}, texts: map[string]int{"": 0}, t: Timeline{End: micros(r.end), Texts: []string{""},
		Lanes: []lane{}, Rows: []row{}, Lines: []line{}, Kinds: []kind{}, Items: []item{}, Views: []view{}}}}
}

// maxViews limits the number of incidents listed on a page.
const maxViews = 1000

// addViews lists the violations that the verdict shows and the other incidents that it counts, in order
// of time.
func (b *builder) addViews(v verdict.Verdict) {
	all, unlisted := []view{}, []string{}
	for _, r := range v.Results {
		if r.Outcome != verdict.Violated || r.Witness == nil {
			continue
		}
		shown := len(all) == 0
		found := append([]verdict.Result{r}, b.run.incidents(&r)...)
		if i := slices.IndexFunc(found[1:], func(x verdict.Result) bool { return x.Witness.SameViolation(r.Witness) }); i >= 0 {
			found = slices.Delete(found, i+1, i+2)
		}
		for i, x := range found {
			w := x.Witness
			from, to := min(max(w.From, 0), b.run.end), min(max(w.To, w.From, 0), b.run.end)
			all = append(all, view{Property: shortName(r.Property), Because: display.Sanitize(x.Because, maxTextLen),
				From: micros(from), To: micros(to), Events: slices.Clone(w.Events), shown: shown && i == 0})
		}
		if n := r.Incidents - len(found); n > 0 && len(found) <= maxViews {
			unlisted = append(unlisted, fmt.Sprintf("%s of %s", display.GroupDigits(n), shortName(r.Property)))
		}
	}
	slices.SortStableFunc(all, func(x, y view) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	if len(all) > maxViews {
		seen := 0
		all = slices.DeleteFunc(all, func(x view) bool { seen++; return seen > maxViews && !x.shown })
		unlisted = append(unlisted, "incidents after "+display.Seconds(all[maxViews-1].From*1000))
	}
	if len(unlisted) > 0 {
		b.chart.t.Unlisted = "Counted by the verdict but not listed: " + display.List(unlisted) + "."
	}
	b.chart.t.Views = all
	b.chart.t.First = max(0, slices.IndexFunc(all, func(x view) bool { return x.shown }))
}

// incidents returns the incidents of a violated property, but no more than can be drawn.
func (r *run) incidents(res *verdict.Result) []verdict.Result {
	if res.Incidents < 2 {
		return nil
	}
	all, ok := r.violations[res.Property]
	if !ok {
		all = checker.Incidents(r.history, res.Property, maxItems)
		r.violations[res.Property] = all
	}
	return all
}

// focus returns the time span of the violation to show first and true or, without a violation, the start
// of the first fault and false.
func (b *builder) focus() (span, bool) {
	if t := b.chart.t; len(t.Views) > 0 {
		return span{t.Views[t.First].From, t.Views[t.First].To}, true
	}
	for _, g := range b.run.faultGroups() {
		from, _ := b.run.spanOf(g)
		return span{micros(from), micros(from)}, false
	}
	return span{}, false
}

// Style is the timeline's style sheet. It requires the variables in display.ColorsCSS.
//
//go:embed timeline.css
var Style string

// Script draws the timeline. A page must include it after the fragment and after all elements that the
// script highlights.
//
//go:embed timeline.js
var Script string

//go:embed fragment.html
var fragment string

var fragmentTemplate = template.Must(template.New("timeline").Funcs(template.FuncMap{"number": func(i int) int { return i + 1 }}).Parse(fragment))

// Fragment returns the timeline as part of a page. It fails only if there is a bug.
func (t Timeline) Fragment() (template.HTML, error) {
	data, err := t.encode()
	if err != nil {
		return "", fmt.Errorf("encode timeline: %w", err)
	}
	var out strings.Builder
	err = fragmentTemplate.Execute(&out, struct {
		Timeline
		JSON   template.JS
		Legend []legend
	}{t, template.JS(data), t.legend()})
	if err != nil {
		return "", fmt.Errorf("write timeline: %w", err)
	}
	return template.HTML(out.String()), nil
}

// maxPlainJSON is the maximum size of uncompressed JSON in a page, in bytes.
const maxPlainJSON = 128 << 10

// encode encodes the timeline as JSON. If that is long, it returns a JSON string instead, which contains
// the compressed JSON: base64 of gzip.
func (t Timeline) encode() ([]byte, error) {
	data, err := json.Marshal(t) // escapes <, > and &
	if err != nil || len(data) <= maxPlainJSON {
		return data, err
	}
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(compressed.Bytes()) // []byte becomes base64
}

// Range returns the URL fragment that shows the view with a margin.
func (v view) Range() string {
	margin := max((v.To-v.From)/2, 5000)
	return "#t=" + display.Decimal(max(0, v.From-margin)*1000, 6) + "-" + display.Decimal((v.To+margin)*1000, 6)
}

// When formats the view's time span.
func (v view) When() string {
	return display.Interval(v.From*1000, v.To*1000)
}

type legend struct{ Class, Words string }

// legend explains the kinds of items that occur, in the order of t.Kinds.
func (t Timeline) legend() []legend {
	used := map[int]bool{}
	for _, i := range t.Items {
		used[i.Kind] = true
	}
	var out []legend
	for n, k := range t.Kinds {
		if used[n] {
			out = append(out, legend{k.Class, k.Words})
		}
	}
	return out
}

// chart builds a Timeline, from top to bottom.
type chart struct {
	t     Timeline
	end   int64 // when the run ended, in nanoseconds
	kinds map[string]int
	texts map[string]int
	y     int
}

// addLane adds an empty lane.
func (c *chart) addLane(name string, role role) {
	if len(c.t.Lanes) > 0 {
		c.y += laneGap
	}
	c.t.Lanes = append(c.t.Lanes, lane{Name: shortName(name), Role: role, Y: c.y})
}

const laneGap = 6

// addRow adds a row to the last lane and returns its index.
func (c *chart) addRow(h int) int {
	c.t.Rows = append(c.t.Rows, row{Lane: len(c.t.Lanes) - 1, Y: c.y, H: h})
	c.y += h
	l := &c.t.Lanes[len(c.t.Lanes)-1]
	l.H, c.t.Height = c.y-l.Y, c.y
	return len(c.t.Rows) - 1
}

// addCover adds a background row to the last lane, which must be complete, and returns its index.
func (c *chart) addCover() int {
	l := len(c.t.Lanes) - 1
	c.t.Rows = append(c.t.Rows, row{Lane: l, Y: c.t.Lanes[l].Y, H: c.t.Lanes[l].H, Cover: true})
	return len(c.t.Rows) - 1
}

// put adds an item. from and to are in nanoseconds.
func (c *chart) put(row int, class string, from, to int64, s itemText, events ...*event) {
	from = min(max(from, 0), c.end)
	to = min(max(to, from), c.end)
	c.add(item{Row: row, Kind: c.kindIndex(class), From: micros(from), To: micros(to),
		Label: c.textIndex(s.label), Detail: c.textIndex(s.detail), Session: c.textIndex(s.session), Events: eventNumbers(events...)})
}

// eventNumbers lists the numbers of the events, except nil.
func eventNumbers(events ...*event) (all []int64) {
	for _, e := range events {
		if e != nil {
			all = append(all, e.N)
		}
	}
	return all
}

type itemText struct{ label, detail, session string }

func (c *chart) add(i item) {
	slices.Sort(i.Events)
	i.Events = slices.Compact(i.Events)
	if len(i.Events) > 0 {
		c.t.Items = append(c.t.Items, i)
	}
}

func (c *chart) kindIndex(class string) int {
	i, ok := c.kinds[class]
	if !ok {
		i = len(c.t.Kinds)
		c.kinds[class] = i
		k := itemKinds[class]
		k.Class = class
		c.t.Kinds = append(c.t.Kinds, k)
	}
	return i
}

// limitLanes returns at most limit names, which are to get lanes, and notes how many it omits.
func (c *chart) limitLanes(names []string, limit int, noun string) []string {
	if len(names) <= limit {
		return names
	}
	c.noteOmitted(display.Plural(len(names)-limit, "more "+noun))
	return names[:limit]
}

func (c *chart) textIndex(s string) int {
	s = display.Sanitize(s, maxTextLen)
	i, ok := c.texts[s]
	if !ok {
		i = len(c.t.Texts)
		c.texts[s] = i
		c.t.Texts = append(c.t.Texts, s)
	}
	return i
}

func (c *chart) noteOmitted(what string) {
	if c.t.Omitted != "" {
		c.t.Omitted += "; "
	}
	c.t.Omitted += what
}

// itemKinds lists the kinds of items by CSS class.
var itemKinds = map[string]kind{
	"fault":     {Words: "active fault"},
	"fault-try": {Words: "fault being injected"},
	"fault-at":  {Glyph: "◆", Words: "instantaneous fault"},
	"fault-no":  {Glyph: "✗", Words: "fault that could not be injected, read back, or healed"},
	"overlap":   {Glyph: "2", Words: "more than one client believes that it holds the lock"},

	"acquire-ok":   {Glyph: "A", Words: "acquire: succeeded"},
	"acquire-fail": {Glyph: "✗", Words: "acquire: failed"},
	"acquire-info": {Glyph: "?", Words: "acquire: outcome unknown"},
	"read-ok":      {Glyph: "R", Words: "read from the resource"},
	"read-fail":    {Glyph: "R", Words: "read that failed"},
	"read-info":    {Glyph: "?", Words: "read without a reply"},
	"check-ok":     {Glyph: "C", Words: "check of its own deadline: not reached yet"},
	"check-fail":   {Glyph: "C", Words: "check of its own deadline: passed, so it does not write"},
	"write-ok":     {Glyph: "W", Words: "write to the resource: applied"},
	"write-fail":   {Glyph: "W", Words: "write to the resource: refused"},
	"write-info":   {Glyph: "?", Words: "write without a reply"},
	"extend-ok":    {Glyph: "E", Words: "extend: succeeded"},
	"extend-fail":  {Glyph: "E", Words: "extend: refused"},
	"extend-info":  {Glyph: "?", Words: "extend: outcome unknown"},
	"release-ok":   {Glyph: "L", Words: "release: succeeded"},
	"release-fail": {Glyph: "L", Words: "release: no longer held the lock"},
	"release-info": {Glyph: "?", Words: "release: outcome unknown"},
	"other":        {Glyph: "·", Words: "operation"},

	"belief": {Words: "believes that it holds the lock"},
	"paused": {Words: "paused"},
	"down":   {Words: "down"},
	"death":  {Glyph: "✝", Words: "killed, not restarted"},
	"clock":  {Words: "clock is wrong"},

	"lease":       {Words: "has the key until it expires by the node's clock or is deleted"},
	"lease-early": {Words: "has the key but loses it before it expires"},
	"lost":        {Glyph: "!", Words: "the key is gone early"},
	"many":        {Words: "several consecutive items, folded"},

	"accepted": {Glyph: "●", Words: "write accepted by the resource"},
	"refused":  {Glyph: "✗", Words: "write refused by the resource"},
	"damage":   {Glyph: "●", Words: "write accepted by the resource, which it damages"},
}
