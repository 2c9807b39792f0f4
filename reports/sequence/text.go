package sequence

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

// minWidth is the smallest width at which six lanes and their labels are readable.
const minWidth = 60

// Text draws a diagram as text. Time runs downward, each lane is a column, and each fact is a row with
// a label on its right. No line is longer than width or, if width is less than 60, than 60 characters.
// The text contains no escape sequences.
//
//	seconds  c1            n1–n5         r1
//	  1.236  ┃<── ok 5/5 ──┤             │   c1 holds lock-1 until 11.116 s
//	  2.000  ▼░            │             │   c1 is paused
//	  ⋮      ┃░            │             │
//	 11.116  ✗░            │             │   c1's lease ends
func Text(d Diagram, width int) string {
	width = max(width, minWidth)
	var out strings.Builder
	add := func(lines ...string) {
		for _, l := range lines {
			out.WriteString(l + "\n")
		}
	}
	add(wrap(escape(d.Title), width, 2)...)
	add(wrap(escape(strings.Join(d.Caption, " ")), width, 20)...)
	rows := newRows(d)
	if len(d.Lanes) == 0 || len(rows) == 0 {
		add("", "Nothing to draw: no client tried to acquire a lock.")
		return out.String()
	}
	p := newPage(d, rows, width)
	out.WriteString("\n" + p.header())
	for i, r := range rows {
		if i > 0 && p.longGap > 0 && saturatingSub(r.at, rows[i-1].at) > p.longGap {
			out.WriteString(p.gap(rows[i-1].at, r.at))
		}
		out.WriteString(p.row(r))
	}
	if d.Stop != nil {
		add(d.Stop.lines(width)...)
	}
	if legend := p.legend(); legend != "" {
		add("")
		add(wrap(legend, width, 3)...)
	}
	add(wrap(escape(d.Omitted), width, 3)...)
	return out.String()
}

// header returns a line with the lanes' names, including their roles if there is room.
func (p *page) header() string {
	full := make([]string, len(p.d.Lanes))
	fits := true
	for i, l := range p.d.Lanes {
		full[i] = escape(l.title())
		fits = fits && utf8.RuneCountInString(full[i]) < p.nameWidth(i)
	}
	line := newLine(p.width)
	line.put(p.firstColumn-3-len("seconds"), "seconds")
	for i, l := range p.d.Lanes {
		name := full[i]
		if !fits {
			name = escape(l.Name)
		}
		line.put(p.x(i), display.Truncate(name, p.nameWidth(i)-1))
	}
	return line.text()
}

// nameWidth returns the room for a lane's name, in characters.
func (p *page) nameWidth(lane int) int {
	if lane == len(p.d.Lanes)-1 {
		return p.width - p.x(lane)
	}
	return p.laneDistance
}

func (p *page) gap(from, to int64) string {
	line := newLine(p.width)
	line.put(p.wholeDigits, "⋮")
	p.drawLanes(line, saturatingAdd(from, saturatingSub(to, from)/2))
	return line.text()
}

// row draws a fact. The label may continue on more lines.
func (p *page) row(r row) string {
	label := r.label
	line := newLine(p.width)
	at := display.Decimal(r.at, p.decimals[r.at])
	line.put(p.wholeDigits-strings.IndexByte(at, '.'), at)
	p.drawLanes(line, r.at)
	if len(r.arrows) > 0 {
		label = p.drawArrows(line, r)
	}
	if r.mark != "" && r.lane >= 0 {
		line.put(p.x(r.lane), string(r.mark))
	}
	var out strings.Builder
	for i, words := range wrap(escape(label), p.width-p.labelColumn, 4) {
		if i > 0 {
			out.WriteString(line.text())
			line = newLine(p.width)
			p.drawLanes(line, r.at)
		}
		line.put(p.labelColumn, words)
	}
	out.WriteString(line.text())
	return out.String()
}

func (p *page) legend() string {
	var parts []string
	for _, s := range []struct {
		state state
		text  string
	}{{stateBelieving, "┃ believes that it holds the lock"}, {stateLeftoverKey, "║ leftover key"}, {statePaused, "░ paused"}, {stateDead, "no line: dead"}} {
		if p.usedStates[s.state] {
			parts = append(parts, s.text)
		}
	}
	for _, b := range p.d.Bands {
		parts = append(parts, "! "+b.Meaning)
	}
	return strings.Join(parts, " · ")
}

// maxRows limits the number of facts in a Mermaid diagram. Nobody would read more, and GitHub does not
// render much larger diagrams.
const maxRows = 60

// Mermaid returns a diagram as a Mermaid sequenceDiagram, which GitHub and GitLab render in issues and
// summaries. Time runs downward, and each fact is on a line of its own with its time. After the first
// 60 facts, Mermaid states how many it omits.
func Mermaid(d Diagram) string {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for i, l := range d.Lanes {
		fmt.Fprintf(&b, "  participant p%d as %s\n", i, mermaidText(string(l.Role)+" "+l.Name, 40))
	}
	rows := newRows(d)
	if len(d.Lanes) == 0 || len(rows) == 0 {
		b.WriteString("  participant x as nothing to draw#58; no client tried to acquire a lock\n")
		return b.String()
	}
	decimals := decimalPlaces(rows)
	inBand := false
	for _, r := range rows[:min(len(rows), maxRows)] {
		within := slices.ContainsFunc(d.Bands, func(b band) bool { return b.From <= r.at && r.at < b.To }) // something was wrong at this time
		if within != inBand {
			b.WriteString(map[bool]string{true: "  rect rgba(213, 94, 0, 0.15)\n", false: "  end\n"}[within])
		}
		inBand = within
		at := display.Decimal(r.at, max(decimals[r.at], 3)) + " s"
		if len(r.arrows) > 0 {
			mermaidArrows(&b, r, at)
			continue
		}
		label := r.label
		if r.bad {
			label = "! " + label
		}
		words := mermaidText(at+" "+label, 160)
		switch {
		case r.lane >= 0 && r.lane < len(d.Lanes):
			fmt.Fprintf(&b, "  Note over p%d: %s\n", r.lane, words)
		default:
			fmt.Fprintf(&b, "  Note over p0,p%d: %s\n", len(d.Lanes)-1, words)
		}
	}
	if inBand {
		b.WriteString("  end\n")
	}
	if more := len(rows) - maxRows; more > 0 {
		fmt.Fprintf(&b, "  Note over p0,p%d: %s not shown here\n", len(d.Lanes)-1, display.Plural(more, "later fact"))
	}
	return b.String()
}

// mermaidArrows writes the messages of one fact. Replies have a dashed shaft, and lost messages end in
// a cross.
func mermaidArrows(b *strings.Builder, r row, at string) {
	for k, a := range r.arrows {
		shaft := "->>"
		if a.Answer {
			shaft = "-->>"
		}
		if a.Lost {
			shaft = strings.TrimSuffix(shaft, ">>") + "x"
		}
		label := a.Label
		switch {
		case r.part == departure:
			label += ", under way until " + display.Seconds(latestArrival(r.arrows))
		case k == 0 && a.Detail != "":
			label += ": " + a.Detail
		}
		if a.Bad {
			label = "! " + label
		}
		fmt.Fprintf(b, "  p%d%sp%d: %s\n", a.From, shaft, a.To, mermaidText(at+" "+label, 160))
	}
}

// mermaidText escapes text for Mermaid. It replaces special characters with character codes, including
// the first character of the word "end", which would otherwise end a block.
func mermaidText(s string, maxChars int) string {
	var b strings.Builder
	for _, r := range display.Truncate(strings.ReplaceAll(escape(s), display.NoBreak, " "), maxChars) {
		if strings.ContainsRune(`#;:<>"'%&{}[]()\|`+"`", r) {
			fmt.Fprintf(&b, "#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	words := strings.Split(b.String(), " ")
	for i, w := range words {
		if strings.EqualFold(w, "end") {
			words[i] = "#" + fmt.Sprint(w[0]) + ";" + w[1:]
		}
	}
	return strings.Join(words, " ")
}

type writeOutcome struct {
	mark    symbol
	label   string
	caption string // predicate of a sentence
	bad     bool
}

// describeWrite describes the outcome of a session's write. p is the resource's record of the write, or
// nil. at is when the write reached the resource, or 0 if unknown.
func (s *session) describeWrite(c facts.Operation, p *appliedWrite, at int64, fencing string) writeOutcome {
	who, base := shorten(s.Client()), c.Call.Version
	late := at != 0 && at >= s.beliefEnd && s.Granted()
	when := display.Seconds(at)
	if late {
		when += ", after " + s.lateReason()
	}
	applied := p != nil && p.Type == history.OK || p == nil && c.Outcome() == history.OK
	switch {
	case at == 0:
		return writeOutcome{label: "no reply", caption: fmt.Sprintf("sent a write at %s that is not known to have arrived", display.Seconds(c.Call.T))}
	case !applied:
		why := refusalReason(fencing, c.Call.Fence, p)
		return writeOutcome{mark: crossSymbol, label: "refused" + why, caption: fmt.Sprintf("wrote at %s, and was refused%s", when, why)}
	}
	w := writeOutcome{mark: dotSymbol, label: fmt.Sprintf("accepted: %s writes, based on version %d", who, base), bad: late,
		caption: fmt.Sprintf("wrote at %s, based on version %d", when, base)}
	if p != nil && p.VersionBefore == base {
		w.label = fmt.Sprintf("accepted: version %d → %d", base, base+1)
		w.caption = fmt.Sprintf("wrote version %d → %d at %s", base, base+1, when)
	}
	if late {
		w.label = "ACCEPTED after " + s.lateReason()
	}
	if p != nil && p.VersionBefore > base {
		w.bad = true
		victim := fmt.Sprintf("version %d", p.VersionBefore)
		if len(p.lostUpdates) > 0 {
			victim = lostVersions(p.lostUpdates)
		}
		is, was := "is", "was"
		if len(p.lostUpdates) > 1 {
			is, was = "are", "were"
		}
		if !late {
			w.label = "ACCEPTED"
		}
		w.label += fmt.Sprintf(", based on version %d: %s %s LOST", base, victim, is)
		w.caption += ": " + victim + " " + was + " lost"
	}
	return w
}

// lateReason names the event that ended the session's right to write.
func (s *session) lateReason() string {
	switch s.ending {
	case facts.Released:
		return "its release"
	case facts.Died:
		return "its death"
	case facts.Lost:
		return "it was notified of the loss"
	}
	return "its lease ended"
}

// refusalReason explains why the resource refused a write with a fencing token.
func refusalReason(fencing string, fence int64, p *appliedWrite) string {
	switch {
	case fencing == "check-and-set":
		return ": its claim was taken over"
	case p != nil && p.MaxFence > fence:
		return fmt.Sprintf(": its fencing token %d is below %d", fence, p.MaxFence)
	}
	return ""
}

// narrowRunes lists the non-ASCII characters that are one column wide in every terminal and don't affect
// their neighbors.
var narrowRunes = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x00a1, Hi: 0x00ac, Stride: 1}, // Latin-1, except the soft hyphen
	{Lo: 0x00ae, Hi: 0x017f, Stride: 1},
	{Lo: 0x0391, Hi: 0x03c9, Stride: 1}, // Greek
	{Lo: 0x0410, Hi: 0x044f, Stride: 1}, // Cyrillic
	{Lo: 0x2013, Hi: 0x2014, Stride: 1}, // dashes
	{Lo: 0x2018, Hi: 0x2019, Stride: 1}, // quotes
	{Lo: 0x201c, Hi: 0x201d, Stride: 1},
	{Lo: 0x2026, Hi: 0x2026, Stride: 1}, // …
	{Lo: 0x2190, Hi: 0x2193, Stride: 1}, // arrows
	{Lo: 0x2264, Hi: 0x2265, Stride: 1}, // ≤ ≥
}}

// maxTextLen limits the size of text to process, in bytes. No drawing shows more.
const maxTextLen = 4096

// escape makes text from a history safe to print. It escapes all characters that might move the
// cursor, change colors or the writing direction, or not be exactly one column wide. It is stricter
// than display.Sanitize, because text diagrams are aligned in columns.
func escape(s string) string {
	if len(s) > maxTextLen {
		s = s[:maxTextLen] + "…"
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\uFFFD':
			b.WriteString(`\ufffd`) // not UTF-8
		case r >= ' ' && r <= '~' || r == '\u00a0' || unicode.Is(narrowRunes, r) && unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(display.Escape(r))
		}
	}
	return b.String()
}

// wrap breaks escaped text into lines of at most width characters, at spaces if possible. If there are
// more than maxLines lines, it truncates the text and adds an ellipsis.
func wrap(s string, width, maxLines int) []string {
	width = max(width, 1)
	var out []string
	line := []rune{}
	for word := range strings.SplitSeq(s, " ") {
		if word == "" {
			continue
		}
		w := []rune(strings.ReplaceAll(word, display.NoBreak, " "))
		if len(line) > 0 && len(line)+1+len(w) > width {
			out, line = append(out, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for len(line)+len(w) > width { // only if the line is empty
			out = append(out, string(w[:width]))
			w = w[width:]
		}
		line = append(line, w...)
	}
	if len(line) > 0 {
		out = append(out, string(line))
	}
	if len(out) > maxLines {
		out = out[:maxLines]
		out[maxLines-1] = display.Truncate(out[maxLines-1]+" …", width)
	}
	return out
}

// lines returns the reason for the early stop, wrapped to the given width.
func (s *earlyStop) lines(width int) []string {
	return append([]string{""}, wrap(escape(capitalize(s.Reason)+"."), width, 3)...)
}
