package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// maxClients limits the number of clients with lanes.
const maxClients = 24

// drawClientLanes draws for each client its operations and, below them, when it believed it held the
// lock.
func (b *builder) drawClientLanes() {
	names := b.chart.limitLanes(b.run.f.Params.Clients, maxClients, "client")
	rows := map[string]int{}
	beliefs := map[string][]facts.Window{}
	for _, x := range b.run.beliefs {
		beliefs[x.Session.Client()] = append(beliefs[x.Session.Client()], x)
	}
	for _, name := range names {
		if _, twice := rows[name]; twice {
			continue
		}
		b.chart.addLane(name, clientRole)
		rows[name] = b.chart.addRow(18)
		b.drawBeliefs(b.chart.addRow(7), beliefs[name])
		b.drawClockRow(name)
		b.drawStalls(name)
	}
	b.drawOperations(rows)
}

func (b *builder) drawBeliefs(row int, beliefs []facts.Window) {
	slices.SortStableFunc(beliefs, func(x, y facts.Window) int { return cmp.Compare(x.From, y.From) })
	var last int64
	for _, x := range beliefs {
		from := max(x.From, last) // beliefs about two locks at the same time don't fit in one row
		if from >= x.To {
			continue
		}
		last = x.To
		b.chart.put(row, "belief", from, x.To, itemText{detail: shortName(x.Session.Key()) + " until " + display.Seconds(x.To), session: x.Session.Name()}, x.OpenEvent, x.CloseEvent)
	}
}

// drawOperations draws the clients' operations in the order of the calls.
func (b *builder) drawOperations(rows map[string]int) {
	all := map[string][]facts.Operation{} // by client
	put := func(o facts.Operation) {
		if _, ok := rows[o.Call.Process]; ok {
			all[o.Call.Process] = append(all[o.Call.Process], o)
		}
	}
	for s := range b.run.f.Sessions() {
		put(s.Acquire)
		for a := range s.Actions() {
			put(a)
		}
	}
	for _, e := range b.run.f.UnmatchedEvents {
		put(facts.Operation{Call: e, Return: e})
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		ops := all[name]
		slices.SortStableFunc(ops, func(x, y facts.Operation) int {
			return cmp.Or(cmp.Compare(x.Call.T, y.Call.T), cmp.Compare(x.Call.N, y.Call.N))
		})
		freeAt := int64(0)
		for i, o := range ops {
			freeAt = b.drawOperation(rows[name], o, b.run.endOfOperation(ops, i), freeAt)
		}
	}
}

// drawOperation draws an operation from its call, or from when the row is free, to its end. It returns
// when the row is free again.
func (b *builder) drawOperation(row int, o facts.Operation, to, freeAt int64) int64 {
	e := o.Call
	if o.Return != nil {
		e = o.Return
	}
	class := o.Call.Op + "-" + string(o.Outcome())
	if _, known := itemKinds[class]; !known {
		class = "other"
	}
	from := max(o.Call.T, freeAt)
	b.chart.put(row, class, from, to, itemText{label: o.Call.Op, detail: operationDetail(o.Call, e), session: o.Call.Session}, o.Call, o.Return)
	return max(to, from)
}

func operationDetail(call, ret *event) string {
	var parts []string
	add := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	key := cmp.Or(call.Key, ret.Key)
	add(key != "", "%s", shortName(key))
	add(ret.ValidUntil != 0, "valid until %s", display.Seconds(ret.ValidUntil))
	add(ret.Fence != 0, "fencing token %d", ret.Fence)
	add(call.Op == history.OpRead && ret.Type == history.OK, "version %d", ret.Version)
	add(call.Op == history.OpWrite, "based on version %d", call.Version)
	add(ret.Cause != "", "%s", ret.Cause)
	return joinParts(parts...)
}

// endOfOperation returns when ops[i] returned. An operation that never returned ends at the client's
// next operation, at the client's death, or at the end of the run.
func (r *run) endOfOperation(ops []facts.Operation, i int) int64 {
	o := ops[i]
	if o.Return != nil {
		return o.Return.T
	}
	if i+1 < len(ops) {
		return ops[i+1].Call.T
	}
	if t, gone := r.f.GoneAt[o.Call.Process]; gone && t >= o.Call.T {
		return t
	}
	return r.end
}

const maxKeys = 4

// drawHolderLanes draws for each lock how many clients believe they hold it. As in the checker, only
// the certain part of a belief counts.
func (b *builder) drawHolderLanes() {
	byKey := map[string][]facts.Window{}
	var keys []string
	for _, x := range b.run.beliefs {
		key := x.Session.Key()
		if byKey[key] == nil {
			keys = append(keys, key)
		}
		ε := int64(b.run.f.Params.StampError)
		x.From, x.To = x.From+ε, x.To-ε
		if x.From < x.To {
			byKey[key] = append(byKey[key], x)
		}
	}
	for i, key := range keys {
		if i == maxKeys {
			b.chart.noteOmitted("the holders of " + display.Plural(len(keys)-maxKeys, "more lock"))
			return
		}
		name := "holders"
		if len(keys) > 1 {
			name = "holders of " + key
		}
		b.chart.addLane(name, holdersRole)
		b.drawHolders(b.chart.addRow(30), byKey[key])
	}
}

type step struct {
	at     int64
	belief int
	delta  int // +1 at the start of a belief, -1 at its end
}

func (b *builder) drawHolders(row int, beliefs []facts.Window) {
	var steps []step
	for i, x := range beliefs {
		steps = append(steps, step{x.From, i, 1}, step{x.To, i, -1})
	}
	slices.SortFunc(steps, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.delta, y.delta), cmp.Compare(x.belief, y.belief))
	})
	points := [][2]int64{{0, 0}}
	var active []int
	for i, s := range steps {
		if len(active) > 1 && s.at > steps[i-1].at {
			b.drawOverlap(row, beliefs, active, steps[i-1].at, s.at)
		}
		if s.delta > 0 {
			active = append(active, s.belief)
		} else {
			active = slices.DeleteFunc(active, func(i int) bool { return i == s.belief })
		}
		at := micros(s.at)
		if last := &points[len(points)-1]; last[0] == at {
			last[1] = int64(len(active))
		} else {
			points = append(points, [2]int64{at, int64(len(active))})
		}
	}
	b.chart.t.Lines = append(b.chart.t.Lines, line{Row: row, Points: points})
}

func (b *builder) drawOverlap(row int, beliefs []facts.Window, active []int, from, to int64) {
	i := item{Row: row, Kind: b.chart.kindIndex("overlap"), From: micros(from), To: micros(to), Label: b.chart.textIndex(fmt.Sprintf("%d hold", len(active)))}
	detail := ""
	for k, n := range active {
		x := beliefs[n]
		if k > 0 {
			detail += " and "
		}
		detail += fmt.Sprintf("%s until %s", shortName(x.Session.Client()), display.Seconds(x.To))
		i.Events = append(i.Events, eventNumbers(x.OpenEvent, x.CloseEvent)...)
	}
	i.Detail = b.chart.textIndex(detail + " believe that they hold " + shortName(beliefs[active[0]].Session.Key()))
	b.chart.add(i)
}

const maxNodes = 24

// drawNodeLanes draws each node's keys.
func (b *builder) drawNodeLanes() {
	names := b.chart.limitLanes(b.run.f.Params.Nodes, maxNodes, "node")
	lives := b.run.inferredLives // inferred from the links, unless the nodes report their keys
	if b.run.f.Params.ReportsKeys {
		lives = b.run.reportedLives
	}
	byNode := lives()
	for _, name := range slices.Compact(slices.Clone(names)) {
		b.chart.addLane(name, nodeRole)
		row := b.chart.addRow(16)
		for i, key := range byNode[name] {
			if i >= maxKeys {
				b.chart.noteOmitted(display.Plural(len(byNode[name])-maxKeys, "more key") + " on " + shortName(name))
				break
			}
			if i > 0 {
				row = b.chart.addRow(16)
			}
			for _, l := range key {
				b.drawLife(row, l)
			}
		}
		b.drawClockRow(name)
		b.drawStalls(name)
	}
}

// life is a key's life on a node, from when it was set until it was gone.
type life struct {
	key, owner string
	session    string // the owner's session, or "" if unknown
	from, to   int64
	expiresAt  int64    // when it was due to expire by the node's clock, or noDeadline
	endedEarly bool     // it ended before that, or while its client believed it held the lock
	endText    string   // how it ended; "" if it expired as intended
	events     []*event // events it was derived from
}

func (b *builder) drawLife(row int, l life) {
	until := ""
	if l.expiresAt < noDeadline {
		until = "due to expire at " + display.Seconds(l.expiresAt) + " by its clock"
	}
	class := "lease"
	if l.endedEarly {
		class = "lease-early"
	}
	b.chart.put(row, class, l.from, l.to, itemText{label: shortName(l.owner), session: l.session,
		detail: joinParts(fmt.Sprintf("%s's %s", shortName(l.owner), shortName(l.key)), until, l.endText)}, l.events...)
	if l.endedEarly {
		b.chart.put(row, "lost", l.to, l.to, itemText{detail: joinParts(fmt.Sprintf("%s's key is gone", shortName(l.owner)), l.endText), session: l.session}, l.events...)
	}
}

// drawResourceLane draws the writes that the resource accepted or refused according to its own log.
func (b *builder) drawResourceLane(v verdict.Verdict) {
	if !slices.ContainsFunc(b.run.f.Log, func(e *event) bool { return e.AppliedAt != 0 }) {
		return
	}
	b.chart.addLane(cmp.Or(b.run.f.Params.Resource, "resource"), resourceRole)
	row := b.chart.addRow(26)
	damage := b.run.damagingEvents(v)
	for _, w := range b.run.f.Writes() {
		e := w.Event
		if e.AppliedAt == 0 {
			continue
		}
		client := shortName(b.run.clientOf(e.Session))
		class, detail := "accepted", fmt.Sprintf("%s's write, based on version %d", client, e.Version)
		if e.Type != history.OK {
			class = "refused"
		} else if because := damage[e.N]; because != "" {
			class, detail = "damage", joinParts(detail, because)
		}
		label := fmt.Sprintf("%s v%d", client, e.Version+1)
		if e.Type != history.OK {
			label = client
		}
		if e.Fence != 0 {
			label += fmt.Sprintf(" #%d", e.Fence)
			detail = joinParts(detail, fmt.Sprintf("fencing token %d", e.Fence))
		}
		b.chart.put(row, class, e.AppliedAt, e.AppliedAt, itemText{label: label, detail: detail, session: e.Session}, e)
	}
}

// damagingEvents returns the events that damaged the resource, with explanations.
func (r *run) damagingEvents(v verdict.Verdict) map[int64]string {
	explanations := map[int64]string{}
	for _, name := range []string{verdict.FencingOrder, verdict.ResourceSafety} {
		res := v.Result(name)
		if res == nil || res.Outcome != verdict.Violated || res.Witness == nil {
			continue
		}
		for _, x := range r.incidents(res) {
			for _, n := range x.Witness.Events {
				explanations[n] = x.Because
			}
		}
		for _, n := range res.Witness.Events {
			explanations[n] = res.Because
		}
	}
	return explanations
}

func faultEnd(f *facts.Fault) int64 {
	if kind, _ := nemesis.KindOf(f.Kind); f.End == nil && (f.Begin == nil || kind.IsInstant) {
		return f.From()
	}
	return f.To()
}

func describeClock(change facts.ClockChange) string {
	var s string
	switch {
	case change.Offset > 0:
		s = "clock " + display.Duration(change.Offset) + " ahead"
	case change.Offset < 0:
		s = "clock " + display.Duration(-change.Offset) + " behind"
	default:
		s = "clock"
	}
	if change.Rate != 1 {
		s += fmt.Sprintf(", runs ×%.4g", change.Rate)
	}
	return s
}

// drawClockRow draws when a process's clock was wrong. It adds no row for a clock that never was.
func (b *builder) drawClockRow(name string) {
	changes := b.run.f.ClockChangesOf(name)
	if !slices.ContainsFunc(changes, facts.ClockChange.IsWrong) {
		return
	}
	row := b.chart.addRow(13)
	for i, t := range changes {
		to := b.run.end
		if i+1 < len(changes) {
			to = changes[i+1].T
		}
		if t.IsWrong() {
			b.chart.put(row, "clock", t.T, to, itemText{label: describeClock(t)}, t.Event)
		}
	}
}

// drawStalls draws when a process was paused or down, in the background of the lane.
func (b *builder) drawStalls(name string) {
	coverRow := -1
	for _, f := range b.run.f.Faults {
		class := string(nemesis.WordingOf(f.Kind).State)
		if class == "" || f.Target != name || f.Begin == nil {
			continue
		}
		if coverRow < 0 {
			coverRow = b.chart.addCover()
		}
		label := class
		if f.End == nil && f.Kind == facts.Kill {
			label = "killed"
			b.chart.put(coverRow, "death", f.From(), f.From(), itemText{detail: f.Begin.Cause}, f.Begin)
		}
		b.chart.put(coverRow, class, f.From(), faultEnd(f), itemText{label: label, detail: readBacks(f)}, f.Begin, f.End)
	}
}

// readBacks describes a fault's read-backs.
func readBacks(f *facts.Fault) string {
	var parts []string
	if f.Begin != nil && f.Begin.Cause != "" {
		parts = append(parts, "read back: "+f.Begin.Cause)
	}
	if f.End != nil {
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("healed at %s: %s", display.Seconds(f.End.T), f.End.Cause), ": "))
	}
	if f.Fail != nil {
		parts = append(parts, "failed: "+f.Fail.Cause)
	}
	return joinParts(parts...)
}

// maxTracks limits the number of fault rows to what a reader can follow.
const maxTracks = 8

// drawFaultLane draws each fault from its injection to its end. It draws faults of the same kind and step
// as one if they started and ended together.
func (b *builder) drawFaultLane() {
	groups := b.run.faultGroups()
	if len(groups) == 0 {
		return
	}
	b.chart.addLane("faults", faultsRole)
	var rows []int
	var freeAt, clearAt []int64 // when each row is free, and when there is also no label in the way
	numOmitted := 0
	for _, g := range groups {
		from, to := b.run.spanOf(g)
		i := slices.IndexFunc(clearAt, func(t int64) bool { return t <= from })
		if i < 0 && len(rows) < maxTracks {
			i = len(rows)
			rows, freeAt, clearAt = append(rows, b.chart.addRow(18)), append(freeAt, 0), append(clearAt, 0)
		}
		if i < 0 {
			i = slices.IndexFunc(freeAt, func(t int64) bool { return t <= from })
		}
		if i < 0 {
			numOmitted++
			continue
		}
		freeAt[i], clearAt[i] = to, max(to, from+b.run.end/50)
		b.drawFault(rows[i], g)
	}
	if numOmitted > 0 {
		b.chart.noteOmitted(fmt.Sprintf("%d faults that were active at the same time as %d others", numOmitted, maxTracks))
	}
}

func (b *builder) drawFault(row int, g []*facts.Fault) {
	var events []*event
	var targets, details []string
	beginTime, injectTime, failed := int64(noDeadline), int64(noDeadline), false
	for _, f := range g {
		events = append(events, f.Events()...)
		targets = append(targets, f.Target)
		details = append(details, readBacks(f))
		if f.Begin != nil {
			beginTime = min(beginTime, f.Begin.T)
		}
		if f.Invoke != nil {
			injectTime = min(injectTime, f.Invoke.T)
		}
		failed = failed || f.Fail != nil
	}
	_, to := b.run.spanOf(g)
	s := itemText{label: g[0].Kind + " " + joinTargets(targets), detail: joinParts(append([]string{b.run.describeStep(g[0].Step)}, slices.Compact(details)...)...)}
	if injectTime < min(beginTime, to) && micros(injectTime) < micros(min(beginTime, to)) {
		b.chart.put(row, "fault-try", injectTime, min(beginTime, to), s, events...)
	}
	switch at := min(beginTime, to); {
	case failed:
		b.chart.put(row, "fault-no", at, max(at, to), s, events...)
	case to <= at:
		b.chart.put(row, "fault-at", at, at, s, events...)
	default:
		b.chart.put(row, "fault", at, to, s, events...)
	}
}

func (r *run) describeStep(step int) string {
	if step == history.UnplannedStep {
		return "unplanned"
	}
	for _, p := range r.f.Params.Steps {
		if p.Step == step {
			return fmt.Sprintf("planned as step %d: %s %s when %s", step, p.Fault, joinTargets(p.Targets), p.Trigger)
		}
	}
	return ""
}

// faultGroups groups faults that started and ended together, ordered by start time.
func (r *run) faultGroups() [][]*facts.Fault {
	const tolerance = 20e6
	isNear := func(x, y int64) bool { return x == y || max(x, y)-min(x, y) <= tolerance }
	var out [][]*facts.Fault
	for _, f := range r.f.Faults {
		i := -1
		for j := len(out) - 1; j >= max(0, len(out)-20); j-- {
			o := out[j][0]
			if slices.ContainsFunc(out[j], func(x *facts.Fault) bool { return x.Target == f.Target }) {
				continue
			}
			if o.Kind == f.Kind && o.Step == f.Step && isNear(o.From(), f.From()) && isNear(min(faultEnd(o), r.end), min(faultEnd(f), r.end)) {
				i = j
				break
			}
		}
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], f)
	}
	slices.SortStableFunc(out, func(x, y []*facts.Fault) int {
		a, _ := r.spanOf(x)
		c, _ := r.spanOf(y)
		return int(min(max(a-c, -1), 1))
	})
	return out
}

// spanOf returns the time span of a group of faults, including the time it took to inject them.
func (r *run) spanOf(g []*facts.Fault) (from, to int64) {
	from = noDeadline
	for _, f := range g {
		from = min(from, f.From())
		if f.Invoke != nil {
			from = min(from, f.Invoke.T)
		}
		to = max(to, min(faultEnd(f), r.end))
	}
	return from, to
}

// joinTargets lists targets. It shortens consecutive links of the same client to "c1-n1 n2 n3".
func joinTargets(targets []string) string {
	var out []string
	last := ""
	for _, t := range targets {
		client, node, link := strings.Cut(shortName(t), "-")
		if link && client == last {
			out = append(out, node)
			continue
		}
		if link {
			last = client
		}
		out = append(out, shortName(t))
	}
	if len(out) > 8 {
		out = append(out[:8], "…")
	}
	return strings.Join(out, " ")
}
