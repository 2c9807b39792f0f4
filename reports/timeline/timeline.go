package timeline

import (
	"cmp"
	"encoding/json"
	"slices"

	"lockpick/checker"
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
func Of(h *history.History, v checker.Verdict) Timeline {
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
