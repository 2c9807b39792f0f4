// Package sequence tells what happened as a sequence diagram.
//
// Tell draws up a Diagram, which is plain data: lanes, arrows, bars, notes and the
// story in sentences, all of them facts of the history. Text draws a Diagram in a
// terminal; any other form is another function of a Diagram. A violation of liveness is
// drawn from its cause on (outage.go), any other from the earlier session's acquire.
//
// # Sentences
//
// One fact has one wording, and every number in it is that of the fact. T is an instant of true
// time, D a duration: between two instants of true time, but for D left, which is what the lock said,
// by its client's clock. WHEN is "at T" or, for several nodes, "between T and T", UNTIL "until T" or
// "until between T and T", SPAN "from T to T", "at T" or "at T for D", and N "once", "twice" or "3 times".
// NODES is "n1–n3 and n5". A subject that was all of the last
// sentence's is It, Its, They or Their.
//
//	C acquired K at T[ with D left][, by V of N votes][ where Q are a majority][; NODES had voted for C]
//	C tried N in vain SPAN[, with [at most ]V of N votes where Q are a majority: REASON[ (N)], …][; the longest attempt began at T and was over by T]
//	C's acquire failed[ N] SPAN[: the lock's words]
//	C's lease ended at T
//	C was told at T that it had lost it
//	C extended it N, until T
//	C tried to extend it N from T on, in vain
//	C found at T that its lock was lost
//	C found its lease over at T and did not write
//	C wrote version V → V at T
//	C wrote at T[, after its …], based on version V[: … of C … lost]
//	C wrote at T, and was refused[: …]
//	A release of C that was sent WHEN reached NODES WHEN and deleted C's key there
//	NODES lost C's key at T, or what else KeyLost says
//	C's key on NODE had lived its time at T
//	Both believed that they held K SPAN
//	Both must have held K SPAN, by the answers that they got, though they never believed so at once
//
// REASON is "refused by NODES[ for C's key| for a key of its own| without a key]", or "an error from",
// "no answer from", "a late answer from" or "nothing sent to NODES". N behind it: not each of these nodes did so
// in each attempt, and that is in how many attempts one did.
//
// Of outages:
//
//	C asked NODES for K[ again] WHEN
//	C sent a release of its key to NODES WHEN
//	NODES set C's key WHEN and kept it UNTIL, when it expired, or when C deleted it, or C overwrote it, or the node lost it
//	NODES set C's key WHEN and kept it UNTIL, the end of the record; it expires WHEN, or it has no expiry
//	  …[; C renewed it N, last WHEN][; C sent no release of it there]
//	  …[; C's release, which came WHEN, did not delete it][; C's release had come before it, WHEN][; C's release, sent WHEN, never came]
//	C's acquire, called at T, asked no node after T until T, or and returned at T, or and had not returned by T
//	C's release, called at T, had not returned by T
//	Keys of N attempts of C and C that were over refused later attempts
//	Nobody acquired K SPAN, for D[; the bound is D]
//
// Of faults, with the words of nemesis.Told for WAS and BACK:
//
//	WHOM WAS SPAN, or WHOM WAS, beginning WHEN and ending WHEN
//	WHOM WAS WHEN[, and BACK WHEN][ and started again WHEN[ (what was read back)]]
//	C was paused N[ more], without effect
//
// Notes, which the terminal, the picture and Mermaid have, say the same in the present tense at the instant of the
// fact: of several nodes' that of the first or the last, and when the others' was. The headline (Summary) is
// "cause, so C acquired K while C still held it[, and C overwrote …]", or of an outage "cause, so nobody acquired K SPAN, for D; the bound is D".
//
// Deliberately missing: judging. What is drawn follows the verdict's witness, and
// where nothing is violated, the first fault.
package sequence

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/reports/display"
)

// Of draws up the part of a run that matters: of the violation r, from the
// earlier session's acquire, or of an outage from its cause, to the end of the harm; where r is nil or has no
// witness, of the sessions that the first fault touched. It takes any history.
func Of(h *history.History, r *verdict.Result) Diagram {
	sc := newScene(newCourse(h), r)
	b := &builder{f: sc.f, scene: sc, due: map[[2]string]bool{}, lanes: lanesOf(sc), sheet: &sheet{from: sc.from, to: sc.to, slow: sc.f.slow()}}
	if b.scene.out != nil {
		outageDrawing{b, b.scene.out}.draw()
	} else {
		b.drawHolds()
	}
	b.drawFaults()
	return b.diagram()
}

// drawHolds draws the sessions that held the lock, or tried to, and what became of their keys.
func (b *builder) drawHolds() {
	for _, s := range b.scene.focus {
		b.drawAcquire(s)
		b.drawWork(s)
		b.drawLease(s)
	}
	for _, s := range b.scene.extra {
		b.drawAcquire(s)
		b.drawLease(s)
	}
	b.drawDeletions()
	b.drawLosses()
	b.drawOverlap()
}

// DefaultWidth is how many characters wide a drawing is where no terminal says otherwise.
const DefaultWidth = display.DefaultWidth

// Tell draws up the first violation that has a witness, or what happened around the
// first fault. Where nothing could be decided, it says why.
func Tell(h *history.History, v verdict.Verdict) Diagram {
	d := Of(h, Shown(v))
	if v.ShowsNothing() {
		d.Title = strings.TrimSuffix(d.Title, nothingShown) + "undecided"
		d.Caption = append([]string{"Nothing could be decided: " + v.Assumption + "."}, d.Caption...)
	}
	return d
}

// Shown is the result that a diagram is about: the first violated one with a
// witness, or nil.
func Shown(v verdict.Verdict) *verdict.Result {
	for i := range v.Results {
		if r := &v.Results[i]; r.Outcome == verdict.Violated && r.Witness != nil {
			return r
		}
	}
	return nil
}

// Diagram is what a sequence diagram shows, before anybody draws it. It is plain
// data: renderers decide about columns, pixels and colours, and escape texts,
// which may hold whatever a history holds. Instants are true time in
// nanoseconds since the run began. Every part names the events that it stands
// for.
type Diagram struct {
	Title   string   `json:"title"`   // one line: what was run, and what came of it
	Summary string   `json:"summary"` // the violation in one sentence, cause and harm, without its full stop; "": none is shown
	Caption []string `json:"caption"` // the story in sentences, in order
	Omitted string   `json:"omitted,omitempty"`

	Lanes  []lane   `json:"lanes"` // from left to right
	Arrows []arrow  `json:"arrows"`
	Bars   []bar    `json:"bars"`
	Notes  []note   `json:"notes"`
	Bands  []band   `json:"bands"`
	Stop   *stopped `json:"stop,omitempty"`
}

// role says what sort of process a lane stands for.
type role string

const (
	client  role = "client"
	locks   role = "locks"
	storage role = "storage"
)

// lane is one process, or several lock nodes that behaved alike.
type lane struct {
	Name    string   `json:"name"` // short: "c1", "n1–n5", "r1"
	Role    role     `json:"role"`
	Members []string `json:"members"` // the processes it stands for
}

// title is a lane's name with its role, where the name doesn't say that.
func (l lane) title() string {
	if l.Role == locks && l.Name == "locks" {
		return l.Name
	}
	return string(l.Role) + " " + l.Name
}

// arrow is a message. Arrows with one Fact belong together: one request to many
// nodes, or their answers to it.
type arrow struct {
	Fact    int     `json:"fact"` // from 1
	From    int     `json:"from"` // lane
	To      int     `json:"to"`   // lane
	Sent    int64   `json:"sent"`
	Arrived int64   `json:"arrived"`          // = Sent where Lost
	Answer  bool    `json:"answer,omitempty"` // it goes back: what counts is when it arrived
	Slow    bool    `json:"slow,omitempty"`   // it took so long that its ends are facts of their own
	Lost    bool    `json:"lost,omitempty"`   // it is not known to have arrived
	Mark    symbol  `json:"mark,omitempty"`   // what it led to where it arrived
	Label   string  `json:"label"`            // one or two words
	Detail  string  `json:"detail,omitempty"` // the same in full
	Bad     bool    `json:"bad,omitempty"`
	Events  []int64 `json:"events"`
}

// symbol is how a point on a lane looks.
type symbol string

const (
	dot   symbol = "●" // something took effect
	cross symbol = "✗" // something was refused, or somebody died
	ring  symbol = "○" // somebody began again
	stop  symbol = "┻" // a lease ended
	down  symbol = "▼" // a fault began
	up    symbol = "▲" // a fault ended
)

// state is what a bar says of its lane.
type state string

const (
	believes state = "believes" // the client believes that it holds the lock
	paused   state = "paused"
	dead     state = "dead"
	keeps    state = "keeps" // the nodes keep a key that nobody holds the lock by
)

// bar is a state that lasts from From to before To.
type bar struct {
	Lane   int     `json:"lane"`
	State  state   `json:"state"`
	From   int64   `json:"from"`
	To     int64   `json:"to"`
	Events []int64 `json:"events"`
}

// note is a fact about one lane. Lane -1 is none in particular.
type note struct {
	Lane   int     `json:"lane"`
	At     int64   `json:"at"`
	Mark   symbol  `json:"mark"`
	Label  string  `json:"label"`
	Bad    bool    `json:"bad,omitempty"`
	Events []int64 `json:"events"`
}

// stopped says why the run was stopped early.
type stopped struct {
	Why    string  `json:"why"`
	Events []int64 `json:"events"`
}

// band is a span of time in which something was wrong.
type band struct {
	From   int64   `json:"from"`
	To     int64   `json:"to"`
	Means  string  `json:"means"` // what was wrong, for the legend
	Label  string  `json:"label"`
	Events []int64 `json:"events"`
}

type builder struct {
	f       *course
	scene   *scene
	lanes   *lanes
	sheet   *sheet
	caption caption
	due     map[[2]string]bool // sessions and nodes of which it is drawn when the key is due to expire
}

func (b *builder) diagram() Diagram {
	d := Diagram{
		Title: b.scene.headline(), Summary: b.scene.summary(), Caption: b.caption.sentences(b.lanes), Omitted: b.scene.omitted(),
		Lanes: b.lanes.all, Arrows: b.sheet.arrows, Bars: b.sheet.bars, Notes: b.sheet.notes, Bands: b.sheet.bands,
	}
	if stop := b.f.Stop; stop != nil {
		d.Stop = &stopped{Why: stop.Cause, Events: numbers(stop)}
	}
	return d
}

// sheet takes the marks between and on the lanes. It cuts off what lies outside of its span.
type sheet struct {
	from, to int64
	slow     int64 // how long a message is in flight if that is worth telling
	facts    int   // of the arrows so far

	arrows []arrow
	bars   []bar
	notes  []note
	bands  []band
}

// message adds an arrow of the latest fact.
func (sh *sheet) message(a arrow) {
	a.Fact = sh.facts
	if a.Lost {
		a.Arrived = a.Sent
	}
	a.Arrived = max(a.Arrived, a.Sent)
	a.Slow = minus(a.Arrived, a.Sent) > sh.slow
	sh.arrows = append(sh.arrows, a)
}

func (sh *sheet) note(n note) {
	if sh.from <= n.At && n.At <= sh.to {
		sh.notes = append(sh.notes, n)
	}
}

func (sh *sheet) bar(lane int, state state, from, to int64, events ...*event) {
	from, to = max(from, sh.from), min(to, plus(sh.to, 1))
	if from < to {
		sh.bars = append(sh.bars, bar{Lane: lane, State: state, From: from, To: to, Events: numbers(events...)})
	}
}

func (sh *sheet) band(from, to int64, means, label string, events []int64) {
	sh.bands = append(sh.bands, band{From: from, To: min(to, plus(sh.to, 1)), Means: means, Label: label, Events: events})
}

// caption is the story that a diagram tells, in no order yet.
type caption []sentence

// sentence is one fact of the caption.
type sentence struct {
	at      int64
	subject string
	words   string // what it did
	of      bool   // the words are about something of the subject's
}

// tell adds "SUBJECT WORDS." to the caption.
func (c *caption) tell(at int64, subject, words string) {
	*c = append(*c, sentence{at: at, subject: subject, words: words})
}

// tellOf adds "SUBJECT's WORDS.".
func (c *caption) tellOf(at int64, subject, words string) {
	*c = append(*c, sentence{at: at, subject: subject, words: words, of: true})
}

// sentences is the story in order of time. Who did the last thing too, is "it".
func (c caption) sentences(on *lanes) []string {
	slices.SortStableFunc(c, func(x, y sentence) int { return cmp.Compare(x.at, y.at) })
	var out []string
	before := ""
	var alone, owner bool // the sentence before is about its subject and nobody else; or about what is its
	for _, s := range c {
		subject, it, its := s.subject, "it", "its"
		if strings.Contains(subject, "–") || strings.Contains(subject, " and ") {
			it, its = "they", "their"
		}
		repeated := subject == before && (alone || owner && s.of) && !strings.HasPrefix(s.words, "that ") // a clause needs its noun
		switch {
		case repeated && s.of:
			subject = its
		case repeated:
			subject = it
		case s.of:
			subject += "'s"
		}
		if repeated || !on.named(s.subject) {
			subject = capital(subject)
		}
		before, alone, owner = s.subject, !s.of && !strings.HasPrefix(s.words, "and "), s.of
		out = append(out, subject+" "+s.words+".")
	}
	return out
}
