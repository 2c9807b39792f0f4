// Package sequence draws runs as sequence diagrams.
//
// A Diagram is plain data derived from the history: lanes, arrows, bars, notes and a caption that
// explains the run in sentences. Text draws it for a terminal, SVG as a picture, and Mermaid in
// Mermaid's notation. The diagram of a liveness violation starts at the cause (outage.go). Any other
// diagram starts at the earlier session's acquire.
//
// # Sentences
//
// Each kind of fact has one wording. T is a time and D a duration, both in true time, except that in
// "D left" the duration is by the client's clock, as reported by the lock. WHEN is "at T" or, for
// several nodes, "between T and T"; UNTIL is "until T" or "until between T and T"; SPAN is "from T to
// T", "at T" or "at T for D"; N is "once", "twice" or "3 times"; NODES is "n1–n3 and n5". If a subject
// is the same as in the previous sentence, it becomes It, Its, They or Their.
//
//	C acquired K at T[ with D left][, by V of N votes][ (Q are a majority)][; NODES had voted for C]
//	C tried N without success SPAN[, with [at most ]V of N votes (Q are a majority): REASON[ (N)], …][; the longest attempt began at T and had ended by T]
//	C's acquire failed[ N] SPAN[: the lock's message]
//	C's lease ended at T
//	C was notified at T that it had lost the lock
//	C extended it N, until T
//	C tried to extend it N from T on, without success
//	C found at T that its lock was lost
//	C found at T that its lease had ended, and did not write
//	C wrote version V → V at T
//	C wrote at T[, after its …], based on version V[: … of C … lost]
//	C wrote at T, and was refused[: …]
//	A release by C that was sent WHEN reached NODES WHEN and deleted C's key there
//	NODES lost C's key at T (or another text from display.DescribeKeyLoss)
//	C's key on NODE reached its expiry at T
//	Both believed that they held K SPAN
//	Both must have held K SPAN, according to the replies they received, although they never believed so at the same time
//
// REASON is "refused by NODES[ because of C's key| because of its own key| with no key set]", or "an
// error from", "no reply from", "a late reply from" or "nothing sent to NODES". It is followed by N
// unless it applied to all of the nodes in every attempt. N counts attempts where it applied to at least
// one of the nodes.
//
// Sentences about outages:
//
//	C asked NODES for K[ again] WHEN
//	C sent a release of its key to NODES WHEN
//	NODES set C's key WHEN and kept it UNTIL, when it expired | when C deleted it | when C overwrote it | when the node lost it
//	NODES set C's key WHEN and kept it UNTIL, the end of the record; it expires WHEN | it has no expiry
//	  …[; C renewed it N, last WHEN][; C sent no release of it there]
//	  …[; C's release, which arrived WHEN, did not delete it][; C's release had arrived before it, WHEN][; C's release, sent WHEN, never arrived]
//	C's acquire, called at T, sent no request after T until T | and returned at T | and had not returned by T
//	C's release, called at T, had not returned by T
//	Keys left by N attempts of C and C blocked later attempts
//	Nobody acquired K SPAN, for D[; the bound is D]
//
// Sentences about faults, with the fields Subject, Past and Returned of nemesis.Wording:
//
//	SUBJECT PAST SPAN
//	SUBJECT PAST, beginning WHEN and ending WHEN
//	SUBJECT PAST WHEN[, and RETURNED WHEN][ and started again WHEN[ (the read-back)]]
//	C was paused N[ more], without effect
//
// Notes use the same wording in the present tense and are placed at the time of the fact. A note
// about several nodes is placed at their first or last time and mentions the other. The headline
// (Summary) is "cause, so C acquired K while C still held it[, and C overwrote …]" or, for an outage,
// "cause, so nobody acquired K SPAN, for D; the bound is D".
//
// The package does not judge the run. A diagram shows the verdict's witness or, without a violation,
// the first fault.
package sequence

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/reports/display"
)

// ForResult returns the diagram of the violation r. It starts at the earlier session's acquire, or at
// the cause of an outage, and ends at the violation's effects. If r is nil or has no witness, the
// diagram shows the sessions hit by the first fault. ForResult accepts any history.
func ForResult(h *history.History, r *verdict.Result) Diagram {
	sc := newLayout(newTrace(h), r)
	b := &builder{f: sc.f, layout: sc, expiryDrawn: map[[2]string]bool{}, lanes: newLanes(sc), sheet: &sheet{from: sc.from, to: sc.to, slowThreshold: sc.f.slowThreshold()}}
	if b.layout.outage != nil {
		outageDrawing{b, b.layout.outage}.draw()
	} else {
		b.drawSessions()
	}
	b.drawFaults()
	return b.diagram()
}

// drawSessions draws the sessions and what happened to their keys.
func (b *builder) drawSessions() {
	for _, s := range b.layout.focus {
		b.drawAcquire(s)
		b.drawOperations(s)
		b.drawLease(s)
	}
	for _, s := range b.layout.deleterSessions {
		b.drawAcquire(s)
		b.drawLease(s)
	}
	b.drawDeletions()
	b.drawLosses()
	b.drawOverlap()
}

// DefaultWidth is the width of a text drawing if the terminal's width is unknown.
const DefaultWidth = display.DefaultWidth

// ForVerdict returns the diagram of the first violation that has a witness or, if there is none, of
// the events around the first fault. If the verdict is inconclusive, the caption states why.
func ForVerdict(h *history.History, v verdict.Verdict) Diagram {
	d := ForResult(h, ShownResult(v))
	if v.Inconclusive() {
		d.Title = strings.TrimSuffix(d.Title, noViolationShown) + "inconclusive"
		d.Caption = append([]string{"Inconclusive: " + v.Assumption + "."}, d.Caption...)
	}
	return d
}

// ShownResult returns the result that the diagram of a verdict shows: the first violation with a
// witness, or nil if there is none.
func ShownResult(v verdict.Verdict) *verdict.Result {
	for i := range v.Results {
		if r := &v.Results[i]; r.Outcome == verdict.Violated && r.Witness != nil {
			return r
		}
	}
	return nil
}

// Diagram is the content of a sequence diagram. Renderers choose columns, pixels and colors, and
// escape all text, because it may contain anything from a history. Times are true time in nanoseconds
// since the run began. Every element lists the events it stands for.
type Diagram struct {
	Title   string   `json:"title"`   // one line: the run and its result
	Summary string   `json:"summary"` // the violation's cause and effect in a sentence without a period; "" without a violation
	Caption []string `json:"caption"` // explanation in sentences, in order of time
	Omitted string   `json:"omitted,omitempty"`

	Lanes  []lane     `json:"lanes"` // from left to right
	Arrows []arrow    `json:"arrows"`
	Bars   []bar      `json:"bars"`
	Notes  []note     `json:"notes"`
	Bands  []band     `json:"bands"`
	Stop   *earlyStop `json:"stop,omitempty"`
}

// role is the role of a lane's processes.
type role string

const (
	clientRole  role = "client"
	lockRole    role = "locks"
	storageRole role = "storage"
)

// lane represents one process or several lock nodes that behaved alike.
type lane struct {
	Name    string   `json:"name"` // such as "c1", "n1–n5", "r1"
	Role    role     `json:"role"`
	Members []string `json:"members"` // names of the processes
}

// title returns the lane's role and name, or just the name if it is the same as the role.
func (l lane) title() string {
	if l.Role == lockRole && l.Name == "locks" {
		return l.Name
	}
	return string(l.Role) + " " + l.Name
}

// arrow is a message. Arrows with the same Fact belong together: a request to several nodes, or the
// replies to it.
type arrow struct {
	Fact    int     `json:"fact"` // number, counted from 1
	From    int     `json:"from"` // lane
	To      int     `json:"to"`   // lane
	Sent    int64   `json:"sent"`
	Arrived int64   `json:"arrived"`          // equal to Sent if Lost
	Answer  bool    `json:"answer,omitempty"` // reply, drawn at the time it arrived
	Slow    bool    `json:"slow,omitempty"`   // so slow that departure and arrival are drawn separately
	Lost    bool    `json:"lost,omitempty"`   // not known to have arrived
	Mark    symbol  `json:"mark,omitempty"`   // effect at the destination
	Label   string  `json:"label"`            // one or two words
	Detail  string  `json:"detail,omitempty"` // full text
	Bad     bool    `json:"bad,omitempty"`
	Events  []int64 `json:"events"`
}

// symbol marks a point on a lane.
type symbol string

const (
	dotSymbol   symbol = "●" // something took effect
	crossSymbol symbol = "✗" // something was refused, or a process died
	ringSymbol  symbol = "○" // a process restarted
	barSymbol   symbol = "┻" // a lease ended
	downSymbol  symbol = "▼" // a fault began
	upSymbol    symbol = "▲" // a fault ended
)

// state is a lane's state, shown by a bar.
type state string

const (
	stateBelieving   state = "believes" // the client believes it holds the lock
	statePaused      state = "paused"
	stateDead        state = "dead"
	stateLeftoverKey state = "keeps" // the nodes have a key although nobody holds the lock
)

// bar shows a lane's state from From up to but excluding To.
type bar struct {
	Lane   int     `json:"lane"`
	State  state   `json:"state"`
	From   int64   `json:"from"`
	To     int64   `json:"to"`
	Events []int64 `json:"events"`
}

// note is a fact about a lane, or about no particular lane if Lane is -1.
type note struct {
	Lane   int     `json:"lane"`
	At     int64   `json:"at"`
	Mark   symbol  `json:"mark"`
	Label  string  `json:"label"`
	Bad    bool    `json:"bad,omitempty"`
	Events []int64 `json:"events"`
}

// earlyStop explains why the run was stopped early.
type earlyStop struct {
	Reason string  `json:"why"`
	Events []int64 `json:"events"`
}

// band is a time span during which something was wrong.
type band struct {
	From    int64   `json:"from"`
	To      int64   `json:"to"`
	Meaning string  `json:"means"` // what was wrong, for the legend
	Label   string  `json:"label"`
	Events  []int64 `json:"events"`
}

type builder struct {
	f           *trace
	layout      *layout
	lanes       *lanes
	sheet       *sheet
	caption     caption
	expiryDrawn map[[2]string]bool // session and node of the keys whose expiry is already drawn
}

func (b *builder) diagram() Diagram {
	d := Diagram{
		Title: b.layout.headline(), Summary: b.layout.summary(), Caption: b.caption.sentences(b.lanes), Omitted: b.layout.omissions(),
		Lanes: b.lanes.all, Arrows: b.sheet.arrows, Bars: b.sheet.bars, Notes: b.sheet.notes, Bands: b.sheet.bands,
	}
	if stop := b.f.StopEvent; stop != nil {
		d.Stop = &earlyStop{Reason: stop.Cause, Events: eventNumbers(stop)}
	}
	return d
}

// sheet collects what is drawn on and between the lanes. It ignores or cuts off what is not between from
// and to.
type sheet struct {
	from, to      int64
	slowThreshold int64 // messages in flight for longer are drawn as slow
	numFacts      int   // number of facts with arrows

	arrows []arrow
	bars   []bar
	notes  []note
	bands  []band
}

// addArrow adds an arrow to the current fact.
func (sh *sheet) addArrow(a arrow) {
	a.Fact = sh.numFacts
	if a.Lost {
		a.Arrived = a.Sent
	}
	a.Arrived = max(a.Arrived, a.Sent)
	a.Slow = saturatingSub(a.Arrived, a.Sent) > sh.slowThreshold
	sh.arrows = append(sh.arrows, a)
}

func (sh *sheet) addNote(n note) {
	if sh.from <= n.At && n.At <= sh.to {
		sh.notes = append(sh.notes, n)
	}
}

func (sh *sheet) addBar(lane int, state state, from, to int64, events ...*event) {
	from, to = max(from, sh.from), min(to, saturatingAdd(sh.to, 1))
	if from < to {
		sh.bars = append(sh.bars, bar{Lane: lane, State: state, From: from, To: to, Events: eventNumbers(events...)})
	}
}

func (sh *sheet) addBand(from, to int64, means, label string, events []int64) {
	sh.bands = append(sh.bands, band{From: from, To: min(to, saturatingAdd(sh.to, 1)), Meaning: means, Label: label, Events: events})
}

// caption collects a diagram's sentences, in any order.
type caption []sentence

// sentence states one fact.
type sentence struct {
	at         int64
	subject    string
	predicate  string // without the period
	possessive bool   // "c1's lease" rather than "c1"
}

// add adds the sentence "SUBJECT WORDS."
func (c *caption) add(at int64, subject, words string) {
	*c = append(*c, sentence{at: at, subject: subject, predicate: words})
}

// addPossessive adds the sentence "SUBJECT's WORDS."
func (c *caption) addPossessive(at int64, subject, words string) {
	*c = append(*c, sentence{at: at, subject: subject, predicate: words, possessive: true})
}

// sentences returns the sentences in order of time, with pronouns for repeated subjects.
func (c caption) sentences(ls *lanes) []string {
	slices.SortStableFunc(c, func(x, y sentence) int { return cmp.Compare(x.at, y.at) })
	var out []string
	lastSubject := ""
	var alone, owner bool // the previous sentence is about its subject alone, or about something the subject has
	for _, s := range c {
		subject, it, its := s.subject, "it", "its"
		if strings.Contains(subject, "–") || strings.Contains(subject, " and ") {
			it, its = "they", "their"
		}
		repeated := subject == lastSubject && (alone || owner && s.possessive) && !strings.HasPrefix(s.predicate, "that ") // a relative clause requires a noun
		switch {
		case repeated && s.possessive:
			subject = its
		case repeated:
			subject = it
		case s.possessive:
			subject += "'s"
		}
		if repeated || !ls.isProcessName(s.subject) {
			subject = capitalize(subject)
		}
		lastSubject, alone, owner = s.subject, !s.possessive && !strings.HasPrefix(s.predicate, "and "), s.possessive
		out = append(out, subject+" "+s.predicate+".")
	}
	return out
}
