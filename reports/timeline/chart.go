package timeline

import (
	"slices"

	"lockpick/reports/display"
)

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
	var numbers []int64
	for _, e := range events {
		if e != nil {
			numbers = append(numbers, e.N)
		}
	}
	c.add(item{Row: row, Kind: c.kind(class), From: micros(from), To: micros(to),
		Label: c.text(s.label), Detail: c.text(s.detail), Session: c.text(s.session), Events: numbers})
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
