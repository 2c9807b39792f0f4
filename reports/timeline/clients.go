package timeline

import (
	"fmt"
	"slices"

	"lockpick/harness/history"
	"lockpick/reports/words"
)

// mostClients is how many clients have lanes.
const mostClients = 24

// clientLanes draws each client: its operations, and below them its belief.
func (b *builder) clientLanes() {
	names := b.first(b.h.Params.Clients, mostClients, "client")
	rows := map[string]int{}
	beliefs := map[string][]history.Belief{}
	for _, x := range b.beliefs {
		beliefs[x.Client] = append(beliefs[x.Client], x)
	}
	for _, name := range names {
		if _, twice := rows[name]; twice {
			continue
		}
		b.lane(name, Client)
		rows[name] = b.row(18)
		b.believed(b.row(7), beliefs[name])
		b.clockRow(name)
		b.stalls(name)
	}
	b.operations(rows)
}

func (b *builder) believed(row int, beliefs []history.Belief) {
	slices.SortStableFunc(beliefs, func(x, y history.Belief) int { return int(min(max(x.From-y.From, -1), 1)) })
	var last int64
	for _, x := range beliefs {
		from := max(x.From, last) // a client that holds two locks believes in one after the other here
		if from >= x.To {
			continue
		}
		last = x.To
		numbers := []int64{x.Opens}
		if x.Closes != 0 {
			numbers = append(numbers, x.Closes)
		}
		b.add(Item{Row: row, Kind: b.kind("belief"), From: micros(min(from, b.end)), To: micros(min(x.To, b.end)),
			Label: b.text(""), Detail: b.text(short(x.Key) + " until " + words.Seconds(x.To)), Session: b.text(x.Session), Events: numbers})
	}
}

// operations draws calls with their returns.
func (b *builder) operations(rows map[string]int) {
	open := map[string]*event{}
	free := map[string]int64{}
	for i := range b.events {
		e := &b.events[i]
		row, ok := rows[e.Process]
		if !ok || e.Op == history.OpClient {
			continue
		}
		switch {
		case e.Type == history.Invoke:
			if call := open[e.Process]; call != nil {
				b.operation(row, call, nil, e.T, free)
			}
			open[e.Process] = e
		case e.Op == history.OpCheck:
			b.operation(row, e, e, e.T, free)
		default:
			if call := open[e.Process]; call != nil && call.Op == e.Op {
				b.operation(row, call, e, e.T, free)
				delete(open, e.Process)
			}
		}
	}
	for _, name := range b.h.Params.Clients { // in order, so that it is the same each time
		if call := open[name]; call != nil {
			to := b.end
			if e := b.gone[name]; e != nil && e.T >= call.T {
				to = e.T
			}
			b.operation(rows[name], call, nil, to, free)
			delete(open, name)
		}
	}
}

func (b *builder) operation(row int, call, ret *event, to int64, free map[string]int64) {
	outcome, s := history.Info, said{session: call.Session}
	e := call
	if ret != nil {
		outcome, e = ret.Type, ret
	}
	class := call.Op + "-" + string(outcome)
	if _, known := looks[class]; !known {
		class = "other"
	}
	s.label = call.Op
	from := max(call.T, free[call.Process])
	free[call.Process] = max(to, from)
	s.detail = b.about(call, e)
	b.put(row, class, from, to, s, call, ret)
}

// about tells what an operation was told.
func (b *builder) about(call, ret *event) string {
	var parts []string
	add := func(say bool, format string, args ...any) {
		if say {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	key := call.Key
	if key == "" {
		key = ret.Key
	}
	add(key != "", "%s", short(key))
	add(ret.ValidUntil != 0, "valid until %s", words.Seconds(ret.ValidUntil))
	add(ret.Fence != 0, "fencing token %d", ret.Fence)
	add(call.Op == history.OpRead && ret.Type == history.OK, "version %d", ret.Version)
	add(call.Op == history.OpWrite, "based on version %d", call.Version)
	add(ret.Cause != "", "%s", ret.Cause)
	return sentence(parts...)
}
