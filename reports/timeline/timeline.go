// Package timeline lays out a run on a time axis, lane by lane, for a page with zoom.
//
// A Timeline is plain data: what each row shows, and when. A lane is one process, the faults, or the
// holders of a lock. A row is one line of a lane. An item is a bar, or a mark if it has no duration.
// Of makes a Timeline from the history and the verdict. timeline.js draws the visible part and only
// converts it to pixels.
//
//	faults    ───────▨▨▨▨▨▨▨▨──────────   faults injected by the nemesis
//	holders   ──▁▁▁▁▁▁▁▁██▁▁▁──────────   number of clients that believe they hold a lock; 1 at most
//	c1        ─A▁▁▁C▨▨▨▨▨▨▨▨▨W─R───────   operations, with beliefs below them
//	n1        ──[c1's key ]─[c2's key]─   the key a node has, and until when
//	r1        ────────────●──✗─────────   writes in the order they were applied
//
// If a run is too long to draw completely, only a window around the first violation, or else around
// the first fault, is complete. Outside the window there are beliefs, leases, holders and faults,
// folded where they are dense. Omitted states what is missing.
//
// The package does not define beliefs and violations. The checker does.
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

// Timeline is the layout of a run. Instants are microseconds of true time since the run began, and
// heights are pixels. Text may contain anything that a history contains, so renderers must insert it
// as text.
type Timeline struct {
	End    int64    `json:"end"`    // of the run
	Open   span     `json:"open"`   // shown first
	Whole  span     `json:"whole"`  // the span in which nothing is folded or omitted
	Height int      `json:"height"` // of all lanes
	Lanes  []lane   `json:"lanes"`  // from top to bottom
	Rows   []row    `json:"rows"`
	Lines  []line   `json:"lines"`
	Kinds  []kind   `json:"kinds"` // kinds of items
	Texts  []string `json:"texts"` // texts of items; the first is ""
	Items  []item   `json:"items"` // by row, and within a row by time
	Views  []view   `json:"views"` // the incidents, in order of time
	First  int      `json:"first"` // index of the view that the page opens with
	// Unlisted states which incidents have no view; "" if all have one.
	Unlisted string `json:"-"`
	Omitted  string `json:"omitted"` // what is not drawn; "" if everything is drawn
}

// span is the interval between two instants.
type span [2]int64

// role is what a lane represents.
type role string

const (
	faults   role = "faults"
	holders  role = "holders"
	client   role = "client"
	node     role = "node"
	resource role = "resource"
)

// lane represents one process, or something that all processes share, such as the faults.
type lane struct {
	Name string `json:"name"`
	Role role   `json:"role"`
	Y    int    `json:"y"`
	H    int    `json:"h"`
}

// row is a line of a lane. Items of a row do not overlap. A row with Cover set lies behind the other
// rows of its lane, for hatching.
type row struct {
	Lane  int  `json:"lane"`
	Y     int  `json:"y"`
	H     int  `json:"h"`
	Cover bool `json:"cover,omitempty"`
}

// line is a step line in a row: each point gives the number from an instant on.
type line struct {
	Row    int        `json:"row"`
	Points [][2]int64 `json:"points"`
}

// kind is a kind of items, with their appearance and description.
type kind struct {
	Class string `json:"class"`
	Glyph string `json:"glyph,omitempty"` // used if there is no room for a label
	Words string `json:"words"`
}

// item is a bar, or a mark if From equals To.
type item struct {
	Row, Kind int
	From, To  int64
	Label     int     // text on it
	Detail    int     // text about it
	Session   int     // index of a text: the session; 0 if there is none
	Events    []int64 // numbers of the events that it represents, never empty
}

// MarshalJSON writes an item as a list of numbers to save space: row, kind, from, length, label,
// detail, session, events.
func (i item) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]int64{int64(i.Row), int64(i.Kind), i.From, i.To - i.From, int64(i.Label), int64(i.Detail), int64(i.Session)}, i.Events...))
}

// view is the span to show for a violation.
type view struct {
	Property string  `json:"property"`
	Because  string  `json:"because"`
	From     int64   `json:"from"`
	To       int64   `json:"to"`
	Events   []int64 `json:"events"`

	shown bool // the verdict shows it first
}

// Of lays out a run with its verdict. It accepts any history, even one that no run could have
// produced, and omits whatever is inconsistent.
func Of(h *history.History, v verdict.Verdict) Timeline {
	b := newBuilder(h)
	b.views(v)
	b.faultLane()
	b.holderLanes()
	b.clientLanes()
	b.nodeLanes()
	b.resourceLane(v)
	c := b.chart
	slices.SortStableFunc(c.t.Items, func(x, y item) int {
		return cmp.Or(cmp.Compare(x.Row, y.Row), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	about, violated := b.focus()
	c.setInitialView(about, violated)
	c.foldFarItems(about)
	return c.t
}

// micros converts an instant of a history to microseconds.
func micros(ns int64) int64 { return ns / 1000 }

const noDeadline = facts.Never

const (
	maxTextLen = 400
	maxNameLen = 24
)

// shortName shortens a name to leave room for the lanes.
func shortName(name string) string { return display.Fit(display.Visible(name, maxNameLen), maxNameLen) }

// sentence joins the parts that are not empty.
func sentence(parts ...string) string { return display.Join("; ", parts...) }

type event = history.Event

// run holds the facts about a run.
type run struct {
	f       *facts.Facts
	end     int64 // time at which the run ended, in nanoseconds
	beliefs []facts.Window
	owners  map[string]string // session by token

	history    *history.History
	violations map[string][]verdict.Result // caches incidents, by property
}

func newRun(h *history.History) *run {
	f := facts.Read(h)
	r := &run{f: f, beliefs: f.Beliefs(), owners: map[string]string{}, history: h, violations: map[string][]verdict.Result{}}
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
		if e == f.Stop {
			break
		}
	}
	r.end = max(r.end, 1000)
	return r
}

// clientOf returns a session's client. If the session is not in the record, the client is the first
// part of its name.
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

// maxViews limits the incidents that a page lists.
const maxViews = 1000

// views lists the violations that the verdict shows and all other incidents that it counts, in
// order of time. First is the index of the one that the verdict shows first.
func (b *builder) views(v verdict.Verdict) {
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
			all = append(all, view{Property: shortName(r.Property), Because: display.Visible(x.Because, maxTextLen),
				From: micros(from), To: micros(to), Events: slices.Clone(w.Events), shown: shown && i == 0})
		}
		if n := r.Incidents - len(found); n > 0 && len(found) <= maxViews {
			unlisted = append(unlisted, fmt.Sprintf("%s of %s", display.Grouped(n), shortName(r.Property)))
		}
	}
	slices.SortStableFunc(all, func(x, y view) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	if len(all) > maxViews {
		seen := 0
		all = slices.DeleteFunc(all, func(x view) bool { seen++; return seen > maxViews && !x.shown })
		unlisted = append(unlisted, "those after "+display.Seconds(all[maxViews-1].From*1000))
	}
	if len(unlisted) > 0 {
		b.chart.t.Unlisted = "Counted by the verdict but not listed: " + display.List(unlisted) + "."
	}
	b.chart.t.Views = all
	b.chart.t.First = max(0, slices.IndexFunc(all, func(x view) bool { return x.shown }))
}

// incidents returns the incidents of a violated property, as many as can be drawn.
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

// focus returns the span of the violation shown first or, without a violation, of the first fault.
// It also reports whether the span is that of a violation.
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

// Style is the timeline's style sheet. It needs the variables of display.ColorsCSS.
//
//go:embed timeline.css
var Style string

// Script draws the timeline. It must follow the fragment and all elements that it highlights.
//
//go:embed timeline.js
var Script string

//go:embed fragment.html
var fragment string

var fragmentTemplate = template.Must(template.New("timeline").Funcs(template.FuncMap{"number": func(i int) int { return i + 1 }}).Parse(fragment))

// Fragment returns the timeline as a part of a page. An error is a bug.
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

// maxPlainJSON is the size up to which a page contains the JSON uncompressed, in bytes.
const maxPlainJSON = 128 << 10

// encode writes the timeline as JSON. It writes a long one as a string: base64 of the gzipped JSON.
func (t Timeline) encode() ([]byte, error) {
	data, err := json.Marshal(t) // escapes <, > and & as \u003c etc.
	if err != nil || len(data) <= maxPlainJSON {
		return data, err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(packed.Bytes()) // []byte becomes base64
}

// Range returns the view as a URL fragment, with a margin.
func (v view) Range() string {
	margin := max((v.To-v.From)/2, 5000)
	return "#t=" + display.Decimal(max(0, v.From-margin)*1000, 6) + "-" + display.Decimal((v.To+margin)*1000, 6)
}

// When describes the view's span.
func (v view) When() string {
	return display.FromTo(v.From*1000, v.To*1000)
}

type legend struct{ Class, Words string }

// legend explains the kinds of items that are drawn, in the order of t.Kinds.
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

// chart builds a Timeline lane by lane.
type chart struct {
	t     Timeline
	end   int64 // time at which the run ended, in nanoseconds
	kinds map[string]int
	texts map[string]int
	y     int
}

// lane begins a lane below the existing ones.
func (c *chart) lane(name string, role role) {
	if len(c.t.Lanes) > 0 {
		c.y += laneGap
	}
	c.t.Lanes = append(c.t.Lanes, lane{Name: shortName(name), Role: role, Y: c.y})
}

const laneGap = 6

// row adds a row to the last lane.
func (c *chart) row(h int) int {
	c.t.Rows = append(c.t.Rows, row{Lane: len(c.t.Lanes) - 1, Y: c.y, H: h})
	c.y += h
	l := &c.t.Lanes[len(c.t.Lanes)-1]
	l.H, c.t.Height = c.y-l.Y, c.y
	return len(c.t.Rows) - 1
}

// cover adds a row behind the existing rows of the last lane.
func (c *chart) cover() int {
	l := len(c.t.Lanes) - 1
	c.t.Rows = append(c.t.Rows, row{Lane: l, Y: c.t.Lanes[l].Y, H: c.t.Lanes[l].H, Cover: true})
	return len(c.t.Rows) - 1
}

// put adds an item. from and to are instants of the history.
func (c *chart) put(row int, class string, from, to int64, s itemText, events ...*event) {
	from = min(max(from, 0), c.end)
	to = min(max(to, from), c.end)
	c.add(item{Row: row, Kind: c.kind(class), From: micros(from), To: micros(to),
		Label: c.text(s.label), Detail: c.text(s.detail), Session: c.text(s.session), Events: numbers(events...)})
}

// numbers lists the numbers of the events that are not nil.
func numbers(events ...*event) (all []int64) {
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

func (c *chart) kind(class string) int {
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

// limitLanes returns the first limit names, which get lanes, and notes how many are omitted.
func (c *chart) limitLanes(names []string, limit int, noun string) []string {
	if len(names) <= limit {
		return names
	}
	c.noteOmitted(display.Plural(len(names)-limit, "more "+noun))
	return names[:limit]
}

func (c *chart) text(s string) int {
	s = display.Visible(s, maxTextLen)
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

// itemKinds describes each kind of item and its appearance.
var itemKinds = map[string]kind{
	"fault":     {Words: "active fault"},
	"fault-try": {Words: "fault being injected"},
	"fault-at":  {Glyph: "◆", Words: "fault, at one instant"},
	"fault-no":  {Glyph: "✗", Words: "fault that could not be injected, read back or healed"},
	"overlap":   {Glyph: "2", Words: "more than one client believes that it holds the lock"},

	"acquire-ok":   {Glyph: "A", Words: "acquire: succeeded"},
	"acquire-fail": {Glyph: "✗", Words: "acquire: failed"},
	"acquire-info": {Glyph: "?", Words: "acquire: outcome unknown"},
	"read-ok":      {Glyph: "R", Words: "read from the resource"},
	"read-fail":    {Glyph: "R", Words: "read that failed"},
	"read-info":    {Glyph: "?", Words: "read without a reply"},
	"check-ok":     {Glyph: "C", Words: "check of its own deadline: still valid"},
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
	"clock":  {Words: "its clock is wrong"},

	"lease":       {Words: "has the key until it expires by the node's clock or is deleted"},
	"lease-early": {Words: "has the key, but loses it before it expires"},
	"lost":        {Glyph: "!", Words: "the key is gone early"},
	"many":        {Words: "several consecutive items, folded"},

	"accepted": {Glyph: "●", Words: "write accepted by the resource"},
	"refused":  {Glyph: "✗", Words: "write refused by the resource"},
	"damage":   {Glyph: "●", Words: "write accepted by the resource: damages it"},
}
