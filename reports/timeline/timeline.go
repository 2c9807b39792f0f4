// Package timeline lays a run out in time, lane by lane, for a page on which one
// can zoom.
//
// Its nouns are Timeline (plain data: what stands in which row from when to when),
// Lane (one process, or the faults, or a lock's holders), Row (one line of a lane)
// and Item (a bar, or a mark where it takes no time). Of makes a Timeline from the
// history and the verdict; timeline.js draws the part of it that the reader looks
// at, and decides nothing but pixels.
//
//	faults    ───────▨▨▨▨▨▨▨▨──────────   what the nemesis did
//	holders   ──▁▁▁▁▁▁▁▁██▁▁▁──────────   of one lock, believed in; 1 at most
//	c1        ─A▁▁▁C▨▨▨▨▨▨▨▨▨W─R───────   operations; below them belief
//	n1        ──[c1's key ]─[c2's key]─   whose key a node has, until when
//	r1        ────────────●──✗─────────   writes in the order of apply
//
// Where a run is too long to be drawn whole, a window around the first violation
// is, or around the first fault, and of the rest beliefs, leases, holders and
// faults, folded where they are many. Omitted says so.
//
// Deliberately missing: a notion of belief or of harm. Both are the checker's.
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

// Timeline is a run laid out. Instants are microseconds of true time since the run
// began, heights are pixels. Texts may hold whatever a history holds: a renderer
// shows them as text.
type Timeline struct {
	End    int64    `json:"end"`    // of the run's own time
	Open   span     `json:"open"`   // what a reader sees first
	Whole  span     `json:"whole"`  // the span in which nothing is folded or left out
	Height int      `json:"height"` // of all lanes
	Lanes  []lane   `json:"lanes"`  // from top to bottom
	Rows   []row    `json:"rows"`
	Lines  []line   `json:"lines"`
	Kinds  []kind   `json:"kinds"` // that items are of
	Texts  []string `json:"texts"` // that items point to; the first is ""
	Items  []item   `json:"items"` // by row, and in a row by time
	Views  []view   `json:"views"` // the incidents, in the order of time
	First  int      `json:"first"` // of them, the one that the page opens with
	// Unlisted is which incidents the views lack, in a sentence, "" if none.
	Unlisted string `json:"-"`
	Omitted  string `json:"omitted"` // what is not drawn, "" if all is
}

// span is from one instant to another.
type span [2]int64

// role says what a lane stands for.
type role string

const (
	faults   role = "faults"
	holders  role = "holders"
	client   role = "client"
	node     role = "node"
	resource role = "resource"
)

// lane is one process, or what concerns all.
type lane struct {
	Name string `json:"name"`
	Role role   `json:"role"`
	Y    int    `json:"y"`
	H    int    `json:"h"`
}

// row is a line of a lane. Items of one row don't overlap, unless it is a Cover:
// that lies behind the lane's other rows, as hatching does.
type row struct {
	Lane  int  `json:"lane"`
	Y     int  `json:"y"`
	H     int  `json:"h"`
	Cover bool `json:"cover,omitempty"`
}

// line is a step line in a row: from each instant on, a number.
type line struct {
	Row    int        `json:"row"`
	Points [][2]int64 `json:"points"`
}

// kind is how items look, and what they are in words.
type kind struct {
	Class string `json:"class"`
	Glyph string `json:"glyph,omitempty"` // where there is no room for a label
	Words string `json:"words"`
}

// item is something drawn. It takes no time if From is To.
type item struct {
	Row, Kind int
	From, To  int64
	Label     int     // text on it
	Detail    int     // text about it
	Session   int     // text: what it was done for; 0: nothing
	Events    []int64 // numbers of the events that it stands for, never empty
}

// MarshalJSON writes an item as a list of numbers, since there are many: row, kind,
// from, length, label, detail, session, events.
func (i item) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]int64{int64(i.Row), int64(i.Kind), i.From, i.To - i.From, int64(i.Label), int64(i.Detail), int64(i.Session)}, i.Events...))
}

// view is a violation: what there is to look at, and why.
type view struct {
	Property string  `json:"property"`
	Because  string  `json:"because"`
	From     int64   `json:"from"`
	To       int64   `json:"to"`
	Events   []int64 `json:"events"`

	shown bool // the verdict shows it first
}

// Of lays a run out as the verdict judges it. It takes any history, also one that
// no run could have made: what makes no sense is left out.
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
	c.openAt(about, violated)
	c.thin(about)
	return c.t
}

// micros is an instant of a history as a timeline has it.
func micros(ns int64) int64 { return ns / 1000 }

const never = facts.Never

const (
	longestText = 400
	longestName = 24
)

// short cuts a name, so that one name can't take the room of the lanes.
func short(name string) string { return display.Fit(display.Visible(name, longestName), longestName) }

// sentence joins the parts that say something.
func sentence(parts ...string) string { return display.Join("; ", parts...) }

type event = history.Event

// run is what is known of the run that is drawn.
type run struct {
	f       *facts.Facts
	end     int64 // of the run's own time, ns
	beliefs []facts.Window
	owners  map[string]string // token: session

	history    *history.History
	violations map[string][]verdict.Result // memo of incidents, by property
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

// clientOf is a session's client; of one that is not in the record, what its name begins with.
func (r *run) clientOf(session string) string {
	if s := r.f.Named(session); s != nil {
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

// mostViews is how many incidents a page lists.
const mostViews = 1000

// views lists what is violated: what the verdict shows, and every other incident that it
// counts, in the order of time. First is the one that the verdict shows first.
func (b *builder) views(v verdict.Verdict) {
	all, unlisted := []view{}, []string{}
	for _, r := range v.Results {
		if r.Outcome != verdict.Violated || r.Witness == nil {
			continue
		}
		shown := len(all) == 0
		found := append([]verdict.Result{r}, b.run.incidents(&r)...)
		if i := slices.IndexFunc(found[1:], func(x verdict.Result) bool { return x.Witness.Shows(r.Witness) }); i >= 0 {
			found = slices.Delete(found, i+1, i+2)
		}
		for i, x := range found {
			w := x.Witness
			from, to := min(max(w.From, 0), b.run.end), min(max(w.To, w.From, 0), b.run.end)
			all = append(all, view{Property: short(r.Property), Because: display.Visible(x.Because, longestText),
				From: micros(from), To: micros(to), Events: slices.Clone(w.Events), shown: shown && i == 0})
		}
		if n := r.Incidents - len(found); n > 0 && len(found) <= mostViews {
			unlisted = append(unlisted, fmt.Sprintf("%s of %s", display.Grouped(n), short(r.Property)))
		}
	}
	slices.SortStableFunc(all, func(x, y view) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	if len(all) > mostViews {
		seen := 0
		all = slices.DeleteFunc(all, func(x view) bool { seen++; return seen > mostViews && !x.shown })
		unlisted = append(unlisted, "those after "+display.Seconds(all[mostViews-1].From*1000))
	}
	if len(unlisted) > 0 {
		b.chart.t.Unlisted = "Counted by the verdict, and not listed: " + display.List(unlisted) + "."
	}
	b.chart.t.Views = all
	b.chart.t.First = max(0, slices.IndexFunc(all, func(x view) bool { return x.shown }))
}

// incidents is what a verdict counts of a property that it says is violated, as many as can
// be drawn.
func (r *run) incidents(res *verdict.Result) []verdict.Result {
	if res.Incidents < 2 {
		return nil
	}
	all, ok := r.violations[res.Property]
	if !ok {
		all = checker.Incidents(r.history, res.Property, mostItems)
		r.violations[res.Property] = all
	}
	return all
}

// focus is the span that the page is about: of the violation shown first, or of the first fault.
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

// Script draws the timeline. It stands behind the fragment, and behind all that it
// is to highlight.
//
//go:embed timeline.js
var Script string

//go:embed fragment.html
var fragment string

var fragmentTemplate = template.Must(template.New("timeline").Funcs(template.FuncMap{"number": func(i int) int { return i + 1 }}).Parse(fragment))

// Fragment is the timeline as a part of a page. An error is a bug.
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

// longestPlain is how many bytes of JSON stand in a page as they are.
const longestPlain = 128 << 10

// encode writes the timeline as JSON, or a long one as a string: that JSON by gzip, in base64.
func (t Timeline) encode() ([]byte, error) {
	data, err := json.Marshal(t) // which writes <, > and & as \u003c and so on
	if err != nil || len(data) <= longestPlain {
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
	return json.Marshal(packed.Bytes()) // bytes are base64
}

// Range is the view as an address in the page, with a margin.
func (v view) Range() string {
	margin := max((v.To-v.From)/2, 5000)
	return "#t=" + display.Decimal(max(0, v.From-margin)*1000, 6) + "-" + display.Decimal((v.To+margin)*1000, 6)
}

// When is the view's span in words.
func (v view) When() string {
	return display.FromTo(v.From*1000, v.To*1000)
}

type legend struct{ Class, Words string }

// legend explains what is drawn, in the order of looks' sections.
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

// chart is a Timeline while it is filled, lane by lane.
type chart struct {
	t     Timeline
	end   int64 // of the run's own time, ns
	kinds map[string]int
	texts map[string]int
	y     int
}

// lane begins a lane below those that are there.
func (c *chart) lane(name string, role role) {
	if len(c.t.Lanes) > 0 {
		c.y += laneGap
	}
	c.t.Lanes = append(c.t.Lanes, lane{Name: short(name), Role: role, Y: c.y})
}

const laneGap = 6

// row adds a row of a height to the last lane.
func (c *chart) row(h int) int {
	c.t.Rows = append(c.t.Rows, row{Lane: len(c.t.Lanes) - 1, Y: c.y, H: h})
	c.y += h
	l := &c.t.Lanes[len(c.t.Lanes)-1]
	l.H, c.t.Height = c.y-l.Y, c.y
	return len(c.t.Rows) - 1
}

// cover adds a row behind the rows of the last lane, which are there.
func (c *chart) cover() int {
	l := len(c.t.Lanes) - 1
	c.t.Rows = append(c.t.Rows, row{Lane: l, Y: c.t.Lanes[l].Y, H: c.t.Lanes[l].H, Cover: true})
	return len(c.t.Rows) - 1
}

// put adds an item. Instants are the history's.
func (c *chart) put(row int, class string, from, to int64, s said, events ...*event) {
	from = min(max(from, 0), c.end)
	to = min(max(to, from), c.end)
	c.add(item{Row: row, Kind: c.kind(class), From: micros(from), To: micros(to),
		Label: c.text(s.label), Detail: c.text(s.detail), Session: c.text(s.session), Events: numbers(events...)})
}

// numbers lists the numbers of the events that there are.
func numbers(events ...*event) (all []int64) {
	for _, e := range events {
		if e != nil {
			all = append(all, e.N)
		}
	}
	return all
}

type said struct{ label, detail, session string }

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
		k := looks[class]
		k.Class = class
		c.t.Kinds = append(c.t.Kinds, k)
	}
	return i
}

// first is the names that get lanes; of how many others there are the page tells.
func (c *chart) first(names []string, most int, noun string) []string {
	if len(names) <= most {
		return names
	}
	c.omit(display.Plural(len(names)-most, "more "+noun))
	return names[:most]
}

func (c *chart) text(s string) int {
	s = display.Visible(s, longestText)
	i, ok := c.texts[s]
	if !ok {
		i = len(c.t.Texts)
		c.texts[s] = i
		c.t.Texts = append(c.t.Texts, s)
	}
	return i
}

func (c *chart) omit(what string) {
	if c.t.Omitted != "" {
		c.t.Omitted += "; "
	}
	c.t.Omitted += what
}

// looks is what each kind of item is, in words and where there is no room for them.
var looks = map[string]kind{
	"fault":     {Words: "fault in force"},
	"fault-try": {Words: "fault being injected"},
	"fault-at":  {Glyph: "◆", Words: "fault, at one instant"},
	"fault-no":  {Glyph: "✗", Words: "fault that could not be injected, seen or healed"},
	"overlap":   {Glyph: "2", Words: "more than one client believes that it holds the lock"},

	"acquire-ok":   {Glyph: "A", Words: "acquire: got the lock"},
	"acquire-fail": {Glyph: "✗", Words: "acquire: did not get the lock"},
	"acquire-info": {Glyph: "?", Words: "acquire: outcome unknown"},
	"read-ok":      {Glyph: "R", Words: "read from the resource"},
	"read-fail":    {Glyph: "R", Words: "read that failed"},
	"read-info":    {Glyph: "?", Words: "read without an answer"},
	"check-ok":     {Glyph: "C", Words: "check of its own deadline: still valid"},
	"check-fail":   {Glyph: "C", Words: "check of its own deadline: too late, so it does not write"},
	"write-ok":     {Glyph: "W", Words: "write to the resource: applied"},
	"write-fail":   {Glyph: "W", Words: "write to the resource: refused"},
	"write-info":   {Glyph: "?", Words: "write without an answer"},
	"extend-ok":    {Glyph: "E", Words: "extend: got more time"},
	"extend-fail":  {Glyph: "E", Words: "extend: refused"},
	"extend-info":  {Glyph: "?", Words: "extend: outcome unknown"},
	"release-ok":   {Glyph: "L", Words: "release: let the lock go"},
	"release-fail": {Glyph: "L", Words: "release: it did not hold the lock any more"},
	"release-info": {Glyph: "?", Words: "release: outcome unknown"},
	"other":        {Glyph: "·", Words: "operation"},

	"belief": {Words: "believes that it holds the lock"},
	"paused": {Words: "paused"},
	"down":   {Words: "down"},
	"death":  {Glyph: "✝", Words: "killed, for good"},
	"clock":  {Words: "its clock is wrong"},

	"lease":       {Words: "has the key, until its time to live is over by the node's clock, or until it is deleted"},
	"lease-early": {Words: "has the key, and loses it before its time to live is over"},
	"lost":        {Glyph: "!", Words: "the key is gone early"},
	"many":        {Words: "folded: many, one after the other"},

	"accepted": {Glyph: "●", Words: "write accepted by the resource"},
	"refused":  {Glyph: "✗", Words: "write refused by the resource"},
	"harm":     {Glyph: "●", Words: "write accepted by the resource: part of the harm"},
}
